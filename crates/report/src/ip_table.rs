//! IP over the adapter beside the verbs: latencies and rates of each transport, as published,
//! predicted and measured.

use crate::chart::escape;
use crate::gather::{Row, rows};
use crate::run_directory::Loaded;
use std::fmt::Write as _;
use verbena_measure::compare::Better;
use verbena_measure::result::Value;
use verbena_measure::unit;

/// Title of the table.
pub const TITLE: &str = "What does IP cost over the adapter?";

/// A published figure of a line of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishedIp {
    /// The benchmark of the line.
    pub benchmark: &'static str,
    /// Mode of the interface, or transport.
    pub variant: &'static str,
    /// The figure, in nanoseconds or bytes a second.
    pub value: f64,
    /// Name of the claim.
    pub claim: String,
}

/// A line of the table: the best figure of a benchmark over all message sizes.
struct Line {
    quantity: &'static str,
    name: &'static str,
    benchmark: &'static str,
    /// The parameter that tells variants apart, and its word.
    variant: (&'static str, &'static str),
    /// Metric of the figure.
    metric: &'static str,
    better: Better,
}

const fn latency(
    name: &'static str,
    benchmark: &'static str,
    variant: (&'static str, &'static str),
) -> Line {
    Line {
        quantity: "latency, one way",
        name,
        benchmark,
        variant,
        metric: "one-way-latency",
        better: Better::Lower,
    }
}

const fn rate(
    quantity: &'static str,
    name: &'static str,
    benchmark: &'static str,
    variant: (&'static str, &'static str),
) -> Line {
    Line {
        quantity,
        metric: "bandwidth",
        better: Better::Higher,
        ..latency(name, benchmark, variant)
    }
}

/// A rate of verbs. Published ones are of one buffer.
const fn cached(
    quantity: &'static str,
    name: &'static str,
    benchmark: &'static str,
    variant: (&'static str, &'static str),
) -> Line {
    Line {
        metric: "cached-bandwidth",
        ..rate(quantity, name, benchmark, variant)
    }
}

const ONE_WAY: &str = "rate, one way";
const BOTH_WAYS: &str = "rate, both ways";
const CONNECTED: (&str, &str) = ("mode", "connected");
const DATAGRAM: (&str, &str) = ("mode", "datagram");
const ETHERNET: (&str, &str) = ("mode", "ethernet");
const RC: (&str, &str) = ("transport", "rc");
const UC: (&str, &str) = ("transport", "uc");
const UD: (&str, &str) = ("transport", "ud");

const LINES: [Line; 22] = [
    latency("TCP, connected mode", "ip.latency", CONNECTED),
    latency("TCP, datagram mode", "ip.latency", DATAGRAM),
    latency("TCP, Ethernet", "ip.latency", ETHERNET),
    latency("RC, write", "latency.write", RC),
    latency("UC, write", "latency.write", UC),
    latency("RC, send", "latency.send", RC),
    latency("UC, send", "latency.send", UC),
    latency("UD, send", "latency.send", UD),
    rate(ONE_WAY, "TCP, connected mode", "ip.stream", CONNECTED),
    rate(ONE_WAY, "TCP, datagram mode", "ip.stream", DATAGRAM),
    rate(ONE_WAY, "TCP, Ethernet", "ip.stream", ETHERNET),
    rate(ONE_WAY, "UDP, connected mode", "ip.datagrams", CONNECTED),
    rate(ONE_WAY, "UDP, datagram mode", "ip.datagrams", DATAGRAM),
    rate(ONE_WAY, "UDP, Ethernet", "ip.datagrams", ETHERNET),
    cached(ONE_WAY, "RC, send", "bandwidth.send", RC),
    cached(ONE_WAY, "UC, send", "bandwidth.send", UC),
    cached(ONE_WAY, "UD, send", "bandwidth.send", UD),
    rate(
        BOTH_WAYS,
        "TCP, connected mode",
        "ip.stream-both",
        CONNECTED,
    ),
    rate(BOTH_WAYS, "TCP, datagram mode", "ip.stream-both", DATAGRAM),
    rate(BOTH_WAYS, "TCP, Ethernet", "ip.stream-both", ETHERNET),
    cached(BOTH_WAYS, "RC, write", "bandwidth.write-both", RC),
    cached(BOTH_WAYS, "UC, write", "bandwidth.write-both", UC),
];

