//! Replays a schedule of sends, receives and calculations, in GOAL's text format or as
//! an algorithm of MSCCL.

use std::path::Path;
use std::sync::{Arc, Mutex};

use serde::Serialize;

use super::interval::{ALL_SCALED, Judge, Parts, ToldInterval};
use super::source::Source;
use super::{concluded, print_json};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::outln;
use verbena_bench::bar::Bar;
use verbena_bench::model_target::ModelTarget;
use verbena_bench::profiles::Profiles;
use verbena_measure::unit;
use verbena_replay::goal::{
    Ends as Outcome, Failure as Refusal, Schedule, is_msccl, run as replay,
};

/// The error for `--bytes` with anything else than an algorithm of MSCCL.
pub const NO_BUFFER: &str = "only algorithms of MSCCL take --bytes";

#[derive(Serialize)]
struct Told {
    system: String,
    ranks: usize,
    nodes: usize,
    operations: usize,
    messages: u64,
    bytes: u64,
    /// End of the last rank.
    nanoseconds: f64,
    /// How far that may be from a real system's time.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<ToldInterval>,
    /// End of each rank.
    ends: Vec<f64>,
    /// Anchors of the model, and how well it fits them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    anchors: Vec<String>,
}

/// Runs the schedule on each model and prints the times.
///
/// # Errors
///
/// Fails if the schedule cannot be read or run.
pub fn run(
    source: Source,
    models: Vec<ModelTarget>,
    (nodes, bytes): (Option<usize>, Option<u64>),
    profiles: Profiles,
    json: bool,
) -> Result<Exit, Failure> {
    let count = models.len();
    let known = Arc::new(Mutex::new(Vec::new()));
    let bar = Bar::new(count, "replays");
    let keep = Arc::clone(&known);
    let ran = interrupt::unless_interrupted(move || -> Result<(), Failure> {
        let file = &source.path().to_owned();
        let text = source.schedule()?;
        let schedule = read(file, &text, bytes)?;
        let nodes = nodes.unwrap_or(schedule.ranks);
        for model in &models {
            let outcome = replay(model.system()?, &schedule, nodes, model.fidelity);
            let outcome = outcome.map_err(|failure| match failure {
                Refusal::Schedule(fault) => within(file, &fault),
                Refusal::System(reason) => Failure::Input(reason),
            })?;
            let mut told = told(model, &schedule, nodes, &outcome);
            let judge = Judge::of(model, &profiles, schedule.sent())?;
            told.interval = judge.and_then(|judge| {
                judge.told(Parts {
                    all: told.nanoseconds,
                    computing: None,
                })
            });
            keep.lock()
                .expect("nothing panics under this lock")
                .push(told);
            bar.step();
        }
        Ok(())
    });
    ran.transpose()?;
    let told = std::mem::take(&mut *known.lock().expect("nothing panics under this lock"));
    match json {
        true => print_json(&told),
        false => told.iter().for_each(table),
    }
    Ok(concluded(told.len(), count))
}

/// Reads a schedule in either format.
fn read(file: &Path, text: &str, bytes: Option<u64>) -> Result<Schedule, Failure> {
    let schedule = match (is_msccl(text), bytes) {
        (true, Some(bytes)) => Schedule::of_msccl(text, bytes),
        (false, None) => Schedule::read(text),
        (true, None) => {
            let file = file.display();
            let reason = format!("{file} is an algorithm of MSCCL: add --bytes SIZE, its buffer");
            return Err(Failure::Input(reason));
        }
        (false, Some(_)) => return Err(Failure::Input(NO_BUFFER.to_owned())),
    };
    schedule.map_err(|fault| within(file, &fault))
}

/// Names the file with a fault in the schedule.
fn within(file: &Path, fault: &verbena_replay::goal::Fault) -> Failure {
    Failure::Input(format!("{}, {fault}", file.display()))
}

fn told(model: &ModelTarget, schedule: &Schedule, nodes: usize, outcome: &Outcome) -> Told {
    let (bytes, messages) = schedule.sent();
    Told {
        system: model.name().to_owned(),
        ranks: schedule.ranks,
        nodes,
        operations: schedule.size(),
        messages,
        bytes,
        nanoseconds: outcome.last().nanos(),
        interval: None,
        ends: outcome.ends.iter().map(|end| end.nanos()).collect(),
        anchors: model.remarks.clone(),
    }
}

fn table(told: &Told) {
    let slowest = told.ends.iter().position(|end| *end == told.nanoseconds);
    outln!(
        "{} ranks on {} nodes of {}: {}",
        told.ranks,
        told.nodes,
        told.system,
        unit::time(told.nanoseconds)
    );
    outln!(
        "  {} operations, {} messages of {} bytes together; rank {} ends last",
        told.operations,
        told.messages,
        told.bytes,
        slowest.unwrap_or_default()
    );
    if let Some(interval) = &told.interval {
        outln!(
            "  {}, {}; {ALL_SCALED}",
            interval.range(),
            interval.origin()
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALGORITHM: &str = "<algo nchunksperloop=\"1\" ngpus=\"1\"><gpu id=\"0\"/></algo>";

    #[test]
    fn an_algorithm_needs_the_size_of_its_buffer_and_nothing_else_takes_one() {
        let read = |text, bytes| read(Path::new("ring.xml"), text, bytes);
        let goal = "num_ranks 1\nrank 0 {\n}\n";
        assert_eq!(read(ALGORITHM, Some(8)).unwrap().ranks, 1);
        assert_eq!(read(goal, None).unwrap().ranks, 1);
        for (text, bytes, reason) in [
            (
                ALGORITHM,
                None,
                "ring.xml is an algorithm of MSCCL: add --bytes",
            ),
            (goal, Some(8), "only algorithms of MSCCL"),
            ("<algo>", Some(8), "ring.xml, line 1: "),
        ] {
            let Err(Failure::Input(told)) = read(text, bytes) else {
                panic!("{text} is read");
            };
            assert!(told.contains(reason), "{told}");
        }
    }
}
