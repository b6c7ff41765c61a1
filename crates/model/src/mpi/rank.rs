//! Ranks and point-to-point messages.

use super::cause::{Cause, Posted, Woken};
use super::credits::Accounts;
use super::matching::{Inbox, Origin, Wanted};
use super::registration::Registered;
use super::rendezvous::Agreement;
use super::unexpected::Early;
use crate::adapter::{Kind, Pair, Placement, Request, Transport};
use crate::cluster::{CacheState, Cluster, Process};
use crate::kernel::{JoinHandle, Mailbox, Semaphore, Time};
use crate::profile::{Channel, Mpi, Rendezvous};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A message in a rank's inbox.
pub(super) enum Envelope {
    /// An eager message.
    Eager {
        bytes: u64,
        sent: Cause,
        early: Option<Early>,
    },
    /// Start of a rendezvous, with the mailboxes for the rest of the protocol.
    Rendezvous {
        bytes: u64,
        sent: Cause,
        early: Option<Early>,
        agreement: Agreement,
    },
    /// An intra-node message.
    Local(super::intranode::Local),
}

impl Envelope {
    /// Returns its sender and the time of sending.
    fn sent(&self) -> Cause {
        match self {
            Envelope::Eager { sent, .. } | Envelope::Rendezvous { sent, .. } => *sent,
            Envelope::Local(local) => local.sent,
        }
    }

    /// Returns the bytes to copy of a message that is still in its buffer, for a library that
    /// copies such messages to a temporary buffer.
    pub(super) fn in_its_buffer(&self) -> Option<(u64, Early)> {
        let (bytes, early) = match self {
            Envelope::Eager { bytes, early, .. } => (*bytes, early),
            Envelope::Rendezvous { early, .. } => (0, early),
            Envelope::Local(_) => return None,
        };
        let early = early.as_ref().filter(|early| early.is_in_its_buffer())?;
        Some((bytes, early.clone()))
    }
}

/// Tag of messages that are distinguished by order alone.
pub(super) const PLAIN: u32 = 0;

