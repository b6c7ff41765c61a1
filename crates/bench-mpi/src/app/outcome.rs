//! The outcome of an application run.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use verbena_measure::result::Metric;

/// Longest output read, in bytes.
const LONGEST: u64 = 1 << 24;

/// The results that a program reports.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Number of cooperating processes. If the program is linked with another MPI library than the
    /// launcher's, each process runs alone.
    pub processes: usize,
    /// The first is the headline.
    pub metrics: Vec<Metric>,
    /// Output that must be identical over every transport. Empty if rounding may differ and the
    /// program verifies itself.
    pub computed: String,
}

/// Reads a file written by a program.
///
/// # Errors
///
/// States why the file cannot be read.
pub fn text(path: &Path) -> Result<String, String> {
    let fail = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(fail)?;
    file.take(LONGEST).read_to_end(&mut bytes).map_err(fail)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
