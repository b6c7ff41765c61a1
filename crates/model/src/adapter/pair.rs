//! Queue pairs and receive queues.

use super::AdapterModel;
use super::congestion::Paced;
use super::request::{Action, Kind, Request, Transport};
use super::send::Held;
use crate::component::Port;
use crate::kernel::{Gate, JoinHandle, Semaphore, Sim, Time, Watch};
use crate::stage;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

/// Receive requests, of one queue pair or shared by several.
pub struct ReceiveQueue {
    sim: Sim,
    posted: Cell<u64>,
    watch: Watch,
    /// Requests fetched ahead, if the adapter does that.
    fetched_ahead: Option<usize>,
    ahead: OnceCell<Semaphore>,
}

impl ReceiveQueue {
    /// An empty queue of `adapter`.
    pub fn new(adapter: &AdapterModel) -> Rc<ReceiveQueue> {
        let fetched_ahead = adapter.profile.receive.fetched_ahead;
        Rc::new(ReceiveQueue {
            sim: adapter.sim.clone(),
            posted: Cell::new(0),
            watch: Watch::new(&adapter.sim),
            fetched_ahead: fetched_ahead.map(|n| n.0 as usize),
            ahead: OnceCell::new(),
        })
    }

    /// Adds requests; what it costs the processor is charged where they are posted.
    pub fn post(&self, requests: u64) {
        self.posted.set(self.posted.get() + requests);
        self.watch.changed();
    }

    /// Requests that wait for messages.
    pub fn posted(&self) -> u64 {
        self.posted.get()
    }

    /// Takes a request for a message that has come, if there is one.
    pub(super) fn take(&self) -> bool {
        let posted = self.posted.get();
        self.posted.set(posted.saturating_sub(1));
        posted > 0
    }

    /// Takes a request as soon as there is one.
    pub(super) async fn take_next(&self) {
        self.watch.until(|| self.posted.get() > 0).await;
        self.take();
    }

    pub(super) fn ahead(&self) -> Option<&Semaphore> {
        let requests = self.fetched_ahead?;
        let made = || Semaphore::new(&self.sim, requests);
        Some(self.ahead.get_or_init(made))
    }
}

/// A request that the adapter knows of, and the fetch of its entry if that has begun.
pub(super) struct Queued {
    pub request: Request,
    /// Entry bytes still to be fetched; 0 when it came inside the doorbell.
    pub entry: u64,
    pub fetch: Option<JoinHandle<()>>,
}

/// A queue pair.
pub struct Pair {
    pub(super) id: u32,
    pub(super) adapter: Rc<AdapterModel>,
    pub(super) port: Port,
    pub(super) transport: Transport,
    /// Virtual lane of what it sends.
    pub(super) lane: Cell<u64>,
    pub(super) peer: RefCell<Weak<Pair>>,
    pub(super) queue: RefCell<VecDeque<Box<Queued>>>,
    /// Whether the queue is being worked through.
    pub(super) working: Cell<bool>,
    /// When its next work request may be at an engine.
    pub(super) next_request: Cell<Time>,
    /// Packets in the order of sending.
    pub(super) next_packet: Cell<u64>,
    pub(super) sent: Gate,
    pub(super) delivered: Gate,
    /// Room in the port's buffer of what has come for this pair and waits for what was sent before it.
    pub(super) early: RefCell<Vec<(u64, Held)>>,
    /// Packets of read responses to this pair's requests, and their order of arrival.
    pub(super) next_response: Cell<u64>,
    pub(super) responded: Gate,
    /// The same of what has arrived, where packets may overtake each other on the way.
    pub(super) answered: Gate,
    responder: OnceCell<Semaphore>,
    /// Who reads the rest of an entry.
    rests: OnceCell<Semaphore>,
    pub(super) receives: Rc<ReceiveQueue>,
    /// How fast it may send, where congestion is controlled.
    pub(super) paced: Option<Box<Paced>>,
}

impl Pair {
    /// A queue pair of `adapter` on one of its ports; `id` is unique in the simulation.
    pub fn new(
        adapter: &Rc<AdapterModel>,
        id: u32,
        port: Port,
        transport: Transport,
        receives: Rc<ReceiveQueue>,
    ) -> Rc<Pair> {
        let sim = &adapter.sim;
        Rc::new(Pair {
            id,
            adapter: adapter.clone(),
            port,
            transport,
            lane: Cell::new(0),
            peer: RefCell::new(Weak::new()),
            queue: RefCell::new(VecDeque::new()),
            working: Cell::new(false),
            next_request: Cell::default(),
            next_packet: Cell::new(0),
            sent: Gate::new(sim),
            delivered: Gate::new(sim),
            early: RefCell::default(),
            next_response: Cell::new(0),
            responded: Gate::new(sim),
            answered: Gate::new(sim),
            responder: OnceCell::new(),
            rests: OnceCell::new(),
            receives,
            paced: Paced::of(adapter, transport).map(Box::new),
        })
    }

