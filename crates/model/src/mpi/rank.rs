//! Ranks, point to point.

use super::cause::{Cause, Posted, Woken};
use super::matching::{Inbox, Origin, Wanted};
use super::registration::Registered;
use crate::adapter::{Kind, Pair, Placement, Request, Transport};
use crate::cluster::{CacheState, Cluster, Process};
use crate::kernel::{JoinHandle, Mailbox, Semaphore, Time};
use crate::profile::{Channel, Mpi, Rendezvous};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a rank finds in its inbox.
pub(super) enum Envelope {
    /// An eager message.
    Eager { bytes: u64, sent: Cause },
    /// A rendezvous' beginning: where to answer, be it before the data or after them, and where their end will be told.
    Rendezvous {
        bytes: u64,
        sent: Cause,
        go: Mailbox<Cause>,
        done: Mailbox<Cause>,
    },
    /// A message inside the node.
    Local(super::intranode::Local),
}

impl Envelope {
    /// Who sent it, and when it had.
    fn sent(&self) -> Cause {
        match self {
            Envelope::Eager { sent, .. } | Envelope::Rendezvous { sent, .. } => *sent,
            Envelope::Local(local) => local.sent,
        }
    }
}

/// The mark of messages that are told apart by their order alone.
pub(super) const PLAIN: u32 = 0;

/// A message-passing job.
pub struct World {
    pub(super) cluster: Rc<Cluster>,
    pub(super) mpi: Mpi,
    nodes: Vec<usize>,
    processes: Vec<Process>,
    /// What each rank has with others.
    pub(super) relations: Vec<Relations>,
}

/// What a rank has with other ranks, by their numbers.
#[derive(Default)]
pub(super) struct Relations {
    /// What has come from them.
    pub(super) inbox: Inbox,
    /// The queue pairs to them, by port.
    pairs: RefCell<BTreeMap<(usize, usize), Rc<Pair>>>,
    /// The shared buffers to those of the same node.
    buffers: RefCell<BTreeMap<usize, Semaphore>>,
    /// Its buffers that are registered.
    pub(super) registered: RefCell<Registered>,
    /// When and why it last went on.
    pub(super) woken: Cell<Option<Woken>>,
}

/// One rank of a job.
#[derive(Clone)]
pub struct Rank {
    pub(super) world: Rc<World>,
    /// Its number.
    pub number: usize,
    pub(super) process: Process,
}

impl World {
    /// A job with rank `i` on node `nodes[i]`.
    ///
    /// Panics if the system names no message-passing library: the caller chose the system.
    pub fn new(cluster: &Rc<Cluster>, nodes: Vec<usize>) -> Rc<World> {
        let mpi = cluster
            .system()
            .mpi
            .clone()
            .expect("the system names a message-passing library");
        let processes = nodes.iter().map(|&node| cluster.process(node)).collect();
        let relations = nodes.iter().map(|_| Relations::default()).collect();
        Rc::new(World {
            cluster: cluster.clone(),
            mpi,
            nodes,
            processes,
            relations,
        })
    }

    /// Ranks of the job.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// The node of a rank.
    pub fn node(&self, rank: usize) -> usize {
        self.nodes[rank]
    }

    /// A rank.
    pub fn rank(self: &Rc<Self>, number: usize) -> Rank {
        Rank {
            world: self.clone(),
            number,
            process: self.processes[number].clone(),
        }
    }

    /// A message has come to a rank.
    pub(super) fn arrive(&self, to: usize, origin: Origin, envelope: Envelope) {
        self.relations[to].inbox.arrive(origin, envelope);
    }

    /// Whose messages a rank has got and not asked for.
    pub fn unexpected(&self, rank: usize) -> Vec<Origin> {
        self.relations[rank].inbox.left()
    }

    pub(super) fn buffer(&self, from: usize, to: usize) -> Semaphore {
        let mut buffers = self.relations[from].buffers.borrow_mut();
        let made = || Semaphore::new(self.cluster.sim(), 1);
        buffers.entry(to).or_insert_with(made).clone()
    }