impl Line {
    /// Returns the best figure of a run as text, with its message size.
    fn cell(&self, rows: &[Row]) -> Option<String> {
        let is = |row: &Row, name: &str, usual: &str| match row.parameters.get(name) {
            Some(Value::Word(word)) => word == usual,
            _ => name != self.variant.0,
        };
        let fits = |row: &&Row| {
            !row.searched
                && row.benchmark == self.benchmark
                && is(row, self.variant.0, self.variant.1)
                && is(row, "receive-queue", "own")
                && is(row, "memory", "host")
        };
        let figure = |row: &Row| {
            let mut figures = row.figures.iter();
            let figure = figures.find(|figure| figure.name == self.metric)?;
            Some((figure.value, figure.unit.clone(), row.number("size")))
        };
        let all = rows.iter().filter(fits).filter_map(figure);
        let (value, unit, size) = all.reduce(|best, other| {
            let is_better = match self.better {
                Better::Lower => other.0 < best.0,
                Better::Higher => other.0 > best.0,
            };
            if is_better { other } else { best }
        })?;
        let size = size.map_or(String::new(), |size| format!(" ({})", unit::size(size)));
        Some(format!("{}{size}", unit::display(value, &unit)))
    }

    fn published(&self, published: &[PublishedIp]) -> Option<String> {
        let mut all = published.iter();
        let one =
            all.find(|one| one.benchmark == self.benchmark && one.variant == self.variant.1)?;
        let unit = match self.better {
            Better::Lower => "ns",
            Better::Higher => "bytes/s",
        };
        Some(format!(
            "{} ({})",
            unit::display(one.value, unit),
            one.claim
        ))
    }
}

/// The table as text: the heading, then the lines, each with a cell for each run.
struct Table {
    heading: Vec<String>,
    lines: Vec<Vec<String>>,
}

impl Table {
    /// Returns the table of some runs, without lines for which none has a figure; `None` if no run
    /// has a benchmark of IP.
    fn of(runs: &[(&Loaded, &[Row])], published: &[PublishedIp]) -> Option<Table> {
        let is_ip = |row: &Row| row.benchmark.starts_with("ip.");
        if !runs.iter().any(|(_, rows)| rows.iter().any(is_ip)) {
            return None;
        }
        let of_run = |run: &Loaded| match run.run.fabric.as_str() {
            "model" => format!("predicted: {}", run.run.label),
            _ => format!("measured: {}", run.run.label),
        };
        let mut heading = vec![String::new(), String::new(), "published".to_owned()];
        heading.extend(runs.iter().map(|(run, _)| of_run(run)));
        let line = |line: &Line| {
            let cells: Vec<Option<String>> = runs.iter().map(|(_, rows)| line.cell(rows)).collect();
            if cells.iter().all(Option::is_none) {
                return None;
            }
            let mut all = vec![line.quantity.to_owned(), line.name.to_owned()];
            let cells = std::iter::once(line.published(published)).chain(cells);
            all.extend(cells.map(|cell| cell.unwrap_or_else(|| "-".to_owned())));
            Some(all)
        };
        Some(Table {
            heading,
            lines: LINES.iter().filter_map(line).collect(),
        })
    }
}

/// Remarks below the table.
const NOTES: &str = "Each figure is the best over the message sizes, which are in brackets. \
                     Published figures are of ConnectX QDR and name their claims (verbena \
                     reproduce); rates of verbs are of one buffer, and the published latency of \
                     RC is without inline data. The suite measures rates of verbs over RC; those \
                     over UC and UD are of imported output of perftest.";

