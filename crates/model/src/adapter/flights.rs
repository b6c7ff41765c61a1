//! Packets in flight, and acknowledgements, as records: the stages of [`Flight`] as a state
//! machine.
//!
//! A record does at each instant the same as the task of a [`Flight`] (`flight`) does, in the same
//! order, so both give the same results to the picosecond. Stages that are rare or long (a missing
//! context, a receive request, a response) remain futures: the record becomes one, and the rest of
//! its way is that of the task.

use super::crossing::{CrossingPacket, MessageHead, Role};
use super::flight::Flight;
use super::load::{Chunk, Left};
use super::operation::Transport;
use super::pair::{Message, Pair};
use super::request::Action;
use crate::component::{Flow, Load, Network, PacketInFlight, Passage, Reading, Slot};
use crate::kernel::{Machine, MachineNumber, RecordId, Sim, Slab, TaskId, Time, prefetch};
use crate::mpi::Notice;
use std::cell::{OnceCell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Waker};

/// The stage of a record: the event that it waits for.
#[derive(Debug, Clone, Copy)]
enum Stage {
    /// Its payload.
    Gathers,
    /// Its turn to be sent.
    InOrder,
    /// An acknowledgement's start.
    Starts,
    /// The end of the sending pipeline.
    Leaves,
    /// Space at the far end of the adapter's link, by ticket.
    AtPort(u64),
    /// Its arrival at a switch.
    Travels,
    /// Space behind a switch, by ticket.
    AtSwitch(Slot, u64),
    /// Its arrival at an adapter.
    Arrives,
    /// The end of the receiving pipeline.
    Passes,
    /// The end of the write before its completion.
    Written,
    /// The instant at which a processor sees it.
    Seen,
    /// The end of an acknowledgement's processing.
    Acknowledged,
    /// The end of its future.
    Rest,
}

/// The rest of a record's way, if it is not by stages.
type Rest = Pin<Box<dyn Future<Output = ()>>>;

struct Record {
    stage: Stage,
    /// Partition in which it waits.
    place: u32,
    role: Role,
    /// End of its stage if that is known; past otherwise.
    due: Time,
    /// `None` once a future has it.
    flight: Option<Flight>,
    /// Instead of a flight: the packet, if both of its queue pairs are of other threads.
    transit: Option<Box<CrossingPacket>>,
    reading: Option<Reading>,
    /// Callback at the end of the last stage, and notice to the target.
    action: Option<Action>,
    notice: Option<Notice>,
    rest: Option<Rest>,
}

/// Result of a record's advance.
enum Advance {
    /// It waits for another event.
    Waits,
    /// Its message is to be acknowledged at an instant; then it goes on.
    Acknowledges(Time),
    /// It has ended.
    Ended,
    /// Its rest is to be polled.
    Polls,
    /// It continues in a partition of another thread.
    Crosses,
}

/// Finds a queue pair by its number.
type FindPair = Box<dyn Fn(u64) -> Option<Rc<Pair>>>;

/// All packets in flight of a system.
#[derive(Default)]
pub struct Flights {
    machine: OnceCell<MachineNumber>,
    records: RefCell<Slab<Record>>,
    /// The network that they pass, until the end of the simulation.
    network: RefCell<Option<Rc<Network>>>,
    /// Packets that have left for partitions of other threads in this window.
    outgoing: RefCell<Vec<CrossingPacket>>,
    find_pair: RefCell<Option<FindPair>>,
}

impl Flights {
    /// Creates the flights of a simulation over its network.
    pub fn new(sim: &Sim, network: &Rc<Network>) -> Rc<Flights> {
        let flights = Rc::new(Flights::default());
        flights.network.replace(Some(network.clone()));
        let number = sim.add_machine(flights.clone());
        let _ = flights.machine.set(number);
        flights
    }

    /// Starts the flight of a chunk that waits for its payload.
    #[inline]
    pub(super) fn start(&self, flight: Flight, reading: Option<Reading>) {
        let sim = flight.source.adapter.sim.clone();
        let mut record = Record::new(&sim, Stage::Gathers, flight);
        record.reading = reading;
        let task = self.add(&sim, record);
        let mut records = self.records.borrow_mut();
        let record = records.get(task.1);
        let reading = record.and_then(|record| record.reading.as_ref());
        if reading.is_none_or(|reading| reading.done_or_wakes(task.0).is_some()) {
            sim.wake(task.0);
        }
    }