    /// The queue pair from one rank to another over a port; connected when first used.
    pub(super) fn pair(&self, from: usize, to: usize, port: usize) -> Rc<Pair> {
        let pairs_of = |rank: usize| &self.relations[rank].pairs;
        if let Some(pair) = pairs_of(from).borrow().get(&(to, port)) {
            return pair.clone();
        }
        let (one, other) = self.cluster.connected(
            (self.nodes[from], self.nodes[to]),
            port,
            Transport::Reliable,
        );
        // Receive requests are kept posted; the cost of posting is part of the profile's receive overhead.
        one.receives().post(1 << 40);
        other.receives().post(1 << 40);
        pairs_of(from).borrow_mut().insert((to, port), one.clone());
        pairs_of(to).borrow_mut().insert((from, port), other);
        one
    }
}

impl Rank {
    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Ranks of the job.
    pub fn size(&self) -> usize {
        self.world.size()
    }

    /// The same rank on another core of its node: what it does there does not wait for what it does here.
    pub fn beside(&self) -> Rank {
        let process = self.world.cluster.process(self.world.node(self.number));
        Rank {
            process,
            ..self.clone()
        }
    }

    /// Computes for a while.
    pub async fn compute(&self, span: Time) {
        self.process.compute(span).await;
    }

    /// Delivers a small message of the protocol to the peer; `placed` when it is there.
    async fn deliver(&self, to: usize, bytes: u64, placed: impl FnOnce(Cause) + 'static) {
        let mpi = &self.world.mpi;
        let placement = match mpi.inline.is_some_and(|most| bytes <= most.0) {
            true => Placement::Inline,
            false => Placement::Reference,
        };
        let kind = match mpi.channel {
            Channel::Write => Kind::Write,
            Channel::Send => Kind::Send,
        };
        let mut request = Request::new(kind, bytes, placement);
        let (posted, rank) = (Posted::default(), self.number);
        let sent = posted.clone();
        request.placed = Some(Box::new(move || placed(sent.cause(rank))));
        let pair = self.world.pair(self.number, to, 0);
        self.process.post(&pair, vec![request]).await;
        posted.set(self.process.now());
    }

    /// Sees a message that `deliver` brought.
    async fn find(&self) {
        match self.world.mpi.channel {
            Channel::Write => self.process.notice().await,
            Channel::Send => self.process.take_completion().await,
        }
    }

    /// Sends a message; returns when its buffer may be used again.
    pub async fn send(&self, to: usize, bytes: u64) {
        self.send_marked(to, bytes, PLAIN).await;
    }

    /// The same with a mark.
    pub async fn send_marked(&self, to: usize, bytes: u64, tag: u32) {
        let mpi = &self.world.mpi;
        let origin = Origin {
            source: self.number,
            tag,
        };
        if self.world.nodes[to] == self.world.nodes[self.number] {
            return Box::pin(self.send_inside(to, bytes, origin)).await;
        }
        self.compute(mpi.overhead).await;
        let world = self.world.clone();
        if bytes <= mpi.eager.0 {
            self.process.copy(bytes, CacheState::Cold).await;
            self.deliver(to, bytes + mpi.header.0, move |sent| {
                world.arrive(to, origin, Envelope::Eager { bytes, sent });
            })
            .await;
            return;
        }
        self.register(bytes).await;
        let sim = self.process.sim();
        let (go, done) = (Mailbox::new(sim), Mailbox::new(sim));
        let (asked, finished) = (go.clone(), done.clone());
        self.deliver(to, mpi.header.0, move |sent| {
            let envelope = Envelope::Rendezvous {
                bytes,
                sent,
                go: asked,
                done: finished,
            };
            world.arrive(to, origin, envelope);
        })
        .await;
        self.wait_for(&go).await;
        self.find().await;
        self.compute(mpi.overhead).await;
        if mpi.rendezvous.unwrap_or_default() == Rendezvous::Write {
            Box::pin(self.write_data(to, bytes, done)).await;
        }
    }

    /// What tells that something has come of what this rank posts.
    pub(super) fn told(&self, posted: &Posted, to: &Mailbox<Cause>) -> Box<dyn FnOnce()> {
        let (posted, to, rank) = (posted.clone(), to.clone(), self.number);
        Box::new(move || to.send(posted.cause(rank)))
    }

    /// Ports that share a message's data.
    fn ports_for(&self, bytes: u64) -> u64 {
        match bytes >= self.world.mpi.stripe.0 {
            true => self.world.cluster.system().ports,
            false => 1,
        }
    }

