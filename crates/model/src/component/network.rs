//! Links, cables and switches.
//!
//! A port is a server at the link's rate. A switch forwards cut-through: a packet leaves `latency`
//! after its first byte arrived, if the port is free. Adapters store a packet until its check has
//! been verified.
//!
//! Flow control is lossless. Each link has at its far end a buffer per virtual lane, and at its
//! near end the credits of that buffer, in blocks of 64 bytes. A packet takes credits before it
//! leaves; they return, with the delay of a flow-control packet, after it has left the buffer. A
//! switch's buffers are at its inputs. Each output takes its packets from them in order of arrival,
//! but packets for an output that cannot deliver stay, and when they fill a buffer, nothing else
//! arrives over that link on the same lane, for any destination. So congestion spreads backwards.
//! Source: InfiniBand architecture specification, volume 1, chapter 7 (link layer: virtual lanes,
//! credit limits in blocks of 64 bytes).

use super::load::{Flow, Load};
use super::port::Port;
use super::topology::outlook::{Choice, Outlook};
use super::topology::{PathPosition, Share, Topology};
use crate::congestion;
use crate::kernel::prefetch;
use crate::kernel::{AtWindowEnd, Draws, Occupancy, Server, Sim, Space, Take, Time};
use crate::profile::{Cable, Link, Marking, Rate, Switch, System};
use crate::stage;
use crate::threads::OwnNodes;
use crate::topology::Built;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes per credit.
const BLOCK: u64 = 64;

/// Buffer space of a load at the end of a link; occupied until it is released
/// ([`Network::release`]).
#[must_use = "a slot that is not released is lost to the link"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    buffer: u32,
    bytes: u32,
    /// The partition of the egress port before the buffer.
    place: u32,
}

/// Buffer space that a partition returns to another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Returned {
    /// The partition that returns it.
    pub from: u32,
    /// The space; its partition is `slot.place`.
    slot: Slot,
    /// When the other partition knows of it.
    pub told: Time,
}

impl Returned {
    /// Returns the partition of the egress port before the buffer.
    pub fn place(&self) -> u32 {
        self.slot.place
    }
}

/// A transmission: a load with `header` bytes around each packet, on a virtual lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The load.
    pub load: Load,
    /// Header bytes of each packet.
    pub header: u64,
    /// Virtual lane, modulo the number of lanes of a link.
    pub lane: u64,
}

/// The complete state of a load in flight between two adapters. The sender owns it and it needs no
/// further memory, as a large system has many of them, each accessed rarely.
pub struct PacketInFlight {
    from: u32,
    own: u32,
    sent: Sent,
    way: PathPosition,
    /// The port that it passes next, or passed last, and the space behind it.
    port: u32,
    slot: Slot,
    /// When its first and its last byte leave the last port passed.
    begin: Time,
    end: Time,
    /// How long it and its last packet occupy a link of the adapter's rate.
    spans: (Time, Time),
    marked: bool,
}

impl PacketInFlight {
    /// Returns when its last byte has left the adapter, once known.
    pub fn left(&self) -> Time {
        self.end
    }

    /// Returns the buffer space that it holds.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Returns the node that it goes to.
    pub(crate) fn destination(&self) -> usize {
        self.way.destination()
    }

    /// Returns the load.
    pub fn load(&self) -> Load {
        self.sent.load
    }
}

/// Progress of a load that a record carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passage {
    /// It waits for buffer space at the far end of its adapter's link.
    Leaving(u64),
    /// It has left its adapter.
    Left,
    /// It continues in a partition at an instant.
    Travels(usize, Time),
    /// It waits for buffer space behind a switch.
    Waiting(Slot, u64),
    /// It has passed its last port.
    Passed,
}

/// A load that has arrived at an adapter.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Arrival of its packets.
    pub flow: Flow,
    /// Its buffer space.
    pub slot: Slot,
    /// Whether a switch on the path has marked it because of the queue before its port.
    pub marked: bool,
}

