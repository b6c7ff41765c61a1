//! The resources of an adapter that its queue pairs share: engines, caches, DMA reads, buffers.

use super::cache::{Cache, Lookup};
use super::corrections::{Plan, Plans};
use super::engine::Engines;
use super::flights::Flights;
use super::load::{Held, Outgoing};
use super::operation::{Kind, MemoryHome, MemoryLocation, Transport};
use super::pair::Pair;
use crate::component::{BusModel, Flow, Load, Network, Port, Window, Written};
use crate::kernel::{Semaphore, Server, Sim, Space, Time, Watch};
use crate::profile::{Adapter, Congestion, ContextHome, Scheduling};
use crate::stage;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;

/// Event counters of an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Work requests fetched by DMA.
    pub requests_fetched: u64,
    /// Queue pair contexts fetched.
    pub context_misses: u64,
    /// Translation lines fetched.
    pub translation_misses: u64,
    /// Congestion notifications received.
    pub notified: u64,
    /// Unacknowledged messages dropped because no receive request was posted.
    pub dropped: u64,
    /// Payload bytes submitted for sending, including read responses.
    pub bytes_sent: u64,
    /// Payload bytes placed, including those of dropped messages.
    pub bytes_placed: u64,
    /// Messages reported as done before their last byte was placed; must be 0.
    pub early: u64,
}

/// The sending side of a port.
pub(super) struct SendingSide {
    /// Serial scheduling: the turn, and the queue pair whose context is loaded.
    pub(super) turn: Semaphore,
    pub(super) present: Cell<Option<u64>>,
    /// Packets whose payload is still being read.
    pub(super) gathering: Cell<u64>,
    pub(super) gathered: Watch,
    /// Payload between memory and port, by virtual lane.
    buffers: Vec<Space>,
}

impl SendingSide {
    fn new(sim: &Sim, (lanes, buffer): (u64, u64)) -> SendingSide {
        SendingSide {
            turn: Semaphore::new(sim, 1),
            present: Cell::new(None),
            gathering: Cell::new(0),
            gathered: Watch::new(sim),
            buffers: (0..lanes).map(|_| Space::new(buffer)).collect(),
        }
    }
}

/// The adapter of a node.
pub struct AdapterModel {
    /// Its node, for spans.
    pub(crate) node: usize,
    pub(crate) sim: Sim,
    pub(crate) profile: Rc<Adapter>,
    pub(crate) bus: Rc<BusModel>,
    pub(crate) network: Rc<Network>,
    pub(crate) fidelity: Fidelity,
    pub(super) congestion: Option<Rc<Congestion>>,
    pub(super) send_engines: Engines,
    pub(super) receive_engines: Engines,
    pub(super) reads: Rc<Space>,
    /// The sending side of each port.
    sides: Vec<SendingSide>,
    /// Largest batch in packets at message fidelity: two batches fit into each buffer on the path.
    pub(super) longest_train: u64,
    own_memory: Server,
    contexts: RefCell<Cache>,
    translations: RefCell<Cache>,
    counters: Cell<Counters>,
    plans: Rc<Plans>,
    /// Where its packets in flight are, if they are records and not tasks.
    pub(super) flights: Option<Rc<Flights>>,
}

/// A context that has to be fetched.
#[must_use = "it counts as cached"]
pub(super) struct MissingContext {
    /// Whether it evicts another.
    displaced: bool,
}

/// A wait for a translation.
pub(super) type Translation = Pin<Box<dyn Future<Output = ()>>>;

/// Granularity of the simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fidelity {
    /// Packet by packet.
    #[default]
    Packet,
    /// By message: the first packet runs ahead, the rest follow as one.
    Message,
}

