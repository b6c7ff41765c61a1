//! Exports figures as comma-separated values (RFC 4180), and escapes cells.

use super::Exported;
use super::entry::{Entry, entries};

const HEAD: [&str; 22] = [
    "record",
    "run",
    "name",
    "parameters",
    "metric",
    "unit",
    "better",
    "value",
    "low",
    "high",
    "launches",
    "p99",
    "p999",
    "bound",
    "bound_reason",
    "word",
    "verdict",
    "expected_low",
    "expected_high",
    "expected_source",
    "reason",
    "warnings",
];

/// Letters with which a spreadsheet begins a formula or that it drops at the start, and the mark
/// that prevents this.
const GUARDED: [char; 7] = ['=', '+', '-', '@', '\t', '\r', GUARD];
const GUARD: char = '\'';

/// Returns a text as a cell. A text that a spreadsheet would take for a formula gets an apostrophe
/// in front, as does one that begins with an apostrophe, so that it can be removed unambiguously.
pub(crate) fn cell(text: &str) -> String {
    let guard = match text.starts_with(GUARDED) {
        true => GUARD.to_string(),
        false => String::new(),
    };
    let text = guard + text;
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

/// Returns a number as a cell; empty if it is missing or not finite.
fn number(value: Option<f64>) -> String {
    let value = value.filter(|value| value.is_finite());
    value.map_or(String::new(), |value| format!("{value:?}"))
}

pub(super) fn text(exported: &[Exported<'_>]) -> String {
    let mut out = HEAD.join(",") + "\n";
    for run in exported {
        for entry in entries(run) {
            out += &line(&entry).join(",");
            out.push('\n');
        }
    }
    out
}

fn line(entry: &Entry<'_>) -> [String; HEAD.len()] {
    let parameters: Vec<String> = match entry.of.is_empty() {
        true => {
            let all = entry.parameters.iter();
            all.map(|(name, value)| format!("{name}={value}")).collect()
        }
        false => vec![entry.of.clone()],
    };
    let check = entry.expected;
    [
        entry.record.to_owned(),
        cell(entry.run),
        cell(&entry.name),
        cell(&parameters.join(";")),
        cell(&entry.metric),
        cell(&entry.unit),
        match entry.better {
            verbena_measure::compare::Better::Lower => "lower".to_owned(),
            verbena_measure::compare::Better::Higher => "higher".to_owned(),
        },
        number(Some(entry.value)),
        number(entry.low),
        number(entry.high),
        entry.launches.len().to_string(),
        number(entry.p99),
        number(entry.p999),
        number(entry.bound),
        cell(entry.bound_reason.as_deref().unwrap_or_default()),
        entry.word.unwrap_or_default().to_owned(),
        check.map_or(String::new(), |check| check.verdict.text().to_owned()),
        number(check.and_then(|check| check.low)),
        number(check.and_then(|check| check.high)),
        cell(check.map_or("", |check| &check.source)),
        cell(check.map_or("", |check| &check.reason)),
        cell(&entry.warnings.join("; ")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{Format, test::run};
    use proptest::prelude::*;

    fn read(line: &str) -> Vec<String> {
        let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '"' if quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(std::mem::take(&mut cell)),
                other => cell.push(other),
            }
        }
        cells.push(cell);
        let bare = |cell: String| cell.strip_prefix(GUARD).map_or(cell.clone(), str::to_owned);
        cells.into_iter().map(bare).collect()
    }

    #[test]
    fn spreadsheet_formulas_are_escaped() {
        assert_eq!(cell("=1+1"), "'=1+1");
        assert_eq!(cell("@SUM(A1,A2)"), "\"'@SUM(A1,A2)\"");
        assert_eq!(cell("a,b \"c\""), "\"a,b \"\"c\"\"\"");
        assert_eq!(cell("plain"), "plain");
        assert_eq!(cell(""), "");
    }

    #[test]
    fn every_line_has_every_column() {
        let text = super::super::text(Format::Csv, &[run("=cmd,\"x\"", "mlx5_0")], &[]);
        let lines: Vec<Vec<String>> = text.lines().map(read).collect();
        assert!(lines.iter().all(|line| line.len() == HEAD.len()), "{text}");
        let column = |name: &str| HEAD.iter().position(|one| *one == name).unwrap();
        assert_eq!(lines[1][column("run")], "=cmd,\"x\"");
        assert_eq!(lines[1][column("name")], "latency");
        assert_eq!(lines[1][column("value")], "1500.0");
        // Two of the summary, two of the points.
        assert_eq!(lines.len(), 5);
    }

    proptest! {
        #[test]
        fn cells_round_trip(texts in proptest::collection::vec("(?s).{0,40}", 1..5)) {
            let cells: Vec<String> = texts.iter().map(|text| cell(text)).collect();
            let bare = |cell: &String| cell.strip_prefix('"').unwrap_or(cell).to_owned();
            let formulas = ['=', '+', '-', '@', '\t', '\r'];
            prop_assert!(!cells.iter().any(|cell| bare(cell).starts_with(formulas)));
            prop_assert_eq!(read(&cells.join(",")), texts);
        }
    }
}
