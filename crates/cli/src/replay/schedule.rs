//! A schedule of sends, receives and calculations, in GOAL's text format.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde::Serialize;

use super::print_json;
use crate::failure::Failure;
use crate::output::outln;
use crate::suite::virtual_session::ModelTarget;
use verbena_measure::unit;
use verbena_predict::goal::{Failure as Refusal, Outcome, Schedule, run as replay};

/// Bytes of a schedule's text: all of it is kept in memory, with what is read of it.
const MOST_TEXT: u64 = 1 << 30;

/// What is told of a run.
#[derive(Serialize)]
struct Told {
    system: String,
    ranks: usize,
    nodes: usize,
    operations: usize,
    messages: u64,
    bytes: u64,
    /// When all had ended.
    nanoseconds: f64,
    /// When each rank had.
    ends: Vec<f64>,
}

/// Reads the schedule, runs it on each model, says how long it took.
pub fn run(
    file: &Path,
    models: &[ModelTarget],
    nodes: Option<usize>,
    json: bool,
) -> Result<(), Failure> {
    let text = text_of(file)
        .map_err(|error| Failure::Input(format!("cannot read {}: {error}", file.display())))?;
    let schedule = Schedule::read(&text).map_err(|fault| within(file, &fault))?;
    let nodes = nodes.unwrap_or(schedule.ranks);
    let told = models
        .iter()
        .map(|model| {
            let outcome = replay(model.system()?, &schedule, nodes, model.fidelity);
            let outcome = outcome.map_err(|failure| match failure {
                Refusal::Schedule(fault) => within(file, &fault),
                Refusal::System(reason) => Failure::Input(reason),
            })?;
            Ok(told(model, &schedule, nodes, &outcome))
        })
        .collect::<Result<Vec<Told>, Failure>>()?;
    match json {
        true => print_json(&told),
        false => told.iter().for_each(table),
    }
    Ok(())
}

/// A schedule's text, also of a pipe; what never ends is not read for ever.
fn text_of(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(file)?
        .take(MOST_TEXT + 1)
        .read_to_string(&mut text)?;
    match read as u64 > MOST_TEXT {
        true => Err(io::Error::other(format!(
            "it is longer than {MOST_TEXT} bytes, which a schedule may have"
        ))),
        false => Ok(text),
    }
}

/// What is wrong with the schedule.
fn within(file: &Path, fault: &verbena_predict::goal::Fault) -> Failure {
    Failure::Input(format!("{}, {fault}", file.display()))
}

fn told(model: &ModelTarget, schedule: &Schedule, nodes: usize, outcome: &Outcome) -> Told {
    let (bytes, messages) = schedule.sent();
    Told {
        system: model.machine.name().to_owned(),
        ranks: schedule.ranks,
        nodes,
        operations: schedule.size(),
        messages,
        bytes,
        nanoseconds: outcome.last().nanos(),
        ends: outcome.ends.iter().map(|end| end.nanos()).collect(),
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
}
