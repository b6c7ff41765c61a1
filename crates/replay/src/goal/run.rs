//! Runs a schedule: each operation begins when its requirements are met, and takes the model's
//! time.
//!
//! A calculation occupies a core; a send and a receive occupy it as in the system's message-passing
//! library. The operations of a core run in the order in which they become ready. A send ends when
//! its buffer is reusable, a receive when the message has arrived.

use super::critical::Paths;
use super::schedule::{Action, Operation, Schedule, followers};
use super::text::Fault;
use crate::job::{Job, check, cyclic};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use verbena_model::adapter::Fidelity;
use verbena_model::kernel::{Sim, Time};
use verbena_model::mpi::{Rank, Wanted, World};
use verbena_model::profile::System;
use verbena_model::traffic::{Bottleneck, HotPort};

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ends {
    /// End of each rank's last operation; time zero for a rank without operations.
    pub ends: Vec<Time>,
    /// Calculations on the critical path to the last end.
    pub computing: Time,
    /// The link or bus that carried most for its rate; `None` without messages between nodes.
    pub bottleneck: Option<Bottleneck>,
    /// The hottest ports of a fabric that exists; none of others.
    pub hot_ports: Vec<HotPort>,
}

impl Ends {
    /// Returns the time when all ranks have ended.
    pub fn last(&self) -> Time {
        self.ends.iter().copied().max().unwrap_or_default()
    }
}

/// Reason why a schedule has no time on a system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The system cannot run it.
    #[error("{0}")]
    System(String),
    /// The schedule has an operation that never ends, or a message that does not fit.
    #[error("{0}")]
    Schedule(#[from] Fault),
}

/// Runs a schedule, its ranks distributed round-robin over `nodes` nodes. At message fidelity,
/// nodes are places of the simulation.
///
/// # Errors
///
/// Returns [`Failure::System`] if the system cannot run it, or [`Failure::Schedule`] if an
/// operation never ends, a message is too long, or a message is never received.
pub fn run(
    system: &System,
    schedule: &Schedule,
    nodes: usize,
    fidelity: Fidelity,
) -> Result<Ends, Failure> {
    check(system, nodes).map_err(Failure::System)?;
    if nodes == 0 {
        let reason = "a schedule needs at least one node";
        return Err(Failure::System(reason.to_owned()));
    }
    let operations = schedule.operations.iter();
    let paths = Paths::new(operations.map(|(rank, all)| (*rank, all.len())));
    let paths = Arc::new(paths);
    let placement = cyclic(schedule.ranks, nodes);
    let parts = Job::on_threads(system, fidelity, (nodes, &placement), |job| {
        let mut all = BTreeMap::new();
        for rank in job.ranks() {
            let Some(operations) = schedule.operations.get(&rank) else {
                continue;
            };
            let tasks = Rc::new(Tasks::new((rank, job.world.rank(rank)), operations, &paths));
            let own = tasks.clone();
            job.start(rank, async move { own.begin_ready() });
            all.insert(rank, tasks);
        }
        job.run();
        let traffic = job.traffic();
        Part {
            ends: all
                .iter()
                .map(|(rank, tasks)| (*rank, tasks.end.get(), tasks.computing.get()))
                .collect(),
            faults: faults(&all, job, schedule),
            bottleneck: job.cluster().bottleneck(&traffic),
            hot_ports: job.cluster().hot_ports(&traffic),
        }
    });
    outcome(parts, schedule.ranks)
}

/// Result of the ranks of a thread.
struct Part {
    /// End and computing on the path to it, by rank.
    ends: Vec<(usize, Time, Time)>,
    /// The first of each kind.
    faults: [Option<(usize, Fault)>; 3],
    /// Those of the whole job.
    bottleneck: Option<Bottleneck>,
    hot_ports: Vec<HotPort>,
}

fn outcome(parts: Vec<Part>, ranks: usize) -> Result<Ends, Failure> {
    for kind in 0..3 {
        let faults = parts.iter().filter_map(|part| part.faults[kind].as_ref());
        if let Some((_, fault)) = faults.min_by_key(|(rank, _)| *rank) {
            return Err(fault.clone().into());
        }
    }
    let mut ends = vec![Time::ZERO; ranks];
    let (mut bottleneck, mut hot_ports, mut all) = (None, Vec::new(), Vec::new());
    for part in parts {
        (bottleneck, hot_ports) = (part.bottleneck, part.hot_ports);
        all.extend(part.ends);
    }
    for &(rank, end, _) in &all {
        ends[rank] = end;
    }
    // Of ranks that end together the first.
    let last = all
        .iter()
        .max_by_key(|(rank, end, _)| (*end, Reverse(*rank)));
    Ok(Ends {
        ends,
        computing: last.map_or(Time::ZERO, |(_, _, computing)| *computing),
        bottleneck,
        hot_ports,
    })
}

/// Returns the first error of each kind and its rank: a message that is too long, an operation that
/// never ends, a message that was not received.
fn faults(
    all: &BTreeMap<usize, Rc<Tasks>>,
    job: &Job,
    schedule: &Schedule,
) -> [Option<(usize, Fault)>; 3] {
    let too_long = all
        .iter()
        .find_map(|(rank, tasks)| Some((*rank, tasks.fault.take()?)));
    let endless = all
        .iter()
        .find_map(|(rank, tasks)| Some((*rank, tasks.endless(*rank)?)));
    let untaken = job
        .ranks()
        .find_map(|rank| Some((rank, untaken(&job.world, schedule, rank)?)));
    [too_long, endless, untaken]
}

