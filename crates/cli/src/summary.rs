//! Summaries at the end of long commands, with bars and small curves.

use crate::failure::Failure;
use crate::output::{data, out, outln};
use crate::terminal;
use std::path::Path;
use verbena_bench::published::published;
use verbena_report::run_directory::Loaded;
use verbena_report::{points_table, summary};

/// Terminal width from which a figure's line gives the reason for its rating.
const WIDE: usize = 110;

/// Prints the path of the report, without wrapping.
pub fn report_line(report: &Path) {
    data!("  {:<10} {}\n", "Report", report.display());
}

/// Returns whether standard output has this many columns, or no limit.
fn has_columns(columns: usize) -> bool {
    terminal::columns().is_none_or(|have| have >= columns)
}

/// Prints the points of a run.
pub fn points(run: &Loaded) {
    let is_wide = has_columns(points_table::WIDE);
    out!("{}", points_table::text(run, is_wide));
}

/// Prints five figures of the first run, or of each model if the first run is of one, compared with
/// the others, and the path of the report; no figures of a run that has none of them.
///
/// # Errors
///
/// Fails if the published figures cannot be read.
pub fn measured(runs: &[Loaded], report: Option<&Path>) -> Result<(), Failure> {
    let is_model = |run: &Loaded| run.run.fabric == "model";
    let models = runs.iter().take_while(|run| is_model(run)).count();
    let published = published()?;
    for (number, run) in runs.iter().enumerate().take(models.max(1)) {
        let others = runs.iter().enumerate().filter(|other| other.0 != number);
        let beside: Vec<&Loaded> = others.map(|(_, other)| other).collect();
        let summary = summary::of(run, &beside, &published);
        if !summary.tiles.is_empty() {
            let text = summary.text(has_columns(WIDE), terminal::shows_blocks());
            outln!("\n{text}");
        }
    }
    if let Some(report) = report {
        report_line(report);
    }
    Ok(())
}

/// The claims of `verbena reproduce`.
pub mod claims {
    use crate::output::out;
    use crate::terminal;
    use verbena_model::profile::Library;
    use verbena_reproduce::claims::Evaluated;
    use verbena_reproduce::summary;
    use verbena_reproduce::validation::Validated;

    /// Prints the claims of each paper that the models meet or miss.
    pub fn print(library: &Library, results: &[Evaluated], validated: Option<&[Validated]>) {
        let text = summary::text(library, results, validated, terminal::shows_blocks());
        out!("\n{text}");
    }
}
