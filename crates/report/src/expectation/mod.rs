//! Compares figures with an adapter's expected values: pass, fail, or no expectation with the
//! reason.
//!
//! Ranges come from the caller, each with its source. A figure fails if it is worse than a range
//! permits or better than a limit permits. A figure better than a range passes, so a faster adapter
//! never fails for being faster.

mod judge;
#[cfg(test)]
mod property;
mod text;

pub use judge::check;

use crate::headline::Subject;
use crate::summary::MeasuredAt;
use serde::Serialize;
use verbena_measure::compare::Better;

/// Basis of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A model's figure, with the errors of the models on published curves.
    Model,
    /// The link's data rate: a figure beyond it is impossible, one below it may still be bad.
    Link,
}

/// Expected range of a figure, in the unit of its subject.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Range {
    /// Its basis.
    pub basis: Basis,
    /// The lower end.
    pub low: Option<f64>,
    /// The upper end.
    pub high: Option<f64>,
    /// The source in words.
    pub source: String,
}

/// A published figure to show beside the range. It does not affect the verdict, because a single
/// figure does not tell how far others may be from it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reference {
    /// In the unit of the subject.
    pub value: f64,
    /// The source in words.
    pub source: String,
}

/// Expected values of one figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// The figure.
    pub subject: Subject,
    /// All of these must hold.
    pub ranges: Vec<Range>,
    /// Published figures of the same measurement.
    pub references: Vec<Reference>,
    /// Reason why there is no range, if there is none.
    pub missing: String,
}

/// Result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Worse than a range, or beyond a limit.
    Fail,
    /// There is no expected value, or the figure is not comparable.
    NoExpectation,
    /// As good as expected, or better.
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
    /// The measured quantity.
    pub subject: Subject,
    /// Its title: `Latency`.
    pub name: &'static str,
    /// Description of the measurement.
    pub of: String,
    /// The figure with its unit.
    pub value: String,
    /// The figure in [`Check::unit`].
    pub number: f64,
    /// The unit.
    pub unit: &'static str,
    /// Whether more or less is better.
    pub better: Better,
    /// The verdict.
    pub verdict: Verdict,
    /// Reason, in a clause.
    pub reason: String,
    /// The deciding range in words: `up to 2.1 us`. Empty without one.
    pub expected: String,
    /// Lower end of the deciding range.
    pub low: Option<f64>,
    /// Upper end of the deciding range.
    pub high: Option<f64>,
    /// Source of the deciding range. Empty without one.
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
    /// Place of the measurement.
    pub kind: MeasuredAt,
    /// The figures that the run has, in the order of a report.
    pub figures: Vec<Check>,
}

impl Checks {
    /// Returns the number of figures with a verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        let mut found = self.figures.iter().filter(|one| one.verdict == verdict);
        found.by_ref().count()
    }

    /// Returns the verdict on the run: any failing figure fails it, otherwise any passing one
    /// passes it. A run without checkable figures has no expectation and is not accepted.
    pub fn verdict(&self) -> Verdict {
        let count = |verdict| self.count(verdict);
        match (count(Verdict::Fail), count(Verdict::Pass)) {
            (1.., _) => Verdict::Fail,
            (0, 1..) => Verdict::Pass,
            (0, 0) => Verdict::NoExpectation,
        }
    }

    /// Returns the numbers of figures that pass, fail, and have no expectation, in words.
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
