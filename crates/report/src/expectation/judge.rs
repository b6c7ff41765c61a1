//! Rules by which a figure passes or fails.

use super::{Basis, Check, Checks, Expectation, Range, Verdict};
use crate::gather::rows;
use crate::headline::{Headline, Subject, headlines};
use crate::run_directory::Loaded;
use crate::summary::MeasuredAt;
use verbena_measure::compare::Better;

/// Checks a run's figures against a system's expected values over a wire.
pub fn check(run: &Loaded, (system, about): (&str, &str), expected: &[Expectation]) -> Checks {
    let kind = MeasuredAt::of(run);
    let found = headlines(run, &rows(run));
    let figures = found.iter().map(|headline| {
        let expected = expected.iter().find(|one| one.subject == headline.subject);
        one(headline, kind, expected)
    });
    Checks {
        system: system.to_owned(),
        about: about.to_owned(),
        run: run.run.label.clone(),
        kind,
        figures: figures.collect(),
    }
}

pub(super) fn one(headline: &Headline, kind: MeasuredAt, expected: Option<&Expectation>) -> Check {
    let subject = headline.subject;
    let ranges = expected.map_or(&[][..], |one| &one.ranges);
    let decisive = ranges.iter().find(|range| range.basis != Basis::Link);
    let (verdict, reason) = match (not_comparable(kind), expected) {
        (Some(reason), _) => (Verdict::NoExpectation, reason.to_owned()),
        (None, None) => (
            Verdict::NoExpectation,
            "no source states an expected value".to_owned(),
        ),
        (None, Some(expected)) => judge(headline, expected),
    };
    Check {
        subject,
        name: subject.title(),
        of: headline.of.clone(),
        value: subject.display(headline.value),
        number: headline.value,
        unit: subject.unit(),
        better: subject.better(),
        verdict,
        reason,
        expected: decisive.map_or(String::new(), |range| words(subject, range)),
        low: decisive.and_then(|range| range.low),
        high: decisive.and_then(|range| range.high),
        source: decisive.map_or(String::new(), |range| range.source.clone()),
        ranges: ranges.to_vec(),
        references: expected.map_or_else(Vec::new, |one| one.references.clone()),
    }
}

/// Returns the reason why figures of a kind cannot be compared with those of an adapter over a
/// wire.
fn not_comparable(kind: MeasuredAt) -> Option<&'static str> {
    match kind {
        MeasuredAt::Host => {
            Some("not comparable: measured within one host, but expected for two hosts over a wire")
        }
        MeasuredAt::Loopback => Some(
            "not comparable: measured through an adapter within one host, but expected for two \
             hosts over a wire",
        ),
        MeasuredAt::Model => Some("not comparable: computed by a model, not measured"),
        MeasuredAt::Wire | MeasuredAt::Imported => None,
    }
}

fn judge(headline: &Headline, expected: &Expectation) -> (Verdict, String) {
    let subject = headline.subject;
    let links = expected
        .ranges
        .iter()
        .filter(|range| range.basis == Basis::Link);
    for limit in links {
        if is_beyond(subject.better(), headline.value, limit) {
            let words = words(subject, limit);
            let text = format!(
                "impossible on this link, which carries {words}: another adapter or link, or not \
                 over a wire"
            );
            return (Verdict::Fail, text);
        }
    }
    let mut others = expected
        .ranges
        .iter()
        .filter(|range| range.basis != Basis::Link);
    let Some(range) = others.next() else {
        return (Verdict::NoExpectation, expected.missing.clone());
    };
    let all = std::iter::once(range).chain(others);
    for range in all {
        if let Some(end) = worse_end(subject.better(), headline.value, range) {
            return (Verdict::Fail, failure(headline, end));
        }
    }
    let text = match is_beyond(subject.better(), headline.value, range) {
        true => "better than expected",
        false => "as expected",
    };
    (Verdict::Pass, text.to_owned())
}

/// Returns the worse end of a range, if a figure is beyond it. NaN counts as beyond.
fn worse_end(better: Better, value: f64, range: &Range) -> Option<f64> {
    match better {
        Better::Lower => range.high.filter(|high| value.is_nan() || value > *high),
        Better::Higher => range.low.filter(|low| value.is_nan() || value < *low),
    }
}

/// Returns whether a figure is beyond the better end of a range.
fn is_beyond(better: Better, value: f64, range: &Range) -> bool {
    match better {
        Better::Lower => range.low.is_some_and(|low| value < low),
        Better::Higher => range.high.is_some_and(|high| value > high),
    }
}

fn failure(headline: &Headline, end: f64) -> String {
    let percent = 100.0 * (headline.value / end - 1.0).abs();
    let side = match headline.subject.better() {
        Better::Lower => "above",
        Better::Higher => "below",
    };
    let mut text = format!("{percent:.0} % {side} the range");
    if headline.busy_launches > 0 {
        text += "; the machine was busy, and an idle one may do better";
    }
    text
}

/// Describes a range, to follow "expected" or "carries".
fn words(subject: Subject, range: &Range) -> String {
    let show = |value| subject.display(value);
    match (range.basis, subject.better(), range.low, range.high) {
        (Basis::Link, _, _, Some(high)) => format!("at most {}", show(high)),
        (_, _, Some(low), Some(high)) => format!("{} to {}", show(low), show(high)),
        (_, Better::Lower, _, Some(high)) => format!("up to {}", show(high)),
        (_, _, _, Some(high)) => format!("at most {}", show(high)),
        (_, _, Some(low), None) => format!("at least {}", show(low)),
        (_, _, None, None) => String::new(),
    }
}
