//! Test systems with a given topology, and traffic on them.

use std::cell::Cell;
use std::rc::Rc;
use verbena_model::adapter::{Fidelity, Kind, Placement, Request, Transport};
use verbena_model::cluster::Cluster;
use verbena_model::kernel::Time;
use verbena_model::profile::{Error, Library, Overrides, System};

/// Returns a count in profile syntax.
pub fn count(value: usize) -> String {
    format!("{{ value = {value}, unit = \"1\", tag = \"assumed\", source = \"a test\" }}")
}

/// Returns the text of a topology profile with a section of counts.
pub fn shape(section: &str, values: &[(&str, usize)], routing: &str) -> String {
    let values: Vec<_> = values
        .iter()
        .map(|(key, value)| format!("{key} = {}\n", count(*value)))
        .collect();
    format!(
        "kind = \"topology\"\nabout = \"a test's\"\nrouting = \"{routing}\"\n[{section}]\n{}",
        values.concat()
    )
}

/// Returns ConnectX DDR with the given topology, and switches with enough ports.
pub fn system(topology: &str, nodes: usize, lanes: f64) -> Result<System, Error> {
    let own = format!(
        "kind = \"system\"\nbase = \"connectx-ddr\"\nabout = \"a test's\"\nswitch = \"large\"\n\
         topology = \"joined\"\nnodes = {}\n",
        count(nodes)
    );
    let switch = format!(
        "kind = \"switch\"\nbase = \"infiniscale3\"\nabout = \"of many ports\"\nports = {}\n",
        count(400)
    );
    Library::shipped(&Overrides::none().with("4x-sdr.lanes", lanes))?
        .and([
            ("mine.toml", own.as_str()),
            ("large.toml", switch.as_str()),
            ("joined.toml", topology),
        ])?
        .system("mine")
}

/// A message: from, to, kind, bytes.
pub type Planned = (usize, usize, Kind, u64);

/// The time at which the system came to rest, the numbers of placed and completed messages, and the
/// violated invariants.
#[derive(Debug, PartialEq)]
pub struct Outcome {
    pub rest: Time,
    pub placed: usize,
    pub completed: usize,
    pub breaches: Vec<String>,
}

/// Sends all messages at once.
pub fn run(system: &System, nodes: usize, fidelity: Fidelity, messages: &[Planned]) -> Outcome {
    let cluster = Cluster::new(system, nodes, fidelity);
    let (placed, completed) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    for &(from, to, kind, bytes) in messages {
        let (one, other) = cluster.connected((from, to), 0, Transport::Reliable);
        other.receives().post(1);
        let process = cluster.process(from);
        let (placed, completed) = (placed.clone(), completed.clone());
        cluster.sim().start(async move {
            let mut request = Request::new(kind, bytes, Placement::Reference);
            request.placed = Some(Box::new(move || placed.set(placed.get() + 1)));
            request.completed = Some(Box::new(move || completed.set(completed.get() + 1)));
            process.post(&one, vec![request]).await;
        });
    }
    cluster.sim().run();
    let outcome = Outcome {
        rest: cluster.sim().now(),
        placed: placed.get(),
        completed: completed.get(),
        breaches: cluster.audit().breaches(),
    };
    cluster.finish();
    outcome
}
