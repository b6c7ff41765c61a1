//! Summary of a measurement: five figures, one per line with a bar and a small curve, then strong
//! and weak results, warnings, and the path of the report.

use super::report_line;
use crate::failure::Failure;
use crate::output::outln;
use crate::terminal;
use std::path::Path;
use verbena_bench::published::published;
use verbena_report::run_directory::Loaded;
use verbena_report::summary;

/// Terminal width from which a figure's line gives the reason for its rating.
const WIDE: usize = 110;

/// Prints the summary of the first run, compared with the others; nothing if it has none of the
/// figures.
///
/// # Errors
///
/// Fails if the published figures cannot be read.
pub fn print(runs: &[Loaded], report: Option<&Path>) -> Result<(), Failure> {
    if let Some((run, beside)) = runs.split_first() {
        let beside: Vec<&Loaded> = beside.iter().collect();
        let summary = summary::of(run, &beside, &published()?);
        let is_wide = terminal::columns().is_none_or(|columns| columns >= WIDE);
        if !summary.tiles.is_empty() {
            outln!("\n{}", summary.text(is_wide, terminal::shows_blocks()));
        }
    }
    if let Some(report) = report {
        report_line(report);
    }
    Ok(())
}
