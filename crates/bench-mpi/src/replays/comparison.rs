//! Replays on several models side by side: the interval of each, and whether it is faster than the
//! first.

use super::interval::{ASSUMED, Judge, Judged, Parts, ToldInterval, verdict};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A replay on a model, of a trace or of a schedule.
#[derive(Clone, Copy)]
pub struct Compared<'a> {
    /// The system.
    pub system: &'a str,
    /// Its time, and the part that is exact.
    pub parts: Parts,
    /// The interval of the time.
    pub interval: Option<&'a ToldInterval>,
    /// The class of its messages.
    pub judge: Option<&'a Judge>,
}

/// A replay that is compared with others.
pub trait Comparable {
    /// Returns the replay as compared.
    fn compared(&self) -> Compared<'_>;

    /// Sets the verdict against the first model.
    fn set_verdict(&mut self, verdict: Option<ToldVerdict>);
}

/// Adds the verdicts against the first model to the results.
pub fn judge<T: Comparable>(all: &mut [T]) {
    if let [first, others @ ..] = all {
        for other in others {
            let verdict = first.compared().told(&other.compared());
            other.set_verdict(verdict);
        }
    }
}

/// The verdict on a replay against that on the first model.
#[derive(Debug, Serialize)]
pub struct ToldVerdict {
    /// The first system.
    against: String,
    /// `faster: sure`, `slower: sure` or `not distinguishable`.
    verdict: &'static str,
    /// The interval of the time over that of the first system.
    level: f64,
    low: f64,
    high: f64,
    rule: String,
}

#[cfg(test)]
impl ToldVerdict {
    /// Returns the verdict.
    pub fn verdict(&self) -> &str {
        self.verdict
    }

    /// Returns the first system.
    pub fn against(&self) -> &str {
        &self.against
    }
}

impl Compared<'_> {
    /// Returns the verdict on another replay against this one.
    pub fn judged(&self, other: &Compared<'_>) -> Option<Judged> {
        verdict((self.judge?, self.parts), (other.judge?, other.parts))
    }

    /// Returns the verdict on another replay against this one, as data.
    pub fn told(&self, other: &Compared<'_>) -> Option<ToldVerdict> {
        let judged = self.judged(other)?;
        Some(ToldVerdict {
            against: self.system.to_owned(),
            verdict: judged.verdict.text(),
            level: judged.level,
            low: judged.range.0,
            high: judged.range.1,
            rule: judged.rule,
        })
    }
}

/// Returns the verdict on each replay against the first, in words.
pub fn against_first(all: &[Compared<'_>]) -> Vec<String> {
    let words = |(number, one): (usize, &Compared<'_>)| match number {
        0 => "first".to_owned(),
        _ => match all[0].judged(one) {
            Some(judged) => judged.text(all[0].system),
            None => "no verdict".to_owned(),
        },
    };
    all.iter().enumerate().map(words).collect()
}

/// Returns the sources of the intervals, then the rules of the verdicts, each once.
pub fn notes(all: &[Compared<'_>]) -> Vec<String> {
    let intervals = all.iter().filter_map(|one| one.interval);
    let origins = intervals.map(|one| format!("interval {}; {ASSUMED}", one.origin()));
    let origins: BTreeSet<String> = origins.collect();
    let others = all.iter().skip(1);
    let rules = others.filter_map(|one| all[0].judged(one).map(|judged| judged.rule));
    let rules: BTreeSet<String> = rules.collect();
    origins.into_iter().chain(rules).collect()
}

/// Returns the interval of each system's time, whether it is faster or slower than the first, and
/// the notes.
pub fn verdicts(all: &[Compared<'_>]) -> String {
    let mut out = String::new();
    let width = all.iter().map(|one| one.system.len()).max().unwrap_or(0);
    for (one, verdict) in all.iter().zip(against_first(all)) {
        let range = one.interval.map(ToldInterval::range);
        let range = range.unwrap_or_else(|| "no interval".to_owned());
        let _ = writeln!(out, "  {:<width$}  {range:>28}  {verdict}", one.system);
    }
    for note in notes(all) {
        let _ = writeln!(out, "  {note}");
    }
    out
}
