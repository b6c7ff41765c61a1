//! What a run of a program came to.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use verbena_measure::result::Metric;

/// The longest output that is read.
const LONGEST: u64 = 1 << 24;

/// What a program says of its run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Processes that worked together. Of another library than the launcher's, each would work alone.
    pub processes: usize,
    /// The first is the headline.
    pub metrics: Vec<Metric>,
    /// What must come out alike whatever way the messages took; empty where nothing does to the last digit, and the program
    /// checks itself.
    pub computed: String,
}

/// A file that a program wrote.
pub fn text(path: &Path) -> Result<String, String> {
    let fail = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(fail)?;
    file.take(LONGEST).read_to_end(&mut bytes).map_err(fail)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
