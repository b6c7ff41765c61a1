//! Summary of a measurement: five figures, one per line with a bar and a small curve, then strong
//! and weak results, warnings, and the path of the report.

use super::{CURVE, bar, curve, report_line};
use crate::failure::Failure;
use crate::output::outln;
use crate::style::{Style, styled};
use crate::terminal;
use std::path::Path;
use verbena_bench::published::published;
use verbena_report::run_directory::Loaded;
use verbena_report::summary::{self, Summary, Tile, Word};

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
            outln!("\n{}", text(&summary, is_wide, terminal::shows_blocks()));
        }
    }
    if let Some(report) = report {
        report_line(report);
    }
    Ok(())
}

/// Returns the text without a final newline.
fn text(summary: &Summary, is_wide: bool, in_blocks: bool) -> String {
    let heading = format!("{}, {}", summary.label, summary.kind.text());
    let mut lines = vec![styled(Style::Bold, &heading)];
    let tiles = summary.tiles.iter();
    lines.extend(tiles.map(|tile| line(tile, is_wide, in_blocks)));
    lines.push(String::new());
    let sentences = summary.sentences().into_iter();
    lines.extend(sentences.map(|(word, sentence)| format!("  {word:<10} {sentence}")));
    lines.join("\n")
}

/// Returns a figure's line: name, value, rating, bar, curve and, if there is space, the reason.
fn line(tile: &Tile, is_wide: bool, in_blocks: bool) -> String {
    let style = match tile.rating.word {
        Word::Strong => Style::Good,
        Word::Fair => Style::Faint,
        Word::Weak => Style::Bad,
        Word::Unsure => Style::Doubt,
    };
    let word = format!("{:<7}", tile.rating.word.text());
    let bar = bar(tile.bar, in_blocks);
    let values: Vec<f64> = tile
        .curve
        .iter()
        .flat_map(|curve| &curve.points)
        .map(|at| at.1)
        .collect();
    let curve = curve(&values, in_blocks);
    let mut text = format!(
        "  {:<13} {:>10}  {} {}  {curve:<CURVE$}",
        tile.name,
        tile.value,
        styled(style, &word),
        styled(style, &bar),
    );
    if is_wide {
        text += &format!("  {}", tile.rating.reason);
    }
    text.trim_end().to_owned()
}