/// An egress port.
#[derive(Default)]
struct Egress {
    server: Server,
    /// Time of its link for packets with payload.
    payload: Cell<Time>,
}

impl Egress {
    fn pass(&self, load: Load, arrival: Time, span: Time, (last, tail): (Time, Time)) -> Occupancy {
        if load.bytes > 0 {
            self.payload.set(self.payload.get() + span);
        }
        self.server.reserve_train(arrival, span, last, tail)
    }
}

/// Loads that wait for credits at an egress port, and the time for which the port therefore sent
/// nothing: the time that `PortXmitWait` counts. Source: InfiniBand architecture specification,
/// volume 1, section 16.1 (performance management).
#[derive(Default)]
struct Stall {
    waiting: Cell<u32>,
    /// When the first of them came, or a load passed since.
    since: Cell<Time>,
    stalled: Cell<Time>,
}

impl Stall {
    fn begin(&self, now: Time) {
        if self.waiting.get() == 0 {
            self.since.set(now);
        }
        self.waiting.set(self.waiting.get() + 1);
    }

    /// Notes that a load takes the port now, which has been free since `free`.
    fn pass(&self, now: Time, free: Time, has_waited: bool) {
        if self.waiting.get() > 0 {
            let idle = now.since(self.since.get().max(free));
            self.stalled.set(self.stalled.get() + idle);
            self.since.set(now);
        }
        if has_waited {
            self.waiting.set(self.waiting.get() - 1);
        }
    }
}

struct Marks {
    marking: Marking,
    /// By egress port: each sequence is drawn from in one partition only.
    draws: Vec<Draws>,
}

/// All links of a system.
pub struct Network {
    sim: Sim,
    link: Link,
    /// Latency of a switch.
    latency: Time,
    cable: Time,
    topology: Topology,
    /// By number, as the topology counts them.
    egresses: Vec<Egress>,
    /// Rates of the egress ports' links.
    rates: Vec<Rate>,
    /// Whether they are the same.
    is_uniform: bool,
    lanes: u64,
    /// The buffers at the far ends of the egress ports' links, by port and lane.
    buffers: Vec<Space>,
    /// Sizes of the smallest and the largest buffer.
    smallest: u64,
    largest: u64,
    marks: Option<Marks>,
    /// The names of a fabric that exists, and the waiting at its egress ports.
    built: Option<(Arc<Built>, Vec<Stall>)>,
    /// The nodes that are simulated here, with the switches near them; all of them if not set.
    /// By partition, the thread that simulates it.
    own_nodes: OnceCell<(OwnNodes, Vec<u32>)>,
    /// Space returned to other partitions in this window.
    returned: RefCell<Vec<Returned>>,
}

impl Network {
    /// Connects `nodes` adapters of a system by its switches: by its topology, or as a fat tree of
    /// as many as needed.
    pub fn new(sim: &Sim, system: &System, nodes: usize) -> Network {
        let (link, switch) = (&system.link, system.switch.as_ref());
        let ports = system.ports as usize;
        let topology = match &system.topology {
            Some(topology) => Topology::wired(&topology.wiring, nodes, ports),
            None => Topology::tree(nodes, ports, switch.map(|s| s.ports.0 as usize)),
        };
        let in_switches = switch.and_then(|s| s.buffer).unwrap_or(link.buffer).0;
        let buffer = |egress| match topology.leads_to_adapter(egress) {
            true => link.buffer.0,
            false => in_switches,
        };
        let lanes = link.lanes.0;
        let buffers = (0..topology.egresses())
            .flat_map(|egress| (0..lanes).map(move |_| egress))
            .map(|egress| Space::new(buffer(egress)))
            .collect();
        let marks = system.congestion.as_ref().map(|congestion| Marks {
            marking: congestion.marking.clone(),
            draws: (0..topology.egresses()).map(Draws::new).collect(),
        });
        let built = system.topology.as_ref().and_then(|t| t.built.as_ref());
        let rate = |egress| built.and_then(|built| topology.rate(egress, built));
        Network {
            sim: sim.clone(),
            rates: (0..topology.egresses())
                .map(|egress| rate(egress).unwrap_or(link.rate))
                .collect(),
            is_uniform: built.is_none(),
            link: link.clone(),
            latency: switch.map_or(Time::ZERO, |s| s.latency),
            cable: Network::end_to_end(&system.cable),
            egresses: (0..topology.egresses())
                .map(|_| Egress::default())
                .collect(),
            lanes,
            buffers,
            smallest: link.buffer.0.min(in_switches),
            largest: link.buffer.0.max(in_switches),
            marks,
            built: built.map(|built| {
                let stalls = (0..topology.egresses()).map(|_| Stall::default());
                (built.clone(), stalls.collect())
            }),
            own_nodes: OnceCell::new(),
            returned: RefCell::default(),
            topology,
        }
    }

