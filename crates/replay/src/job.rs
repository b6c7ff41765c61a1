//! Ranks on a modelled system: their nodes, and the run of their programs.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;
use verbena_model::adapter::Fidelity;
use verbena_model::cluster::Cluster;
use verbena_model::component::check_joins;
use verbena_model::kernel::Time;
use verbena_model::mpi::{Rank, World};
use verbena_model::profile::System;
use verbena_model::threads::{Report, Thread, on_free_threads, on_threads};
use verbena_model::traffic::{HotPort, Traffic};

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

/// A job in virtual time, or the part of it that a thread runs. Its simulation ends when it is
/// dropped.
pub(crate) struct Job {
    cluster: Rc<Cluster>,
    thread: Thread,
    /// Its ranks.
    pub world: Rc<World>,
}

impl Job {
    /// Runs `part` for each part of a job on `nodes` nodes with rank `i` on node `placement[i]`; as
    /// many threads as are free have one each. At message fidelity, nodes are places of the
    /// simulation. Returns the results. The programs must not depend on the number of parts.
    ///
    /// # Panics
    ///
    /// If the system has no message-passing library, or `part` panics.
    pub fn on_threads<T: Send>(
        system: &System,
        fidelity: Fidelity,
        (nodes, placement): (usize, &[usize]),
        part: impl Fn(&Job) -> T + Sync,
    ) -> Vec<T> {
        let nodes = nodes.max(2);
        let of_thread = |thread: &Thread| {
            let job = Job::part(system, fidelity, nodes, placement.to_vec(), thread);
            part(&job)
        };
        match fidelity == Fidelity::Message && Cluster::may_be_shared(system) {
            true => on_free_threads(nodes, of_thread),
            false => on_threads(1, nodes, of_thread),
        }
    }

    fn part(
        system: &System,
        fidelity: Fidelity,
        nodes: usize,
        placement: Vec<usize>,
        thread: &Thread,
    ) -> Job {
        let cluster = match fidelity {
            Fidelity::Packet => Cluster::new(system, nodes, fidelity),
            Fidelity::Message => Cluster::of_thread(system, nodes, thread),
        };
        let world = World::new(&cluster, placement);
        Job {
            cluster,
            thread: thread.clone(),
            world,
        }
    }

    /// Returns the ranks of this part.
    pub fn ranks(&self) -> impl Iterator<Item = usize> + '_ {
        let nodes = self.thread.nodes();
        (0..self.world.size()).filter(move |rank| nodes.has(self.world.node(*rank)))
    }

    /// Starts a program on the node of its rank, which must be one of this part.
    pub fn start(&self, rank: usize, program: impl Future<Output = ()> + 'static) {
        let node = self.world.node(rank);
        self.cluster.sim().start_in(node, program);
    }

    /// Returns its modelled system.
    pub fn cluster(&self) -> &Rc<Cluster> {
        &self.cluster
    }

    /// Runs until nothing happens any more.
    pub fn run(&self) {
        self.run_until(|_| false);
    }

    /// Runs until nothing happens any more, or `stops` returns true for the reports of all parts
    /// at the end of a window.
    pub fn run_until(&self, stops: impl FnMut(&[Report]) -> bool) {
        self.cluster.run(&self.thread, stops);
    }

    /// Returns the traffic of all parts, each of which calls this once.
    pub fn traffic(&self) -> Traffic {
        self.cluster.traffic_of_all(&self.thread)
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

/// Runs `program` on every rank, rank `i` on node `placement[i]`, on as many threads as are free.
///
/// # Panics
///
/// If the system has no message-passing library, or if a rank waits for an event that never comes:
/// an error in the program, not in its input.
pub fn run_on_ranks<F>(
    system: &System,
    placement: Vec<usize>,
    fidelity: Fidelity,
    program: impl Fn(Rank) -> F + Sync,
) -> RanksRun
where
    F: Future<Output = ()> + 'static,
{
    let all = (nodes_of(&placement), &placement[..]);
    let parts = Job::on_threads(system, fidelity, all, |job| {
        let finished = Rc::new(Cell::new((0, Time::ZERO)));
        for number in job.ranks() {
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
        let (ranks, end) = finished.get();
        let hot_ports = job.cluster().hot_ports(&job.traffic());
        (ranks, RanksRun { end, hot_ports })
    });
    let ranks: usize = parts.iter().map(|(ranks, _)| ranks).sum();
    assert_eq!(ranks, placement.len(), "deadlock: a rank waits forever");
    let last = parts.into_iter().map(|(_, run)| run);
    last.max_by_key(|run| run.end).expect("a job has a part")
}
