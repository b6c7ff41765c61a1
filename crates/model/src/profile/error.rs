//! What is wrong with a profile, and where.

/// A fault in a profile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {key}: {reason}")]
pub struct Error {
    /// The file.
    pub file: String,
    /// Line in it, from 1.
    pub line: usize,
    /// The key with its section, e.g. `pcie.read_latency`.
    pub key: String,
    /// What is wrong with it and what is expected.
    pub reason: String,
}
