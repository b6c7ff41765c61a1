//! PCI Express.
//!
//! Two servers, one a direction. A transaction packet takes its payload and overhead at the link's rate; for every so
//! many of them the other direction carries an acknowledgement and a flow-control update. A read is a request upstream,
//! a slot at the chipset held from the request until the last byte has left, and completions downstream. The adapter
//! limits the reads in flight as well. Sources: the PCI Express base specification's packet formats, the pcie-bench
//! model (SIGCOMM 2018).

use super::interconnect::Interconnect;
use super::{Flow, Load, MemoryModel, Reading, Window, Written};
use crate::kernel::{Mailbox, Server, Sim, Space, Time};
use crate::profile::{Numa, Pcie};
use std::rc::Rc;
use std::sync::Arc;

/// The link between a host's chipset and its adapter.
pub struct PcieModel {
    sim: Sim,
    profile: Arc<Pcie>,
    memory: Rc<MemoryModel>,
    up: Server,
    down: Server,
    slots: Space,
    /// The slots as one server, for whole messages.
    stream: Server,
    /// A processor's writes under way.
    posted: Space,
    /// What is between it and memory, if they are at different sockets.
    sockets: Option<Box<Interconnect>>,
}

impl PcieModel {
    /// From its profile.
    pub fn new(
        sim: &Sim,
        (profile, numa): (&Arc<Pcie>, Option<&Numa>),
        memory: Rc<MemoryModel>,
    ) -> PcieModel {
        PcieModel {
            sim: sim.clone(),
            memory,
            up: Server::new(),
            down: Server::new(),
            slots: Space::new(profile.read_slots()),
            stream: Server::new(),
            posted: Space::new(profile.posted.0),
            sockets: numa.map(Interconnect::new).map(Box::new),
            profile: profile.clone(),
        }
    }

    /// From bus to memory or back, beyond what the chipset takes.
    fn crossing(&self) -> Time {
        let sockets = self.sockets.as_ref();
        sockets.map_or(Time::ZERO, |sockets| sockets.latency())
    }

    /// When what is in memory as `flow` says has come to the bus, but for the latency.
    fn outwards(&self, flow: Flow, load: Load) -> Flow {
        match &self.sockets {
            Some(sockets) => sockets.outwards(flow, (load.bytes, load.first)),
            None => flow,
        }
    }

    /// The same of what has come over the bus and goes to memory.
    fn inwards(&self, flow: Flow, load: Load) -> Flow {
        match &self.sockets {
            Some(sockets) => sockets.inwards(flow, (load.bytes, load.first)),
            None => flow,
        }
    }

    /// Bytes a second of one direction.
    fn rate(&self) -> f64 {
        self.profile.lane_rate.0 * self.profile.lanes.0 as f64
    }

    /// The same, or what is between it and memory carries, if that is less.
    pub(super) fn slowest(&self) -> f64 {
        let sockets = self.sockets.as_ref();
        sockets.map_or(self.rate(), |sockets| sockets.rate().min(self.rate()))
    }

    fn span(&self, bytes: f64) -> Time {
        Time::rounded(bytes * 1e12 / self.rate())
    }

    /// Time that `packets` transaction packets cost the opposite direction.
    fn answered(&self, packets: u64) -> Time {
        let p = &self.profile;
        self.span(packets as f64 * 2.0 * p.link_packet.0 as f64 / p.acknowledged.0 as f64)
    }

    fn writes(&self, bytes: u64) -> (u64, Time) {
        let p = &self.profile;
        let packets = bytes.div_ceil(p.payload.0).max(1);
        let span = self.span((bytes + packets * p.request_overhead.0) as f64);
        (packets, span)
    }

    fn completions(&self, bytes: u64) -> (u64, Time) {
        let p = &self.profile;
        let packets = bytes.div_ceil(p.completion.0.min(p.payload.0)).max(1);
        let span = self.span((bytes + packets * p.completion_overhead.0) as f64);
        (packets, span)
    }

    /// A processor's write of `bytes` to the adapter; the future completes when it is on its way, with the time when it
    /// has arrived.
    pub async fn programmed(&self, bytes: u64) -> Time {
        self.posted.take(&self.sim, bytes).await;
        let now = self.sim.now();
        let span = self.span((bytes + self.profile.request_overhead.0) as f64);
        self.up.reserve(now, self.answered(1));
        let turn = self.down.reserve(now, span);
        let crossed = self.outwards(Flow::at(now), Load::single(bytes)).tail;
        let gone = turn.end.max(crossed);
        self.posted.give_back(&self.sim, gone, bytes);
        gone + self.profile.propagation + self.crossing()
    }

    /// Both directions and the chipset's reads.
    pub fn servers(&self) -> Vec<(&'static str, &Server)> {
        let bus = [
            ("bus up", &self.up),
            ("bus down", &self.down),
            ("reads", &self.stream),
        ];
        let sockets = self.sockets.iter().flat_map(|sockets| sockets.servers());
        bus.into_iter().chain(sockets).collect()
    }

    /// The adapter writes a load to memory; `flow` says when its packets are at the bus (its head: now).
    pub fn write(&self, load: Load, flow: Flow) -> Written {
        let p = &self.profile;
        let (packets, span) = self.writes(load.bytes);
        let (_, head) = self.writes(load.first);
        let (_, tail) = self.writes(load.last());
        let turn = self.up.reserve_train(flow.head, span, flow.tail, tail);
        self.down.reserve(flow.head, self.answered(packets));
        let memory = self.memory.carry(flow.head, load.bytes);
        let there = Flow {
            head: turn.start + head,
            tail: turn.end,
        };
        let there = self.inwards(there, load);
        let settled = p.propagation + p.write_latency + self.crossing();
        let gone = there.tail.max(memory);
        Written {
            gone,
            visible: Flow {
                head: there.head + settled,
                tail: gone + settled,
            },
        }
    }

