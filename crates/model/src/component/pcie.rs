//! PCI Express.
//!
//! Two servers, one per direction. A transaction packet takes its payload and overhead at the
//! link's rate; per a number of packets the opposite direction carries an acknowledgement and a
//! flow-control update. A read is a request upstream, a slot at the chipset held from the request
//! until the last byte has left, and completions downstream. The adapter limits the reads in flight
//! as well. Sources: the PCI Express base specification's packet formats, the pcie-bench model
//! (SIGCOMM 2018).

use super::interconnect::Interconnect;
use super::load::{Flow, Load};
use super::memory::MemoryModel;
use super::pcie_reads::{ReadRecords, Reads, TOGETHER};
use super::transfer::{Reading, Window, Written};
use crate::kernel::{Mailbox, Server, Sim, Space, Time};
use crate::profile::{Numa, Pcie};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The link between a host's chipset and its adapter.
pub struct PcieModel {
    pub(super) sim: Sim,
    pub(super) profile: Arc<Pcie>,
    pub(super) memory: Rc<MemoryModel>,
    pub(super) up: Server,
    pub(super) down: Server,
    pub(super) slots: Space,
    /// Read requests on their way to the chipset that are not in the queue for its slots.
    pub(super) on_bus: Cell<u32>,
    /// The slots as one server, for whole messages.
    stream: Server,
    /// Bytes of processor writes in flight.
    posted: Space,
    /// The socket interconnect, if adapter and memory are on different sockets.
    pub(super) sockets: Option<Box<Interconnect>>,
    /// Times that a read request takes, and that one packet costs the opposite direction.
    pub(super) asks: Time,
    pub(super) answers: Time,
    /// Time from a read's slot to its first data, chipset and sockets included.
    pub(super) latency: Time,
    /// [`PcieModel::completed`] of the longest read request.
    longest: (Time, Time),
    /// Where its reads are, if they are records and not tasks.
    records: Option<Rc<ReadRecords>>,
}

impl PcieModel {
    /// Creates it from its profile.
    pub fn new(
        sim: &Sim,
        (profile, numa): (&Arc<Pcie>, Option<&Numa>),
        memory: Rc<MemoryModel>,
        records: Option<Rc<ReadRecords>>,
    ) -> PcieModel {
        let mut model = PcieModel {
            sim: sim.clone(),
            memory,
            up: Server::new(),
            down: Server::new(),
            slots: Space::new(profile.read_slots()),
            on_bus: Cell::new(0),
            stream: Server::new(),
            posted: Space::new(profile.posted.0),
            sockets: numa.map(Interconnect::new).map(Box::new),
            profile: profile.clone(),
            asks: Time::ZERO,
            answers: Time::ZERO,
            latency: Time::ZERO,
            longest: (Time::ZERO, Time::ZERO),
            records,
        };
        model.asks = model.span(profile.request_overhead.0 as f64);
        model.answers = model.answered(1);
        model.latency = profile.read_latency + model.crossing() * 2;
        model.longest = model.compute_completed(profile.read_request.0);
        model
    }

    /// Returns the one-way latency between bus and memory, chipset excluded.
    pub(super) fn crossing(&self) -> Time {
        let sockets = self.sockets.as_ref();
        sockets.map_or(Time::ZERO, |sockets| sockets.latency())
    }

    /// Returns when data that are in memory as `flow` reach the bus; the latency is not included.
    fn outwards(&self, flow: Flow, load: Load) -> Flow {
        match &self.sockets {
            Some(sockets) => sockets.outwards(flow, (load.bytes, load.first)),
            None => flow,
        }
    }

    /// Returns when `bytes` that are in memory now have crossed the sockets.
    #[cold]
    pub(super) fn crossed(&self, now: Time, bytes: u64) -> Time {
        self.outwards(Flow::at(now), Load::single(bytes)).tail
    }

    /// The same as [`PcieModel::outwards`] for data from the bus to memory.
    fn inwards(&self, flow: Flow, load: Load) -> Flow {
        match &self.sockets {
            Some(sockets) => sockets.inwards(flow, (load.bytes, load.first)),
            None => flow,
        }
    }

    /// Returns the rate of one direction in bytes per second.
    fn rate(&self) -> f64 {
        self.profile.lane_rate.0 * self.profile.lanes.0 as f64
    }

    /// Returns the rate of one direction or of the socket interconnect, whichever is lower, in
    /// bytes per second.
    pub(super) fn slowest(&self) -> f64 {
        let sockets = self.sockets.as_ref();
        sockets.map_or(self.rate(), |sockets| sockets.rate().min(self.rate()))
    }

    fn span(&self, bytes: f64) -> Time {
        Time::rounded(bytes * 1e12 / self.rate())
    }

    /// Returns the time that `packets` transaction packets cost the opposite direction.
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

    /// Returns how long the completions of a read request occupy the bus, and its other direction.
    #[inline]
    pub(super) fn completed(&self, bytes: u64) -> (Time, Time) {
        match bytes == self.profile.read_request.0 {
            true => self.longest,
            false => self.compute_completed(bytes),
        }
    }