    /// Starts the acknowledgement of a flight's message at `instant`.
    pub(super) fn acknowledge(&self, flight: &Flight, instant: Time) {
        let sim = &flight.target.adapter.sim;
        let record = Record::acknowledgement(sim, flight, instant);
        let (task, _) = self.add(sim, record);
        sim.wake_in(sim.place(), instant, task);
    }

    /// Carries a packet of a read response that has left for its requester, `pairs.1`: in the
    /// same order as the task that sent it would.
    pub(super) fn carry_response(
        &self,
        pairs: (&Rc<Pair>, &Rc<Pair>),
        (message, chunk, number): (Rc<Message>, Chunk, u64),
        in_flight: PacketInFlight,
    ) {
        let sim = &pairs.0.adapter.sim;
        let network = &pairs.0.adapter.network;
        let passage = network.begin_to_carry(&in_flight);
        let flight = Flight {
            source: pairs.0.clone(),
            target: pairs.1.clone(),
            message,
            chunk,
            number,
            flow: Flow::at(sim.now()),
            left: Left::Over(in_flight),
        };
        let mut record = Record {
            role: Role::Response,
            ..Record::new(sim, Stage::Arrives, flight)
        };
        let (place, due) = match passage {
            Passage::Travels(place, due) => {
                record.stage = Stage::Travels;
                (sim.place_of(place), due)
            }
            _ => {
                let in_flight = record.in_flight();
                let arrival = in_flight.map(|in_flight| network.arrival(in_flight));
                let head = arrival.map_or(sim.now(), |arrival| arrival.flow.head);
                (sim.place(), head)
            }
        };
        (record.place, record.due) = (place, due);
        if network.is_foreign(place) {
            let packet = record.leaves(sim.place(), network);
            self.outgoing.borrow_mut().extend(packet);
            return;
        }
        let (task, _) = self.add(sim, record);
        match place == sim.place() {
            true => sim.wake_in(place, due, task),
            false => sim.cross_from(sim.place(), place, due, task),
        }
    }

    /// Sets the lookup of queue pairs by number, for packets from other threads.
    pub(crate) fn find_pairs_by(&self, find: impl Fn(u64) -> Option<Rc<Pair>> + 'static) {
        self.find_pair.replace(Some(Box::new(find)));
    }

    /// Takes the packets that have left for partitions of other threads in this window.
    pub(crate) fn take_outgoing(&self) -> Vec<CrossingPacket> {
        self.outgoing.take()
    }

    /// Adds packets from other threads, at the end of the window in which they have left.
    pub(crate) fn receive(&self, sim: &Sim, packets: impl IntoIterator<Item = CrossingPacket>) {
        let network = self.network.borrow();
        let Some(network) = &*network else { return };
        for packet in packets {
            let (from, place, due) = (packet.from, packet.place, packet.due);
            let record = match network.is_own(packet.in_flight.destination()) {
                true => self.arrived(sim, network, packet),
                false => Record::in_transit(packet),
            };
            let (task, _) = self.add(sim, record);
            sim.cross_from(from, place, due, task);
        }
    }

    /// Returns the record of a packet whose target is of this thread.
    fn arrived(&self, sim: &Sim, network: &Network, packet: CrossingPacket) -> Record {
        let find = self.find_pair.borrow();
        let found = find.as_ref().and_then(|find| find(packet.pair));
        let source = found.expect("queue pairs of other threads are found by their numbers");
        let target = source.peer.borrow().upgrade();
        let target = target.expect("ranks connect both queue pairs");
        let requester = match packet.role {
            Role::Request => &source,
            Role::Acknowledgement | Role::Response => &target,
        };
        let own = network.is_own(requester.port.node).then_some(&**requester);
        let message = packet.message.arrives(packet.chunk.last, own);
        let flight = Flight {
            message,
            chunk: packet.chunk,
            number: packet.number,
            flow: Flow::at(packet.due),
            left: Left::Over(packet.in_flight),
            source,
            target,
        };
        Record {
            role: packet.role,
            place: packet.place,
            due: packet.due,
            ..Record::new(sim, Stage::Travels, flight)
        }
    }

    /// Adds a record; returns its number as a task and its own.
    #[inline]
    fn add(&self, sim: &Sim, record: Record) -> (TaskId, RecordId) {
        let mut records = self.records.borrow_mut();
        let number = records.add(record);
        sim.note_records(records.room());
        (self.task(number), number)
    }

    fn task(&self, record: RecordId) -> TaskId {
        let machine = self.machine.get().expect("set when created");
        machine.task(record)
    }

