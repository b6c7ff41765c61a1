//! The rules by which a figure is strong, fair, weak or unsure. [`rate`] implements them; the
//! tables in `docs/methods.md` ("The words of a summary") document them.
//!
//! A rating is the range of grades that are possible given the launches; each end of it rises or
//! stays if every launch gets faster.

use super::marks::{Marks, marks, percent_of};
use super::measured_at::MeasuredAt;
use crate::headline::{Headline, Subject};
use serde::Serialize;
use verbena_measure::compare::Better;
use verbena_measure::warning::Warning;

/// Rating of a figure in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// At the strong threshold or better.
    Strong,
    /// Between the thresholds.
    Fair,
    /// Worse than the weak threshold.
    Weak,
    /// The data permit several of these, or none. Not on the scale.
    Unsure,
}

impl Word {
    /// Returns the word.
    pub fn text(self) -> &'static str {
        match self {
            Word::Strong => "strong",
            Word::Fair => "fair",
            Word::Weak => "weak",
            Word::Unsure => "unsure",
        }
    }
}

/// Grade of a value relative to its thresholds, from worst to best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// Worse than the weak threshold.
    Weak,
    /// Between the thresholds.
    Fair,
    /// At the strong threshold or better.
    Strong,
    /// Better than its bound: the bound, or the figure, is wrong.
    Impossible,
}

impl Grade {
    fn text(self) -> &'static str {
        match self {
            Grade::Weak => "weak",
            Grade::Fair => "fair",
            Grade::Strong => "strong",
            Grade::Impossible => "beyond its bound",
        }
    }
}

/// Result of the rules for a figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rating {
    /// The word.
    pub word: Word,
    /// The lowest possible grade; `None` without thresholds.
    pub lowest: Option<Grade>,
    /// The highest possible grade.
    pub highest: Option<Grade>,
    /// Reason for the word, in a few words with numbers.
    pub reason: String,
    /// The thresholds, if there are any for such a figure.
    pub marks: Option<Marks>,
}

/// Launches within this factor of a threshold count as being on the median's side of it.
const NEAR: f64 = 1.15;
/// A figure beyond its stated bound by more than this factor contradicts it.
const BEYOND: f64 = 1.05;

/// Rates a figure; no other function chooses a word.
pub fn rate(headline: &Headline, kind: MeasuredAt) -> Rating {
    let unsure = |reason: String, marks| Rating {
        word: Word::Unsure,
        lowest: None,
        highest: None,
        reason,
        marks,
    };
    let marks = match marks(headline, kind) {
        Ok(marks) => marks,
        Err(reason) => return unsure(reason, None),
    };
    if let Some(reason) = invalid(headline) {
        return unsure(reason, Some(marks));
    }
    let better = headline.subject.better();
    let grade = |value| grade(value, &marks, better);
    let [best, worst] = ends(headline);
    let (eased_worst, eased_best) = match better {
        Better::Lower => (worst / NEAR, best * NEAR),
        Better::Higher => (worst * NEAR, best / NEAR),
    };
    let middle = grade(headline.value);
    let lowest = middle.min(grade(eased_worst));
    let mut highest = middle.max(grade(eased_best));
    // Other processes make a program slower, never faster.
    let busy = 2 * headline.busy_launches >= headline.launches.len().max(1);
    if busy {
        highest = highest.max(Grade::Strong);
    }
    let (word, reason) = match (lowest, highest) {
        (_, Grade::Impossible) => {
            let value = if middle == Grade::Impossible {
                headline.value
            } else {
                best
            };
            (Word::Unsure, beyond(headline.subject, value, &marks))
        }
        (Grade::Strong, _) => (Word::Strong, marks.text(headline)),
        (Grade::Fair, Grade::Fair) => (Word::Fair, marks.text(headline)),
        (Grade::Weak, Grade::Weak) => (Word::Weak, marks.text(headline)),
        _ if busy => (Word::Unsure, busy_text(headline)),
        _ => (
            Word::Unsure,
            spread(headline, lowest, highest, [best, worst]),
        ),
    };
    Rating {
        word,
        lowest: Some(lowest),
        highest: Some(highest),
        reason,
        marks: Some(marks),
    }
}

/// Returns the reason why a figure cannot be rated regardless of its value.
fn invalid(headline: &Headline) -> Option<String> {
    let grave = |warning: &&Warning| {
        matches!(
            warning,
            Warning::OversubscribedCores { .. } | Warning::LowOverlap { .. }
        )
    };
    if !headline.value.is_finite() || headline.value <= 0.0 {
        return Some("not rated: the figure is not a positive number".to_owned());
    }
    // A busy machine may have slowed down either of the two latencies of the ratio.
    if headline.subject == Subject::Scaling && headline.busy_launches > 0 {
        return Some(busy_text(headline));
    }
    headline
        .warnings
        .iter()
        .find(grave)
        .map(ToString::to_string)
}

fn grade(value: f64, marks: &Marks, better: Better) -> Grade {
    // Factor by which the value is better than a threshold.
    let over = |mark: f64| match better {
        Better::Lower => mark / value,
        Better::Higher => value / mark,
    };
    match value {
        _ if marks.bound.is_some_and(|bound| over(bound) > BEYOND) => Grade::Impossible,
        _ if over(marks.strong) >= 1.0 => Grade::Strong,
        _ if over(marks.weak) >= 1.0 => Grade::Fair,
        _ => Grade::Weak,
    }
}

/// Returns the best and the worst end of the interval over launches.
fn ends(headline: &Headline) -> [f64; 2] {
    let several = headline.launches.len() > 1;
    match (
        headline.interval.filter(|_| several),
        headline.subject.better(),
    ) {
        (None, _) => [headline.value; 2],
        (Some(range), Better::Lower) => [range.low, range.high],
        (Some(range), Better::Higher) => [range.high, range.low],
    }
}

fn beyond(subject: Subject, value: f64, marks: &Marks) -> String {
    let bound = marks.bound.unwrap_or(marks.strong);
    match subject {
        Subject::Scaling => format!(
            "{value:.2} times the latency of one pair: many pairs cannot be faster, so one figure \
             is wrong"
        ),
        _ => format!(
            "{:.0} % of its bound, {}: the bound ({}) or the figure is wrong",
            percent_of(value, bound, subject.better()),
            subject.display(bound),
            marks.bound_reason
        ),
    }
}

fn spread(headline: &Headline, lowest: Grade, highest: Grade, [best, worst]: [f64; 2]) -> String {
    let display = |value| headline.subject.display(value);
    format!(
        "launches give {} ({}) to {} ({})",
        display(best),
        highest.text(),
        display(worst),
        lowest.text()
    )
}

fn busy_text(headline: &Headline) -> String {
    let (busy, all) = (headline.busy_launches, headline.launches.len());
    let of = match all {
        0 | 1 => String::new(),
        all => format!(" in {busy} of {all} launches"),
    };
    match headline.subject {
        Subject::Scaling => {
            format!("machine busy{of}: either of the two latencies may be too long")
        }
        _ => format!("machine busy{of}: an idle one may do better"),
    }
}