/// Returns the first message that arrived at a rank and was not received.
fn untaken(world: &World, schedule: &Schedule, rank: usize) -> Option<Fault> {
    let origin = world.unexpected(rank).into_iter().next()?;
    // It may have been any of the sends with the same receiver and tag.
    let alike = |one: &&Operation| match one.action {
        Action::Send { to, tag, .. } => to == rank && tag == origin.tag,
        _ => false,
    };
    let sender = schedule.operations.get(&origin.source);
    let line = sender.and_then(|all| all.iter().rfind(alike));
    Some(Fault {
        line: line.map_or(1, |one| one.line),
        reason: format!(
            "rank {rank} has no receive for this message of rank {} with tag {}, or for a similar \
             one",
            origin.source, origin.tag
        ),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Number of operations that must come before.
    Waits(usize),
    Begun,
    Ended,
}

/// A rank's operations during the run.
struct Tasks {
    number: usize,
    sim: Sim,
    /// The rank on each of its cores.
    cores: BTreeMap<u8, Rank>,
    operations: Vec<Operation>,
    states: RefCell<Vec<State>>,
    /// Operations that wait for the start, and for the end, of each operation.
    after_begin: Vec<Vec<usize>>,
    after_end: Vec<Vec<usize>>,
    end: Cell<Time>,
    /// Calculations on the critical path to the end.
    computing: Cell<Time>,
    paths: Arc<Paths>,
    fault: Cell<Option<Fault>>,
}

impl Tasks {
    fn new((number, rank): (usize, Rank), operations: &[Operation], paths: &Arc<Paths>) -> Tasks {
        let sim = rank.process().sim().clone();
        let mut cores = BTreeMap::new();
        for operation in operations {
            cores
                .entry(operation.cpu)
                .or_insert_with_key(|cpu| match cpu {
                    0 => rank.clone(),
                    _ => rank.beside(),
                });
        }
        let waits = operations
            .iter()
            .map(|one| State::Waits(one.before().count()));
        Tasks {
            number,
            sim,
            cores,
            states: RefCell::new(waits.collect()),
            after_begin: followers(operations, |one| one.requires_begun.iter().copied()),
            after_end: followers(operations, |one| one.requires.iter().copied()),
            operations: operations.to_vec(),
            end: Cell::default(),
            computing: Cell::default(),
            paths: paths.clone(),
            fault: Cell::default(),
        }
    }

    fn begin_ready(self: Rc<Tasks>) {
        for number in 0..self.operations.len() {
            if self.operations[number].before().next().is_none() {
                self.begin(number);
            }
        }
    }

    fn begin(self: &Rc<Tasks>, number: usize) {
        let own = self.clone();
        self.sim.start(async move {
            let (operation, begun) = (&own.operations[number], own.sim.now());
            own.states.borrow_mut()[number] = State::Begun;
            own.paths.began(own.number, number, operation, begun);
            own.release(number, &own.after_begin[number]);
            own.perform(operation).await;
            own.states.borrow_mut()[number] = State::Ended;
            own.ended(number, begun);
            own.release(number, &own.after_end[number]);
        });
    }

    /// Notes the end of an operation.
    fn ended(&self, number: usize, begun: Time) {
        let (operation, now) = (&self.operations[number], self.sim.now());
        let woken = self.cores[&operation.cpu].woken();
        let task = (self.number, number);
        let computing = self.paths.ended(task, operation, (begun, now), woken);
        self.end.set(now);
        self.computing.set(computing);
    }

    /// Counts down the requirements of waiting operations after operation `by` met one.
    fn release(self: &Rc<Tasks>, by: usize, waiting: &[usize]) {
        for &number in waiting {
            let left = match self.states.borrow()[number] {
                State::Waits(count) => count - 1,
                State::Begun | State::Ended => continue,
            };
            self.states.borrow_mut()[number] = State::Waits(left);
            self.paths.released(self.number, by, number);
            if left == 0 {
                self.begin(number);
            }
        }
    }

    async fn perform(&self, operation: &Operation) {
        let rank = &self.cores[&operation.cpu];
        match operation.action {
            Action::Calculate { nanos } => rank.compute(Time(nanos * 1000)).await,
            Action::Send { to, bytes, tag } => rank.send_marked(to, bytes, tag).await,
            Action::Receive { from, bytes, tag } => {
                let wanted = Wanted { source: from, tag };
                let came = rank.receive_wanted(wanted).await;
                if came > bytes {
                    self.fault.set(Some(Fault {
                        line: operation.line,
                        reason: format!(
                            "a message of {came} bytes arrived, and {bytes} were expected"
                        ),
                    }));
                }
            }
        }
    }

    /// Returns the first operation that began and did not end.
    fn endless(&self, rank: usize) -> Option<Fault> {
        let states = self.states.borrow();
        let number = states.iter().position(|state| *state == State::Begun)?;
        let operation = &self.operations[number];
        let what = match operation.action {
            Action::Receive { from, tag, .. } => {
                let from = from.map_or("any rank".to_owned(), |from| format!("rank {from}"));
                let tag = tag.map_or("any tag".to_owned(), |tag| format!("tag {tag}"));
                format!("waits for a message from {from} with {tag} that never arrives")
            }
            Action::Send { to, tag, .. } => {
                format!("waits for rank {to} to receive its message with tag {tag}")
            }
            Action::Calculate { .. } => "does not end".to_owned(),
        };
        Some(Fault {
            line: operation.line,
            reason: format!("rank {rank} {what}"),
        })
    }
}
