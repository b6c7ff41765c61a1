//! Exports the summary in OpenMetrics' text format, for node_exporter's textfile collector.
//!
//! The collector reads Prometheus' older format, so the output is valid in both: all metrics are
//! gauges without timestamps, and `# UNIT` and `# EOF` are comments in the older one. The number of
//! series per run is limited: labels are the run, the figure's message size and the expected
//! system.

use super::Exported;
use super::entry::word;
use crate::expectation::Verdict;
use crate::gather::rows;
use crate::headline::{Subject, headlines};
use std::fmt::Write as _;

/// Maximum length of a label's value in letters.
pub(super) const LONGEST: usize = 100;

type Labels = Vec<(&'static str, String)>;

struct Family {
    name: String,
    /// Unit suffix of the name, if it has one.
    unit: &'static str,
    help: String,
    samples: Vec<(Labels, f64)>,
}

/// The families, in the order of their first sample.
#[derive(Default)]
struct Families(Vec<Family>);

impl Families {
    /// Adds a sample, unless it is not finite.
    fn add(&mut self, (name, unit): (&str, &'static str), help: &str, labels: Labels, value: f64) {
        if !value.is_finite() {
            return;
        }
        let mut name = format!("verbena_{name}");
        if !unit.is_empty() {
            name = format!("{name}_{unit}");
        }
        let known = self.0.iter().position(|family| family.name == name);
        let at = known.unwrap_or_else(|| {
            self.0.push(Family {
                name,
                unit,
                help: help.to_owned(),
                samples: Vec::new(),
            });
            self.0.len() - 1
        });
        self.0[at].samples.push((labels, value));
    }

    fn text(&self) -> String {
        let mut out = String::new();
        for family in &self.0 {
            let name = &family.name;
            let _ = writeln!(out, "# TYPE {name} gauge");
            if !family.unit.is_empty() {
                let _ = writeln!(out, "# UNIT {name} {}", family.unit);
            }
            let _ = writeln!(out, "# HELP {name} {}", family.help);
            for (labels, value) in &family.samples {
                let labels: Vec<String> = labels
                    .iter()
                    .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
                    .collect();
                let _ = writeln!(out, "{name}{{{}}} {value:?}", labels.join(","));
            }
        }
        out + "# EOF\n"
    }
}

/// Escapes and shortens a text for the value of a label.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars().take(LONGEST) {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            // A parser in text mode would end a line at some of them.
            letter if letter.is_control() => out.push(' '),
            '\u{2028}' | '\u{2029}' => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

/// Returns the metric of a subject: name, unit, number of the figure's units in one of it, and help
/// text.
fn metric(subject: Subject) -> (&'static str, &'static str, f64, &'static str) {
    match subject {
        Subject::Latency => (
            "latency",
            "seconds",
            1e9,
            "One-way latency of short writes, median over launches.",
        ),
        Subject::Bandwidth => (
            "bandwidth",
            "bytes_per_second",
            1.0,
            "Bandwidth of long writes in one direction, median over launches.",
        ),
        Subject::Rate => (
            "rate",
            "messages_per_second",
            1.0,
            "Rate of short writes between two processes, median over launches.",
        ),
        Subject::Scaling => (
            "scaling",
            "ratio",
            1.0,
            "Latency of several pairs over that of one, median over launches.",
        ),
        Subject::Memory => (
            "connection_memory",
            "bytes",
            1.0,
            "Host memory of a reliable connection.",
        ),
    }
}

pub(super) fn text(exported: &[Exported<'_>]) -> String {
    let mut families = Families::default();
    for one in exported {
        of_run(&mut families, one);
    }
    for one in exported {
        of_summary(&mut families, one);
    }
    for one in exported {
        of_checks(&mut families, one);
    }
    families.text()
}

fn of_run(families: &mut Families, exported: &Exported<'_>) {
    let (run, summary) = (&exported.run.run, &exported.summary);
    let label = || vec![("run", run.label.clone())];
    let mut what = label();
    let kind = serde_json::to_value(summary.kind).ok();
    let kind = kind.and_then(|kind| kind.as_str().map(str::to_owned));
    what.extend([
        ("kind", kind.unwrap_or_default()),
        ("fabric", run.fabric.clone()),
        ("device", run.device.clone()),
    ]);
    let help = "Description of the run; always 1.";
    families.add(("run_info", ""), help, what, 1.0);
    let mut plain = |name, help, value| families.add(name, help, label(), value);
    if run.started > 0 {
        let name = ("run_started_timestamp", "seconds");
        plain(
            name,
            "When the run started, since 1970.",
            run.started as f64,
        );
    }
    // Tables of other tools do not state their duration.
    if let Some(end) = exported.run.end.as_ref().filter(|end| end.seconds > 0.0) {
        let name = ("run_duration", "seconds");
        plain(name, "How long the run took.", end.seconds);
    }
    let ended = exported.run.end.as_ref();
    let complete = ended.is_some_and(|end| end.outcome == "complete");
    let help = "Whether the run completed.";
    plain(("run_complete", ""), help, f64::from(u8::from(complete)));
    let failed = exported.run.failures.iter();
    let failed = failed.filter(|one| !one.unsupported && !one.is_not_computed());
    let failed = failed.count();
    for (name, help, count) in [
        ("points", "Measured points.", summary.points),
        (
            "busy_points",
            "Points during which other processes ran on the same cores.",
            summary.busy_points,
        ),
        (
            "failed_points",
            "Points that could not be measured.",
            failed,
        ),
    ] {
        plain((name, ""), help, count as f64);
    }
}

fn of_summary(families: &mut Families, exported: &Exported<'_>) {
    for headline in headlines(exported.run, &rows(exported.run)) {
        let (name, unit, scale, help) = metric(headline.subject);
        let labels = || {
            let mut labels = vec![("run", exported.run.run.label.clone())];
            labels.extend(headline.size.map(|size| ("size", size.to_string())));
            labels
        };
        families.add((name, unit), help, labels(), headline.value / scale);
        for (percentile, value) in ["p99", "p999"].into_iter().zip(headline.tail) {
            if let (Some(value), Subject::Latency) = (value, headline.subject) {
                let name = format!("{name}_{percentile}");
                let help = format!("{percentile} of the operations measured for the latency.");
                families.add((&name, unit), &help, labels(), value / scale);
            }
        }
    }
}

fn of_checks(families: &mut Families, exported: &Exported<'_>) {
    let Some(checks) = exported.checks else {
        return;
    };
    let labels = || {
        vec![
            ("run", exported.run.run.label.clone()),
            ("system", checks.system.clone()),
        ]
    };
    for check in &checks.figures {
        let (name, unit, scale, _) = metric(check.subject);
        let ends = [("low", check.low), ("high", check.high)];
        for (end, value) in ends {
            let Some(value) = value else { continue };
            let name = format!("{name}_expected_{end}");
            let help = format!("The {end} end of the expected range.");
            families.add((&name, unit), &help, labels(), value / scale);
        }
        if check.verdict != Verdict::NoExpectation {
            let mut labels = labels();
            labels.push(("figure", word(check.subject).to_owned()));
            let passed = check.verdict == Verdict::Pass;
            let help = "Whether a figure meets its expectation, if it has one.";
            let name = ("expectation_passed", "");
            families.add(name, help, labels, f64::from(u8::from(passed)));
        }
    }
}
