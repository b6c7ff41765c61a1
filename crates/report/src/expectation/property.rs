//! Properties of the verdicts over random figures and ranges, and the special cases.

use super::judge::one;
use super::*;
use crate::headline::Headline;
use proptest::prelude::*;

fn headline(subject: Subject, value: f64) -> Headline {
    Headline {
        subject,
        of: "8 B writes".to_owned(),
        metric: "figure".to_owned(),
        size: Some(8.0),
        value,
        interval: None,
        launches: vec![value],
        busy_launches: 0,
        tail: [None, None],
        bound: None,
        warnings: Vec::new(),
        curve: None,
    }
}

fn range(basis: Basis, low: Option<f64>, high: Option<f64>) -> Range {
    Range {
        basis,
        low,
        high,
        source: "a source".to_owned(),
    }
}

fn expectation(subject: Subject, ranges: Vec<Range>) -> Expectation {
    Expectation {
        subject,
        ranges,
        references: Vec::new(),
        missing: "nothing is published".to_owned(),
    }
}

/// Returns the verdict on a figure over a wire.
fn verdict(value: f64, expected: &Expectation) -> (Verdict, String) {
    let check = one(
        &headline(expected.subject, value),
        MeasuredAt::Wire,
        Some(expected),
    );
    (check.verdict, check.reason)
}

#[test]
fn figures_within_the_range_or_better_pass() {
    let latency = expectation(
        Subject::Latency,
        vec![range(Basis::Model, Some(1000.0), Some(2100.0))],
    );
    for (value, expected, reason) in [
        (900.0, Verdict::Pass, "better than expected"),
        (1000.0, Verdict::Pass, "as expected"),
        (2100.0, Verdict::Pass, "as expected"),
        (4200.0, Verdict::Fail, "100 % above the range"),
        (f64::NAN, Verdict::Fail, "NaN % above the range"),
    ] {
        assert_eq!(verdict(value, &latency), (expected, reason.to_owned()));
    }
    let busy = Headline {
        busy_launches: 1,
        ..headline(Subject::Latency, 4200.0)
    };
    let check = one(&busy, MeasuredAt::Imported, Some(&latency));
    assert!(check.reason.contains("the machine was busy"), "{check:?}");
    assert_eq!(check.expected, "1 us to 2.1 us");
    assert_eq!(check.source, "a source");
}

#[test]
fn a_link_limit_alone_passes_no_figure() {
    let limit = range(Basis::Link, None, Some(25e9));
    let only = expectation(Subject::Bandwidth, vec![limit.clone()]);
    let nothing = (Verdict::NoExpectation, "nothing is published".to_owned());
    assert_eq!(verdict(24e9, &only), nothing);
    let (beyond, reason) = verdict(40e9, &only);
    assert_eq!(beyond, Verdict::Fail);
    assert!(reason.contains("impossible on this link"), "{reason}");
    let both = expectation(
        Subject::Bandwidth,
        vec![limit, range(Basis::Model, Some(23e9), Some(24.8e9))],
    );
    assert_eq!(verdict(24.9e9, &both).0, Verdict::Pass);
    assert_eq!(verdict(22e9, &both).0, Verdict::Fail);
    assert_eq!(verdict(26e9, &both).0, Verdict::Fail);
}

#[test]
fn figures_without_a_wire_are_not_judged() {
    let latency = expectation(
        Subject::Latency,
        vec![range(Basis::Model, Some(1.0), Some(2.0))],
    );
    for kind in [MeasuredAt::Host, MeasuredAt::Loopback, MeasuredAt::Model] {
        let check = one(&headline(Subject::Latency, 1.5), kind, Some(&latency));
        assert_eq!(check.verdict, Verdict::NoExpectation, "{kind:?}");
        assert!(check.reason.starts_with("not comparable: "), "{kind:?}");
    }
    let unknown = one(&headline(Subject::Latency, 1.5), MeasuredAt::Wire, None);
    assert_eq!(unknown.verdict, Verdict::NoExpectation);
}

fn checks(verdicts: &[Verdict]) -> Checks {
    let check = |verdict: &Verdict| Check {
        verdict: *verdict,
        ..one(&headline(Subject::Latency, 1.0), MeasuredAt::Wire, None)
    };
    Checks {
        system: "x".to_owned(),
        about: String::new(),
        run: String::new(),
        kind: MeasuredAt::Wire,
        figures: verdicts.iter().map(check).collect(),
    }
}

#[test]
fn a_run_without_checks_is_not_accepted() {
    use Verdict::{Fail, NoExpectation, Pass};
    for (figures, expected) in [
        (&[][..], NoExpectation),
        (&[NoExpectation][..], NoExpectation),
        (&[NoExpectation, Pass][..], Pass),
        (&[Pass, Fail][..], Fail),
    ] {
        assert_eq!(checks(figures).verdict(), expected);
    }
    assert_eq!(
        checks(&[Pass, Fail, Pass]).sentence(),
        "2 pass, 1 fail, 0 without expectation"
    );
    assert!(checks(&[]).sentence().starts_with("no figure to check"));
}

/// Ranges with ordered ends.
fn ranges() -> impl Strategy<Value = Vec<Range>> {
    let ends = (
        prop::option::of(1.0_f64..1e3),
        prop::option::of(1e3_f64..1e6),
    );
    let one = ends.prop_map(|(low, high)| range(Basis::Model, low, high));
    prop::collection::vec(one, 0..3)
}

fn subject() -> impl Strategy<Value = Subject> {
    prop::sample::select(Subject::ALL.to_vec())
}

proptest! {
    #[test]
    fn better_figures_never_get_a_worse_verdict(
        subject in subject(),
        ranges in ranges(),
        value in 0.1_f64..1e7,
        factor in 1.0_f64..100.0,
    ) {
        let expected = expectation(subject, ranges);
        let better = match subject.better() {
            Better::Higher => value * factor,
            Better::Lower => value / factor,
        };
        prop_assert!(verdict(better, &expected).0 >= verdict(value, &expected).0);
    }

    #[test]
    fn verdicts_depend_only_on_ranges(subject in subject(), value in 0.1_f64..1e7) {
        let mut expected = expectation(subject, Vec::new());
        expected.references.push(Reference { value: 1.0, source: "a paper".to_owned() });
        let nothing = (Verdict::NoExpectation, "nothing is published".to_owned());
        prop_assert_eq!(verdict(value, &expected), nothing);
    }
}