    /// Polls the rest of a record.
    fn poll(&self, number: RecordId) {
        let taken = |record: &mut Record| record.rest.take();
        let rest = self.records.borrow_mut().get(number).and_then(taken);
        let Some(mut rest) = rest else { return };
        let mut context = Context::from_waker(Waker::noop());
        let has_ended = rest.as_mut().poll(&mut context).is_ready();
        let mut records = self.records.borrow_mut();
        match has_ended {
            true => drop(records.remove(number)),
            false => {
                if let Some(record) = records.get(number) {
                    record.rest = Some(rest);
                }
            }
        }
    }
}

impl Machine for Flights {
    fn advance(&self, sim: &Sim, number: RecordId) {
        let mut records = self.records.borrow_mut();
        let Some(record) = records.get(number) else {
            return;
        };
        if sim.now() < record.due || record.place != sim.place() {
            return;
        }
        let network = self.network.borrow();
        let Some(network) = &*network else { return };
        let at = &Place { sim, network };
        let mut advance = record.advance(at);
        if let Advance::Acknowledges(instant) = advance {
            let Some(flight) = &record.flight else { return };
            let acknowledgement = Record::acknowledgement(sim, flight, instant);
            let task = self.task(records.add(acknowledgement));
            sim.note_records(records.room());
            sim.wake_in(sim.place(), instant, task);
            let Some(record) = records.get(number) else {
                return;
            };
            advance = record.awaits_due(at);
        }
        match advance {
            Advance::Waits | Advance::Acknowledges(_) => (),
            Advance::Ended => {
                let Some(ended) = records.remove(number) else {
                    return;
                };
                drop(records);
                if let Some(action) = ended.action {
                    action();
                }
                if let Some(flight) = ended.flight {
                    flight.target.notify(ended.notice);
                }
            }
            Advance::Crosses => {
                if let Some(record) = records.remove(number) {
                    let packet = record.leaves(sim.place(), network);
                    self.outgoing.borrow_mut().extend(packet);
                }
            }
            Advance::Polls => {
                drop(records);
                self.poll(number);
            }
        }
    }

    fn prefetch(&self, number: RecordId, depth: usize) {
        let records = self.records.borrow();
        let slot = records.slot(number);
        match (depth, slot.record()) {
            (0, _) => prefetch::of(slot),
            (_, Some(record)) => {
                if let Some(network) = &*self.network.borrow() {
                    record.prefetch(network);
                }
            }
            (_, None) => (),
        }
    }

    fn clear(&self) {
        self.records.take();
        self.network.take();
        self.find_pair.take();
    }
}

/// A record's surroundings.
struct Place<'a> {
    sim: &'a Sim,
    network: &'a Network,
}

impl Record {
    /// Prefetches the state that its next event needs.
    fn prefetch(&self, network: &Network) {
        if let Some(packet) = &self.transit {
            return network.prefetch(&packet.in_flight);
        }
        let Some(flight) = &self.flight else { return };
        match self.stage {
            Stage::Travels | Stage::AtSwitch(..) => {
                if let Left::Over(in_flight) = &flight.left {
                    network.prefetch(in_flight);
                }
            }
            Stage::Gathers | Stage::InOrder | Stage::Starts | Stage::Leaves | Stage::AtPort(_) => {
                prefetch::of(&*flight.source);
            }
            Stage::Arrives | Stage::Passes => {
                prefetch::of(&*flight.target);
                // Its order of delivery is kept where it comes from.
                prefetch::of(&flight.source.delivered);
                prefetch::of(&*flight.message);
            }
            Stage::Written | Stage::Acknowledged => prefetch::of(&*flight.target),
            Stage::Seen => prefetch::of(&*flight.message),
            Stage::Rest => (),
        }
    }

    #[inline]
    fn new(sim: &Sim, stage: Stage, flight: Flight) -> Record {
        Record {
            stage,
            place: sim.place(),
            role: Role::Request,
            due: Time::ZERO,
            flight: Some(flight),
            transit: None,
            reading: None,
            action: None,
            notice: None,
            rest: None,
        }
    }

    /// Creates the record of a packet that only passes switches of this thread.
    fn in_transit(packet: CrossingPacket) -> Record {
        Record {
            stage: Stage::Travels,
            place: packet.place,
            role: packet.role,
            due: packet.due,
            flight: None,
            transit: Some(Box::new(packet)),
            reading: None,
            action: None,
            notice: None,
            rest: None,
        }
    }

