//! Errors in profiles, with their position.

/// A fault in a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {key}: {reason}")]
pub struct Error {
    /// The file.
    pub file: String,
    /// Line in the file, from 1.
    pub line: usize,
    /// The key with its section, e.g. `pcie.read_latency`.
    pub key: String,
    /// The fault, and the expected value.
    pub reason: String,
}
