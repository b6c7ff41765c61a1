//! Ranks on a modelled system: their nodes, and the run of their programs.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use verbena_model::adapter::Fidelity;
use verbena_model::cluster::Cluster;
use verbena_model::component::check_joins;
use verbena_model::kernel::{Sim, Time};
use verbena_model::mpi::{Rank, World};
use verbena_model::profile::System;
use verbena_model::traffic::{Bottleneck, HotPort};

/// Distributes `ranks` ranks over the nodes round-robin.
pub fn cyclic(ranks: usize, nodes: usize) -> Vec<usize> {
    (0..ranks).map(|rank| rank % nodes).collect()
}

/// Returns the number of nodes of a placement.
pub(crate) fn nodes_of(placement: &[usize]) -> usize {
    placement.iter().max().map_or(0, |node| node + 1)
}

/// Checks that a system can run a job on so many nodes.
///
/// # Errors
///
/// Returns the reason if it cannot.
pub(crate) fn check(system: &System, nodes: usize) -> Result<(), String> {
    let name = &system.name;
    if system.mpi.is_none() {
        return Err(format!(
            "{name} has no message-passing library; name one as `mpi` in its profile of kind system"
        ));
    }
    check_joins(system, nodes).map_err(|reason| {
        let most = system.joins();
        format!("{reason}; --nodes {most} distributes the ranks over {most} nodes")
    })
}

/// A job in virtual time. Its simulation ends when it is dropped.
pub(crate) struct Job {
    cluster: Rc<Cluster>,
    /// Its ranks.
    pub world: Rc<World>,
}

impl Job {
    /// Creates a job on `nodes` nodes with rank `i` on node `placement[i]`. At message fidelity,
    /// nodes are places of the simulation.
    ///
    /// # Panics
    ///
    /// If the system has no message-passing library.
    pub fn new(system: &System, fidelity: Fidelity, nodes: usize, placement: Vec<usize>) -> Job {
        let nodes = nodes.max(2);
        let cluster = match fidelity {
            Fidelity::Packet => Cluster::new(system, nodes, fidelity),
            Fidelity::Message => Cluster::of_places(system, nodes),
        };
        let world = World::new(&cluster, placement);
        Job { cluster, world }
    }

    /// Starts a program on the node of its rank.
    pub fn start(&self, rank: usize, program: impl Future<Output = ()> + 'static) {
        let node = self.world.node(rank);
        self.cluster.sim().start_in(node, program);
    }

    /// Returns the simulation.
    pub fn sim(&self) -> &Sim {
        self.cluster.sim()
    }

    /// Runs until nothing happens any more.
    pub fn run(&self) {
        self.cluster.sim().run();
    }

    /// Returns the link or bus that carried most for its rate; `None` if none carried anything.
    pub fn bottleneck(&self) -> Option<Bottleneck> {
        self.cluster.bottleneck(&self.cluster.traffic())
    }

    /// Returns the hottest ports of a fabric that exists; none of others.
    pub fn hot_ports(&self) -> Vec<HotPort> {
        self.cluster.hot_ports(&self.cluster.traffic())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.cluster.finish();
    }
}

/// The run of a program on ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RanksRun {
    /// When the last rank finishes.
    pub end: Time,
    /// The hottest ports of a fabric that exists; none of others.
    pub hot_ports: Vec<HotPort>,
}

/// Runs `program` on every rank, rank `i` on node `placement[i]`.
///
/// # Panics
///
/// If the system has no message-passing library, or if a rank waits for an event that never comes:
/// an error in the program, not in its input.
pub fn run_on_ranks<F>(
    system: &System,
    placement: Vec<usize>,
    fidelity: Fidelity,
    program: impl Fn(Rank) -> F,
) -> RanksRun
where
    F: Future<Output = ()> + 'static,
{
    let job = Job::new(system, fidelity, nodes_of(&placement), placement);
    let finished = Rc::new(Cell::new((0, Time::ZERO)));
    for number in 0..job.world.size() {
        let rank = job.world.rank(number);
        let sim = rank.process().sim().clone();
        let (program, finished) = (program(rank), finished.clone());
        job.start(number, async move {
            program.await;
            let (ranks, last) = finished.get();
            finished.set((ranks + 1, last.max(sim.now())));
        });
    }
    job.run();
    let (ranks, last) = finished.get();
    assert_eq!(ranks, job.world.size(), "deadlock: a rank waits forever");
    RanksRun {
        end: last,
        hot_ports: job.hot_ports(),
    }
}