    /// Returns the packet of a record that continues in a partition of another thread; `from` is
    /// the partition that it leaves.
    fn leaves(self, from: u32, network: &Network) -> Option<CrossingPacket> {
        let (place, due) = (self.place, self.due);
        if let Some(packet) = self.transit {
            return Some(CrossingPacket {
                from,
                place,
                due,
                ..*packet
            });
        }
        let flight = self.flight?;
        let Left::Over(in_flight) = flight.left else {
            return None;
        };
        let requester = match self.role {
            Role::Request => &flight.source,
            Role::Acknowledgement | Role::Response => &flight.target,
        };
        assert!(
            requester.transport == Transport::Reliable,
            "only reliable messages are exchanged between threads"
        );
        let own = network.is_own(requester.port.node).then_some(&**requester);
        Some(CrossingPacket {
            from,
            place,
            due,
            pair: flight.source.id,
            role: self.role,
            message: MessageHead::leaves(&flight.message, (self.role, flight.chunk.last), own),
            chunk: flight.chunk,
            number: flight.number,
            in_flight,
        })
    }

    /// Returns its packet, if that is on a link.
    fn in_flight(&mut self) -> Option<&mut PacketInFlight> {
        match (&mut self.flight, &mut self.transit) {
            (Some(flight), _) => match &mut flight.left {
                Left::Over(in_flight) => Some(in_flight),
                Left::Within(..) => None,
            },
            (None, transit) => transit.as_mut().map(|packet| &mut packet.in_flight),
        }
    }

    /// Creates the acknowledgement of a flight's message, which starts at `instant`.
    fn acknowledgement(sim: &Sim, of: &Flight, instant: Time) -> Record {
        let load = Load::single(0);
        let (own, source) = (&of.target, &of.source);
        let flight = Flight {
            source: own.clone(),
            target: source.clone(),
            message: of.message.clone(),
            chunk: Chunk {
                load,
                offset: 0,
                first: true,
                last: true,
            },
            number: 0,
            flow: Flow::at(instant),
            left: own.towards(source, load, own.acknowledgement()),
        };
        Record {
            role: Role::Acknowledgement,
            due: instant,
            ..Record::new(sim, Stage::Starts, flight)
        }
    }

    /// Advances as far as it gets now.
    #[inline]
    fn advance(&mut self, at: &Place<'_>) -> Advance {
        match self.stage {
            Stage::Travels => return self.pass(at),
            Stage::AtSwitch(slot, ticket) => return self.pass_later(at, (slot, ticket)),
            _ => (),
        }
        let Some(flight) = &mut self.flight else {
            return Advance::Polls;
        };
        match self.stage {
            Stage::Gathers => {
                let data = match &self.reading {
                    None => None,
                    Some(reading) => match reading.done_or_wakes(at.sim.current()) {
                        None => return Advance::Waits,
                        some => some,
                    },
                };
                self.reading = None;
                flight.is_gathered(data);
                self.stage = Stage::InOrder;
                match flight.source.sent.is_open_or_waits(flight.number) {
                    true => self.pass_sender(at),
                    false => Advance::Waits,
                }
            }
            Stage::InOrder => match flight.source.sent.is_open(flight.number) {
                true => self.pass_sender(at),
                false => Advance::Waits,
            },
            Stage::Starts | Stage::Leaves => self.leave(at),
            Stage::AtPort(ticket) => {
                let Left::Over(in_flight) = &mut flight.left else {
                    return Advance::Waits;
                };
                match at.network.departs(in_flight, ticket, flight.flow) {
                    true => self.has_left(at),
                    false => Advance::Waits,
                }
            }
            Stage::Arrives => self.arrive(at),
            Stage::Passes => self.place(at),
            Stage::Written => self.report(at),
            Stage::Seen => self.is_seen(),
            Stage::Acknowledged => match self.action.is_some() {
                true => Advance::Ended,
                false => self.complete(at),
            },
            Stage::Rest | Stage::Travels | Stage::AtSwitch(..) => Advance::Polls,
        }
    }

    /// Passes the switch that it has come to, if there is space behind it.
    fn pass(&mut self, at: &Place<'_>) -> Advance {
        let Some(in_flight) = self.in_flight() else {
            return Advance::Waits;
        };
        let passage = at.network.pass(in_flight);
        self.goes_on(at, passage)
    }

