//! Sensitivity of claims to fitted values: each value is changed within its bounds, and the claims
//! that change with it are counted. A value that changes only one claim was fitted to that claim
//! and explains no other.

use crate::claims::{Bench, Claim, Computed, measure};
use crate::workers::in_order;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use verbena_model::profile::{Library, Overrides, ProfileKind, Recorded, Tag};

/// Relative change of a value, in both directions.
const STEP: f64 = 0.2;
/// A claim counts as changed if one of its figures changes by more than this share.
const MOVED: f64 = 0.005;

/// A fitted value and the claims that it affects.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sensitivity {
    /// `profile.section.key`.
    pub path: String,
    /// The unchanged value.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// The changed values.
    pub tried: Vec<f64>,
    /// Affected claims, with their largest relative change.
    pub moves: BTreeMap<String, f64>,
}

/// Changes every fitted value by itself and computes the claims that use it, on `threads` threads;
/// the result does not depend on their number. Calls `told` with the number of computations.
pub fn sensitivity(
    library: &Library,
    claims: &[Claim],
    threads: usize,
    told: impl FnOnce(usize),
) -> Vec<Sensitivity> {
    let unmoved = in_order(threads, claims.len(), |number| {
        let bench = Bench::new(library);
        let outcome = measure(&bench, &claims[number].id);
        (outcome, bench.asked())
    });
    let fitted = library.of_published().filter(|r| r.tag == Tag::Fitted);
    let fitted: Vec<&Recorded> = fitted.collect();
    let mut results: Vec<Sensitivity> = fitted.iter().map(|value| unexplored(value)).collect();
    let mut jobs: Vec<(usize, Library, usize)> = Vec::new();
    for (number, value) in fitted.iter().enumerate() {
        for (moved, with) in neighbours(library, value) {
            results[number].tried.push(moved);
            let concerned = unmoved
                .iter()
                .enumerate()
                .filter(|(_, (_, asked))| print(library, asked) != print(&with, asked));
            jobs.extend(concerned.map(|(claim, _)| (number, with.clone(), claim)));
        }
    }
    told(jobs.len());
    let outcomes = in_order(threads, jobs.len(), |number| {
        let (_, with, claim) = &jobs[number];
        measure(&Bench::new(with), &claims[*claim].id)
    });
    for ((value, _, claim), outcome) in jobs.iter().zip(outcomes) {
        let change = change(unmoved[*claim].0.as_ref(), outcome.as_ref());
        if change > MOVED {
            let known = results[*value].moves.entry(claims[*claim].id.clone());
            let most = known.or_insert(change);
            *most = most.max(change);
        }
    }
    results
}

fn unexplored(value: &Recorded) -> Sensitivity {
    Sensitivity {
        path: value.path.clone(),
        value: value.value,
        unit: value.unit.clone(),
        tried: Vec::new(),
        moves: BTreeMap::new(),
    }
}

/// Returns the value a step up and a step down, within its bounds; counts and bytes change by at
/// least one.
fn neighbours(library: &Library, value: &Recorded) -> Vec<(f64, Library)> {
    let (low, high) = value.bounds.unwrap_or((f64::MIN, f64::MAX));
    let step = match value.unit.as_str() {
        "1" | "B" => (value.value * STEP).round().max(1.0),
        _ => value.value * STEP,
    };
    let tried = [value.value - step, value.value + step].map(|tried| tried.clamp(low, high));
    tried
        .into_iter()
        .filter(|tried| *tried != value.value)
        .filter_map(|tried| {
            let overrides = Overrides::none().with(&value.path, tried);
            Some((tried, library.with(&overrides).ok()?))
        })
        .collect()
}

/// Prints the contents of systems and profiles of these kinds and names.
fn print(library: &Library, names: &BTreeSet<(ProfileKind, String)>) -> String {
    let mut out = String::new();
    for (kind, name) in names {
        let _ = match kind {
            ProfileKind::System => write!(out, "{:?}", library.system(name)),
            _ => write!(out, "{:?}", library.profile(*kind, name)),
        };
    }
    out
}

fn change(before: Option<&Computed>, after: Option<&Computed>) -> f64 {
    let figures = |outcome: Option<&Computed>| outcome.map(Computed::figures).unwrap_or_default();
    let pairs = figures(before).into_iter().zip(figures(after));
    let changes = pairs.map(|(before, after)| match before == after {
        true => 0.0,
        false => (after / before - 1.0).abs(),
    });
    changes.fold(0.0, f64::max)
}

/// Returns a table with a row per value: number and names of the claims that it affects.
pub fn text(results: &[Sensitivity]) -> String {
    let mut out = format!(
        "{:<40} {:>12} {:>7}  which\n",
        "fitted value", "is", "claims"
    );
    for result in results {
        let names: Vec<&str> = result.moves.keys().map(String::as_str).collect();
        let _ = writeln!(
            out,
            "{:<40} {:>12} {:>7}  {}",
            result.path,
            format!("{} {}", result.value, result.unit),
            names.len(),
            names.join(", ")
        );
    }
    let alone = results.iter().filter(|r| r.moves.len() < 2).count();
    let _ = writeln!(
        out,
        "Each value was changed by {:.0} % within its bounds; a claim counts if it changes by \
         more than {:.1} %. {alone} of {} change fewer than two claims.",
        STEP * 100.0,
        MOVED * 100.0,
        results.len()
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_move_within_bounds_and_in_whole_steps() {
        let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
        for value in library.of_published().filter(|r| r.tag == Tag::Fitted) {
            let (low, high) = value.bounds.expect("fitted values have bounds");
            let tried = neighbours(&library, value);
            assert!(!tried.is_empty(), "{} cannot be moved", value.path);
            for (tried, _) in tried {
                assert!((low..=high).contains(&tried) && tried != value.value);
            }
        }
    }

    #[test]
    fn the_largest_change_is_reported() {
        let figures = |a: f64, b: f64| {
            Computed::Figures(BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)]))
        };
        let found = change(Some(&figures(1.0, 2.0)), Some(&figures(1.0, 3.0)));
        assert!((found - 0.5).abs() < 1e-12);
        assert_eq!(
            change(Some(&Computed::Figure(0.0)), Some(&Computed::Figure(0.0))),
            0.0
        );
    }
}
