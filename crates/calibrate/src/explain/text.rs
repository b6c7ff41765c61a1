//! An analysed operation as text, and for the page of timelines.

use super::Explained;
use std::fmt::Write as _;
use verbena_measure::unit;
use verbena_report::chart::timeline::Bar;
use verbena_report::html::Operation;

impl Explained {
    /// Returns the shares of the stages as a table; `benchmark` and `system` are their names.
    pub fn text(&self, benchmark: &str, system: &str) -> String {
        let operation = self.operation(benchmark);
        let (title, duration) = (&operation.title, operation.duration());
        let mut out = format!("{title}, on {system}: {duration}\n");
        let _ = writeln!(
            out,
            "  {:<16} {:<8} {:>10} {:>8}",
            "stage", "where", "time", "share"
        );
        for (stage, place, nanos) in &operation.shares {
            let _ = writeln!(
                out,
                "  {stage:<16} {place:<8} {:>10} {:>6.1} %",
                unit::time(*nanos),
                nanos / operation.took * 100.0
            );
        }
        out
    }

    /// Returns the operation for the page of timelines.
    pub fn operation(&self, benchmark: &str) -> Operation {
        let words = self.parameters.iter();
        let words: Vec<String> = words
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let bars = self.spans.iter().map(|span| Bar {
            lane: format!("{}, node {}", span.stage, span.place),
            kind: span.stage.to_owned(),
            start: span.start.nanos(),
            end: span.end.nanos(),
        });
        let shares = self.shares.iter().map(|share| {
            let place = format!("node {}", share.node);
            (share.stage.to_owned(), place, share.time.nanos())
        });
        Operation {
            title: format!("{benchmark}: {}", words.join(", ")),
            took: self.took.nanos(),
            one_way: self.one_way.map(|time| time.nanos()),
            bars: bars.collect(),
            shares: shares.collect(),
        }
    }
}
