//! `verbena demo`: two processes on the adapter, an explained mistake, and a comparison with
//! hardware, in ten seconds.
//!
//! It needs only this package: the processes are of this executable and use the adapter through the
//! C ABI, like any verbs program. Every figure is measured, or computed by the model, during the
//! run.
//!
//! The output is plain text, without colour or terminal control, and each line is written as soon
//! as it is known.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::host::HOST;
use crate::output::outln;
use verbena_bench::demo::{Figures, Model};
use verbena_inspect::doctor::{LENGTH, Operation, Probe, Taken, Trial, message_or};
use verbena_measure::unit;
use verbena_run::supervise::{SIGINT, SIGTERM, stop_at};

/// `verbena demo` takes no arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {}

/// Commands to try next. Each needs only this package.
pub const NEXT: [(&str, &str); 3] = [
    ("verbena doctor", "Check this machine's support"),
    (
        "verbena explain latency.write --on model:connectx6-hdr",
        "Break down the time of a write",
    ),
    (
        "verbena bench bandwidth.write --quick --on software --on model:connectx6-hdr",
        "Compare a measurement with a model",
    ),
];

/// Deadlines of the latency and the bandwidth measurement, from the start. Each takes a second on
/// an idle machine. The whole demonstration takes at most ten seconds.
const MEASURED_BY: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(7)];
/// Latency of a small write, in nanoseconds, above which its processes must have shared a
/// processor.
const SHARED: f64 = 10_000.0;
/// Time without an answer after which a process counts as hung. Each step takes milliseconds.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Runs the demonstration.
///
/// # Errors
///
/// Fails if the adapter does not work here.
pub fn run(_arguments: Arguments) -> Result<Exit, Failure> {
    let stop = stop_at(&[SIGINT, SIGTERM])?;
    let shown = all(&stop);
    match shown {
        Ok(()) => Ok(Exit::Success),
        Err(_) if stop.load(Ordering::Relaxed) => Ok(Exit::Interrupted),
        Err(reason) => Err(Failure::Suite(format!(
            "the demo cannot run here: {}; `verbena doctor` shows missing support",
            reason.split_whitespace().collect::<Vec<_>>().join(" ")
        ))),
    }
}

fn all(stop: &Arc<AtomicBool>) -> Result<(), String> {
    let deadlines = MEASURED_BY.map(|after| Instant::now() + after);
    outln!("Verbena is an RDMA adapter in software. This demo needs no RDMA hardware, no root");
    outln!("and no other program: two processes call libibverbs, as yours would.");
    exchange()?;
    mistake()?;
    let figures =
        Figures::measure(&HOST, stop, deadlines).map_err(|failure| failure.to_string())?;
    print_figures(&figures);
    let model = Model::compute().map_err(|failure| failure.to_string())?;
    print_comparison(&figures, &model);
    outln!("\nRun your own program with `verbena run -- PROGRAM`, or try:");
    for (command, what) in NEXT {
        outln!("  {command}\n      {what}");
    }
    Ok(())
}

/// Performs every operation in both directions between two processes.
fn exchange() -> Result<(), String> {
    let mut trial = Trial::start(Probe::End, &[], TIMEOUT)?;
    let [one, other] = trial.pids();
    let outcome = trial.exchange();
    let said = trial.end();
    let taken = outcome.map_err(|reason| message_or(said, reason))?;
    let size = unit::size(LENGTH as f64);
    outln!("\nExchange: processes {one} and {other}, {size} each way, every byte verified");
    for operation in Operation::ALL {
        let paths = taken.get(operation.name());
        let words: Vec<String> = paths
            .into_iter()
            .flatten()
            .map(|path| words(path))
            .collect();
        outln!("  {:<14}arrived; {}", call(operation), words.join(", "));
    }
    if let Some(note) = note(&taken) {
        outln!("  {note}");
    }
    Ok(())
}

/// Returns the verbs' name of an operation.
fn call(operation: Operation) -> &'static str {
    match operation {
        Operation::Send => "send",
        Operation::Write => "RDMA write",
        Operation::Read => "RDMA read",
        Operation::Atomic => "fetch-and-add",
    }
}

fn words(path: &str) -> String {
    let means = match path {
        "mapped" => "a copy in shared memory",
        "cma" => "a copy by the kernel",
        "ring" => "a copy through a ring in shared memory",
        _ => "packets",
    };
    format!("path {path}: {means}")
}

/// Returns a note if RDMA writes do not take the fastest path.
fn note(taken: &Taken) -> Option<String> {
    let fastest = "mapped";
    let writes: &BTreeSet<String> = taken.get(Operation::Write.name())?;
    (!writes.contains(fastest)).then(|| {
        format!("Writes do not use the fastest path ({fastest}) here; `verbena doctor` shows why.")
    })
}

fn print_figures(figures: &Figures) {
    outln!("\nMeasure: short runs of the benchmarks of `verbena bench`");
    let none = "no figure in time; other work occupies the processors";
    match &figures.latency {
        Some(latency) => {
            let median = unit::time(latency.median);
            let slow = latency.slow.map_or(String::new(), |slow| {
                format!(" (99 % take at most {})", unit::time(slow))
            });
            let operations = latency.operations;
            outln!("  8-byte RDMA write, one way: {median}, median of {operations}{slow}");
            if latency.median > SHARED {
                outln!("  This is slow because other work shares the processors.");
            }
        }
        None => outln!("  8-byte RDMA write, one way: {none}"),
    }
    let rate = figures
        .bandwidth
        .map_or_else(|| none.to_owned(), unit::rate);
    outln!(
        "  RDMA writes of {}: {rate}",
        unit::size(figures.size as f64)
    );
}

/// Shows a write that lacks the access right.
fn mistake() -> Result<(), String> {
    let variables = [
        ("VERBENA_LOG", "info".to_owned()),
        ("VERBENA_LOG_FILE", String::new()),
    ];
    let mut trial = Trial::start(Probe::End, &variables, TIMEOUT)?;
    let outcome = trial.mistake();
    let [writer, owner] = trial.end();
    let status = outcome.map_err(|reason| message_or([writer.clone(), owner], reason))?;
    outln!("\nMistake: a write to memory registered without IBV_ACCESS_REMOTE_WRITE");
    outln!("  The program gets a completion with this status: {status}");
    if writer.is_empty() {
        return Err("the adapter refused a write without a reason".to_owned());
    }
    outln!("  With VERBENA_LOG=info the adapter adds the reason:");
    for line in writer.lines() {
        outln!("    {line}");
    }
    Ok(())
}

fn print_comparison(figures: &Figures, model: &Model) {
    let here = figures.latency.as_ref().map_or_else(
        || "no figure".to_owned(),
        |latency| unit::time(latency.median),
    );
    let there = unit::time(model.latency);
    outln!("\nCompare: an 8-byte RDMA write, one way");
    outln!(
        "  {here} here (software, one host, measured); {there} on a {} (over a wire, modelled)",
        model.name
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(writes: &str) -> Taken {
        Taken::from([("write", BTreeSet::from([writes.to_owned()]))])
    }

    #[test]
    fn a_slower_path_is_noted() {
        assert_eq!(note(&taken("mapped")), None);
        let note = note(&taken("ring")).unwrap();
        assert!(note.contains("verbena doctor"), "{note}");
        assert!(words("ring").starts_with("path ring"));
    }
}
