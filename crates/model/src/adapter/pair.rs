//! Queue pairs and receive queues.

use super::load::Held;
use super::model::AdapterModel;
use super::operation::{Kind, MemoryLocation, Transport};
use super::pace::Paced;
use super::request::{Action, Request};
use crate::component::Port;
use crate::kernel::{Gate, JoinHandle, Semaphore, Sim, Time, Watch};
use crate::mpi::Notice;
use crate::stage;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

/// Receive requests of one queue pair or shared by several.
pub struct ReceiveQueue {
    sim: Sim,
    posted: Cell<u64>,
    watch: Watch,
    /// Number of prefetched requests, if the adapter prefetches.
    fetched_ahead: Option<usize>,
    ahead: OnceCell<Semaphore>,
}

impl ReceiveQueue {
    /// Creates an empty queue of `adapter`.
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

    /// Adds requests; the caller accounts for the processor time.
    pub fn post(&self, requests: u64) {
        self.posted.set(self.posted.get() + requests);
        self.watch.changed();
    }

    /// Returns the number of posted requests.
    pub fn posted(&self) -> u64 {
        self.posted.get()
    }

    /// Takes a request for an arrived message; returns false if there is none.
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

/// A request known to the adapter, and the fetch of its entry if it has started.
pub(super) struct Queued {
    pub request: Request,
    /// Entry bytes to fetch; 0 if the entry came inside the doorbell.
    pub entry: u64,
    pub fetch: Option<JoinHandle<()>>,
}

/// A queue pair.
pub struct Pair {
    pub(super) id: u64,
    pub(super) adapter: Rc<AdapterModel>,
    /// Where the adapter's cache last had its context.
    pub(super) context: Cell<u32>,
    pub(super) port: Port,
    pub(super) transport: Transport,
    /// Virtual lane of its packets.
    pub(super) lane: Cell<u64>,
    pub(super) peer: RefCell<Weak<Pair>>,
    pub(super) queue: RefCell<VecDeque<Queued>>,
    /// Whether a task is processing the queue.
    pub(super) working: Cell<bool>,
    /// Arrival of its last doorbell.
    rung: Cell<Time>,
    /// Earliest time of its next work request at an engine.
    pub(super) next_request: Cell<Time>,
    /// Next packet number, and the order of sending and delivery.
    pub(super) next_packet: Cell<u64>,
    pub(super) sent: Gate,
    pub(super) delivered: Gate,
    /// Buffer space of packets that have arrived for this pair before their turn, by packet number.
    pub(super) early: RefCell<Vec<(u64, Held)>>,
    /// Next packet number of read responses to this pair, and the order of sending.
    pub(super) next_response: Cell<u64>,
    pub(super) responded: Gate,
    /// Order of processing received responses, where packets may overtake each other.
    pub(super) answered: Gate,
    responder: OnceCell<Semaphore>,
    /// Serialises fetches of the remainder of an entry.
    rests: OnceCell<Semaphore>,
    /// Duration of the last such fetch.
    rest: Cell<Time>,
    pub(super) receives: Rc<ReceiveQueue>,
    /// Number of its next message.
    pub(super) next_message: Cell<u64>,
    /// Its messages whose last packet is in a part of the simulation that another thread runs.
    pub(super) under_way: RefCell<Vec<Rc<Message>>>,
    /// The program that gets the notices of arrived messages.
    notified: OnceCell<Weak<dyn Notified>>,
    /// Rate control, if the adapter has congestion control.
    pub(super) paced: Option<Box<Paced>>,
}

/// A program that gets notices of arrived messages.
pub trait Notified {
    /// Handles a notice.
    fn notify(self: Rc<Self>, notice: Notice);
}

impl Pair {
    /// Creates a queue pair of `adapter` on one of its ports; `id` is unique in the simulation.
    pub fn new(
        adapter: &Rc<AdapterModel>,
        id: u64,
        port: Port,
        transport: Transport,
        receives: Rc<ReceiveQueue>,
    ) -> Rc<Pair> {
        let sim = &adapter.sim;
        Rc::new(Pair {
            id,
            adapter: adapter.clone(),
            context: Cell::default(),
            port,
            transport,
            lane: Cell::new(0),
            peer: RefCell::new(Weak::new()),
            queue: RefCell::new(VecDeque::new()),
            working: Cell::new(false),
            rung: Cell::default(),
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
            rest: Cell::default(),
            receives,
            next_message: Cell::new(0),
            under_way: RefCell::default(),
            notified: OnceCell::new(),
            paced: Paced::of(adapter, transport).map(Box::new),
        })
    }

    /// Serialises responses to the peer's reads.
    pub(super) fn responder(&self) -> &Semaphore {
        let made = || Semaphore::new(&self.adapter.sim, 1);
        self.responder.get_or_init(made)
    }

    /// Connects two queue pairs with each other.
    pub fn connect(one: &Rc<Pair>, other: &Rc<Pair>) {
        one.connect_to(other);
        other.connect_to(one);
    }

    /// Directs its messages to `peer`; the opposite direction is not affected.
    pub fn connect_to(&self, peer: &Rc<Pair>) {
        *self.peer.borrow_mut() = Rc::downgrade(peer);
    }

    /// Returns the number of its messages of which a packet is with another thread.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.borrow().len()
    }

    /// Sets the program that gets the notices of messages that arrive here.
    pub(crate) fn set_program(&self, program: Weak<dyn Notified>) {
        let _ = self.notified.set(program);
    }

    /// Reports that a message has been placed here.
    pub(super) fn report_placed(&self, message: &Message) {
        let placed = message.placed.borrow_mut().take();
        if let Some(placed) = placed {
            placed();
        }
        self.notify(message.notice.take());
    }