impl AdapterModel {
    /// Creates the adapter of a profile. Its packets in flight are tasks without `flights`.
    pub fn new(
        node: usize,
        sim: &Sim,
        profile: &Rc<Adapter>,
        bus: Rc<BusModel>,
        network: Rc<Network>,
        (fidelity, congestion): (Fidelity, Option<Rc<Congestion>>),
        (plans, flights): (Rc<Plans>, Option<Rc<Flights>>),
    ) -> AdapterModel {
        let sending = (network.link().lanes.0, network.link().buffer.0);
        let sides = (0..network.ports_of_adapter()).map(|_| SendingSide::new(sim, sending));
        let sides = sides.collect();
        let longest_train = network.longest_train();
        AdapterModel {
            node,
            sim: sim.clone(),
            bus,
            network,
            fidelity,
            congestion,
            send_engines: Engines::new(profile.engines.number),
            receive_engines: Engines::new(profile.engines.number),
            reads: Rc::new(Space::new(profile.send.reads.0)),
            sides,
            longest_train,
            own_memory: Server::new(),
            contexts: RefCell::new(Cache::new(profile.caches.queue_pairs.map(|most| most.0))),
            translations: RefCell::new(Cache::new(profile.caches.lines())),
            counters: Cell::new(Counters::default()),
            plans,
            flights,
            profile: profile.clone(),
        }
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> Counters {
        self.counters.get()
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    /// Returns the mean time in use of a sending and of a receiving engine; `None` if there are any
    /// number.
    pub fn engines(&self) -> [(&'static str, Option<Time>); 2] {
        [
            ("send engines", self.send_engines.busy()),
            ("receive engines", self.receive_engines.busy()),
        ]
    }

    /// Returns the occupied bytes of the sending buffers.
    pub fn sending(&self) -> u64 {
        let buffers = self.sides.iter().flat_map(|side| &side.buffers);
        buffers.map(Space::taken).sum()
    }

    pub(super) fn side(&self, port: Port) -> &SendingSide {
        &self.sides[port.port]
    }

    /// Returns the sending buffer of a load.
    fn outgoing(&self, outgoing: Outgoing) -> &Space {
        let buffers = &self.side(outgoing.port).buffers;
        &buffers[outgoing.lane as usize % buffers.len()]
    }

    /// Waits for sending buffer space.
    pub(super) async fn make_room(&self, outgoing: Outgoing) {
        let buffer = self.outgoing(outgoing);
        buffer.take(&self.sim, outgoing.bytes).await;
        self.count(|c| c.bytes_sent += outgoing.bytes);
    }

    /// Frees sending buffer space from `instant` on.
    pub(super) fn has_left(&self, outgoing: Outgoing, instant: Time) {
        let buffer = self.outgoing(outgoing);
        buffer.give_back(&self.sim, instant, outgoing.bytes);
    }

    /// Returns how requests of a kind are corrected.
    pub(crate) fn plan(&self, kind: Kind, transport: Transport) -> &Plan {
        self.plans.of(kind, transport)
    }

    pub(super) fn serial(&self) -> bool {
        self.profile.scheduling == Scheduling::Serial
    }

    /// Returns the cost of a switch of queue pairs.
    pub(super) fn change(&self) -> Time {
        self.profile.engines.change.unwrap_or_default()
    }

    /// Creates the window of a message of `bytes`, limited only by the adapter's total DMA reads.
    pub(super) fn window(&self, bytes: u64) -> Window {
        let packets = bytes.div_ceil(self.network.link().mtu.0);
        let reads = self.profile.send.reads.0 as usize;
        Window::new(&self.sim, reads, (bytes, packets))
    }

    /// Reads context data from adapter or host memory.
    async fn fetch_context_bytes(&self, bytes: u64) {
        match self.profile.home {
            ContextHome::Host => self.bus.fetch(bytes, &self.reads).await,
            ContextHome::Adapter => self.read_own(bytes).await,
        }
    }

    pub(super) async fn read_own(&self, bytes: u64) {
        let Some(memory) = &self.profile.memory else {
            return;
        };
        let turn = self
            .own_memory
            .reserve(self.sim.now(), memory.bandwidth.time(bytes));
        self.sim.sleep_until(turn.end + memory.latency).await;
    }

    /// Ensures that the context of queue pair `pair` is cached.
    pub(super) async fn load_context(&self, pair: &Pair) {
        if let Some(missing) = self.touch_context(pair) {
            // Boxed: keeps the many activities small that hit the cache.
            Box::pin(self.fetch_context(missing)).await;
        }
    }

    /// Counts the context of queue pair `pair` as cached; returns its fetch if it was missing.
    pub(super) fn touch_context(&self, pair: &Pair) -> Option<MissingContext> {
        let mut contexts = self.contexts.borrow_mut();
        match contexts.touch_near(pair.id, &pair.context) {
            Lookup::Hit => None,
            Lookup::Miss { displaced } => {
                self.count(|c| c.context_misses += 1);
                Some(MissingContext { displaced })
            }
        }
    }

    /// Fetches a context that is not cached.
    pub(super) async fn fetch_context(&self, missing: MissingContext) {
        let MissingContext { displaced } = missing;
        let bytes = self.profile.caches.context.0;
        if displaced {
            // The evicted context is dirty: it is written back first, but not waited for.
            match self.profile.home {
                ContextHome::Host => {
                    self.bus
                        .write(Load::single(bytes), Flow::at(self.sim.now()));
                }
                ContextHome::Adapter => {
                    if let Some(memory) = &self.profile.memory {
                        self.own_memory
                            .reserve(self.sim.now(), memory.bandwidth.time(bytes));
                    }
                }
            }
        }
        let start = self.sim.now();
        self.fetch_context_bytes(bytes).await;
        self.span(stage::CONTEXT, start, self.sim.now());
    }

    pub(super) fn span(&self, stage: &'static str, start: Time, end: Time) {
        self.sim.span(stage, self.node, start, end);
    }

    /// Marks the translations of `bytes` from `place` as used and fetches missing ones. Only a
    /// message's first line has to be waited for, through the returned future, if it is missing:
    /// the remaining addresses are known and fetched ahead.
    pub(super) fn translate(
        self: &Rc<Self>,
        place: MemoryLocation,
        bytes: u64,
        first: bool,
    ) -> Option<Translation> {
        if place.home == MemoryHome::Adapter || bytes == 0 {
            return None;
        }
        let caches = &self.profile.caches;
        let line = caches.page.0 * caches.translations_line.0;
        let lines = place.address / line..=(place.address + bytes - 1) / line;
        let mut keys = lines.map(move |number| (place.region << 40) ^ number);
        if first
            && let Some(key) = keys.next()
            && self.lacks_translation(key)
        {
            let own = self.clone();
            return Some(Box::pin(async move {
                let start = own.sim.now();
                let line = own.profile.caches.translation_line.0;
                own.fetch_context_bytes(line).await;
                own.span(stage::TRANSLATION, start, own.sim.now());
                keys.for_each(|key| own.translate_ahead(key));
            }));
        }
        keys.for_each(|key| self.translate_ahead(key));
        None
    }

    /// Returns whether a line of translations was missing; it counts as cached from now on.
    fn lacks_translation(&self, key: u64) -> bool {
        let lacks = self.translations.borrow_mut().touch(key) != Lookup::Hit;
        if lacks {
            self.count(|c| c.translation_misses += 1);
        }
        lacks
    }

    /// Fetches a line if it is missing, without waiting.
    fn translate_ahead(self: &Rc<Self>, key: u64) {
        if self.lacks_translation(key) {
            let (own, line) = (self.clone(), self.profile.caches.translation_line.0);
            self.sim
                .start(async move { own.fetch_context_bytes(line).await });
        }
    }

    /// Frees the buffer space of a load at `instant`.
    pub(super) fn let_go(&self, held: Held, instant: Time) {
        let instant = instant.max(self.sim.now());
        match held {
            Held::Slot(slot) => self.network.release(slot, instant),
            Held::Sending(outgoing) => self.has_left(outgoing, instant),
        }
    }

    /// Writes a load to adapter or host memory.
    pub(super) fn store(&self, home: MemoryHome, load: Load, flow: Flow) -> Written {
        let stored = match (home, &self.profile.memory) {
            (MemoryHome::Adapter, Some(memory)) => {
                let span = memory.bandwidth.time(load.bytes);
                let turn = self
                    .own_memory
                    .reserve_train(flow.head, span, flow.tail, Time::ZERO);
                Written {
                    gone: turn.end,
                    visible: Flow {
                        head: turn.start + memory.bandwidth.time(load.first),
                        tail: turn.end,
                    },
                }
            }
            _ => self.bus.write(load, flow),
        };
        self.span(stage::PLACEMENT, self.sim.now(), stored.visible.tail);
        stored
    }
}
