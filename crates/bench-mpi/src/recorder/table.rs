//! A summary of a trace as text; its last lines say whether the trace is whole.

use std::fmt;

use verbena_measure::unit;
use verbena_mpi_trace::{Calls, End, Summary, Trace};

/// Displays a trace: counts, sizes, and time by call.
pub struct Table<'a>(pub &'a Trace);

/// Number of unfinished ranks to name.
const NAMED: usize = 8;

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = Summary::of(self.0);
        let all = &summary.all;
        writeln!(
            f,
            "verbena: {} ranks, {} calls, {} messages of {}, {} given to collectives; {} of trace",
            summary.ranks,
            all.calls,
            all.messages,
            unit::size(all.bytes as f64),
            unit::size(all.collective_bytes as f64),
            unit::size(Trace::file_bytes(&self.0.path) as f64),
        )?;
        writeln!(
            f,
            "  of all ranks together: computing {}, in calls {}",
            unit::time(summary.computing as f64),
            unit::time(all.within as f64)
        )?;
        let mut by_time: Vec<_> = summary.by_name.iter().collect();
        by_time.sort_by_key(|(name, calls)| (std::cmp::Reverse(calls.within), *name));
        writeln!(
            f,
            "  {:<26} {:>10} {:>10} {:>10} {:>12} {:>12} {:>10}",
            "call", "calls", "polls", "messages", "their bytes", "collective", "time"
        )?;
        for (name, calls) in by_time {
            row(f, name, calls)?;
        }
        ending(f, self.0)
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, calls: &Calls) -> fmt::Result {
    writeln!(
        f,
        "  {name:<26} {:>10} {:>10} {:>10} {:>12} {:>12} {:>10}",
        calls.calls,
        calls.polls,
        calls.messages,
        unit::size(calls.bytes as f64),
        unit::size(calls.collective_bytes as f64),
        unit::time(calls.within as f64)
    )
}

/// Says that all ranks are complete, or lists those that are not.
fn ending(f: &mut fmt::Formatter<'_>, trace: &Trace) -> fmt::Result {
    let ranks = trace.ranks.len();
    let all: Vec<_> = trace.unfinished().collect();
    if all.is_empty() {
        return writeln!(
            f,
            "verbena: the trace is complete: each of the {ranks} ranks called MPI_Finalize"
        );
    }
    for rank in all.iter().take(NAMED) {
        match &rank.end {
            End::Broken(fault) => writeln!(f, "  rank {} is readable up to {fault}", rank.rank)?,
            _ => writeln!(f, "  rank {} ended before MPI_Finalize", rank.rank)?,
        }
    }
    if let Some(more @ 1..) = all.len().checked_sub(NAMED) {
        writeln!(f, "  and {more} more")?;
    }
    writeln!(
        f,
        "verbena: the trace is incomplete: {} of {ranks} ranks did not end by MPI_Finalize",
        all.len()
    )
}
