//! Figures comparable with a headline, and its rank among figures of its kind.

use super::measured_at::MeasuredAt;
use super::published::Published;
use crate::headline::{Headline, Subject};
use serde::Serialize;

/// Rank of a figure among figures of the same kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranking {
    /// Rank, from 1 for the best.
    pub rank: usize,
    /// Number of figures, including this one.
    pub of: usize,
    /// In words: `2nd of 3 over a wire`.
    pub text: String,
    /// The neighbour: `behind ConnectX QDR, published`.
    pub next: String,
}

/// A figure for comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Other {
    /// Name of the run, or of the adapter with `published`.
    pub name: String,
    /// The figure in the tile's unit.
    pub number: f64,
    /// The figure with its unit: `at most 31.3 KiB`.
    pub value: String,
    /// Place of the measurement.
    pub kind: MeasuredAt,
    /// Whether it is of the tile's kind, and so ranked.
    pub is_ranked: bool,
    /// Index of the run in the given order, from 1; `None` for a published figure.
    pub run: Option<usize>,
}

/// The headlines of a run, with the place of measurement.
pub(super) struct Headlines<'a> {
    pub label: &'a str,
    pub kind: MeasuredAt,
    pub all: Vec<Headline>,
}

/// Returns the figures to compare with a headline: of other runs, then published ones.
pub(super) fn others(
    headline: &Headline,
    kind: MeasuredAt,
    beside: &[Headlines<'_>],
    published: &[Published],
) -> Vec<Other> {
    let subject = headline.subject;
    let like = |their: &&Headline| {
        their.subject == subject
            && their.metric == headline.metric
            && their.is_of_the_size_of(headline)
    };
    // The numbers of pairs must be equal for ratios to be comparable.
    let comparable = |their: &Headline| subject != Subject::Scaling || their.of == headline.of;
    let of_runs = beside.iter().enumerate().filter_map(|(at, run)| {
        let their = run.all.iter().find(like)?;
        Some(Other {
            name: run.label.to_owned(),
            number: their.value,
            value: subject.display(their.value),
            kind: run.kind,
            is_ranked: kind.is_like(run.kind) && comparable(their),
            run: Some(at + 1),
        })
    });
    let known = published
        .iter()
        .filter(|known| headline.is_of_a_published_size() && known.subject == subject);
    let of_papers = known.map(|known| Other {
        name: format!("{}, published", known.adapter),
        number: known.value,
        value: known.text(),
        kind: MeasuredAt::Wire,
        is_ranked: kind.is_like(MeasuredAt::Wire),
        run: None,
    });
    of_runs.chain(of_papers).collect()
}

pub(super) fn place(headline: &Headline, kind: MeasuredAt, others: &[Other]) -> Option<Ranking> {
    let ranked: Vec<&Other> = others.iter().filter(|other| other.is_ranked).collect();
    let (better, others): (Vec<&Other>, Vec<&Other>) = ranked
        .iter()
        .copied()
        .partition(|other| headline.is_behind(other.number));
    let distance = |other: &&&Other| (other.number / headline.value).ln().abs();
    let nearest = |others: &[&Other]| {
        others
            .iter()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)))
            .copied()
            .cloned()
    };
    let next = match (nearest(&better), nearest(&others)) {
        (Some(other), _) => format!("behind {}", other.name),
        (None, Some(other)) if headline.is_ahead_of(other.number) => {
            format!("ahead of {}", other.name)
        }
        (None, other) => format!("level with {}", other?.name),
    };
    let (rank, of) = (better.len() + 1, ranked.len() + 1);
    Some(Ranking {
        rank,
        of,
        text: format!("{} of {of} {}", ordinal(rank), kind.text()),
        next,
    })
}

fn ordinal(place: usize) -> String {
    match (place, place % 10, place % 100) {
        (1, ..) => "best".to_owned(),
        (_, _, 11..=13) => format!("{place}th"),
        (_, 1, _) => format!("{place}st"),
        (_, 2, _) => format!("{place}nd"),
        (_, 3, _) => format!("{place}rd"),
        _ => format!("{place}th"),
    }
}
