//! Decides whether a change is reported: the false discovery rate stays within its limit, and the
//! effect exceeds the threshold.

use super::{Better, Change, Paired, Verdict};

/// Judges all changes as one family; `better` returns the direction of improvement of each.
pub(super) fn judge(changes: &mut [Change], better: impl Fn(usize) -> Better, share: f64) {
    let limit = limit(changes.iter(), share);
    for (at, change) in changes.iter_mut().enumerate() {
        change.verdict = verdict(change, better(at), limit);
    }
}

/// Judges some points as one family.
pub(super) fn judge_some(points: &mut [Change], some: &[usize], pairs: &[Paired], share: f64) {
    let limit = limit(some.iter().map(|&at| &points[at]), share);
    for &at in some {
        points[at].verdict = verdict(&points[at], pairs[at].better, limit);
    }
}

/// Returns the largest p-value that counts at this false discovery rate (Benjamini and Hochberg).
fn limit<'a>(changes: impl Iterator<Item = &'a Change>, share: f64) -> f64 {
    let mut values: Vec<f64> = changes.filter_map(|change| change.p).collect();
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let mut passing = values
        .iter()
        .enumerate()
        .filter(|(i, p)| **p <= share * (*i as f64 + 1.0) / count);
    passing.next_back().map_or(-1.0, |(_, p)| *p)
}

fn verdict(change: &Change, better: Better, limit: f64) -> Verdict {
    let Some(p) = change.p else {
        return Verdict::Undecided;
    };
    let large = (change.ratio - 1.0).abs() > change.threshold;
    if !(large && p <= limit) {
        return Verdict::Same;
    }
    match (better, change.ratio > 1.0) {
        (Better::Lower, true) | (Better::Higher, false) => Verdict::Regressed,
        _ => Verdict::Improved,
    }
}