    /// A rendezvous' data, over as many ports as are worth while; the last part is followed by the end message.
    async fn write_data(&self, to: usize, bytes: u64, done: Mailbox<Cause>) {
        let ports = self.ports_for(bytes);
        let sim = self.process.sim();
        let completions: Mailbox<Cause> = Mailbox::new(sim);
        for port in 0..ports {
            let share = bytes / ports + u64::from(port < bytes % ports);
            let mut request = Request::new(Kind::Write, share, Placement::Reference);
            let posted = Posted::default();
            request.completed = Some(self.told(&posted, &completions));
            let mut end = Request::new(Kind::Write, self.world.mpi.header.0, Placement::Inline);
            end.placed = Some(self.told(&posted, &done));
            let pair = self.world.pair(self.number, to, port as usize);
            self.process.post(&pair, vec![request, end]).await;
            posted.set(self.process.now());
        }
        for _ in 0..ports {
            self.wait_for(&completions).await;
            self.process.take_completion().await;
        }
    }

    /// A rendezvous' data, fetched by the receiver over as many ports as are worth while.
    async fn read_data(&self, from: usize, bytes: u64) {
        let ports = self.ports_for(bytes);
        let completions: Mailbox<Cause> = Mailbox::new(self.process.sim());
        for port in 0..ports {
            let share = bytes / ports + u64::from(port < bytes % ports);
            let mut request = Request::new(Kind::Read, share, Placement::Reference);
            let posted = Posted::default();
            request.completed = Some(self.told(&posted, &completions));
            let pair = self.world.pair(self.number, from, port as usize);
            self.process.post(&pair, vec![request]).await;
            posted.set(self.process.now());
        }
        for _ in 0..ports {
            self.wait_for(&completions).await;
            self.process.take_completion().await;
        }
    }

    /// Receives the next message from a rank.
    pub async fn receive(&self, from: usize) {
        self.receive_marked(from, PLAIN).await;
    }

    /// The next one with a mark.
    pub async fn receive_marked(&self, from: usize, tag: u32) {
        let wanted = Wanted {
            source: Some(from),
            tag: Some(tag),
        };
        self.receive_wanted(wanted).await;
    }

    /// Receives the next message that is wanted; its bytes.
    pub async fn receive_wanted(&self, wanted: Wanted) -> u64 {
        let mpi = &self.world.mpi;
        let inbox = &self.world.relations[self.number].inbox;
        let began = self.process.now();
        let (origin, envelope) = inbox.take(self.process.sim(), wanted).await;
        self.goes_on(began, envelope.sent());
        let from = origin.source;
        match envelope {
            Envelope::Local(local) => Box::pin(self.receive_inside(local)).await,
            Envelope::Eager { bytes, .. } => {
                self.find().await;
                self.compute(mpi.overhead).await;
                self.process.copy(bytes, CacheState::Cold).await;
                bytes
            }
            Envelope::Rendezvous {
                bytes, go, done, ..
            } => {
                self.find().await;
                self.compute(mpi.overhead * 2).await;
                self.register(bytes).await;
                let told = self.deliver(from, mpi.header.0, move |told| go.send(told));
                match mpi.rendezvous.unwrap_or_default() {
                    Rendezvous::Write => {
                        Box::pin(told).await;
                        for _ in 0..self.ports_for(bytes) {
                            self.wait_for(&done).await;
                        }
                        self.process.notice().await;
                    }
                    Rendezvous::Read => {
                        Box::pin(self.read_data(from, bytes)).await;
                        Box::pin(told).await;
                    }
                }
                bytes
            }
        }
    }

    /// Begins a send that goes on while the rank does something else.
    pub fn begin_send(&self, to: usize, bytes: u64) -> JoinHandle<()> {
        let own = self.clone();
        self.process
            .sim()
            .spawn(async move { own.send(to, bytes).await })
    }

    /// Begins a receive that goes on while the rank does something else.
    pub fn begin_receive(&self, from: usize) -> JoinHandle<()> {
        self.begin_receive_marked(from, PLAIN)
    }

    fn begin_receive_marked(&self, from: usize, tag: u32) -> JoinHandle<()> {
        let own = self.clone();
        self.process
            .sim()
            .spawn(async move { own.receive_marked(from, tag).await })
    }

    /// Sends to one rank and receives from another at the same time.
    pub async fn exchange(&self, to: usize, bytes: u64, from: usize) {
        self.exchange_marked(to, bytes, from, PLAIN).await;
    }

    /// The same with a mark.
    pub async fn exchange_marked(&self, to: usize, bytes: u64, from: usize, tag: u32) {
        let receive = self.begin_receive_marked(from, tag);
        self.send_marked(to, bytes, tag).await;
        receive.await;
    }
}