    /// Passes the switch where it has waited for space, if there is enough now.
    fn pass_later(&mut self, at: &Place<'_>, waited: (Slot, u64)) -> Advance {
        let Some(in_flight) = self.in_flight() else {
            return Advance::Waits;
        };
        match at.network.pass_later(in_flight, waited) {
            Some(passage) => self.goes_on(at, passage),
            None => Advance::Waits,
        }
    }

    /// Goes on to a stage that ends at `instant`; returns whether that lies ahead.
    fn sleeps(&mut self, at: &Place<'_>, stage: Stage, instant: Time) -> bool {
        (self.stage, self.due) = (stage, instant);
        let sleeps = instant > at.sim.now();
        if sleeps {
            at.sim.wake_at(instant);
        }
        sleeps
    }

    fn pass_sender(&mut self, at: &Place<'_>) -> Advance {
        let Some(flight) = &mut self.flight else {
            return Advance::Waits;
        };
        flight.pass_sender();
        let head = flight.flow.head;
        match self.sleeps(at, Stage::Leaves, head) {
            true => Advance::Waits,
            false => self.leave(at),
        }
    }

    fn leave(&mut self, at: &Place<'_>) -> Advance {
        let Some(flight) = &mut self.flight else {
            return Advance::Waits;
        };
        match &mut flight.left {
            Left::Within(within, _) => *within = flight.flow,
            Left::Over(in_flight) => {
                if let Passage::Leaving(ticket) = at.network.begin_to_depart(in_flight, flight.flow)
                {
                    self.stage = Stage::AtPort(ticket);
                    return Advance::Waits;
                }
            }
        }
        self.has_left(at)
    }

    fn has_left(&mut self, at: &Place<'_>) -> Advance {
        let Some(flight) = &mut self.flight else {
            return Advance::Waits;
        };
        let adapter = &flight.source.adapter;
        if let Left::Over(in_flight) = &flight.left {
            let outgoing = flight.source.outgoing(in_flight.load());
            adapter.has_left(outgoing, in_flight.left());
        }
        if self.role == Role::Request {
            flight.has_left();
        }
        match &flight.left {
            Left::Within(flow, _) => {
                flight.flow = *flow;
                self.has_arrived(at)
            }
            Left::Over(in_flight) => {
                let passage = at.network.begin_to_carry(in_flight);
                self.goes_on(at, passage)
            }
        }
    }

    /// Goes on through the network.
    fn goes_on(&mut self, at: &Place<'_>, passage: Passage) -> Advance {
        let mut passage = passage;
        loop {
            let Some(in_flight) = self.in_flight() else {
                return Advance::Waits;
            };
            match passage {
                Passage::Leaving(_) | Passage::Left => return Advance::Waits,
                Passage::Travels(place, due) => {
                    let place = at.sim.place_of(place);
                    if due > at.sim.now() || place != at.sim.place() {
                        (self.stage, self.due, self.place) = (Stage::Travels, due, place);
                        if at.network.is_foreign(place) {
                            return Advance::Crosses;
                        }
                        match place == at.sim.place() {
                            true => at.sim.wake_at(due),
                            false => at.sim.cross(place, due),
                        }
                        return Advance::Waits;
                    }
                    passage = at.network.pass(in_flight);
                }
                Passage::Waiting(slot, ticket) => {
                    self.stage = Stage::AtSwitch(slot, ticket);
                    return Advance::Waits;
                }
                Passage::Passed => {
                    let head = at.network.arrival(in_flight).flow.head;
                    return match self.sleeps(at, Stage::Arrives, head) {
                        true => Advance::Waits,
                        false => self.arrive(at),
                    };
                }
            }
        }
    }

    /// Arrives at its adapter.
    fn arrive(&mut self, at: &Place<'_>) -> Advance {
        let Some(flight) = &mut self.flight else {
            return Advance::Waits;
        };
        let Left::Over(in_flight) = &flight.left else {
            return Advance::Waits;
        };
        let arrival = at.network.arrival(in_flight);
        if arrival.marked {
            flight.target.take_mark(&flight.source);
        }
        flight.flow = arrival.flow;
        self.has_arrived(at)
    }