/// Returns the section of a page; empty if no run has a benchmark of IP.
pub fn html(runs: &[(&Loaded, &[Row])], published: &[PublishedIp]) -> String {
    let Some(table) = Table::of(runs, published) else {
        return String::new();
    };
    let mut out = format!(
        "<section id=\"ip\"><h2>{TITLE}</h2><p class=\"note\">{}</p><table><thead><tr>",
        escape(NOTES)
    );
    for cell in &table.heading {
        let _ = write!(out, "<th class=\"text\">{}</th>", escape(cell));
    }
    out.push_str("</tr></thead><tbody>");
    for line in &table.lines {
        out.push_str("<tr>");
        for cell in line {
            let _ = write!(out, "<td class=\"text\">{}</td>", escape(cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></section>");
    out
}

/// Returns whether a page of these rows has the section.
pub fn is_shown<'a>(mut rows: impl Iterator<Item = &'a Row>) -> bool {
    rows.any(|row| row.benchmark.starts_with("ip."))
}

/// Returns the table for a text in Markdown; empty if no run has a benchmark of IP.
pub fn markdown(runs: &[Loaded], published: &[PublishedIp]) -> String {
    let rows: Vec<Vec<Row>> = runs.iter().map(rows).collect();
    let pairs = runs.iter().zip(&rows);
    let pairs: Vec<(&Loaded, &[Row])> = pairs.map(|(run, rows)| (run, &rows[..])).collect();
    let Some(table) = Table::of(&pairs, published) else {
        return String::new();
    };
    let row = |cells: &[String]| {
        let cells: Vec<&str> = cells.iter().map(String::as_str).collect();
        crate::export::markdown_row(&cells)
    };
    let mut out = format!("\n## {TITLE}\n\n{NOTES}\n\n{}", row(&table.heading));
    let _ = writeln!(out, "|{}", "---|".repeat(table.heading.len()));
    out.extend(table.lines.iter().map(|line| row(line)));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_measure::result::{Metric, Parameters, Point};

    fn point(benchmark: &str, variant: (&str, &str), size: f64, metric: Metric) -> Point {
        Point {
            benchmark: benchmark.to_owned(),
            parameters: Parameters::from([
                (variant.0.to_owned(), Value::from(variant.1)),
                ("size".to_owned(), size.into()),
            ]),
            metrics: vec![metric],
            ..Point::default()
        }
    }

    fn time(nanos: f64) -> Metric {
        Metric::figure("one-way-latency", "ns", Better::Lower, nanos)
    }

    fn rate(value: f64) -> Metric {
        Metric::figure("bandwidth", "bytes/s", Better::Higher, value)
    }

    fn run(label: &str, fabric: &str, points: Vec<Point>) -> Loaded {
        let mut run = Loaded {
            points,
            ..Loaded::default()
        };
        run.run.label = label.to_owned();
        run.run.fabric = fabric.to_owned();
        run
    }

    #[test]
    fn each_transport_has_its_best_figure_beside_the_published_one() {
        let mut searched = point("ip.latency", CONNECTED, 8.0, time(1.0));
        searched.conduct.search = true;
        let software = run(
            "software",
            "software",
            vec![
                searched,
                point("ip.latency", CONNECTED, 1.0, time(45_000.0)),
                point("ip.latency", CONNECTED, 64.0, time(44_000.0)),
                point("ip.stream", DATAGRAM, 65_536.0, rate(1.2e9)),
                point("ip.stream", DATAGRAM, 64.0, rate(1e7)),
                point("latency.send", UD, 8.0, time(300.0)),
            ],
        );
        let model = run(
            "qdr (model)",
            "model",
            vec![point("ip.latency", CONNECTED, 1.0, time(50_100.0))],
        );
        let published = [PublishedIp {
            benchmark: "ip.latency",
            variant: "connected",
            value: 50_000.0,
            claim: "a.claim".to_owned(),
        }];
        let text = markdown(&[software.clone(), model.clone()], &published);
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(
            lines,
            [
                "|  |  | published | measured: software | predicted: qdr (model) |",
                "|---|---|---|---|---|",
                "| latency, one way | TCP, connected mode | 50 us (a.claim) | 44 us (64 B) | \
                 50.1 us (1 B) |",
                "| latency, one way | UD, send | - | 300 ns (8 B) | - |",
                "| rate, one way | TCP, datagram mode | - | 1.2 GB/s (64 KiB) | - |",
            ]
        );
        let (own, other) = (rows(&software), rows(&model));
        let page = html(&[(&software, &own), (&model, &other)], &published);
        assert!(
            page.contains("<td class=\"text\">50 us (a.claim)</td>"),
            "{page}"
        );
        assert_eq!(page.matches("<tr>").count(), 4, "{page}");
    }

    #[test]
    fn runs_without_ip_have_no_table() {
        let only = run(
            "software",
            "software",
            vec![point("latency.send", RC, 8.0, time(300.0))],
        );
        assert_eq!(markdown(std::slice::from_ref(&only), &[]), "");
        assert!(!is_shown(rows(&only).iter()));
    }
}
