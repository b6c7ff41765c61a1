//! Exports figures as JSON, one object per line: each run, then its figures.

use super::Exported;
use super::entry::entries;
use crate::summary::MeasuredAt;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct Head<'a> {
    record: &'static str,
    run: &'a str,
    kind: MeasuredAt,
    fabric: &'a str,
    device: &'a str,
    command: &'a str,
    started: u64,
    seconds: Option<f64>,
    outcome: Option<&'a str>,
    points: usize,
    busy_points: usize,
    environment: &'a BTreeMap<String, String>,
    expected_system: Option<&'a str>,
    verdict: Option<&'static str>,
    distrust: &'a [String],
}

pub(super) fn text(exported: &[Exported<'_>]) -> String {
    let mut out = String::new();
    let mut push = |line: serde_json::Result<String>| {
        out += &line.expect("plain data with text keys has a JSON form");
        out.push('\n');
    };
    for one in exported {
        let (run, end) = (&one.run.run, one.run.end.as_ref());
        push(serde_json::to_string(&Head {
            record: "run",
            run: &run.label,
            kind: one.summary.kind,
            fabric: &run.fabric,
            device: &run.device,
            command: &run.command,
            started: run.started,
            seconds: end.map(|end| end.seconds),
            outcome: end.map(|end| end.outcome.as_str()),
            points: one.summary.points,
            busy_points: one.summary.busy_points,
            environment: &run.environment,
            expected_system: one.checks.map(|checks| checks.system.as_str()),
            verdict: one.checks.map(|checks| checks.verdict().text()),
            distrust: &one.summary.distrust,
        }));
        for entry in entries(one) {
            push(serde_json::to_string(&entry));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::export::{Format, test::run, text};
    use proptest::prelude::*;
    use serde_json::Value;

    fn lines(label: &str) -> Vec<Value> {
        let text = text(Format::Jsonl, &[run(label, "mlx5_0")], &[]);
        let lines = text.split_terminator('\n');
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn a_run_comes_before_its_figures() {
        let lines = lines("a");
        let record = |line: &Value| line["record"].as_str().unwrap().to_owned();
        let records: Vec<String> = lines.iter().map(record).collect();
        assert_eq!(records, ["run", "headline", "headline", "figure", "figure"]);
        assert_eq!(lines[0]["kind"], "wire");
        assert_eq!(lines[1]["name"], "latency");
        assert_eq!(lines[1]["value"], 1500.0);
        assert_eq!(lines[1]["parameters"]["size"], 8.0);
        assert_eq!(lines[4]["name"], "bandwidth.write");
    }

    proptest! {
        #[test]
        fn labels_round_trip(label in "(?s).{0,40}") {
            let lines = lines(&label);
            prop_assert_eq!(lines[0]["run"].as_str(), Some(label.as_str()));
        }
    }
}
