//! Runs a schedule: each operation begins when its requirements are met, and takes the model's
//! time.
//!
//! A calculation occupies a core; a send and a receive occupy it as in the system's message-passing
//! library. The operations of a core run in the order in which they become ready. A send ends when
//! its buffer is reusable, a receive when the message has arrived.

use super::schedule::{Act, Operation, Schedule, followers};
use super::text::Fault;
use crate::job::cyclic;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use verbena_model::adapter::Fidelity;
use verbena_model::cluster::Cluster;
use verbena_model::kernel::{Sim, Time};
use verbena_model::mpi::{Rank, Wanted, World};
use verbena_model::profile::System;

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// End of each rank's last operation; time zero for a rank without operations.
    pub ends: Vec<Time>,
}

impl Outcome {
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
) -> Result<Outcome, Failure> {
    refuse_system(system, nodes)?;
    let size = nodes.max(2);
    let cluster = match fidelity {
        Fidelity::Packet => Cluster::new(system, size, fidelity),
        Fidelity::Message => Cluster::of_places(system, size),
    };
    let world = World::new(&cluster, cyclic(schedule.ranks, nodes));
    let mut jobs = BTreeMap::new();
    for (&rank, operations) in &schedule.operations {
        let job = Rc::new(Job::new(cluster.sim(), world.rank(rank), operations));
        let own = job.clone();
        let begin = async move { own.begin_ready() };
        cluster.sim().start_in(world.node(rank), begin);
        jobs.insert(rank, job);
    }
    cluster.sim().run();
    let fault = first_fault(&jobs, &world, schedule);
    let end = |rank| {
        jobs.get(&rank)
            .map_or(Time::ZERO, |job: &Rc<Job>| job.end.get())
    };
    let ends = (0..schedule.ranks).map(end).collect();
    cluster.finish();
    match fault {
        Some(fault) => Err(fault.into()),
        None => Ok(Outcome { ends }),
    }
}

fn refuse_system(system: &System, nodes: usize) -> Result<(), Failure> {
    let name = &system.name;
    let refused = |reason| Err(Failure::System(reason));
    if system.mpi.is_none() {
        return refused(format!(
            "{name} has no message-passing library; name one as `mpi` in its profile of kind system"
        ));
    }
    if nodes == 0 {
        return refused("a schedule needs at least one node".to_owned());
    }
    let most = system.joins();
    match nodes as u64 <= most {
        true => Ok(()),
        false => refused(format!("{name} joins at most {most} nodes, not {nodes}")),
    }
}

/// Returns the first error, if any: a message that is too long, an operation that never ends, a
/// message that was not received.
fn first_fault(
    jobs: &BTreeMap<usize, Rc<Job>>,
    world: &World,
    schedule: &Schedule,
) -> Option<Fault> {
    let too_long = jobs.values().find_map(|job| job.fault.take());
    let endless = || jobs.iter().find_map(|(rank, job)| job.endless(*rank));
    let untaken = || (0..schedule.ranks).find_map(|rank| untaken(world, schedule, rank));
    too_long.or_else(endless).or_else(untaken)
}

/// Returns the first message that arrived at a rank and was not received.
fn untaken(world: &World, schedule: &Schedule, rank: usize) -> Option<Fault> {
    let origin = world.unexpected(rank).into_iter().next()?;
    // It may have been any of the sends with the same receiver and tag.
    let alike = |one: &&Operation| match one.act {
        Act::Send { to, tag, .. } => to == rank && tag == origin.tag,
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
struct Job {
    sim: Sim,
    /// The rank on each of its cores.
    cores: BTreeMap<u8, Rank>,
    operations: Vec<Operation>,
    states: RefCell<Vec<State>>,
    /// Operations that wait for the start, and for the end, of each operation.
    after_begin: Vec<Vec<usize>>,
    after_end: Vec<Vec<usize>>,
    end: Cell<Time>,
    fault: Cell<Option<Fault>>,
}

impl Job {
    fn new(sim: &Sim, rank: Rank, operations: &[Operation]) -> Job {
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
        Job {
            sim: sim.clone(),
            cores,
            states: RefCell::new(waits.collect()),
            after_begin: followers(operations, |one| one.requires_begun.iter().copied()),
            after_end: followers(operations, |one| one.requires.iter().copied()),
            operations: operations.to_vec(),
            end: Cell::default(),
            fault: Cell::default(),
        }
    }

    fn begin_ready(self: Rc<Job>) {
        for number in 0..self.operations.len() {
            if self.operations[number].before().next().is_none() {
                self.begin(number);
            }
        }
    }

    fn begin(self: &Rc<Job>, number: usize) {
        let own = self.clone();
        self.sim.start(async move {
            own.states.borrow_mut()[number] = State::Begun;
            own.release(&own.after_begin[number]);
            own.perform(&own.operations[number]).await;
            own.states.borrow_mut()[number] = State::Ended;
            own.end.set(own.sim.now());
            own.release(&own.after_end[number]);
        });
    }

    /// Counts down the requirements of waiting operations after one is met.
    fn release(self: &Rc<Job>, waiting: &[usize]) {
        for &number in waiting {
            let left = match self.states.borrow()[number] {
                State::Waits(count) => count - 1,
                State::Begun | State::Ended => continue,
            };
            self.states.borrow_mut()[number] = State::Waits(left);
            if left == 0 {
                self.begin(number);
            }
        }
    }

    async fn perform(&self, operation: &Operation) {
        let rank = &self.cores[&operation.cpu];
        match operation.act {
            Act::Calculate { nanos } => rank.compute(Time(nanos * 1000)).await,
            Act::Send { to, bytes, tag } => rank.send_marked(to, bytes, tag).await,
            Act::Receive { from, bytes, tag } => {
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
        let what = match operation.act {
            Act::Receive { from, tag, .. } => {
                let from = from.map_or("any rank".to_owned(), |from| format!("rank {from}"));
                let tag = tag.map_or("any tag".to_owned(), |tag| format!("tag {tag}"));
                format!("waits for a message from {from} with {tag} that never arrives")
            }
            Act::Send { to, tag, .. } => {
                format!("waits for rank {to} to receive its message with tag {tag}")
            }
            Act::Calculate { .. } => "does not end".to_owned(),
        };
        Some(Fault {
            line: operation.line,
            reason: format!("rank {rank} {what}"),
        })
    }
}
