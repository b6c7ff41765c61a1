//! A job and its ranks: their processes, queue pairs and state.

use super::cause::Woken;
use super::corrections::Plan;
use super::credit_state::Accounts;
use super::exchanges::Exchanges;
use super::matching::{Inbox, Origin};
use super::registered::Registered;
use crate::adapter::{Notified, Pair, Transport};
use crate::cluster::{Cluster, Process};
use crate::correction::Operation;
use crate::kernel::{Semaphore, Time};
use crate::profile::{CorePair, Mpi};
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Number of the first queue pair of ranks; those that programs create have lower ones.
const FIRST_PAIR: u64 = 1 << 63;

/// A message-passing job.
pub struct World {
    pub(super) cluster: Rc<Cluster>,
    pub(super) mpi: Mpi,
    /// How its messages between nodes are corrected.
    pub(super) plan: Plan,
    /// Overhead of a one-sided access, which is not corrected.
    pub(super) access: Time,
    pub(super) nodes: Vec<usize>,
    /// By rank, as the states below; created on first use, as a thread may simulate only some.
    processes: Vec<OnceCell<Process>>,
    /// The core of each rank: the number of ranks before it on its node.
    cores: Vec<u32>,
    relations: Vec<OnceCell<Box<Relations>>>,
}

/// State of a rank, partly by peer rank.
#[derive(Default)]
pub(super) struct Relations {
    pub(super) inbox: Inbox,
    /// Its queue pairs, by peer and port.
    pairs: RefCell<BTreeMap<(usize, usize), Rc<Pair>>>,
    /// Its shared buffers, by peer on the same node.
    buffers: RefCell<BTreeMap<usize, Semaphore>>,
    pub(super) registered: RefCell<Registered>,
    pub(super) exchanges: Exchanges,
    /// Its credits, and the buffers of peers that it has emptied.
    pub(super) accounts: Accounts,
    /// Number of its concurrent calls into the library.
    pub(super) inside: Cell<usize>,
    /// Whether a task is copying unexpected messages out of their buffers.
    pub(super) tidying: Cell<bool>,
    pub(super) woken: Cell<Option<Woken>>,
}

/// A rank of a job.
#[derive(Clone)]
pub struct Rank {
    pub(super) world: Rc<World>,
    /// Its number.
    pub number: usize,
    pub(super) process: Process,
}

impl World {
    /// Creates a job with rank `i` on node `nodes[i]`.
    ///
    /// # Panics
    ///
    /// If the system names no message-passing library.
    pub fn new(cluster: &Rc<Cluster>, nodes: Vec<usize>) -> Rc<World> {
        let mut mpi = cluster
            .system()
            .mpi
            .clone()
            .expect("the system names a message-passing library");
        let plan = Plan::of(cluster.system().corrections.of(Operation::Mpi), &mpi);
        let access = mpi.overhead;
        mpi.overhead = mpi.overhead.since(plan.overhead);
        mpi.wakeup = mpi.wakeup.map(|wakeup| wakeup.since(plan.wakeup));
        let processes = nodes.iter().map(|_| OnceCell::new()).collect();
        let mut taken: BTreeMap<usize, u32> = BTreeMap::new();
        let cores = nodes.iter().map(|node| {
            let next = taken.entry(*node).or_default();
            *next += 1;
            *next - 1
        });
        let cores = cores.collect();
        let relations = nodes.iter().map(|_| OnceCell::new()).collect();
        let world = Rc::new(World {
            cluster: cluster.clone(),
            mpi,
            plan,
            access,
            nodes,
            processes,
            cores,
            relations,
        });
        let weak = Rc::downgrade(&world);
        cluster.find_pairs_by(move |id| weak.upgrade()?.pair_of(id));
        world
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the node of a rank.
    pub fn node(&self, rank: usize) -> usize {
        self.nodes[rank]
    }

    /// Returns a rank.
    pub fn rank(self: &Rc<Self>, number: usize) -> Rank {
        Rank {
            world: self.clone(),
            number,
            process: self.process(number).clone(),
        }
    }

    /// Returns the origins of a rank's unmatched messages.
    pub fn unexpected(&self, rank: usize) -> Vec<Origin> {
        self.relations(rank).inbox.left()
    }

    /// Returns the number of mailboxes for events of exchanges that are not over.
    pub fn open_exchanges(&self) -> usize {
        let states = self.relations.iter().filter_map(OnceCell::get);
        states.map(|state| state.exchanges.open()).sum()
    }

    /// Returns the state of a rank.
    pub(super) fn relations(&self, rank: usize) -> &Relations {
        self.relations[rank].get_or_init(Box::default)
    }

    fn process(&self, rank: usize) -> &Process {
        let made = || self.cluster.process(self.nodes[rank]);
        self.processes[rank].get_or_init(made)
    }

    /// Returns the position of the cores of two ranks of a node.
    pub(super) fn cores(&self, one: usize, other: usize) -> CorePair {
        let core = |rank: usize| self.cores[rank] as usize;
        let node = self.process(one).node();
        node.cpu().core_pair(core(one), core(other))
    }

    /// Returns the number of the queue pair from one rank to another over a port: the same in each
    /// thread's part of the simulation.
    fn pair_id(&self, from: usize, to: usize, port: usize) -> u64 {
        let ports = self.cluster.system().ports;
        let number = (from * self.size() + to) as u64 * ports + port as u64;
        FIRST_PAIR | number
    }

    /// Returns the queue pair of a number, if it is of this job.
    fn pair_of(self: &Rc<Self>, id: u64) -> Option<Rc<Pair>> {
        let ports = self.cluster.system().ports;
        let number = id.checked_sub(FIRST_PAIR)?;
        let (ranks, port) = ((number / ports) as usize, (number % ports) as usize);
        Some(self.pair(ranks / self.size(), ranks % self.size(), port))
    }

    pub(super) fn buffer(&self, from: usize, to: usize) -> Semaphore {
        let mut buffers = self.relations(from).buffers.borrow_mut();
        let made = || Semaphore::new(self.cluster.sim(), 1);
        buffers.entry(to).or_insert_with(made).clone()
    }

    /// Returns the queue pair from one rank to another over a port, connected on first use.
    pub(super) fn pair(self: &Rc<Self>, from: usize, to: usize, port: usize) -> Rc<Pair> {
        let pairs_of = |rank: usize| &self.relations(rank).pairs;
        if let Some(pair) = pairs_of(from).borrow().get(&(to, port)) {
            return pair.clone();
        }
        let nodes = (self.nodes[from], self.nodes[to]);
        let ids = [(from, to), (to, from)].map(|(from, to)| self.pair_id(from, to, port));
        let (one, other) = self
            .cluster
            .connected_as(ids, nodes, port, Transport::Reliable);
        let own: Rc<dyn Notified> = self.clone();
        one.set_program(Rc::downgrade(&own));
        other.set_program(Rc::downgrade(&own));
        // Receive requests are always posted; the cost of posting is part of the profile's receive
        // overhead.
        one.receives().post(1 << 40);
        other.receives().post(1 << 40);
        pairs_of(from).borrow_mut().insert((to, port), one.clone());
        pairs_of(to).borrow_mut().insert((from, port), other);
        one
    }
}

impl Rank {
    /// Returns its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.world.size()
    }

    /// Returns the same rank on another core of its node, which works independently of this one.
    pub fn beside(&self) -> Rank {
        let process = self.world.cluster.process(self.world.node(self.number));
        Rank {
            process,
            ..self.clone()
        }
    }
}
