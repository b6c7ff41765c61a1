//! The end of a measurement on a terminal: what it comes to in five lines, each with a bar and the
//! curve in small, then what is strong, what is weak and what to distrust, and where the report is.

use crate::failure::Failure;
use crate::output::{data, outln};
use crate::published::published;
use crate::style::{Style, styled};
use crate::terminal;
use std::path::Path;
use verbena_report::run_directory::Loaded;
use verbena_report::summary::{self, Summary, Tile, Word};

/// Cells of a bar: a third each for weak, fair and strong.
const BAR: usize = 15;
/// Most cells of a curve.
const CURVE: usize = 12;
/// Columns from which on a figure's line says why it has its word.
const WIDE: usize = 110;

/// Prints the summary of the first run, beside the others; nothing where it has none of the figures.
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
        // A path is not wrapped.
        data!("  {:<10} {}\n", "Report", report.display());
    }
    Ok(())
}

/// The lines, without the last line's end.
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

/// A figure's line: name, value, word, bar, curve, and the reason where there is room.
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

/// A bar for where a figure lies from 0 to 1; an empty one where nothing rates it.
fn bar(place: Option<f64>, in_blocks: bool) -> String {
    let (full, empty) = if in_blocks {
        ('█', '░')
    } else {
        ('#', '.')
    };
    let filled = place.map_or(0, |place| {
        let cells = (place.clamp(0.0, 1.0) * BAR as f64).round() as usize;
        // What is rated has one cell at least, so that it is not taken for something unrated.
        cells.clamp(1, BAR)
    });
    let cell = |number| if number < filled { full } else { empty };
    (0..BAR).map(cell).collect()
}

/// The values from the least to the greatest in heights; those of many orders by their logarithms.
fn curve(values: &[f64], in_blocks: bool) -> String {
    let heights: &[char] = match in_blocks {
        true => &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'],
        false => &['_', '.', '-', '=', '+', '*', '#'],
    };
    let drawn: Vec<f64> = thinned(values)
        .filter(|value| value.is_finite() && *value > 0.0)
        .collect();
    let [least, most] = [f64::min, f64::max].map(|pick| drawn.iter().copied().reduce(pick));
    let (Some(least), Some(most)) = (least, most) else {
        return String::new();
    };
    let by_logarithm = most / least > 20.0;
    let scale = |value: f64| if by_logarithm { value.ln() } else { value };
    let span = scale(most) - scale(least);
    let height = |value: &f64| {
        let share = if span > 0.0 {
            (scale(*value) - scale(least)) / span
        } else {
            0.0
        };
        heights[(share * (heights.len() - 1) as f64).round() as usize]
    };
    drawn.iter().map(height).collect()
}

/// At most as many values as a curve has cells, evenly chosen, the first and the last among them.
fn thinned(values: &[f64]) -> impl Iterator<Item = f64> {
    let cells = values.len().min(CURVE);
    let last = values.len().saturating_sub(1);
    (0..cells).map(move |cell| values[cell * last / cells.saturating_sub(1).max(1)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_bar_shows_the_place() {
        assert_eq!(bar(None, false), "...............");
        assert_eq!(bar(Some(0.0), false), "#..............");
        assert_eq!(bar(Some(2.0 / 3.0), false), "##########.....");
        assert_eq!(bar(Some(7.0), false), "###############");
    }

    #[test]
    fn a_curve_rises_with_its_values() {
        assert_eq!(curve(&[1.0, 2.0, 4.0, 8.0], true), "▁▂▄█");
        assert_eq!(curve(&[1.0, 1e3, 1e6], false), "_=#");
        assert_eq!(curve(&[5.0, 5.0], true), "▁▁");
        assert_eq!(curve(&[], true), "");
        assert_eq!(curve(&[f64::NAN, 0.0], true), "");
    }

    proptest! {
        #[test]
        fn a_curve_has_a_cell_a_value_up_to_its_width(
            values in proptest::collection::vec(0.1_f64..1e9, 0..60),
        ) {
            let cells = curve(&values, true).chars().count();
            prop_assert_eq!(cells, values.len().min(CURVE));
        }
    }
}