    /// Who answers the peer's reads, one at a time.
    pub(super) fn responder(&self) -> &Semaphore {
        let made = || Semaphore::new(&self.adapter.sim, 1);
        self.responder.get_or_init(made)
    }

    /// Connects two queue pairs with each other.
    pub fn connect(one: &Rc<Pair>, other: &Rc<Pair>) {
        one.connect_to(other);
        other.connect_to(one);
    }

    /// Its messages go to `peer` from now on; the way back is the peer's own affair.
    pub fn connect_to(&self, peer: &Rc<Pair>) {
        *self.peer.borrow_mut() = Rc::downgrade(peer);
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its service.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// What it sends goes on this virtual lane from now on.
    pub fn use_lane(&self, lane: u64) {
        self.lane.set(lane);
    }

    /// Its receive queue.
    pub fn receives(&self) -> &Rc<ReceiveQueue> {
        &self.receives
    }

    /// Its adapter.
    pub fn adapter(&self) -> &Rc<AdapterModel> {
        &self.adapter
    }

    /// A doorbell has reached the adapter: `requests` are to be done. `carried` says that the entry came inside it.
    pub fn ring(self: &Rc<Self>, requests: Vec<Request>, carried: Carried) {
        let adapter = &self.adapter;
        if adapter.serial()
            && !self.queue.borrow().is_empty()
            && adapter.side(self.port).present.get() != Some(self.id)
        {
            adapter.sim.start(self.clone().note_more());
        }
        for request in requests {
            let entry = match carried {
                Carried::Entry => 0,
                Carried::Address => request.entry_bytes(self.transport),
            };
            let fetch = (entry > 0 && self.fetches_ahead()).then(|| {
                let own = self.clone();
                self.adapter
                    .sim
                    .spawn(async move { own.fetch_entry(entry).await })
            });
            self.queue.borrow_mut().push_back(Box::new(Queued {
                request,
                entry,
                fetch,
            }));
            if !self.working.replace(true) {
                adapter.sim.start(self.clone().work());
            }
        }
    }

    /// Whether an entry is fetched at once: always when several queue pairs are worked on in parallel; else only behind
    /// work of the same queue pair.
    fn fetches_ahead(&self) -> bool {
        let present = self.adapter.side(self.port).present.get();
        !self.adapter.serial() || (present == Some(self.id) && !self.queue.borrow().is_empty())
    }

    /// Reads a work queue entry, in two steps if its length is not known beforehand.
    pub(super) async fn fetch_entry(&self, entry: u64) {
        self.fetch_first(entry).await;
        self.fetch_rest(entry).await;
    }

    /// Reads as much of an entry as is read before its length is known.
    async fn fetch_first(&self, entry: u64) {
        self.adapter.count(|c| c.requests_fetched += 1);
        let bytes = entry.next_multiple_of(64);
        let first = self.adapter.profile.send.first_fetch;
        self.read_entry(first.map_or(bytes, |first| first.0.min(bytes)))
            .await;
    }

    /// Reads what `fetch_first` did not: of one entry at a time.
    async fn fetch_rest(&self, entry: u64) {
        let bytes = entry.next_multiple_of(64);
        if let Some(first) = self.adapter.profile.send.first_fetch
            && first.0 < bytes
        {
            let made = || Semaphore::new(&self.adapter.sim, 1);
            let _turn = self.rests.get_or_init(made).acquire().await;
            self.read_entry(bytes - first.0).await;
        }
    }

    async fn read_entry(&self, bytes: u64) {
        let adapter = &self.adapter;
        let start = adapter.sim.now();
        adapter.bus.fetch(bytes, &adapter.reads).await;
        adapter.span(stage::REQUEST, start, adapter.sim.now());
    }

    /// The pair that a request goes to.
    pub(super) fn target(&self, request: &Request) -> Option<Rc<Pair>> {
        match &request.to {
            Some(to) => Some(to.clone()),
            None => self.peer.borrow().upgrade(),
        }
    }
}

/// What a doorbell brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// Where the entries are: they are fetched.
    Address,
    /// The entry itself.
    Entry,
}

/// A message under way: what its last packet has to know.
pub(super) struct Message {
    pub kind: Kind,
    pub bytes: u64,
    pub remote: super::Place,
    /// When its last byte is in the target's memory, for a processor to see.
    pub visible: Cell<Option<Time>>,
    pub placed: RefCell<Option<Action>>,
    pub completed: RefCell<Option<Action>>,
}
