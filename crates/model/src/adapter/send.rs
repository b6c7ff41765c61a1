//! The requester's outbound path: from the send queue to the wire.
//!
//! Parallel scheduling: queue pairs work independently and share engines, DMA reads and the port.
//! Serial scheduling: one queue pair of each port has the turn. At a switch, the payload of the
//! previous queue pair must have been gathered and the context is changed before the next entry is
//! fetched; behind work of the same queue pair, entries are fetched ahead.

use super::flight::Flight;
use super::load::{Chunk, FIRST_OF_ENTRY, Held, Left, Outgoing, Work};
use super::model::{AdapterModel, Fidelity};
use super::operation::{Kind, MemoryHome, Placement, Transport};
use super::pair::{Message, Pair, Queued};
use crate::component::{Flow, Load, Reading, Sent};
use crate::kernel::{Permit, Time};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The turn at the sending side of a serial adapter, until dropped.
pub(super) struct Turn {
    /// Whether another queue pair had the previous turn.
    pub changed: bool,
    _permit: Permit,
}

/// Batches per message at message fidelity; with no more packets than that, each travels alone.
/// With a quarter of them, pairs that share a bus differed by up to a third from packet fidelity.
const TRAINS: u64 = 64;

impl Pair {
    /// Processes `first` and the send queue until it is empty.
    pub(super) async fn work(self: Rc<Self>, first: Option<Queued>) {
        let mut first = first;
        while let Some(queued) = first.take().or_else(|| self.next_queued()) {
            let turn = self.take_turn(Work::Queued).await;
            self.execute(queued, turn).await;
        }
        // An idle queue frees its memory: a large system has many of them.
        self.queue.take();
        self.working.set(false);
    }

    fn next_queued(&self) -> Option<Queued> {
        self.queue.borrow_mut().pop_front()
    }

    /// Waits for the turn at the sending side (serial scheduling) and loads the context.
    pub(super) async fn take_turn(&self, work: Work) -> Option<Turn> {
        let adapter = &self.adapter;
        if !adapter.serial() {
            adapter.load_context(self).await;
            return None;
        }
        let side = adapter.side(self.port);
        let permit = match work {
            Work::Queued => side.turn.acquire().await,
            Work::Arrived => side.turn.acquire_first().await,
        };
        let changed = side.present.replace(Some(self.id)) != Some(self.id);
        if changed {
            if work == Work::Queued {
                side.gathered.until(|| side.gathering.get() == 0).await;
            }
            adapter.load_context(self).await;
            adapter.sim.sleep(adapter.change()).await;
        }
        Some(Turn {
            changed,
            _permit: permit,
        })
    }

    /// Serial scheduling: a doorbell of a queue pair that already has work takes the engine from
    /// another queue pair, to read the link from the last known entry.
    pub(super) async fn note_more(self: Rc<Self>) {
        let turn = self.take_turn(Work::Arrived).await;
        if turn.as_ref().is_some_and(|turn| turn.changed) {
            self.fetch_entry(FIRST_OF_ENTRY, Time::ZERO).await;
        }
    }

    async fn execute(self: &Rc<Self>, queued: Queued, turn: Option<Turn>) {
        let adapter = &self.adapter;
        let sim = &adapter.sim;
        match queued.fetch {
            Some(fetch) => fetch.await,
            None if queued.entry > 0 => {
                let sooner = adapter.plan(queued.request.kind, self.transport).adapter;
                Box::pin(self.fetch_entry(queued.entry, sooner)).await;
            }
            None => (),
        }
        let request = queued.request;
        self.pass_request(request.kind).await;
        let Some(target) = self.target(&request) else {
            return;
        };
        let message = Rc::new(Message {
            number: self.next_message.replace(self.next_message.get() + 1),
            kind: request.kind,
            bytes: request.bytes,
            remote: request.remote,
            visible: Cell::new(None),
            dropped: Cell::new(false),
            notice: Cell::new(request.notice),
            placed: RefCell::new(request.placed),
            completed: RefCell::new(request.completed),
        });
        if request.kind.is_answered() {
            let chunk = Chunk {
                load: Load::single(0),
                offset: 0,
                first: true,
                last: true,
            };
            self.dispatch(&target, &message, chunk, None);
        } else {
            if let Some(translated) = adapter.translate(request.local, request.bytes, true) {
                translated.await;
            }
            let window = adapter.window(request.bytes);
            for chunk in adapter.chunks(request.bytes) {
                if let Some(paced) = &self.paced {
                    Box::pin(paced.pass(adapter, chunk.load)).await;
                }
                adapter.make_room(self.outgoing(chunk.load)).await;
                let inline = request.placement == Placement::Inline || chunk.load.bytes == 0;
                let mut reading = match (inline, request.local.home) {
                    (true, _) => None,
                    (false, MemoryHome::Host) => {
                        Some(adapter.bus.issue(chunk.load, &window, &adapter.reads).await)
                    }
                    (false, MemoryHome::Adapter) => {
                        adapter.read_own(chunk.load.bytes).await;
                        None
                    }
                };
                let issued = reading.as_mut().and_then(Reading::issued);
                self.dispatch(&target, &message, chunk, reading);
                if let Some(issued) = issued {
                    let last = issued.receive().await;
                    sim.sleep_until(last).await;
                }
            }
        }
        drop(turn);
    }

