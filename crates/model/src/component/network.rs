//! Links, cables and switches.
//!
//! A port is a server at the link's rate. A switch forwards cut-through: a packet leaves `latency` after its first byte
//! came in, if the port is free. Adapters store a packet until its check has been seen.
//!
//! Nothing is sent that the other end has no room for. Each link has at its far end a buffer for each virtual lane, and
//! the near end its credits, in blocks of 64 bytes; a packet takes them before it leaves, and they come back a
//! flow-control packet's way after it has left that buffer. A switch's buffers are at its inputs. From them each output
//! takes what is for it in the order of coming; but what is for an output that cannot deliver stays, and when it fills a
//! buffer nothing else comes over that link, on the same lane, wherever it is bound for. So congestion spreads backwards.
//! Source: InfiniBand architecture specification, volume 1, chapter 7 (link layer: virtual lanes, credit limits in blocks
//! of 64 bytes).

use super::topology::{Choice, Outlook, Port, Topology, Way};
use super::{Flow, Load};
use crate::congestion;
use crate::kernel::{Draws, Server, Sim, Space, Take, Time};
use crate::profile::{Cable, Link, Marking, Switch, System};
use crate::stage;

/// Bytes for which a credit stands.
const BLOCK: u64 = 64;

/// Where a load is in a buffer at the end of a link; it stays there until it is released ([`Network::release`]).
#[must_use = "a slot that is not released is lost to the link"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    buffer: u32,
    bytes: u32,
}

/// What is sent: a load with `header` bytes around each packet, on a virtual lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The load.
    pub load: Load,
    /// Header bytes of each packet.
    pub header: u64,
    /// Virtual lane; those that a link does not have are mapped to those that it has.
    pub lane: u64,
}

/// A load on its way from one adapter to another: all that has to be known of it. It belongs to whoever sends it and takes no other
/// memory, for a large system has many of them, each looked at once in a while.
pub struct Passage {
    from: u32,
    own: u32,
    sent: Sent,
    way: Way,
    slot: Slot,
    /// When its first and its last byte leave the port that it was at last.
    begin: Time,
    end: Time,
    marked: bool,
}

impl Passage {
    /// When its last byte has left the adapter, once it is known.
    pub fn left(&self) -> Time {
        self.end
    }

    /// The load itself.
    pub fn load(&self) -> Load {
        self.sent.load
    }
}

/// What has come to an adapter.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// When its packets are there.
    pub flow: Flow,
    /// Where it is.
    pub slot: Slot,
    /// Whether a switch on its way has marked it, because too much waited before its port.
    pub marked: bool,
}

/// What switches mark.
struct Marks {
    marking: Marking,
    /// By egress port: each is drawn from at one place alone.
    draws: Vec<Draws>,
}

/// All links of a system.
pub struct Network {
    sim: Sim,
    link: Link,
    /// Of a switch.
    latency: Time,
    cable: Time,
    topology: Topology,
    /// By the topology's numbers of egress ports.
    servers: Vec<Server>,
    lanes: u64,
    /// At the far end of each egress port's link, by port and lane.
    buffers: Vec<Space>,
    /// Of the buffers.
    smallest: u64,
    largest: u64,
    marks: Option<Marks>,
}

