//! Replays of a schedule of sends, receives and calculations, in GOAL's text format or as an
//! algorithm of MSCCL.

use std::path::Path;

use serde::Serialize;

use super::interval::{ALL_SCALED, Judge, Parts, ToldInterval};
use super::{Setup, check_nodes, input};
use crate::Failure;
use verbena_bench::model_target::ModelTarget;
use verbena_bench::profiles::Profiles;
use verbena_measure::unit;
use verbena_replay::goal::{
    Ends as Outcome, Failure as Refusal, Schedule, is_msccl, run as replay,
};

/// The error for `--bytes` with anything else than an algorithm of MSCCL.
pub const NO_BUFFER: &str = "only algorithms of MSCCL take --bytes";

/// The results of a replay; times in nanoseconds.
#[derive(Debug, Serialize)]
pub struct Told {
    system: String,
    setup: Setup,
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

/// Replays a schedule of a file on a model, over `nodes` nodes or one a rank.
///
/// # Errors
///
/// Fails if the schedule cannot be run.
pub fn replay_on(
    model: &ModelTarget,
    file: &Path,
    schedule: &Schedule,
    nodes: Option<usize>,
    profiles: &Profiles,
) -> Result<Told, Failure> {
    check_nodes(nodes, schedule.ranks)?;
    let nodes = nodes.unwrap_or(schedule.ranks);
    let system = model.system()?;
    let outcome = replay(system, schedule, nodes, model.fidelity);
    let outcome = outcome.map_err(|failure| match failure {
        Refusal::Schedule(fault) => within(file, &fault),
        Refusal::System(reason) => input(reason),
    })?;
    let mut told = told(model, Setup::of(system, nodes), schedule, nodes, &outcome);
    let judge = Judge::of(model, profiles, schedule.sent())?;
    told.interval = judge.and_then(|judge| {
        judge.told(Parts {
            all: told.nanoseconds,
            computing: None,
        })
    });
    Ok(told)
}

/// Reads a schedule in either format; `bytes` is the size of an algorithm's buffer.
///
/// # Errors
///
/// Fails if the text is no schedule, or `bytes` is missing or does not apply.
pub fn read(file: &Path, text: &str, bytes: Option<u64>) -> Result<Schedule, Failure> {
    let schedule = match (is_msccl(text), bytes) {
        (true, Some(bytes)) => Schedule::of_msccl(text, bytes),
        (false, None) => Schedule::read(text),
        (true, None) => {
            let file = file.display();
            let reason = format!("{file} is an algorithm of MSCCL: add --bytes SIZE, its buffer");
            return Err(input(reason));
        }
        (false, Some(_)) => return Err(input(NO_BUFFER)),
    };
    schedule.map_err(|fault| within(file, &fault))
}

/// Names the file with a fault in the schedule.
fn within(file: &Path, fault: &verbena_replay::goal::Fault) -> Failure {
    input(format!("{}, {fault}", file.display()))
}

fn told(
    model: &ModelTarget,
    setup: Setup,
    schedule: &Schedule,
    nodes: usize,
    outcome: &Outcome,
) -> Told {
    let (bytes, messages) = schedule.sent();
    Told {
        system: model.name().to_owned(),
        setup,
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

impl Told {
    /// Returns the results as text.
    pub fn text(&self) -> String {
        let slowest = self.ends.iter().position(|end| *end == self.nanoseconds);
        let mut out = format!(
            "{} ranks on {} nodes of {}{}: {}\n  fabric: {}\n",
            self.ranks,
            self.nodes,
            self.system,
            self.setup.within(),
            unit::time(self.nanoseconds),
            self.setup.fabric
        );
        out += &format!(
            "  {} operations, {} messages of {} bytes together; rank {} ends last\n",
            self.operations,
            self.messages,
            self.bytes,
            slowest.unwrap_or_default()
        );
        if let Some(interval) = &self.interval {
            let (range, origin) = (interval.range(), interval.origin());
            out += &format!("  {range}, {origin}; {ALL_SCALED}\n");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_bench::anchors::find;
    use verbena_fabric::model::Fidelity;

    const ALGORITHM: &str = "<algo nchunksperloop=\"1\" ngpus=\"1\"><gpu id=\"0\"/></algo>";

    #[test]
    fn more_nodes_than_ranks_are_refused() {
        let schedule = Schedule::read("num_ranks 2\nrank 0 {\n}\nrank 1 {\n}\n").unwrap();
        let profiles = Profiles::default();
        let library = profiles.library().unwrap();
        let model = find(&library, "connectx6-hdr", Fidelity::Message, &[]).unwrap();
        let on = |nodes| replay_on(&model, Path::new("s.goal"), &schedule, nodes, &profiles);
        assert!(on(Some(2)).is_ok());
        let text = on(None).unwrap().text();
        let fabric = "\n  fabric: one quantum switch of 40 ports\n";
        assert!(text.contains(fabric), "{text}");
        let told = on(Some(3)).expect_err("is refused").to_string();
        let reason = "--nodes 3 is more than the 2 ranks of the program";
        assert!(told.contains(reason), "{told}");
    }

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
            let told = read(text, bytes).expect_err("is refused").to_string();
            assert!(told.contains(reason), "{told}");
        }
    }
}