    /// Passes a work request through an engine, which it may occupy for longer than it takes to
    /// pass.
    async fn pass_request(&self, kind: Kind) {
        let adapter = &self.adapter;
        let sim = &adapter.sim;
        let engines = &adapter.profile.engines;
        let passes = engines.request();
        let sooner = adapter.plan(kind, self.transport).adapter;
        let interval = engines.interval.unwrap_or_default().since(sooner);
        let occupies = interval.max(passes);
        sim.sleep_until(self.next_request.get()).await;
        let free = adapter.send_engines.reserve(sim.now(), occupies);
        self.next_request.set(free);
        sim.sleep_until(free.since(occupies - passes)).await;
    }

    /// Sends a chunk once its payload has arrived, in the order of dispatching.
    fn dispatch(
        self: &Rc<Self>,
        target: &Rc<Pair>,
        message: &Rc<Message>,
        chunk: Chunk,
        reading: Option<Reading>,
    ) {
        let side = self.adapter.side(self.port);
        side.gathering.set(side.gathering.get() + 1);
        let mut flight = Flight::new(self, target, message, chunk);
        if let Some(flights) = &self.adapter.flights {
            return flights.start(flight, reading);
        }
        let task = |reading: Option<Reading>| async move {
            flight.gather(reading).await;
            flight.leave().await;
            flight.arrive().await;
        };
        match reading {
            Some(reading) => reading.start(task),
            None => self.adapter.sim.start(task(None)),
        }
    }

    /// Reserves the sending engines for a chunk.
    pub(super) fn book_sending(&self, load: Load, flow: Flow) -> Flow {
        let adapter = &self.adapter;
        let now = adapter.sim.now().max(flow.head);
        let packet = adapter.profile.engines.packet;
        let end = adapter.send_engines.reserve(now, packet * load.packets);
        Flow {
            head: end.since(packet * (load.packets - 1)),
            tail: end.max(flow.tail + packet),
        }
    }

    /// Returns the sending buffer space of a load.
    pub(super) fn outgoing(&self, load: Load) -> Outgoing {
        Outgoing {
            port: self.port,
            lane: self.lane.get(),
            bytes: load.bytes,
        }
    }

    /// Prepares a load whose payload is in the sending buffer for its departure to another adapter
    /// or the same.
    pub(super) fn towards(&self, to: &Pair, load: Load, header: u64) -> Left {
        if self.port.node == to.port.node {
            return Left::Within(Flow::at(Time::ZERO), self.outgoing(load));
        }
        let sent = Sent {
            load,
            header,
            lane: self.lane.get(),
        };
        Left::Over(
            self.adapter
                .network
                .packet_in_flight(self.port, to.port, sent),
        )
    }

    /// Sends the load. The future completes when its departure time is known.
    pub(super) async fn leave(&self, left: &mut Left, flow: Flow) {
        match left {
            Left::Within(within, _) => *within = flow,
            Left::Over(in_flight) => {
                let adapter = &self.adapter;
                adapter.network.depart(in_flight, flow).await;
                adapter.has_left(self.outgoing(in_flight.load()), in_flight.left());
            }
        }
    }

    /// Carries the load to its destination, which may then have to send a congestion notification.
    pub(super) async fn come(self: &Rc<Self>, to: &Rc<Pair>, left: &mut Left) -> (Flow, Held) {
        match left {
            Left::Within(flow, outgoing) => (*flow, Held::Sending(*outgoing)),
            Left::Over(in_flight) => {
                let arrival = self.adapter.network.carry(in_flight).await;
                if arrival.marked {
                    to.take_mark(self);
                }
                (arrival.flow, Held::Slot(arrival.slot))
            }
        }
    }

    pub(super) fn header(&self, kind: Kind, first: bool) -> u64 {
        let link = self.adapter.network.link();
        let extended = match kind {
            Kind::Send => 0,
            Kind::Write | Kind::WriteNotify | Kind::Read if first => link.rdma_header.0,
            Kind::Atomic if first => link.rdma_header.0 + 12,
            _ => 0,
        };
        let datagram = match self.transport {
            Transport::Datagram => link.datagram_header.0,
            _ => 0,
        };
        link.packet_overhead.0 + extended + datagram
    }
}

impl AdapterModel {
    /// Splits a message into packets; at message fidelity into [`TRAINS`] batches, so that messages
    /// which share a bus or a link progress side by side, or more if buffers are too small for such
    /// batches.
    pub(super) fn chunks(&self, bytes: u64) -> impl Iterator<Item = Chunk> + use<> {
        let mtu = self.network.link().mtu.0;
        let packets = bytes.div_ceil(mtu).max(1);
        let train = match self.fidelity {
            Fidelity::Packet => 1,
            Fidelity::Message => packets.div_ceil(TRAINS).min(self.longest_train),
        };
        let length = train * mtu;
        let chunks = packets.div_ceil(train);
        (0..chunks).map(move |n| Chunk {
            load: Load::message((bytes - n * length).min(length), mtu),
            offset: n * length,
            first: n == 0,
            last: n + 1 == chunks,
        })
    }
}