    /// Returns the delay of a cable, transceivers included.
    fn end_to_end(cable: &Cable) -> Time {
        cable.per_metre * cable.length.0 + cable.transceiver * 2
    }

    /// Returns the minimum time until an event in one node affects another node or a switch.
    pub fn lookahead(cable: &Cable, switch: &Switch) -> Time {
        Network::end_to_end(cable) + switch.latency
    }

    /// Returns the wire time of a load with `header` bytes in each packet on an egress port's link.
    fn span(&self, egress: usize, bytes: u64, packets: u64, header: u64) -> Time {
        self.rates[egress]
            .time(bytes + packets * header)
            .scaled(1.0 + self.link.control.0)
    }

    /// Returns how long a load and its last packet occupy an egress port's link.
    fn spans(&self, egress: usize, sent: Sent) -> (Time, Time) {
        let Sent { load, header, .. } = sent;
        let all = self.span(egress, load.bytes, load.packets, header);
        let last = match load.packets {
            1 => all,
            _ => self.span(egress, load.last(), 1, header),
        };
        (all, last)
    }

    fn buffer(&self, egress: usize, lane: u64) -> usize {
        match self.lanes {
            1 => egress,
            lanes => egress * lanes as usize + (lane % lanes) as usize,
        }
    }

    /// Maps a sender's `lane` to a lane at a port: each lane that senders distinguish takes as many
    /// lanes as routing has classes.
    fn lane_of(&self, lane: u64, class: usize) -> u64 {
        if self.lanes == 1 {
            return 0;
        }
        let classes = (self.topology.classes() as u64).min(self.lanes);
        let told_apart = self.lanes / classes;
        lane % told_apart * classes + class as u64 % classes
    }

    /// Returns the credits that a load takes, in bytes.
    fn blocks(load: Load, header: u64) -> u64 {
        let of = |bytes: u64| (bytes + header).next_multiple_of(BLOCK);
        (load.packets - 1) * of(load.first) + of(load.last())
    }

    /// Chooses the port that a load passes next and the space behind it, of the size that it has
    /// taken on its way so far.
    fn turn_to(&self, in_flight: &mut PacketInFlight, egress: usize, lane: u64) -> Slot {
        in_flight.port = egress as u32;
        Slot {
            buffer: self.buffer(egress, lane) as u32,
            bytes: in_flight.slot.bytes,
            place: self.sim.place(),
        }
    }

