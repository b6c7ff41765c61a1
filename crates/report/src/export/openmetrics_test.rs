//! Metrics of one run and of several, and with arbitrary labels.

use super::openmetrics::LONGEST;
use super::{Format, test::run, text as exported};
use crate::expectation::{Basis, Expectation, Range, check};
use crate::headline::Subject;
use proptest::prelude::*;

#[test]
fn metrics_have_base_units_and_end_with_eof() {
    let run = run("a \"b\"\\\n", "mlx5_0");
    let text = exported(Format::OpenMetrics, std::slice::from_ref(&run), &[]);
    let label = "run=\"a \\\"b\\\"\\\\\\n\"";
    for line in [
        "# TYPE verbena_latency_seconds gauge".to_owned(),
        "# UNIT verbena_latency_seconds seconds".to_owned(),
        format!("verbena_latency_seconds{{{label},size=\"8\"}} 1.5e-6"),
        format!("verbena_bandwidth_bytes_per_second{{{label},size=\"1048576\"}} 24000000000.0"),
        format!(
            "verbena_run_info{{{label},kind=\"wire\",fabric=\"hardware\",device=\"mlx5_0\"}} 1.0"
        ),
        format!("verbena_run_complete{{{label}}} 1.0"),
    ] {
        assert!(text.lines().any(|one| one == line), "{line}\n{text}");
    }
    assert!(text.ends_with("\n# EOF\n") && text.matches("# EOF").count() == 1);
    assert!(!text.contains("expect"), "{text}");
}

#[test]
fn families_are_contiguous_over_several_runs_and_checks() {
    let runs = [run("a", "mlx5_0"), run("b", "mlx5_1")];
    let range = Range {
        basis: Basis::Model,
        low: Some(1000.0),
        high: Some(1400.0),
        source: "a model".to_owned(),
    };
    let expected = [Expectation {
        subject: Subject::Latency,
        ranges: vec![range],
        references: Vec::new(),
        missing: String::new(),
    }];
    let checks = runs
        .iter()
        .map(|run| Some(check(run, ("x", "an adapter"), &expected)));
    let checks: Vec<_> = checks.collect();
    let text = exported(Format::OpenMetrics, &runs, &checks);
    let passed = "verbena_expectation_passed{run=\"b\",system=\"x\",figure=\"latency\"} 0.0";
    assert!(text.contains(passed), "{text}");
    let high = "verbena_latency_expected_high_seconds{run=\"a\",system=\"x\"} 1.4";
    assert!(text.contains(high), "{text}");
    // The bandwidth has no expectation, so it neither passed nor failed.
    assert!(!text.contains("figure=\"bandwidth\""), "{text}");
    let types = text.lines().filter(|line| line.starts_with("# TYPE"));
    let mut types: Vec<&str> = types.collect();
    let count = types.len();
    types.sort_unstable();
    types.dedup();
    assert_eq!(types.len(), count, "{text}");
}

proptest! {
    #[test]
    fn labels_are_escaped_and_short(label in "(?s).{0,300}") {
        let text = exported(Format::OpenMetrics, &[run(&label, "x")], &[]);
        let samples = text.lines().filter(|line| line.starts_with("verbena_"));
        let expected = text.matches("# TYPE").count();
        prop_assert_eq!(samples.count(), expected);
        prop_assert!(!text.replace('\n', "").contains(char::is_control));
        prop_assert!(text.lines().all(|line| line.chars().count() < 3 * LONGEST));
    }

    #[test]
    fn the_number_of_series_is_independent_of_points(count in 1_usize..40) {
        let mut many = run("a", "x");
        for size in 0..count {
            let mut point = many.points[0].clone();
            point.parameters.insert("size".to_owned(), (100 + size).into());
            many.points.push(point);
        }
        let series = |run: &_| {
            let text = exported(Format::OpenMetrics, std::slice::from_ref(run), &[]);
            text.lines().filter(|line| !line.starts_with('#')).count()
        };
        prop_assert_eq!(series(&many), series(&run("a", "x")));
    }
}
