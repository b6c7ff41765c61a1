//! Summaries at the end of long commands, with bars and small curves.

pub mod claims;
pub mod compared;
pub mod distinguished;
pub mod measured;
pub mod replayed;

use crate::output::data;
use std::path::Path;
pub use verbena_terminal::bars::bar;

/// Prints the path of the report, without wrapping.
pub fn report_line(report: &Path) {
    data!("  {:<10} {}\n", "Report", report.display());
}