    /// Returns a future that reserves a slot.
    fn enter(&self, slot: Slot) -> Take<'_> {
        let buffer = &self.buffers[slot.buffer as usize];
        buffer.take(&self.sim, u64::from(slot.bytes))
    }

    /// Releases `slot`, whose load will have left the buffer at `instant`.
    pub fn release(&self, slot: Slot, instant: Time) {
        // The flow-control packet that returns the credits takes the path of any packet.
        let told = instant + self.cable + self.latency;
        let from = self.sim.place();
        match slot.place == from {
            true => self.take_back(slot, told),
            false => self
                .returned
                .borrow_mut()
                .push(Returned { from, slot, told }),
        }
    }

    fn take_back(&self, slot: Slot, told: Time) {
        let space = &self.buffers[slot.buffer as usize];
        space.give_back(&self.sim, told, u64::from(slot.bytes));
    }

    /// Returns when the first partition knows of space returned to it in this window.
    pub(crate) fn first_returned(&self) -> Option<Time> {
        self.returned.borrow().iter().map(|one| one.told).min()
    }

    /// Takes the space returned in this window to partitions of other threads.
    pub(crate) fn returned_to_others(&self) -> Vec<Returned> {
        let mut returned = self.returned.borrow_mut();
        let is_foreign = |one: &&Returned| self.is_foreign(one.place());
        let (foreign, own) = returned.iter().partition(is_foreign);
        *returned = own;
        foreign
    }

    /// Adds space returned by partitions of another thread.
    pub(crate) fn add_returned(&self, returned: &[Returned]) {
        self.returned.borrow_mut().extend_from_slice(returned);
    }

    /// Creates a load in flight from one adapter to another.
    pub fn packet_in_flight(&self, from: Port, to: Port, sent: Sent) -> PacketInFlight {
        let bytes = Network::blocks(sent.load, sent.header);
        PacketInFlight {
            from: from.node as u32,
            own: self.topology.own(from) as u32,
            sent,
            way: self.topology.way(from.node, to),
            port: 0,
            slot: Slot {
                buffer: 0,
                bytes: u32::try_from(bytes).expect("a load is shorter than a buffer"),
                place: 0,
            },
            begin: Time::ZERO,
            end: Time::ZERO,
            spans: (Time::ZERO, Time::ZERO),
            marked: false,
        }
    }

    /// Sends a load whose packets are ready as `flow` (head: now), as soon as the far end of the
    /// link has buffer space and the port is free. The future completes when the departure time is
    /// known.
    pub async fn depart(&self, in_flight: &mut PacketInFlight, flow: Flow) {
        let own = in_flight.own as usize;
        in_flight.slot = self.turn_to(in_flight, own, in_flight.sent.lane);
        self.begin_to_wait(own);
        self.enter(in_flight.slot).await;
        self.leave(in_flight, flow, true);
    }

    /// Sends a load for which the far end of its adapter's link has buffer space.
    fn leave(&self, in_flight: &mut PacketInFlight, flow: Flow, has_waited: bool) {
        let own = in_flight.own as usize;
        self.note_stall(own, has_waited);
        let load = in_flight.sent.load;
        in_flight.spans = self.spans(own, in_flight.sent);
        let (span, tail) = in_flight.spans;
        let head = flow.head.max(self.sim.now());
        let turn = self.egresses[own].pass(load, head, span, (flow.tail, tail));
        (in_flight.begin, in_flight.end) = (turn.start, turn.end);
    }

    /// The first half of [`Network::depart`] for a record.
    pub(crate) fn begin_to_depart(&self, in_flight: &mut PacketInFlight, flow: Flow) -> Passage {
        let own = in_flight.own as usize;
        in_flight.slot = self.turn_to(in_flight, own, in_flight.sent.lane);
        let Slot { buffer, bytes, .. } = in_flight.slot;
        match self.buffers[buffer as usize].enter(&self.sim, u64::from(bytes)) {
            Some(ticket) => {
                self.begin_to_wait(own);
                Passage::Leaving(ticket)
            }
            None => {
                self.leave(in_flight, flow, false);
                Passage::Left
            }
        }
    }

    /// Returns whether a load that waits for space at the far end of its adapter's link has left.
    pub(crate) fn departs(&self, in_flight: &mut PacketInFlight, ticket: u64, flow: Flow) -> bool {
        let departs = self.has_room(in_flight.slot, ticket);
        if departs {
            self.leave(in_flight, flow, true);
        }
        departs
    }

    fn has_room(&self, slot: Slot, ticket: u64) -> bool {
        let buffer = &self.buffers[slot.buffer as usize];
        buffer.come(&self.sim, ticket, u64::from(slot.bytes))
    }

    /// Prefetches the next egress port of a load and the buffer behind it.
    pub(crate) fn prefetch(&self, in_flight: &PacketInFlight) {
        if let Some(egress) = self.topology.next_on_route(&in_flight.way) {
            prefetch::of(&self.egresses[egress]);
            let lane = self.lane_of(in_flight.sent.lane, 0);
            prefetch::of(&self.buffers[self.buffer(egress, lane)]);
            prefetch::of(&self.buffers[in_flight.slot.buffer as usize]);
        }
    }

    /// Begins [`Network::carry`] for a record.
    pub(crate) fn begin_to_carry(&self, in_flight: &PacketInFlight) -> Passage {
        if self.sim.records() {
            self.note(in_flight, self.stage_of(in_flight.sent));
        }
        self.continues(in_flight)
    }

    fn continues(&self, in_flight: &PacketInFlight) -> Passage {
        match self.next_place(in_flight) {
            Some((place, due)) => Passage::Travels(place, due),
            None => Passage::Passed,
        }
    }

    /// Lets a load that has come to a switch pass its egress port, if that has space behind it.
    pub(crate) fn pass(&self, in_flight: &mut PacketInFlight) -> Passage {
        let (egress, lane) = self.choose(in_flight);
        let slot = self.turn_to(in_flight, egress, lane);
        let buffer = &self.buffers[slot.buffer as usize];
        match buffer.enter(&self.sim, u64::from(slot.bytes)) {
            Some(ticket) => {
                self.begin_to_wait(egress);
                Passage::Waiting(slot, ticket)
            }
            None => {
                self.pass_port(in_flight, slot, false);
                self.continues(in_flight)
            }
        }
    }

    /// Lets a load that waits for space behind an egress port pass it; `None` if it waits on.
    pub(crate) fn pass_later(
        &self,
        in_flight: &mut PacketInFlight,
        (slot, ticket): (Slot, u64),
    ) -> Option<Passage> {
        self.has_room(slot, ticket).then(|| {
            self.pass_port(in_flight, slot, true);
            self.continues(in_flight)
        })
    }

    /// Carries a departed load to the destination adapter. The future completes when the head has
    /// arrived.
    pub async fn carry(&self, in_flight: &mut PacketInFlight) -> Arrival {
        if self.sim.records() {
            self.note(in_flight, self.stage_of(in_flight.sent));
        }
        while let Some((place, due)) = self.next_place(in_flight) {
            self.sim.travel(place, due).await;
            let (egress, lane) = self.choose(in_flight);
            let slot = self.turn_to(in_flight, egress, lane);
            self.begin_to_wait(egress);
            self.enter(slot).await;
            self.pass_port(in_flight, slot, true);
        }
        let arrival = self.arrival(in_flight);
        self.sim.sleep_until(arrival.flow.head).await;
        arrival
    }

    /// Returns the partition of the next egress port of a load, and when it may leave there; `None`
    /// if no port is left.
    fn next_place(&self, in_flight: &PacketInFlight) -> Option<(usize, Time)> {
        let place = self.topology.place(&in_flight.way)?;
        // The first byte reaches the switch after the cable delay and may leave after the switch
        // latency.
        Some((place, in_flight.begin + self.cable + self.latency))
    }

    /// Returns the arrival of a load that has passed its last port.
    pub(crate) fn arrival(&self, in_flight: &PacketInFlight) -> Arrival {
        let Sent { load, header, .. } = in_flight.sent;
        let egress = in_flight.port as usize;
        let first = match self.is_uniform && load.packets == 1 {
            true => in_flight.spans.0,
            false => self.span(egress, load.first, 1, header),
        };
        let head = in_flight.begin + first + self.cable;
        let tail = in_flight.end + self.cable;
        Arrival {
            flow: Flow { head, tail },
            slot: in_flight.slot,
            marked: in_flight.marked,
        }
    }

    /// Chooses the egress port of the current switch; returns it and the lane there.
    #[inline(always)]
    fn choose(&self, in_flight: &mut PacketInFlight) -> (usize, u64) {
        let sent = in_flight.sent;
        let hop = self
            .topology
            .pass(&mut in_flight.way, &Ports { own: self, sent });
        let lane = self.lane_of(sent.lane, hop.class);
        if let Some(marks) = &self.marks {
            in_flight.marked |= self.marks(marks, hop.egress, Sent { lane, ..sent });
        }
        (hop.egress, lane)
    }

    /// Passes an egress port that has buffer space behind it: the load moves from its previous
    /// buffer to `slot`.
    #[inline(always)]
    fn pass_port(&self, in_flight: &mut PacketInFlight, slot: Slot, has_waited: bool) {
        let egress = in_flight.port as usize;
        self.note_stall(egress, has_waited);
        let load = in_flight.sent.load;
        let entered = in_flight.begin + self.cable;
        let (span, tail) = match self.is_uniform {
            true => in_flight.spans,
            false => self.spans(egress, in_flight.sent),
        };
        let last = (in_flight.end + self.cable + self.latency).since(tail);
        let turn = self.egresses[egress].pass(load, self.sim.now(), span, (last, tail));
        self.release(in_flight.slot, turn.end);
        (in_flight.slot, in_flight.begin, in_flight.end) = (slot, turn.start, turn.end);
        if self.sim.records() {
            let on_link = self.stage_of(in_flight.sent);
            if on_link == stage::WIRE {
                self.sim
                    .span(stage::SWITCH, in_flight.from as usize, entered, turn.start);
            }
            self.note(in_flight, on_link);
        }
    }

    fn begin_to_wait(&self, egress: usize) {
        if let Some((_, stalls)) = &self.built {
            stalls[egress].begin(self.sim.now());
        }
    }

    fn note_stall(&self, egress: usize, has_waited: bool) {
        if let Some((_, stalls)) = &self.built {
            let free = self.egresses[egress].server.free();
            stalls[egress].pass(self.sim.now(), free, has_waited);
        }
    }

    /// Returns the stage that a link's time is accounted to.
    fn stage_of(&self, sent: Sent) -> &'static str {
        let acknowledgement = self.link.packet_overhead.0 + self.link.acknowledgement_header.0;
        match sent.load.bytes == 0 && sent.header == acknowledgement {
            true => stage::ACKNOWLEDGEMENT,
            false => stage::WIRE,
        }
    }

    /// Records the span on a link.
    fn note(&self, in_flight: &PacketInFlight, on_link: &'static str) {
        let (begin, end) = (in_flight.begin, in_flight.end + self.cable);
        self.sim.span(on_link, in_flight.from as usize, begin, end);
    }

    /// Returns whether a switch marks a packet before an egress port. Only payload is marked, as
    /// only payload is rate-controlled.
    fn marks(&self, marks: &Marks, egress: usize, sent: Sent) -> bool {
        if sent.load.bytes == 0 {
            return false;
        }
        let queued = self.queued(egress, sent.lane);
        let probability = congestion::probability(&marks.marking, queued, sent.load.packets);
        probability > 0.0 && marks.draws[egress].happens(probability)
    }

    /// Returns the bytes queued before an egress port: for buffer space at the far end of the link,
    /// and for their turn.
    fn queued(&self, egress: usize, lane: u64) -> u64 {
        let wanted = self.buffers[self.buffer(egress, lane)].wanted();
        let ahead = self.egresses[egress].server.free().since(self.sim.now());
        wanted + (ahead.seconds() * self.rates[egress].0) as u64
    }

    /// Returns the bytes queued on lane 0 before the last port on the path to an adapter's port.
    pub fn queued_before(&self, port: Port) -> u64 {
        self.queued(self.topology.last(port), 0)
    }

    /// Returns whether loads may overtake each other.
    pub fn reorders(&self) -> bool {
        self.topology.is_adaptive()
    }

    /// Returns the link's profile.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Restricts the simulation to these nodes and the switches near them.
    pub(crate) fn restrict_to(&self, nodes: OwnNodes) {
        let places = 0..self.topology.places();
        let owners = places.map(|place| nodes.owner(self.topology.home(place)) as u32);
        let _ = self.own_nodes.set((nodes, owners.collect()));
    }

    /// Returns the number of the thread that simulates a partition.
    pub(crate) fn owner(&self, place: u32) -> usize {
        let own = self.own_nodes.get();
        own.map_or(0, |(_, owners)| owners[place as usize] as usize)
    }

    /// Returns whether another thread simulates a partition.
    pub(crate) fn is_foreign(&self, place: u32) -> bool {
        let own = self.own_nodes.get();
        own.is_some_and(|(nodes, owners)| owners[place as usize] as usize != nodes.number())
    }

    /// Returns whether this thread simulates a node.
    pub(crate) fn is_own(&self, node: usize) -> bool {
        self.own_nodes
            .get()
            .is_none_or(|(nodes, _)| nodes.has(node))
    }

    /// Returns the number of ports of each adapter.
    pub fn ports_of_adapter(&self) -> usize {
        self.topology.ports()
    }

    /// Returns the largest batch, in full packets, that fits twice into every buffer of a path.
    pub fn longest_train(&self) -> u64 {
        let packet = self.link.mtu.0 + self.link.packet_overhead.0 + self.link.rdma_header.0;
        (self.smallest / 2 / packet.next_multiple_of(BLOCK)).max(1)
    }

    /// Returns the largest buffer of a lane at the end of a link, in bytes.
    pub fn largest_buffer(&self) -> u64 {
        self.largest
    }

    /// Returns the occupied bytes of all buffers.
    pub fn taken(&self) -> u64 {
        self.buffers.iter().map(Space::taken).sum()
    }

    /// Returns the rate of the slowest link.
    pub fn slowest(&self) -> Rate {
        let rates = self.rates.iter().copied();
        rates.fold(self.link.rate, |least, rate| Rate(least.0.min(rate.0)))
    }

    /// Returns the egress ports, for audits.
    pub fn ports(&self) -> impl Iterator<Item = &Server> {
        self.egresses.iter().map(|egress| &egress.server)
    }

    /// Returns the time so far for which each egress port's link carried packets with payload.
    pub fn carried(&self) -> Vec<Time> {
        let carried = self.egresses.iter();
        carried.map(|egress| egress.payload.get()).collect()
    }

    /// Returns the time so far for which each egress port had loads to send and sent none for lack
    /// of credits; nothing unless the fabric exists.
    pub fn stalled(&self) -> Vec<Time> {
        let stalls = self.built.iter().flat_map(|(_, stalls)| stalls);
        stalls.map(|stall| stall.stalled.get()).collect()
    }

    /// Returns the names of an egress port and of the port that its link leads to, if the fabric
    /// exists.
    pub fn port_names(&self, egress: usize) -> Option<[&str; 2]> {
        let (built, _) = self.built.as_ref()?;
        self.topology.port_names(egress, built)
    }

    /// Returns the least time for loads that occupied the links for these times, and the link that
    /// needs it. Where switches choose among links, those of a switch share their
    /// load.
    pub fn least(&self, carried: &[Time]) -> Option<(String, Time)> {
        let mut shared: BTreeMap<Share, (f64, f64)> = BTreeMap::new();
        for (egress, time) in carried.iter().enumerate() {
            let rate = self.rates[egress].0;
            for share in self.topology.shares(egress) {
                let (bytes, rates) = shared.entry(share).or_default();
                *bytes += time.seconds() * rate;
                *rates += rate;
            }
        }
        let times = shared.into_iter().map(|(share, (bytes, rates))| {
            let time = Time::rounded(bytes / rates * 1e12);
            (share, time)
        });
        let (share, time) = times.max_by_key(|(_, time)| *time)?;
        let of_fabric = match share {
            Share::One(egress) => self.port_names(egress),
            Share::From(_) | Share::To(_) => None,
        };
        let name = || match of_fabric {
            Some([from, to]) => format!("the link from {from} to {to}"),
            None => self.topology.name(share),
        };
        (time > Time::ZERO).then(|| (name(), time))
    }
}

