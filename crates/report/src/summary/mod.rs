//! The summary of a run as data: five tiles and three sentences, rendered by HTML and terminal
//! alike.

mod marks;
pub(crate) mod measured_at;
#[cfg(test)]
mod property;
mod published;
mod ranking;
mod rules;
#[cfg(test)]
mod rules_test;
pub(crate) mod sentence;
mod text;
mod tile;

pub use marks::Marks;
pub use measured_at::MeasuredAt;
pub use published::{Extent, Published};
pub use ranking::{Other, Ranking};
pub use rules::{Grade, Rating, Word, rate};
pub use tile::{Level, MeasuredBound, Share, Tile};

use crate::gather::{Row, rows};
use crate::headline::headlines;
use crate::run_directory::Loaded;
use ranking::Headlines;
use serde::Serialize;

/// Summary of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// The run's label.
    pub label: String,
    /// Place of the measurement.
    pub kind: MeasuredAt,
    /// Up to five figures, in the order of a report; fewer if the run did not measure all.
    pub tiles: Vec<Tile>,
    /// A clause for each tile that is strong.
    pub strong: Vec<String>,
    /// A clause for each tile that is weak.
    pub weak: Vec<String>,
    /// What to distrust and why: first the machine, then the tiles, then the run.
    pub distrust: Vec<String>,
    /// Measured points.
    pub points: usize,
    /// Number of points during which other processes ran on the same cores most of the time.
    pub busy_points: usize,
}

/// Summarises a run, with other runs and published figures for comparison.
pub fn of(run: &Loaded, beside: &[&Loaded], published: &[Published]) -> Summary {
    let all: Vec<(&Loaded, Vec<Row>)> = beside.iter().map(|run| (*run, rows(run))).collect();
    let beside: Vec<(&Loaded, &[Row])> = all.iter().map(|(run, rows)| (*run, &rows[..])).collect();
    of_rows((run, &rows(run)), &beside, published)
}

/// Like [`of`], for runs whose rows are known.
pub(crate) fn of_rows(
    (run, rows): (&Loaded, &[Row]),
    beside: &[(&Loaded, &[Row])],
    published: &[Published],
) -> Summary {
    let kind = MeasuredAt::of(run);
    let beside: Vec<Headlines<'_>> = beside
        .iter()
        .map(|(run, rows)| Headlines {
            label: &run.run.label,
            kind: MeasuredAt::of(run),
            all: headlines(run, rows),
        })
        .collect();
    let own = headlines(run, rows);
    let tiles = own
        .iter()
        .map(|one| tile::tile(one, kind, &beside, published));
    let tiles: Vec<Tile> = tiles.collect();
    let busy_points = sentence::busy_points(rows);
    Summary {
        label: run.run.label.clone(),
        kind,
        strong: sentence::clauses(&tiles, Word::Strong),
        weak: sentence::clauses(&tiles, Word::Weak),
        distrust: sentence::doubts(&tiles, run, busy_points, rows.len()),
        points: rows.len(),
        busy_points,
        tiles,
    }
}

impl Summary {
    /// Returns the three sentences: `Strong`, `Weak` and `Distrust`, each with its text.
    pub fn sentences(&self) -> [(&'static str, String); 3] {
        let rated = |clauses: &[String], word| match clauses {
            [] => sentence::none(&self.tiles, word),
            clauses => format!("{}: {}", self.kind.text(), clauses.join("; ")),
        };
        let distrust = match self.distrust.as_slice() {
            [] => "no warning".to_owned(),
            doubts => doubts.join("; "),
        };
        [
            ("Strong", rated(&self.strong, Word::Strong)),
            ("Weak", rated(&self.weak, Word::Weak)),
            ("Distrust", distrust),
        ]
    }
}
