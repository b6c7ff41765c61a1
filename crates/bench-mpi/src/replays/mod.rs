//! Replays of recorded programs and of schedules on models, with the intervals of their times, as
//! JSON, text and a page.

mod comparison;
mod effort;
pub mod interval;
pub mod recorded;
pub mod schedule;
mod summary;

use serde::Serialize;

use crate::Failure;
use verbena_bench::Failure as BenchFailure;
use verbena_bench::model_target::ModelTarget;
use verbena_calibrate::distinguished::anchored_beside_blind;
use verbena_measure::result::HotPort;
use verbena_model::component::fabric;
use verbena_model::profile::System;
use verbena_model::traffic::Bottleneck;

/// Library and network of a replay's system.
#[derive(Debug, Serialize)]
struct Setup {
    /// Profile of the message-passing library, or `none`.
    library: String,
    /// Path MTU in bytes.
    mtu: u64,
    /// Profiles of link, switch, topology and congestion control.
    network: String,
    /// The switches that connect the nodes, or the file that has them.
    fabric: String,
    /// The file of a fabric that exists.
    #[serde(skip)]
    file: Option<String>,
}

impl Setup {
    fn of(system: &System, nodes: usize) -> Setup {
        let [library, _, network] = system.setup();
        Setup {
            library,
            mtu: system.link.mtu.0,
            network,
            fabric: fabric(system, nodes),
            file: system.fabric_file().map(str::to_owned),
        }
    }

    /// Returns the file of the fabric as the end of a heading.
    fn within(&self) -> String {
        let file = self.file.as_ref();
        file.map_or(String::new(), |file| format!(" in {file}"))
    }
}

/// Returns the fabrics of systems by name, each once, with the names if they differ.
fn fabrics<'a>(systems: impl Iterator<Item = (&'a str, &'a Setup)>) -> Vec<String> {
    let mut fabrics: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, setup) in systems {
        match fabrics.iter_mut().find(|(known, _)| *known == setup.fabric) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => fabrics.push((&setup.fabric, vec![name])),
        }
    }
    let is_one = fabrics.len() == 1;
    let lines = fabrics.iter().map(|(fabric, names)| match is_one {
        true => format!("fabric: {fabric}"),
        false => format!("fabric of {}: {fabric}", names.join(", ")),
    });
    lines.collect()
}

/// Returns the differences of several models' systems beside adapters and hosts, a sentence each,
/// after a warning if only some of them are anchored.
///
/// # Errors
///
/// Fails for the model of the software adapter.
pub fn differences(models: &[ModelTarget]) -> Result<Vec<String>, Failure> {
    let systems = models.iter().map(|model| {
        let setup = model.system()?.setup();
        Ok((model.name(), setup))
    });
    let systems = systems.collect::<Result<Vec<_>, BenchFailure>>()?;
    let names = models
        .iter()
        .map(|model| (model.name(), model.is_anchored()));
    let warning = anchored_beside_blind(&names.collect::<Vec<_>>());
    let differences = verbena_model::profile::differences(&systems, true);
    Ok(warning.into_iter().chain(differences).collect())
}

/// Checks a number of nodes that a user gave: ranks do not fill more nodes than there are ranks.
fn check_nodes(nodes: Option<usize>, ranks: usize) -> Result<(), Failure> {
    match nodes {
        Some(0) => Err(input("--nodes must be at least 1")),
        Some(nodes) if nodes > ranks => Err(input(format!(
            "--nodes {nodes} is more than the {ranks} ranks of the program: each rank is on one \
             node"
        ))),
        _ => Ok(()),
    }
}

/// Share of the time from which a link or bus that carries data is named as the limit.
const BUSY: f64 = 0.5;

/// Returns the link or bus that carried data for most of a replay's time in nanoseconds, with its
/// share; `None` if none did for half of it.
fn busiest(bottleneck: Option<&Bottleneck>, all: f64) -> Option<String> {
    let one = bottleneck?;
    let share = one.time.nanos() / all.max(f64::MIN_POSITIVE);
    let share_text = 100.0 * share.min(1.0);
    (share >= BUSY).then(|| {
        format!(
            "{}, at its rate for {share_text:.0} % of the time",
            one.what
        )
    })
}

/// Returns a line for each of the hottest ports.
fn hot_lines(ports: &[HotPort]) -> String {
    let lines = ports.iter().map(|port| format!("  hot port: {port}\n"));
    lines.collect()
}

/// Returns the notes on the hottest ports of a system for a page.
fn hot_notes(system: &str, ports: &[HotPort]) -> Vec<String> {
    let notes = ports
        .iter()
        .map(|port| format!("hot port on {system}: {port}"));
    notes.collect()
}

/// Returns the failure for wrong input.
fn input(reason: impl ToString) -> Failure {
    BenchFailure::Input(reason.to_string()).into()
}
