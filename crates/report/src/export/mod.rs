//! Exports results for other programs: CSV, JSON Lines, Markdown and OpenMetrics.
//!
//! CSV and JSON Lines contain the summary's figures ([`headline`](crate::headline)) and all figures
//! over all launches ([`gather`](crate::gather)); the others contain the summary's figures. Each
//! figure has its expected range and verdict. Names and texts come from files, so each format
//! escapes them.

mod csv;
mod entry;
mod jsonl;
mod markdown;
mod openmetrics;
#[cfg(test)]
mod openmetrics_test;

pub(crate) use csv::cell;
pub(crate) use markdown::row as markdown_row;

use crate::expectation::Checks;
use crate::run_directory::Loaded;
use crate::summary::{self, Summary};

/// Format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A table for spreadsheets, one line per figure.
    Csv,
    /// One JSON object per line.
    Jsonl,
    /// The summary as tables, for a ticket or a pull request.
    Markdown,
    /// The summary for node_exporter's textfile collector.
    OpenMetrics,
}

struct Exported<'a> {
    run: &'a Loaded,
    summary: Summary,
    checks: Option<&'a Checks>,
}

/// Exports runs as text. `checks` has the checks of each run in order, if there are any.
pub fn text(format: Format, runs: &[Loaded], checks: &[Option<Checks>]) -> String {
    let exported = runs.iter().enumerate().map(|(at, run)| Exported {
        run,
        summary: summary::of(run, &[], &[]),
        checks: checks.get(at).and_then(Option::as_ref),
    });
    let exported: Vec<Exported<'_>> = exported.collect();
    match format {
        Format::Csv => csv::text(&exported),
        Format::Jsonl => jsonl::text(&exported),
        Format::Markdown => markdown::text(&exported),
        Format::OpenMetrics => openmetrics::text(&exported),
    }
}

#[cfg(test)]
mod test {
    //! Test run with names that need escaping in every format.

    use crate::run_directory::Loaded;
    use crate::schema::{End, Run, VERSION};
    use verbena_measure::compare::Better;
    use verbena_measure::result::{Metric, Point};

    /// Returns a run over a wire with a latency of 1.5 us and a bandwidth of 24 GB/s.
    pub fn run(label: &str, device: &str) -> Loaded {
        let point = |benchmark: &str, size: f64, metric: Metric| Point {
            benchmark: benchmark.to_owned(),
            parameters: [("size".to_owned(), size.into())].into(),
            metrics: vec![metric],
            ..Point::default()
        };
        let latency = Metric::figure("one-way-latency", "ns", Better::Lower, 1500.0);
        let bandwidth = Metric::figure("cached-bandwidth", "bytes/s", Better::Higher, 24e9);
        Loaded {
            run: Run {
                schema: VERSION,
                label: label.to_owned(),
                fabric: "hardware".to_owned(),
                device: device.to_owned(),
                launcher: "mpi".to_owned(),
                launches: 1,
                started: 1_700_000_000,
                ..Run::default()
            },
            points: vec![
                point("latency.write", 8.0, latency),
                point("bandwidth.write", 1_048_576.0, bandwidth),
            ],
            end: Some(End {
                outcome: "complete".to_owned(),
                seconds: 2.5,
                reason: None,
            }),
            ..Loaded::default()
        }
    }
}