    fn compute_completed(&self, bytes: u64) -> (Time, Time) {
        let (packets, span) = self.completions(bytes);
        (span, self.answered(packets))
    }

    /// Performs a processor's write of `bytes` to the adapter. The future completes when the write
    /// is in flight and returns its arrival time.
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

    /// Returns the servers of both directions, of the chipset's reads, and of the socket
    /// interconnect.
    pub fn servers(&self) -> Vec<(&'static str, &Server)> {
        let bus = [
            ("bus up", &self.up),
            ("bus down", &self.down),
            ("reads", &self.stream),
        ];
        let sockets = self.sockets.iter().flat_map(|sockets| sockets.servers());
        bus.into_iter().chain(sockets).collect()
    }

    /// Writes a load from the adapter to memory; its packets reach the bus as `flow` (head: now).
    pub fn write(&self, load: Load, flow: Flow) -> Written {
        let p = &self.profile;
        let (packets, span) = self.writes(load.bytes);
        let (head, tail) = match load.packets {
            1 => (span, span),
            _ => (self.writes(load.first).1, self.writes(load.last()).1),
        };
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

    /// Reads a small structure for the adapter, in as many requests as needed; returns when it has
    /// arrived.
    pub async fn fetch(self: &Rc<Self>, bytes: u64, total: &Rc<Space>) {
        if bytes <= self.profile.read_request.0 {
            let mut read = Reads::<1>::new(self, total, None);
            read.add(bytes, None);
            return read.await;
        }
        let reading = Reading::new(&self.sim);
        self.read(&reading, bytes, total);
        reading.done().await;
    }

    /// Starts reads of `bytes` that need no permit.
    fn read(self: &Rc<Self>, reading: &Reading, bytes: u64, total: &Rc<Space>) {
        let mut requests = cuts(bytes, self.profile.read_request.0).peekable();
        while requests.peek().is_some() {
            let mut reads = Reads::<TOGETHER>::new(self, total, Some(reading.begin()));
            let together = requests.by_ref().take(TOGETHER);
            together.for_each(|bytes| reads.add(bytes, None));
            self.start(reads);
        }
    }

    fn start(&self, reads: Reads<TOGETHER>) {
        match &self.records {
            Some(records) => records.start(reads),
            None => self.sim.start(reads),
        }
    }

    /// Starts a read of the adapter from memory, if no request of it has to wait for the `window`
    /// that limits the reads of its message; `total` limits those of the adapter.
    pub fn begin(
        self: &Rc<Self>,
        load: Load,
        window: &Window,
        total: &Rc<Space>,
    ) -> Option<Reading> {
        if load.packets == 1 && !window.is_wide(&self.profile) {
            return None;
        }
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
            return Some(reading.telling(issued));
        }
        self.read(&reading, load.bytes, total);
        Some(reading)
    }

    /// Starts the read of a packet; the future completes when all its requests have been issued.
    pub async fn issue(self: &Rc<Self>, load: Load, window: &Window, total: &Rc<Space>) -> Reading {
        let reading = Reading::new(&self.sim);
        let mut requests = cuts(load.bytes, self.profile.read_request.0).peekable();
        let permits = window.permits();
        while requests.peek().is_some() {
            let mut permit = Some(permits.acquire().await);
            let together = TOGETHER.min(1 + permits.free());
            let mut reads = Reads::<TOGETHER>::new(self, total, Some(reading.begin()));
            for bytes in requests.by_ref().take(together) {
                let permit = match permit.take() {
                    Some(first) => first,
                    None => permits.acquire().await,
                };
                reads.add(bytes, Some(permit));
            }
            self.start(reads);
        }
        reading
    }

    /// Simulates the reads of a batch of packets as one: the first packet arrives after the
    /// latency, the rest at the rate allowed by the requests in flight, that is by this message's
    /// `window`, whose batches share `stream`, and by the chipset's slots. Sends to `issued` when
    /// the last request is in flight.
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
        let arrives = self.sim.now() + self.span(p.request_overhead.0 as f64) + p.propagation;
        let (packets, span) = self.completions(load.bytes);
        let (_, first) = self.completions(load.first);
        let (_, one) = self.completions(p.read_request.0.min(load.first));
        let latency = self.latency;
        let held = (latency + one).max(p.read_occupancy.unwrap_or_default());
        let round = latency + one + p.propagation * 2;
        let share = |each: Time, parallel: u64| Time(each.0 * requests / parallel.max(1));
        let slots = self.stream.reserve(arrives, share(held, p.read_slots()));
        let begins = slots.start + latency;
        let alone = stream.reserve(begins, share(round, window as u64)).end;
        // All times are known now, before the request arrives: the next batch's requests follow
        // these at once.
        issued.send(slots.end.max(alone).since(round));
        self.sim.sleep_until(begins).await;
        let now = self.sim.now();
        let memory = self.memory.carry(now, load.bytes);
        let paced = slots.end.max(alone).since(first);
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

/// Cuts `bytes` into requests of at most `most`.
fn cuts(bytes: u64, most: u64) -> impl Iterator<Item = u64> {
    (0..bytes.div_ceil(most)).map(move |number| (bytes - number * most).min(most))
}