    /// Is processed at the adapter that it has come to.
    fn has_arrived(&mut self, at: &Place<'_>) -> Advance {
        match self.role {
            Role::Request => (),
            Role::Acknowledgement => return self.take_acknowledgement(at),
            Role::Response => {
                return self.become_task(|flight| async move {
                    let there = (flight.flow, flight.left.held());
                    let (message, chunk) = (flight.message, flight.chunk);
                    let take = flight
                        .target
                        .take_response(message, chunk, flight.number, there);
                    take.await;
                });
            }
        }
        let Some(flight) = &mut self.flight else {
            return Advance::Waits;
        };
        let (target, held) = (&flight.target, flight.left.held());
        if let Some(missing) = target.adapter.touch_context(target) {
            return self.become_task(|mut flight| async move {
                flight.target.adapter.fetch_context(missing).await;
                flight.process(held).await;
            });
        }
        flight.flow = target.book_engine(flight.chunk.load, flight.flow);
        if !flight.is_in_turn() {
            return self.become_task(|mut flight| async move {
                flight.take_turn_and_place(held).await;
            });
        }
        let instant = flight.flow.head + flight.pipeline();
        match self.sleeps(at, Stage::Passes, instant) {
            true => Advance::Waits,
            false => self.place(at),
        }
    }

    fn place(&mut self, at: &Place<'_>) -> Advance {
        let Some(flight) = &mut self.flight else {
            return Advance::Waits;
        };
        let held = flight.left.held();
        if flight.message.dropped.get() {
            flight.is_dropped(Some(held));
            return Advance::Ended;
        }
        if let Some(translated) = flight.translate() {
            return self.become_task(|mut flight| async move {
                translated.await;
                flight.place(Some(held)).await;
            });
        }
        let placed = flight.put_down(Some(held));
        if !flight.chunk.last {
            return Advance::Ended;
        }
        // The acknowledgement is scheduled before the record's own next event.
        let is_reliable = flight.target.transport == Transport::Reliable;
        (self.stage, self.due) = match placed.reported {
            Some(instant) => (Stage::Written, instant),
            None => (Stage::Seen, placed.visible),
        };
        match is_reliable {
            true => Advance::Acknowledges(placed.gone),
            false => self.awaits_due(at),
        }
    }

    /// Schedules the end of its last stage or the last but one, if that lies ahead.
    fn awaits_due(&mut self, at: &Place<'_>) -> Advance {
        match (self.sleeps(at, self.stage, self.due), self.stage) {
            (true, _) => Advance::Waits,
            (false, Stage::Written) => self.report(at),
            (false, _) => self.is_seen(),
        }
    }

    /// Writes the completion of a received message.
    fn report(&mut self, at: &Place<'_>) -> Advance {
        let Some(flight) = &self.flight else {
            return Advance::Waits;
        };
        let visible = flight.report();
        match self.sleeps(at, Stage::Seen, visible) {
            true => Advance::Waits,
            false => self.is_seen(),
        }
    }

    /// Ends when a processor sees it.
    fn is_seen(&mut self) -> Advance {
        if let Some(flight) = &self.flight {
            self.action = flight.message.placed.borrow_mut().take();
            self.notice = flight.message.notice.take();
        }
        Advance::Ended
    }

    /// Processes an acknowledgement at the requester.
    fn take_acknowledgement(&mut self, at: &Place<'_>) -> Advance {
        let Some(flight) = &mut self.flight else {
            return Advance::Waits;
        };
        let (target, message) = (&flight.target, &flight.message);
        let (adapter, held) = (&target.adapter, flight.left.held());
        if adapter.serial() {
            return self.become_task(|flight| async move {
                flight.target.take_acknowledgement(held).await;
                flight.target.complete(&flight.message).await;
            });
        }
        let packet = adapter.profile.engines.packet;
        let done = adapter.receive_engines.reserve(at.sim.now(), packet);
        adapter.let_go(held, done);
        if message.completed.borrow().is_none() {
            return Advance::Ended;
        }
        match self.sleeps(at, Stage::Acknowledged, done) {
            true => Advance::Waits,
            false => self.complete(at),
        }
    }

    /// Completes the acknowledged message.
    fn complete(&mut self, at: &Place<'_>) -> Advance {
        let Some(flight) = &mut self.flight else {
            return Advance::Waits;
        };
        let Some((instant, action)) = flight.target.begin_to_complete(&flight.message) else {
            return Advance::Ended;
        };
        self.action = Some(action);
        match self.sleeps(at, Stage::Acknowledged, instant) {
            true => Advance::Waits,
            false => Advance::Ended,
        }
    }

    /// Continues as a future, which is polled at once.
    fn become_task<F>(&mut self, rest: impl FnOnce(Flight) -> F) -> Advance
    where
        F: Future<Output = ()> + 'static,
    {
        if let Some(flight) = self.flight.take() {
            self.rest = Some(Box::pin(rest(flight)));
        }
        self.stage = Stage::Rest;
        Advance::Polls
    }
}
