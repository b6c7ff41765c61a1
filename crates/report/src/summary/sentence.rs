//! The three sentences of a summary. Strong and weak only list the tiles with that word, so no
//! sentence can contradict a tile.

use super::rules::Word;
use super::tile::Tile;
use crate::gather::Row;
use crate::run_directory::Loaded;
use verbena_measure::warning::Warning;

pub(crate) fn count(number: usize, one: &str, several: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {several}"),
    }
}

/// Returns the number of points at which other processes ran on the same cores in most samples.
pub(crate) fn busy_points(rows: &[Row]) -> usize {
    let busy = |row: &&Row| {
        let mut warnings = row.warnings.iter();
        warnings.any(|warning| matches!(warning, Warning::Disturbed { .. }))
    };
    rows.iter().filter(busy).count()
}

/// Returns the text about a busy machine; `None` for a quiet one.
pub(crate) fn busy(busy_points: usize, points: usize) -> Option<String> {
    (busy_points > 0).then(|| {
        format!(
            "machine busy at {busy_points} of {}: other processes ran on these cores in most \
             samples, and an idle machine may do better",
            count(points, "point", "points")
        )
    })
}

pub(super) fn clauses(tiles: &[Tile], word: Word) -> Vec<String> {
    let clause = |tile: &Tile| {
        let name = tile.name.to_lowercase();
        format!("{name} {} ({})", tile.value, tile.rating.reason)
    };
    let of_it = tiles.iter().filter(|tile| tile.word() == word);
    of_it.map(clause).collect()
}

/// Returns the reasons to distrust figures: the machine, the tiles, then the run.
pub(super) fn doubts(
    tiles: &[Tile],
    run: &Loaded,
    busy_points: usize,
    points: usize,
) -> Vec<String> {
    let mut doubts: Vec<String> = busy(busy_points, points).into_iter().collect();
    for tile in tiles {
        let name = tile.name.to_lowercase();
        if tile.word() == Word::Unsure {
            doubts.push(format!("{name} is unsure: {}", tile.rating.reason));
        }
        if !tile.levels.is_empty() {
            doubts.push(format!("{name} has two levels: {}", tile.spread()));
        }
        if let Some(bound) = tile.measured_bound.as_ref().filter(|bound| bound.is_wrong) {
            doubts.push(format!("{name}: {}", bound.text));
        }
    }
    doubts.extend(predicted(run));
    doubts.extend(run.run.warnings.iter().map(ToString::to_string));
    let left_out = run.failures.iter().filter(|f| f.is_not_computed()).count();
    let failed = run.failures.iter().filter(|f| !f.unsupported).count() - left_out;
    if left_out > 0 {
        let points = count(left_out, "point was", "points were");
        doubts.push(format!("{points} not computed"));
    }
    if failed > 0 {
        doubts.push(format!("{} failed", count(failed, "point", "points")));
    }
    match run.end.as_ref().map(|end| end.outcome.as_str()) {
        Some("complete") => {}
        Some(outcome) => doubts.push(format!("the run was {outcome}")),
        None => doubts.push("the run has no end: it was cut short".to_owned()),
    }
    doubts
}

/// Returns the widest interval of a model's figures, which real machines leave in a fifth of cases.
fn predicted(run: &Loaded) -> Option<String> {
    let metrics = run.points.iter().flat_map(|point| &point.metrics);
    let predicted = metrics.filter_map(|metric| metric.predicted.as_ref());
    let widest = predicted.max_by(|a, b| (a.high / a.low).total_cmp(&(b.high / b.low)))?;
    Some(format!(
        "real machines differ from the model: up to a factor of {:.2} within the {:.0} % \
         intervals ({})",
        (widest.high / widest.low).sqrt(),
        100.0 * widest.level,
        widest.origin
    ))
}

pub(super) fn none(tiles: &[Tile], word: Word) -> String {
    let unsure = tiles
        .iter()
        .filter(|tile| tile.word() == Word::Unsure)
        .count();
    let word = word.text();
    match unsure {
        0 => format!("no {word} result"),
        1 => format!("no {word} result; 1 of {} is unsure", tiles.len()),
        _ => format!("no {word} result; {unsure} of {} are unsure", tiles.len()),
    }
}
