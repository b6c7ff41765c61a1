//! The page of an explanation: the time of an operation by stage, as a timeline and a table.

use super::frame::{foot, head};
use crate::chart::escape;
use crate::chart::timeline::{self, Bar};
use std::fmt::Write as _;
use verbena_measure::unit;

/// An analysed operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// Benchmark and parameters.
    pub title: String,
    /// Duration in nanoseconds.
    pub took: f64,
    /// One-way time in nanoseconds, if the operation is a round trip.
    pub one_way: Option<f64>,
    /// Recorded stages, for the timeline.
    pub bars: Vec<Bar>,
    /// Stage, node, and nanoseconds of the operation attributed to it.
    pub shares: Vec<(String, String, f64)>,
}

impl Operation {
    /// Returns the duration in words: a round trip is two messages, and a latency is one way.
    pub fn duration(&self) -> String {
        let took = unit::time(self.took);
        match self.one_way.map(unit::time) {
            Some(one_way) => format!("{took} round trip, one way {one_way}"),
            None => took,
        }
    }
}

/// Returns the page over some operations of a system.
pub fn explanation(system: &str, command: &str, operations: &[Operation]) -> String {
    let title = format!("Where the time goes: {system}");
    let mut out = head(&title);
    let _ = write!(
        out,
        "<p class=\"lead\">Computed by the timing model, not measured. <code>{}</code></p>",
        escape(command)
    );
    for operation in operations {
        let _ = write!(
            out,
            "<h2>{}</h2><p class=\"answers\">The operation takes {}.</p>{}",
            escape(&operation.title),
            escape(&operation.duration()),
            timeline::svg(&operation.title, &operation.bars, operation.took)
        );
        out.push_str(
            "<table><thead><tr><th>stage</th><th \
             class=\"text\">where</th><th>time</th><th>share</th></tr></thead><tbody>",
        );
        for (stage, place, nanos) in &operation.shares {
            let _ = write!(
                out,
                "<tr><td>{}</td><td class=\"text\">{}</td><td>{}</td><td>{:.1} %</td></tr>",
                escape(stage),
                escape(place),
                escape(&unit::time(*nanos)),
                nanos / operation.took * 100.0
            );
        }
        out.push_str("</tbody></table>");
    }
    out.push_str(NOTE);
    out.push_str(&foot());
    out
}

const NOTE: &str = "\
<h2>How to read it</h2><p>The timeline shows all concurrent activity. In the table every instant \
belongs to one stage: of those in progress, the one that began last. Acknowledgements, \
completions and polling proceed beside a message and its answer and own an instant only when \
nothing else is in progress. <em>adapter</em> is the remainder: engines, pipeline, a change of \
queue pair, waiting for a turn. The stages are defined in docs/models.md.</p>";