impl AtWindowEnd for Network {
    fn window_ended(&self) {
        let mut returned = self.returned.take();
        if !returned.is_sorted_by_key(|one| one.from) {
            returned.sort_by_key(|one| one.from);
        }
        for one in returned.drain(..) {
            self.take_back(one.slot, one.told);
        }
        self.returned.replace(returned);
    }
}

/// A switch's view of its egress ports when it forwards `sent`.
struct Ports<'a> {
    own: &'a Network,
    sent: Sent,
}

impl Ports<'_> {
    fn buffer(&self, choice: Choice) -> &Space {
        let lane = self.own.lane_of(self.sent.lane, choice.class);
        &self.own.buffers[self.own.buffer(choice.egress, lane)]
    }

    fn queued_for(&self, buffer: &Space) -> u64 {
        buffer.held(self.own.sim.now()) + buffer.wanted()
    }
}

impl Outlook for Ports<'_> {
    fn crowd(&self, choice: Choice) -> (usize, Time) {
        let free = self.own.egresses[choice.egress].server.free();
        let waiting = self.buffer(choice).waiting();
        (waiting, free.max(self.own.sim.now()))
    }

    fn queued(&self, egress: usize) -> u64 {
        let first = self.own.buffer(egress, 0);
        let buffers = &self.own.buffers[first..first + self.own.lanes as usize];
        buffers.iter().map(|buffer| self.queued_for(buffer)).sum()
    }

    fn queued_in_lane(&self, choice: Choice) -> u64 {
        self.queued_for(self.buffer(choice))
    }

    fn in_passing(&self) -> u64 {
        2 * Network::blocks(self.sent.load, self.sent.header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Library, Overrides};
    use std::rc::Rc;

    fn network(nodes: usize) -> (Sim, Network) {
        let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
        let system = library.system("connectx-ddr").expect("a shipped system");
        let sim = Sim::new();
        let network = Network::new(&sim, &system, nodes);
        (sim, network)
    }

    fn port(node: usize) -> Port {
        Port { node, port: 0 }
    }

    /// Returns when a load that leaves node 0 now arrives at node 1.
    async fn pass(network: &Network, load: Load) -> Time {
        let sent = Sent {
            load,
            header: 26,
            lane: 0,
        };
        let now = network.sim.now();
        let mut in_flight = network.packet_in_flight(port(0), port(1), sent);
        network.depart(&mut in_flight, Flow::at(now)).await;
        let arrival = network.carry(&mut in_flight).await;
        network.release(arrival.slot, arrival.flow.tail);
        arrival.flow.tail
    }

    #[test]
    fn a_packet_train_takes_the_time_of_its_packets() {
        let (sim, single) = network(2);
        let single = Rc::new(single);
        let own = single.clone();
        let each = sim
            .block_on(async move {
                let mut last = Time::ZERO;
                for _ in 0..8 {
                    last = pass(&own, Load::single(2048)).await;
                }
                last
            })
            .expect("runs");
        let (sim, train) = network(2);
        let whole = sim
            .block_on(async move { pass(&train, Load::message(8 * 2048, 2048)).await })
            .expect("runs");
        // Sent one after another, each packet also waits for the arrival of the previous one.
        assert!(whole < each);
        let link = single.link();
        assert!(whole >= link.rate.time(8 * (2048 + 26)));
    }
}