    /// The adapter reads a small structure, with as many requests as that takes; returns when it is there.
    pub async fn fetch(self: &Rc<Self>, bytes: u64, total: &Rc<Space>) {
        if bytes <= self.profile.read_request.0 {
            return self.read_once(bytes, total).await;
        }
        let reading = Reading::new(&self.sim);
        let mut left = bytes;
        while left > 0 {
            let bytes = left.min(self.profile.read_request.0);
            let (own, total) = (self.clone(), total.clone());
            let part = reading.begin();
            self.sim.start(async move {
                own.read_once(bytes, &total).await;
                part.end(Flow::at(own.sim.now()));
            });
            left -= bytes;
        }
        reading.done().await;
    }

    /// The adapter begins to read a load from memory; the future completes when all its requests have been issued.
    /// `window` limits the reads of one message, `total` those of the adapter.
    pub async fn issue(self: &Rc<Self>, load: Load, window: &Window, total: &Rc<Space>) -> Reading {
        let reading = Reading::new(&self.sim);
        if load.packets > 1 {
            let (own, total) = (self.clone(), total.clone());
            let pace = (window.reads(), window.stream());
            let issued = Mailbox::new(&self.sim);
            let told = issued.clone();
            let part = reading.begin();
            self.sim.start(async move {
                part.end(own.read_stream(load, pace, &total, told).await);
            });
            return reading.telling(issued);
        }
        let mut left = load.bytes;
        while left > 0 {
            let bytes = left.min(self.profile.read_request.0);
            let permit = window.permits().acquire().await;
            let (own, total) = (self.clone(), total.clone());
            let part = reading.begin();
            self.sim.start(async move {
                own.read_once(bytes, &total).await;
                drop(permit);
                part.end(Flow::at(own.sim.now()));
            });
            left -= bytes;
        }
        reading
    }

    /// One read request.
    async fn read_once(&self, bytes: u64, total: &Space) {
        let p = &self.profile;
        total.take(&self.sim, 1).await;
        self.up
            .reserve(self.sim.now(), self.span(p.request_overhead.0 as f64));
        self.down.reserve(self.sim.now(), self.answered(1));
        // A request goes between the packets of a write under way: it costs the link its time but does not wait for
        // the whole write.
        let gone = self.sim.now() + self.span(p.request_overhead.0 as f64);
        self.sim.sleep_until(gone + p.propagation).await;
        self.slots.take(&self.sim, 1).await;
        let taken = self.sim.now();
        let memory = self.memory.carry(self.sim.now(), bytes);
        self.sim.sleep(p.read_latency + self.crossing() * 2).await;
        if self.sockets.is_some() {
            // Boxed: where there is one socket a read is the smaller for it.
            Box::pin(self.come_out(bytes)).await;
        }
        let (packets, span) = self.completions(bytes);
        let answer = self.down.reserve(self.sim.now(), span);
        self.up.reserve(self.sim.now(), self.answered(packets));
        // What is free when is known now: nobody has to wait in order to give it back.
        let left = answer.end.max(memory);
        let released = left.max(taken + p.read_occupancy.unwrap_or_default());
        self.slots.give_back(&self.sim, released, 1);
        let there = left + p.propagation;
        total.give_back(&self.sim, there, 1);
        self.sim.sleep_until(there).await;
    }

    /// Waits until so much has come from memory to the bus.
    async fn come_out(&self, bytes: u64) {
        let now = Flow::at(self.sim.now());
        let crossed = self.outwards(now, Load::single(bytes));
        self.sim.sleep_until(crossed.tail).await;
    }

    /// The reads of a train of packets as one: the first packet after a latency, the rest at the rate that the requests in
    /// flight allow, `window` of this message, whose trains share its time, and the chipset's slots of all.
    /// Tells `issued` when the last request is on its way.
    async fn read_stream(
        &self,
        load: Load,
        (window, stream): (usize, Rc<Server>),
        total: &Space,
        issued: Mailbox<Time>,
    ) -> Flow {
        let p = &self.profile;
        total.take(&self.sim, 1).await;
        let requests = load.bytes.div_ceil(p.read_request.0);
        let gone = self.sim.now() + self.span(p.request_overhead.0 as f64);
        self.sim.sleep_until(gone + p.propagation).await;
        let (packets, span) = self.completions(load.bytes);
        let (_, first) = self.completions(load.first);
        let (_, one) = self.completions(p.read_request.0.min(load.first));
        let latency = p.read_latency + self.crossing() * 2;
        let held = (latency + one).max(p.read_occupancy.unwrap_or_default());
        let round = latency + one + p.propagation * 2;
        let share = |each: Time, parallel: u64| Time(each.0 * requests / parallel.max(1));
        let slots = self
            .stream
            .reserve(self.sim.now(), share(held, p.read_slots()));
        self.sim.sleep_until(slots.start + latency).await;
        let now = self.sim.now();
        let memory = self.memory.carry(now, load.bytes);
        let alone = stream.reserve(now, share(round, window as u64)).end;
        let paced = slots.end.max(alone).since(first);
        issued.send(slots.end.max(alone).since(round));
        let ready = Flow {
            head: now,
            tail: paced,
        };
        let ready = self.outwards(ready, load);
        let answer = self.down.reserve_train(ready.head, span, ready.tail, first);
        self.up.reserve(
            now,
            self.answered(packets) + self.span((requests * p.request_overhead.0) as f64),
        );
        let head = answer.start + first + p.propagation;
        let tail = answer.end.max(memory) + p.propagation;
        total.give_back(&self.sim, head, 1);
        self.sim.sleep_until(head).await;
        Flow { head, tail }
    }
}