    /// Passes a notice to the program of this queue pair.
    pub(super) fn notify(&self, notice: Option<Notice>) {
        if let Some(notice) = notice
            && let Some(program) = self.notified.get().and_then(Weak::upgrade)
        {
            program.notify(notice);
        }
    }

    /// Returns its number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns its transport service.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Sets the virtual lane of its packets.
    pub fn use_lane(&self, lane: u64) {
        self.lane.set(lane);
    }

    /// Returns its receive queue.
    pub fn receives(&self) -> &Rc<ReceiveQueue> {
        &self.receives
    }

    /// Returns its adapter.
    pub fn adapter(&self) -> &Rc<AdapterModel> {
        &self.adapter
    }

    /// Returns the arrival of a doorbell, which does not overtake the previous one even if that is
    /// held by a correction.
    pub(crate) fn in_order(&self, arrival: Time) -> Time {
        let arrival = arrival.max(self.rung.get());
        self.rung.set(arrival);
        arrival
    }

    /// Handles a doorbell that announces `requests`; `carried` states whether the entry came inside
    /// it. Must be the last that the current task does.
    pub(crate) async fn ring(
        self: Rc<Self>,
        requests: impl IntoIterator<Item = Request>,
        carried: Carried,
    ) {
        if let Some(first) = self.take(requests, carried) {
            self.work(Some(first)).await;
        }
    }

    /// Queues the requests of a doorbell, and starts work on them unless the queue is in work.
    /// Returns a first request that needs no fetch: it is the caller's to work on.
    fn take(
        self: &Rc<Self>,
        requests: impl IntoIterator<Item = Request>,
        carried: Carried,
    ) -> Option<Queued> {
        let mut own = None;
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
                let sooner = adapter.plan(request.kind, self.transport).adapter;
                adapter
                    .sim
                    .spawn(async move { own.fetch_entry(entry, sooner).await })
            });
            let queued = Queued {
                request,
                entry,
                fetch,
            };
            if adapter.serial() || self.working.get() {
                self.queue.borrow_mut().push_back(queued);
                if !self.working.replace(true) {
                    adapter.sim.start(self.clone().work(None));
                }
            } else {
                // The queue of a pair that works is empty, or not looked at.
                self.working.set(true);
                match queued.fetch {
                    None => own = Some(queued),
                    Some(_) => adapter.sim.start(self.clone().work(Some(queued))),
                }
            }
        }
        own
    }

    /// Returns whether an entry is fetched at once: always with parallel scheduling, else only
    /// behind work of the same queue pair.
    fn fetches_ahead(&self) -> bool {
        let present = self.adapter.side(self.port).present.get();
        !self.adapter.serial() || (present == Some(self.id) && !self.queue.borrow().is_empty())
    }

    /// Reads a work queue entry, in two steps if its length is not known in advance. The next entry
    /// waits for the second step by `sooner` less than that takes.
    pub(super) async fn fetch_entry(&self, entry: u64, sooner: Time) {
        self.fetch_first(entry).await;
        self.fetch_rest(entry, sooner).await;
    }

    /// Reads the part of an entry that is read before its length is known.
    async fn fetch_first(&self, entry: u64) {
        self.adapter.count(|c| c.requests_fetched += 1);
        let bytes = entry.next_multiple_of(64);
        let first = self.adapter.profile.send.first_fetch;
        self.read_entry(first.map_or(bytes, |first| first.0.min(bytes)))
            .await;
    }

    /// Reads the remainder of an entry, one entry at a time.
    async fn fetch_rest(&self, entry: u64, sooner: Time) {
        let bytes = entry.next_multiple_of(64);
        if let Some(first) = self.adapter.profile.send.first_fetch
            && first.0 < bytes
        {
            let made = || Semaphore::new(&self.adapter.sim, 1);
            let turn = self.rests.get_or_init(made).acquire().await;
            let sim = &self.adapter.sim;
            let begun = sim.now();
            // The duration of a fetch is not known before it ends: that of the last one counts.
            let kept = (sooner > Time::ZERO).then(|| begun + self.rest.get().since(sooner));
            let turn = match kept {
                Some(until) => {
                    sim.start_at(until, async move { drop(turn) });
                    None
                }
                None => Some(turn),
            };
            self.read_entry(bytes - first.0).await;
            self.rest.set(sim.now() - begun);
            drop(turn);
        }
    }

    async fn read_entry(&self, bytes: u64) {
        let adapter = &self.adapter;
        let start = adapter.sim.now();
        adapter.bus.fetch(bytes, &adapter.reads).await;
        adapter.span(stage::REQUEST, start, adapter.sim.now());
    }

    pub(super) fn target(&self, request: &Request) -> Option<Rc<Pair>> {
        match &request.to {
            Some(to) => Some(to.clone()),
            None => self.peer.borrow().upgrade(),
        }
    }
}

/// Content of a doorbell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// The position of the entries, which are then fetched.
    Address,
    /// The entry itself.
    Entry,
}

/// State of a message in flight that its last packet needs.
pub(super) struct Message {
    /// Number among the messages of its requester's queue pair.
    pub number: u64,
    pub kind: Kind,
    pub bytes: u64,
    pub remote: MemoryLocation,
    /// When a processor sees its last byte in the target's memory.
    pub visible: Cell<Option<Time>>,
    /// Whether its first packet found no receive request: the others are dropped, too.
    pub dropped: Cell<bool>,
    pub notice: Cell<Option<Notice>>,
    pub placed: RefCell<Option<Action>>,
    pub completed: RefCell<Option<Action>>,
}
