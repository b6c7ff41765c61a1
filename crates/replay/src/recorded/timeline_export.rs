//! Writes a replay as a timeline for Perfetto and Chrome (ui.perfetto.dev, chrome://tracing): a
//! track per rank, a track of the critical path, and arrows where it moves between ranks. Format:
//! "Trace Event Format" (Google); times are microseconds.

use super::play::Replayed;
use super::timeline::{Activity, Span};
use super::waiting::{Link, Stretch};
use std::io::{self, Write};
use verbena_model::kernel::Time;

/// Process ids of the format: all ranks are threads of one process, the critical path is another
/// process.
const RANKS: usize = 0;
const CHAIN: usize = 1;

/// Writes the timeline.
///
/// # Errors
///
/// Returns an error if writing fails.
pub fn timeline(outcome: &Replayed, to: &mut impl Write) -> io::Result<()> {
    write!(to, "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    name(to, "process_name", (RANKS, 0), "ranks")?;
    writeln!(to, ",")?;
    name(to, "process_name", (CHAIN, 0), "longest chain")?;
    for (rank, timeline) in outcome.timelines.iter().enumerate() {
        writeln!(to, ",")?;
        name(to, "thread_name", (RANKS, rank), &format!("rank {rank}"))?;
        timeline.iter().try_for_each(|span| slice(to, rank, span))?;
    }
    for (number, stretch) in outcome.chain.stretches.iter().enumerate() {
        link(to, number, stretch)?;
    }
    writeln!(to, "]}}")
}

fn name(to: &mut impl Write, kind: &str, (pid, tid): (usize, usize), name: &str) -> io::Result<()> {
    write!(
        to,
        "{{\"ph\":\"M\",\"name\":\"{kind}\",\"pid\":{pid},\"tid\":{tid}\
         ,\"args\":{{\"name\":\"{name}\"}}}}"
    )
}

fn slice(to: &mut impl Write, rank: usize, span: &Span) -> io::Result<()> {
    let words = match span.activity {
        Activity::Computing => "computing".to_owned(),
        Activity::Overhead => "overhead".to_owned(),
        Activity::Nothing(Some(cause)) if cause.rank != rank => {
            format!("waits for rank {}", cause.rank)
        }
        Activity::Nothing(_) => "waits for its adapter".to_owned(),
    };
    event(to, (RANKS, rank), &words, span.start, span.end)
}

/// Writes a segment of the critical path, with an arrow if it moves between ranks.
fn link(to: &mut impl Write, number: usize, stretch: &Stretch) -> io::Result<()> {
    let &Stretch {
        rank,
        start,
        end,
        link,
    } = stretch;
    let words = match link {
        Link::Computing => format!("rank {rank} computing"),
        Link::Overhead => format!("rank {rank} overhead"),
        Link::Wire { from } => format!("from rank {from} to rank {rank}"),
    };
    event(to, (CHAIN, 0), &words, start, end)?;
    match link {
        Link::Wire { from } if from != rank => {
            arrow(to, "\"ph\":\"s\"", number, from, start)?;
            arrow(to, "\"ph\":\"f\",\"bp\":\"e\"", number, rank, end)
        }
        _ => Ok(()),
    }
}

fn event(
    to: &mut impl Write,
    (pid, tid): (usize, usize),
    words: &str,
    start: Time,
    end: Time,
) -> io::Result<()> {
    let (ts, dur) = (micros(start), micros(end.since(start)));
    write!(
        to,
        ",\n{{\"ph\":\"X\",\"name\":\"{words}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts}\
         ,\"dur\":{dur}}}"
    )
}

fn arrow(to: &mut impl Write, phase: &str, number: usize, rank: usize, at: Time) -> io::Result<()> {
    let ts = micros(at);
    write!(
        to,
        ",\n{{{phase},\"name\":\"chain\",\"cat\":\"chain\",\"id\":{number},\"pid\":{RANKS}\
         ,\"tid\":{rank},\"ts\":{ts}}}"
    )
}

/// Formats in microseconds with all picoseconds.
fn micros(time: Time) -> String {
    format!("{}.{:06}", time.0 / 1_000_000, time.0 % 1_000_000)
}