/// A message-passing job.
pub struct World {
    pub(super) cluster: Rc<Cluster>,
    pub(super) mpi: Mpi,
    nodes: Vec<usize>,
    processes: Vec<Process>,
    pub(super) relations: Vec<Relations>,
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
            process: self.processes[number].clone(),
        }
    }

    /// Handles the arrival of a message at a rank.
    pub(super) fn arrive(self: &Rc<Self>, to: usize, origin: Origin, envelope: Envelope) {
        self.relations[to].inbox.arrive(origin, envelope);
        if self.sets_aside() {
            self.tidy(to);
        }
    }

    /// Returns the origins of a rank's unmatched messages.
    pub fn unexpected(&self, rank: usize) -> Vec<Origin> {
        self.relations[rank].inbox.left()
    }

    pub(super) fn buffer(&self, from: usize, to: usize) -> Semaphore {
        let mut buffers = self.relations[from].buffers.borrow_mut();
        let made = || Semaphore::new(self.cluster.sim(), 1);
        buffers.entry(to).or_insert_with(made).clone()
    }

    /// Returns the queue pair from one rank to another over a port, connected on first use.
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

    /// Computes for `span`.
    pub async fn compute(&self, span: Time) {
        self.process.compute(span).await;
    }

    /// Delivers a small protocol message to the peer and calls `placed` on arrival.
    pub(super) async fn deliver(
        &self,
        to: usize,
        bytes: u64,
        placed: impl FnOnce(Cause) + 'static,
    ) {
        let (request, posted) = self.request(to, bytes, placed);
        self.hand_over(to, request, &posted).await;
    }

    /// Like [`Rank::deliver`], and sends to `completed` when the request has completed.
    pub(super) async fn deliver_and_tell(
        &self,
        to: usize,
        bytes: u64,
        placed: impl FnOnce(Cause) + 'static,
        completed: &Mailbox<Cause>,
    ) {
        let (mut request, posted) = self.request(to, bytes, placed);
        request.completed = Some(self.told(&posted, completed));
        self.hand_over(to, request, &posted).await;
    }

    fn request(
        &self,
        to: usize,
        bytes: u64,
        placed: impl FnOnce(Cause) + 'static,
    ) -> (Request, Posted) {
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
        let (sent, world) = (posted.clone(), self.world.clone());
        let emptied = world.relations[rank].accounts.settle(to);
        request.placed = Some(Box::new(move || {
            let cause = sent.cause(rank);
            world.credits_back(to, rank, emptied, cause);
            placed(cause);
        }));
        (request, posted)
    }

    async fn hand_over(&self, to: usize, request: Request, posted: &Posted) {
        let pair = self.world.pair(self.number, to, 0);
        self.process.post(&pair, vec![request]).await;
        posted.set(self.process.now());
    }

    /// Detects a message sent by `deliver`.
    pub(super) async fn find(&self) {
        match self.world.mpi.channel {
            Channel::Write => self.process.notice().await,
            Channel::Send => self.process.take_completion().await,
        }
    }

    /// Sends a message; returns when its buffer may be reused.
    pub async fn send(&self, to: usize, bytes: u64) {
        self.send_marked(to, bytes, PLAIN).await;
    }

    /// Sends a message with a tag.
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
            self.take_credit(to).await;
            self.process.copy(bytes, CacheState::Cold).await;
            self.deliver(to, bytes + mpi.header.0, move |sent| {
                let early = world.early();
                world.arrive(to, origin, Envelope::Eager { bytes, sent, early });
            })
            .await;
            return;
        }
        // Fragments are registered one by one.
        if self.rendezvous() != Rendezvous::Pipeline {
            self.register(bytes).await;
        }
        self.take_credit(to).await;
        let agreement = Agreement::new(self.process.sim());
        let theirs = agreement.clone();
        self.deliver(to, mpi.header.0, move |sent| {
            let early = world.early();
            let envelope = Envelope::Rendezvous {
                bytes,
                sent,
                early,
                agreement: theirs,
            };
            world.arrive(to, origin, envelope);
        })
        .await;
        // Boxed, as in `receive_wanted`, to keep eager messages small.
        Box::pin(self.move_data(to, bytes, agreement)).await;
    }

    /// Receives the next message from a rank.
    pub async fn receive(&self, from: usize) {
        self.receive_marked(from, PLAIN).await;
    }

    /// Receives the next message from a rank with a tag.
    pub async fn receive_marked(&self, from: usize, tag: u32) {
        let wanted = Wanted {
            source: Some(from),
            tag: Some(tag),
        };
        self.receive_wanted(wanted).await;
    }

    /// Receives the next matching message and returns its size in bytes.
    pub async fn receive_wanted(&self, wanted: Wanted) -> u64 {
        let mpi = &self.world.mpi;
        let inbox = &self.world.relations[self.number].inbox;
        if let Some(passing) = mpi.unexpected_search {
            self.compute(passing * inbox.passed_for(wanted) as u64)
                .await;
        }
        let began = self.process.now();
        let (origin, envelope) = match inbox.find(wanted) {
            Some(letter) => letter,
            None => {
                let _inside = self.inside();
                inbox.wait(self.process.sim(), wanted).await
            }
        };
        self.goes_on(began, envelope.sent());
        let from = origin.source;
        match envelope {
            Envelope::Local(local) => Box::pin(self.receive_inside(local)).await,
            Envelope::Eager { bytes, early, .. } => {
                let seen = self.see(from, early.as_ref(), mpi.overhead).await;
                self.process.copy(bytes, CacheState::Cold).await;
                self.used(seen).await;
                bytes
            }
            Envelope::Rendezvous {
                bytes,
                early,
                agreement,
                ..
            } => {
                let seen = self.see(from, early.as_ref(), mpi.overhead * 2).await;
                self.used(seen).await;
                Box::pin(self.take_data(from, bytes, agreement)).await;
                bytes
            }
        }
    }

    /// Starts a send that proceeds in the background.
    pub fn begin_send(&self, to: usize, bytes: u64) -> JoinHandle<()> {
        self.begin_send_marked(to, bytes, PLAIN)
    }

    pub(super) fn begin_send_marked(&self, to: usize, bytes: u64, tag: u32) -> JoinHandle<()> {
        let own = self.clone();
        self.process
            .sim()
            .spawn(async move { own.send_marked(to, bytes, tag).await })
    }

    /// Starts a receive that proceeds in the background.
    pub fn begin_receive(&self, from: usize) -> JoinHandle<()> {
        self.begin_receive_marked(from, PLAIN)
    }

    pub(super) fn begin_receive_marked(&self, from: usize, tag: u32) -> JoinHandle<()> {
        let own = self.clone();
        self.process
            .sim()
            .spawn(async move { own.receive_marked(from, tag).await })
    }

    /// Sends to one rank and receives from another at the same time.
    pub async fn exchange(&self, to: usize, bytes: u64, from: usize) {
        self.exchange_marked(to, bytes, from, PLAIN).await;
    }

    /// The same with a tag.
    pub async fn exchange_marked(&self, to: usize, bytes: u64, from: usize, tag: u32) {
        let receive = self.begin_receive_marked(from, tag);
        self.send_marked(to, bytes, tag).await;
        receive.await;
    }
}