impl Network {
    /// Joins `nodes` adapters of a system by its switches: as its topology says, or in a fat tree of as many as it takes.
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
        Network {
            sim: sim.clone(),
            link: link.clone(),
            latency: switch.map_or(Time::ZERO, |s| s.latency),
            cable: Network::end_to_end(&system.cable),
            servers: (0..topology.egresses()).map(|_| Server::new()).collect(),
            lanes,
            buffers,
            smallest: link.buffer.0.min(in_switches),
            largest: link.buffer.0.max(in_switches),
            marks,
            topology,
        }
    }

    /// From one end of a cable to the other.
    fn end_to_end(cable: &Cable) -> Time {
        cable.per_metre * cable.length.0 + cable.transceiver * 2
    }

    /// How long it takes at least until something in one node is felt in another, or in a switch.
    pub fn lookahead(cable: &Cable, switch: &Switch) -> Time {
        Network::end_to_end(cable) + switch.latency
    }

    /// Wire time of a load with `header` bytes in each packet.
    fn span(&self, bytes: u64, packets: u64, header: u64) -> Time {
        self.link
            .rate
            .time(bytes + packets * header)
            .scaled(1.0 + self.link.control.0)
    }

    fn buffer(&self, egress: usize, lane: u64) -> usize {
        egress * self.lanes as usize + (lane % self.lanes) as usize
    }

    /// The lane at a port of what is sent on `lane`: each lane that senders tell apart has as many as routing has classes.
    fn lane_of(&self, lane: u64, class: usize) -> u64 {
        let classes = (self.topology.classes() as u64).min(self.lanes);
        let told_apart = self.lanes / classes;
        lane % told_apart * classes + class as u64 % classes
    }

    /// Blocks that a load takes, in bytes.
    fn blocks(load: Load, header: u64) -> u64 {
        let of = |bytes: u64| (bytes + header).next_multiple_of(BLOCK);
        (load.packets - 1) * of(load.first) + of(load.last())
    }

    /// Room at the far end of a link for what is sent, once that has been taken.
    fn enter(&self, egress: usize, sent: Sent) -> (Take<'_>, Slot) {
        let buffer = self.buffer(egress, sent.lane);
        let bytes = Network::blocks(sent.load, sent.header);
        let slot = Slot {
            buffer: buffer as u32,
            bytes: u32::try_from(bytes).expect("a load is shorter than a buffer"),
        };
        (self.buffers[buffer].take(&self.sim, bytes), slot)
    }

    /// The load in `slot` will have left its buffer at `instant`.
    pub fn release(&self, slot: Slot, instant: Time) {
        // The flow-control packet that says so takes the way of any packet.
        let told = instant + self.cable + self.latency;
        let space = &self.buffers[slot.buffer as usize];
        space.give_back(&self.sim, told, u64::from(slot.bytes));
    }

    /// What is to be sent from one adapter to another.
    pub fn passage(&self, from: Port, to: Port, sent: Sent) -> Passage {
        Passage {
            from: from.node as u32,
            own: self.topology.own(from) as u32,
            sent,
            way: self.topology.way(from.node, to),
            slot: Slot {
                buffer: 0,
                bytes: 0,
            },
            begin: Time::ZERO,
            end: Time::ZERO,
            marked: false,
        }
    }

    /// Sends a load whose packets are ready as `flow` says (its head: now), as soon as the other end of the link has
    /// room for it and the port is free. The future completes when it is known when it leaves.
    pub async fn depart(&self, passage: &mut Passage, flow: Flow) {
        let own = passage.own as usize;
        let (room, slot) = self.enter(own, passage.sent);
        passage.slot = slot;
        room.await;
        let Sent { load, header, .. } = passage.sent;
        let span = self.span(load.bytes, load.packets, header);
        let tail = self.span(load.last(), 1, header);
        let head = flow.head.max(self.sim.now());
        let turn = self.servers[own].reserve_train(head, span, flow.tail, tail);
        (passage.begin, passage.end) = (turn.start, turn.end);
    }

    /// Carries what has left an adapter to another. The future completes when the head has arrived.
    pub async fn carry(&self, passage: &mut Passage) -> Arrival {
        self.note(passage, self.stage_of(passage.sent));
        while let Some(place) = self.topology.place(&passage.way) {
            // The first byte reaches the switch a cable later and may leave a latency after that.
            let due = passage.begin + self.cable + self.latency;
            self.sim.travel(place, due).await;
            let (egress, lane) = self.choose(passage);
            let sent = Sent {
                lane,
                ..passage.sent
            };
            let (room, slot) = self.enter(egress, sent);
            room.await;
            self.pass_port(passage, egress, slot);
        }
        let Sent { load, header, .. } = passage.sent;
        let first = self.span(load.first, 1, header);
        let head = passage.begin + first + self.cable;
        self.sim.sleep_until(head).await;
        let tail = passage.end + self.cable;
        Arrival {
            flow: Flow { head, tail },
            slot: passage.slot,
            marked: passage.marked,
        }
    }

    /// The port of the switch that it goes by, and the lane there.
    fn choose(&self, passage: &mut Passage) -> (usize, u64) {
        let sent = passage.sent;
        let hop = self
            .topology
            .pass(&mut passage.way, &Ports { own: self, sent });
        let lane = self.lane_of(sent.lane, hop.class);
        if let Some(marks) = &self.marks {
            passage.marked |= self.marks(marks, hop.egress, Sent { lane, ..sent });
        }
        (hop.egress, lane)
    }

    /// There is room behind that port: it leaves the buffer before it for `slot`.
    fn pass_port(&self, passage: &mut Passage, egress: usize, slot: Slot) {
        let Sent { load, header, .. } = passage.sent;
        let entered = passage.begin + self.cable;
        let span = self.span(load.bytes, load.packets, header);
        let tail = self.span(load.last(), 1, header);
        let last = (passage.end + self.cable + self.latency).since(tail);
        let turn = self.servers[egress].reserve_train(self.sim.now(), span, last, tail);
        self.release(passage.slot, turn.end);
        (passage.slot, passage.begin, passage.end) = (slot, turn.start, turn.end);
        let on_link = self.stage_of(passage.sent);
        if on_link == stage::WIRE {
            self.sim
                .span(stage::SWITCH, passage.from as usize, entered, turn.start);
        }
        self.note(passage, on_link);
    }

    /// What the time on a link is spent for.
    fn stage_of(&self, sent: Sent) -> &'static str {
        let acknowledgement = self.link.packet_overhead.0 + self.link.acknowledgement_header.0;
        match sent.load.bytes == 0 && sent.header == acknowledgement {
            true => stage::ACKNOWLEDGEMENT,
            false => stage::WIRE,
        }
    }

    /// It is on a link.
    fn note(&self, passage: &Passage, on_link: &'static str) {
        let (begin, end) = (passage.begin, passage.end + self.cable);
        self.sim.span(on_link, passage.from as usize, begin, end);
    }

    /// Whether a switch marks what comes before one of its ports: payload alone is slowed down by it.
    fn marks(&self, marks: &Marks, egress: usize, sent: Sent) -> bool {
        if sent.load.bytes == 0 {
            return false;
        }
        let queued = self.queued(egress, sent.lane);
        let probability = congestion::probability(&marks.marking, queued, sent.load.packets);
        probability > 0.0 && marks.draws[egress].happens(probability)
    }

    /// Bytes that wait before an egress port: for room at the link's other end, and for their turn.
    fn queued(&self, egress: usize, lane: u64) -> u64 {
        let wanted = self.buffers[self.buffer(egress, lane)].wanted();
        let ahead = self.servers[egress].free().since(self.sim.now());
        wanted + (ahead.seconds() * self.link.rate.0) as u64
    }

    /// Bytes that wait on lane 0 before the last port on the way to an adapter's port.
    pub fn queued_before(&self, port: Port) -> u64 {
        self.queued(self.topology.last(port), 0)
    }

    /// Whether loads may overtake each other on their way.
    pub fn reorders(&self) -> bool {
        self.topology.is_adaptive()
    }

    /// The link's profile.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Ports of each adapter.
    pub fn ports_of_adapter(&self) -> usize {
        self.topology.ports()
    }

    /// Full packets of which twice as many fit into every buffer on a way.
    pub fn longest_train(&self) -> u64 {
        let packet = self.link.mtu.0 + self.link.packet_overhead.0 + self.link.rdma_header.0;
        (self.smallest / 2 / packet.next_multiple_of(BLOCK)).max(1)
    }

    /// The largest buffer of a lane at the end of a link.
    pub fn largest_buffer(&self) -> u64 {
        self.largest
    }

    /// Bytes of buffers that are taken, over all links.
    pub fn taken(&self) -> u64 {
        self.buffers.iter().map(Space::taken).sum()
    }

    /// The ports, for accounts of what they have carried.
    pub fn ports(&self) -> &[Server] {
        &self.servers
    }
}

/// The egress ports before which `sent` is.
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
        let free = self.own.servers[choice.egress].free();
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

    /// When a load that leaves node 0 now is at node 1.
    async fn pass(network: &Network, load: Load) -> Time {
        let sent = Sent {
            load,
            header: 26,
            lane: 0,
        };
        let now = network.sim.now();
        let mut passage = network.passage(port(0), port(1), sent);
        network.depart(&mut passage, Flow::at(now)).await;
        let arrival = network.carry(&mut passage).await;
        network.release(arrival.slot, arrival.flow.tail);
        arrival.flow.tail
    }

    #[test]
    fn a_train_of_packets_takes_what_its_packets_take() {
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
        // One after the other, each packet also waits for its predecessor's arrival.
        assert!(whole < each);
        let link = single.link();
        assert!(whole >= link.rate.time(8 * (2048 + 26)));
    }
}
