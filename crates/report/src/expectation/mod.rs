//! Figures held against what is expected of an adapter: pass, fail, or no expectation with the
//! reason.
//!
//! Ranges come from the caller, each with its source; none is made here. A figure fails if it is
//! worse than a range allows or better than a limit allows. A figure that is better than a range
//! passes, so a faster adapter never fails for being faster.

mod judge;
#[cfg(test)]
mod property;

pub use judge::check;

use crate::headline::Subject;
use crate::summary::Kind;
use serde::Serialize;
use verbena_measure::compare::Better;

/// What a range rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A model's figure, with the errors of the models on published curves.
    Model,
    /// The link's data rate: a figure beyond it is impossible, one below it may still be bad.
    Link,
}

/// Where a figure should lie, in the unit of its subject.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Range {
    /// What it rests on.
    pub basis: Basis,
    /// The lower end.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// The source in words.
    pub source: String,
}

/// A published figure to be shown beside the range. It decides nothing, because a single figure
/// does not say how far others may be from it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reference {
    /// In the unit of the subject.
    pub value: f64,
    /// The source in words.
    pub source: String,
}

/// What is expected of one figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// Of which.
    pub subject: Subject,
    /// All of these must hold.
    pub ranges: Vec<Range>,
    /// Published figures of the same measurement.
    pub references: Vec<Reference>,
    /// Why there is no range, where there is none.
    pub missing: String,
}

/// What a figure is, held against its expectation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Worse than a range, or beyond a limit.
    Fail,
    /// Nothing says what it should be, or it is not comparable.
    NoExpectation,
    /// As good as it should be, or better.
    Pass,
}

impl Verdict {
    /// Returns the word for people.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Fail => "fail",
            Verdict::NoExpectation => "no expectation",
            Verdict::Pass => "pass",
        }
    }
}

/// A figure with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// What it measures.
    pub subject: Subject,
    /// Its title: `Latency`.
    pub name: &'static str,
    /// What exactly was measured.
    pub of: String,
    /// The figure with its unit.
    pub value: String,
    /// The figure in [`Check::unit`].
    pub number: f64,
    /// The unit.
    pub unit: &'static str,
    /// Whether more is better or less is.
    pub better: Better,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in a clause.
    pub reason: String,
    /// The range that decides, in words: `up to 2.1 us`. Empty without one.
    pub expected: String,
    /// Its lower end.
    pub low: Option<f64>,
    /// Its upper end.
    pub high: Option<f64>,
    /// Its source. Empty without a range.
    pub source: String,
    /// All ranges.
    pub ranges: Vec<Range>,
    /// Published figures beside it.
    pub references: Vec<Reference>,
}

/// The checks of a run's figures against a system's expected values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checks {
    /// The system's name: `connectx6-hdr`.
    pub system: String,
    /// The system in words.
    pub about: String,
    /// The run's label.
    pub run: String,
    /// Where the run's figures were measured.
    pub kind: Kind,
    /// The figures that the run has, in the order of a report.
    pub figures: Vec<Check>,
}

impl Checks {
    /// Returns the number of figures with a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        let mut found = self.figures.iter().filter(|one| one.verdict == verdict);
        found.by_ref().count()
    }

    /// Returns the verdict on the run: a figure that fails decides, then one that passes. A run of
    /// which nothing could be checked has no expectation and is not accepted.
    pub fn verdict(&self) -> Verdict {
        let count = |verdict| self.count(verdict);
        match (count(Verdict::Fail), count(Verdict::Pass)) {
            (1.., _) => Verdict::Fail,
            (0, 1..) => Verdict::Pass,
            (0, 0) => Verdict::NoExpectation,
        }
    }

    /// Returns how many figures pass, fail, and have no expectation.
    pub fn sentence(&self) -> String {
        if self.figures.is_empty() {
            return "no figure to check: the run has none of latency and bandwidth of writes, \
                    message rate, many pairs and memory"
                .to_owned();
        }
        format!(
            "{} pass, {} fail, {} without expectation",
            self.count(Verdict::Pass),
            self.count(Verdict::Fail),
            self.count(Verdict::NoExpectation)
        )
    }

    /// Returns the check of a figure.
    pub fn of(&self, subject: Subject) -> Option<&Check> {
        self.figures.iter().find(|one| one.subject == subject)
    }
}
