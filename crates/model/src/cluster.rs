//! A running system: nodes with processors, memory, a bus and an adapter each, connected by the
//! network, and the processes that run on them.

use crate::adapter::{
    AdapterModel, Carried, Fidelity, Flights, Pair, Plan, Plans, ReceiveQueue, Request, Transport,
};
use crate::audit::{Audit, Usage};
use crate::component::{BusModel, MemoryModel, Network, Port, ReadRecords};
use crate::kernel::{Occupancy, Server, Sim, Time, Watch};
use crate::profile::{Adapter, Congestion, CorePair, Cpu, System};
use crate::stage;
use crate::threads::{Crossing, Report, Thread};
use crate::traffic::{Bottleneck, HOTTEST, HotPort, Traffic};
use std::cell::{Cell, OnceCell, RefCell};
use std::cmp::Reverse;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Bytes that may wait at a bus or a port without occupying a packet buffer.
const AROUND: u64 = 64 << 10;

/// A node.
pub struct Node {
    /// Its number.
    pub number: usize,
    cpu: Rc<Cpu>,
    cores: Vec<Rc<Core>>,
    memory: Rc<MemoryModel>,
    bus: Rc<BusModel>,
    adapter: Rc<AdapterModel>,
}

impl Node {
    /// Returns its adapter.
    pub fn adapter(&self) -> &Rc<AdapterModel> {
        &self.adapter
    }

    /// Returns its memory.
    pub fn memory(&self) -> &Rc<MemoryModel> {
        &self.memory
    }

    /// Returns its processors.
    pub fn cpu(&self) -> &Cpu {
        &self.cpu
    }
}

/// A running system.
pub struct Cluster {
    sim: Sim,
    system: System,
    /// Shared by all nodes.
    cpu: Rc<Cpu>,
    adapter: Rc<Adapter>,
    congestion: Option<Rc<Congestion>>,
    plans: Rc<Plans>,
    fidelity: Fidelity,
    network: Rc<Network>,
    /// Created on first use: a system may have thousands of nodes of which a benchmark uses two.
    nodes: Vec<OnceCell<Rc<Node>>>,
    /// The reads and packets under way, if they are records and not tasks.
    records: Option<(Rc<ReadRecords>, Rc<Flights>)>,
    next_pair: Cell<u64>,
    next_region: Cell<u64>,
    /// All queue pairs; peers hold only weak references to each other.
    pairs: RefCell<Vec<Rc<Pair>>>,
    /// Reports of this window.
    reports: RefCell<Vec<Report>>,
}

impl Cluster {
    /// Creates `nodes` nodes of `system`, at rest.
    pub fn new(system: &System, nodes: usize, fidelity: Fidelity) -> Rc<Cluster> {
        Cluster::within(Sim::new(), system, nodes, fidelity, true)
    }

    /// Like [`Cluster::new`], with a task for every packet and read. This is the readable
    /// reference: slower, with the same results to the picosecond, as a test on random systems
    /// checks.
    pub fn of_tasks(system: &System, nodes: usize, fidelity: Fidelity) -> Rc<Cluster> {
        Cluster::within(Sim::new(), system, nodes, fidelity, false)
    }

    /// Creates a cluster of many nodes at message fidelity: every node is a partition of the
    /// simulation. Activities may connect nodes by reliable messages only, and start in their own
    /// partition ([`Sim::start_in`]).
    pub fn of_places(system: &System, nodes: usize) -> Rc<Cluster> {
        let sim = Cluster::partitioned(system);
        Cluster::within(sim, system, nodes, Fidelity::Message, true)
    }

    /// Like [`Cluster::of_places`], for the part of the nodes that a thread has. Activities of
    /// other nodes must not start here, and messages between nodes must be reliable and have no
    /// callback `placed`.
    ///
    /// # Panics
    ///
    /// If there are several threads, but a system that they may not share.
    pub fn of_thread(system: &System, nodes: usize, thread: &Thread) -> Rc<Cluster> {
        let cluster = Cluster::of_places(system, nodes);
        if !thread.is_alone() {
            assert!(
                Cluster::may_be_shared(system),
                "one thread simulates this system"
            );
            cluster.network.restrict_to(thread.nodes());
        }
        cluster
    }

    /// Returns whether several threads may simulate a system: one with switches that take time, and
    /// without congestion control, whose notifications are not exchanged between threads.
    pub fn may_be_shared(system: &System) -> bool {
        Cluster::lookahead(system).is_some() && system.congestion.is_none()
    }

    /// Like [`Cluster::of_places`], with a task for every packet and read, as in
    /// [`Cluster::of_tasks`].
    pub fn of_places_and_tasks(system: &System, nodes: usize) -> Rc<Cluster> {
        let sim = Cluster::partitioned(system);
        Cluster::within(sim, system, nodes, Fidelity::Message, false)
    }

    fn partitioned(system: &System) -> Sim {
        Cluster::lookahead(system).map_or_else(Sim::new, Sim::of_places)
    }

    /// Returns the minimum time until an event in one node affects another node or a switch, if
    /// that takes any.
    fn lookahead(system: &System) -> Option<Time> {
        let switch = system.switch.as_ref()?;
        let lookahead = Network::lookahead(&system.cable, switch);
        (lookahead > Time::ZERO).then_some(lookahead)
    }

    fn within(
        sim: Sim,
        system: &System,
        nodes: usize,
        fidelity: Fidelity,
        by_records: bool,
    ) -> Rc<Cluster> {
        let network = Rc::new(Network::new(&sim, system, nodes));
        sim.tell_of_window_ends(network.clone());
        let records = by_records.then(|| (ReadRecords::new(&sim), Flights::new(&sim, &network)));
        Rc::new(Cluster {
            sim,
            system: system.clone(),
            cpu: Rc::new(system.host.cpu.clone()),
            adapter: Rc::new(system.adapter.clone()),
            congestion: system.congestion.clone().map(Rc::new),
            plans: Rc::new(Plans::of_system(system)),
            fidelity,
            network,
            nodes: (0..nodes).map(|_| OnceCell::new()).collect(),
            records,
            next_pair: Cell::new(1),
            next_region: Cell::new(1),
            pairs: RefCell::default(),
            reports: RefCell::default(),
        })
    }

    /// Returns its simulation.
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// Returns its system profile.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// Returns the number of nodes.
    pub fn size(&self) -> usize {
        self.nodes.len()
    }

    /// Returns a node.
    pub fn node(&self, number: usize) -> Rc<Node> {
        self.nodes[number]
            .get_or_init(|| {
                let memory = Rc::new(MemoryModel::new(&self.system.host.memory));
                let reads = self.records.as_ref().map(|(reads, _)| reads.clone());
                let flights = self.records.as_ref().map(|(_, flights)| flights.clone());
                let bus = BusModel::new(&self.sim, &self.system.host, memory.clone(), reads);
                let bus = Rc::new(bus);
                let adapter = Rc::new(AdapterModel::new(
                    number,
                    &self.sim,
                    &self.adapter,
                    bus.clone(),
                    self.network.clone(),
                    (self.fidelity, self.congestion.clone()),
                    (self.plans.clone(), flights),
                ));
                Rc::new(Node {
                    number,
                    cpu: self.cpu.clone(),
                    cores: (0..self.system.host.cpu.cores.0.max(1))
                        .map(|_| Core::new(&self.sim))
                        .collect(),
                    memory,
                    bus,
                    adapter,
                })
            })
            .clone()
    }

    /// Creates a process on a node, with its own core.
    pub fn process(&self, node: usize) -> Process {
        Process {
            sim: self.sim.clone(),
            node: self.node(node),
            core: Core::new(&self.sim),
            turns: Rc::default(),
        }
    }

    /// Creates a process on a core of a node, `core` being taken modulo the number of cores: excess
    /// processes share cores.
    pub fn process_on(&self, node: usize, core: usize) -> Process {
        let node = self.node(node);
        let core = node.cores[core % node.cores.len()].clone();
        Process {
            sim: self.sim.clone(),
            node,
            core,
            turns: Rc::default(),
        }
    }

    /// Returns a new memory region number.
    pub fn region(&self) -> u64 {
        self.next_region.replace(self.next_region.get() + 1)
    }

    /// Creates an unconnected queue pair on a port of a node.
    pub fn pair(
        &self,
        node: usize,
        port: usize,
        transport: Transport,
        receives: Option<Rc<ReceiveQueue>>,
    ) -> Rc<Pair> {
        let id = self.next_pair.replace(self.next_pair.get() + 1);
        self.pair_as(id, node, port, transport, receives)
    }

    fn pair_as(
        &self,
        id: u64,
        node: usize,
        port: usize,
        transport: Transport,
        receives: Option<Rc<ReceiveQueue>>,
    ) -> Rc<Pair> {
        let node = self.node(node);
        let receives = receives.unwrap_or_else(|| ReceiveQueue::new(&node.adapter));
        let port = Port {
            node: node.number,
            port,
        };
        let pair = Pair::new(&node.adapter, id, port, transport, receives);
        self.pairs.borrow_mut().push(pair.clone());
        pair
    }

    /// Creates two connected queue pairs, one on each node.
    pub fn connected(
        &self,
        nodes: (usize, usize),
        port: usize,
        transport: Transport,
    ) -> (Rc<Pair>, Rc<Pair>) {
        let one = self.pair(nodes.0, port, transport, None);
        let other = self.pair(nodes.1, port, transport, None);
        Pair::connect(&one, &other);
        (one, other)
    }

    /// Creates two connected queue pairs of these numbers, which are not used otherwise.
    pub(crate) fn connected_as(
        &self,
        ids: [u64; 2],
        nodes: (usize, usize),
        port: usize,
        transport: Transport,
    ) -> (Rc<Pair>, Rc<Pair>) {
        let one = self.pair_as(ids[0], nodes.0, port, transport, None);
        let other = self.pair_as(ids[1], nodes.1, port, transport, None);
        Pair::connect(&one, &other);
        (one, other)
    }

    /// Sets the lookup of queue pairs by number, for packets from other threads.
    pub(crate) fn find_pairs_by(&self, find: impl Fn(u64) -> Option<Rc<Pair>> + 'static) {
        if let Some((_, flights)) = &self.records {
            flights.find_pairs_by(find);
        }
    }

    /// Returns the bytes queued in the network before the last port on the path to a node, on lane
    /// 0.
    pub fn queued_before(&self, node: usize) -> u64 {
        self.network.queued_before(Port { node, port: 0 })
    }

    /// Returns the number of messages of which a packet is with another thread.
    pub fn messages_under_way(&self) -> usize {
        let pairs = self.pairs.borrow();
        pairs.iter().map(|pair| pair.under_way()).sum()
    }

    /// Returns the audit so far. All operations should have ended.
    pub fn audit(&self) -> Audit {
        let mut audit = Audit {
            now: self.sim.latest(),
            left: self.network.taken(),
            ..Audit::default()
        };
        // Headers and completion entries at most double the smallest messages; the rest is for
        // traffic outside these buffers: completions, contexts, acknowledgements.
        let (link, ports) = (&self.system.link, self.system.ports);
        let buffers = ports * link.lanes.0 * link.buffer.0;
        let held = 4 * buffers + AROUND;
        for node in self.nodes.iter().filter_map(OnceCell::get) {
            let counters = node.adapter.counters();
            audit.bytes_sent += counters.bytes_sent;
            audit.bytes_placed += counters.bytes_placed;
            audit.translations += counters.translation_misses;
            audit.early += counters.early;
            audit.left += node.adapter.sending();
            for (what, server) in node.bus.servers() {
                let most = node.bus.rate().time(held);
                let what = format!("node {}, {what}", node.number);
                audit.usage.push(Usage::of(what, server, most));
            }
        }
        for node in self.nodes.iter().filter_map(OnceCell::get) {
            node.processing(&mut audit.usage);
        }
        let in_switches = ports * link.lanes.0 * self.network.largest_buffer();
        let most = self.network.slowest().time(in_switches + held);
        for (number, port) in self.network.ports().enumerate() {
            let what = format!("egress port {number}");
            audit.usage.push(Usage::of(what, port, most));
        }
        audit
    }

    /// Returns the traffic of its links and buses so far.
    pub fn traffic(&self) -> Traffic {
        let counters = |node: &OnceCell<Rc<Node>>| {
            let node = node.get()?;
            Some(node.adapter.counters())
        };
        let sent = self.nodes.iter().map(|node| {
            let counters = counters(node);
            counters.map_or((0, 0), |all| (all.bytes_sent, all.bytes_placed))
        });
        Traffic {
            nodes: sent.collect(),
            links: self.network.carried(),
            stalls: self.network.stalled(),
            span: self.sim.latest(),
        }
    }

    /// Returns the traffic so far of the parts of all threads, each of which calls this once.
    pub fn traffic_of_all(&self, thread: &Thread) -> Traffic {
        thread.sum(self.traffic())
    }

    /// Returns the ports that had packets to send for the longest time, at most [`HOTTEST`] of
    /// them, the hottest first; none unless the fabric exists.
    pub fn hot_ports(&self, traffic: &Traffic) -> Vec<HotPort> {
        let times = traffic.links.iter().zip(&traffic.stalls).enumerate();
        let mut hot: Vec<_> = times
            .map(|(egress, (carried, stalled))| (*carried + *stalled, egress))
            .filter(|(time, _)| *time > Time::ZERO)
            .collect();
        hot.sort_by_key(|&(time, egress)| (Reverse(time), egress));
        let hot = hot.into_iter().take(HOTTEST);
        hot.filter_map(|(_, egress)| {
            let [port, to] = self.network.port_names(egress)?.map(str::to_owned);
            Some(HotPort {
                port,
                to,
                carried: traffic.links[egress],
                stalled: traffic.stalls[egress],
                span: traffic.span,
            })
        })
        .collect()
    }

    /// Returns the link or bus that needs most time for this traffic at its rate; `None` if nothing
    /// was carried.
    pub fn bottleneck(&self, traffic: &Traffic) -> Option<Bottleneck> {
        let link = self.network.least(&traffic.links);
        let link = link.map(|(what, time)| Bottleneck { what, time });
        let bus = self.system.host.bus.payload();
        let buses = traffic.nodes.iter().enumerate().map(|(node, one)| {
            let bytes = self.system.host.bus.together(*one);
            Bottleneck {
                what: format!("the bus of node {node}"),
                time: bus.time(bytes),
            }
        });
        let all = buses.chain(link);
        all.max_by_key(|one| one.time)
            .filter(|one| one.time > Time::ZERO)
    }

    /// Sends `report` to all threads at the end of the window.
    pub fn report(&self, report: Report) {
        self.reports.borrow_mut().push(report);
    }

    /// Runs the nodes of `thread`, together with the other threads, until nothing happens any more,
    /// or until `stops` returns true, which gets the reports of all threads of a window in order of
    /// time and rank.
    pub fn run(&self, thread: &Thread, mut stops: impl FnMut(&[Report]) -> bool) {
        if self.sim.is_one_place() {
            while self.sim.step() {
                let reports = self.reports.take();
                if !reports.is_empty() && stops(&reports) {
                    return;
                }
            }
            return;
        }
        for window in 0.. {
            self.sim.run_window();
            let mut reports = self.reports.take();
            let next = match thread.is_alone() {
                true => {
                    self.sim.end_window();
                    self.sim.coming_window()
                }
                false => {
                    let sent = self.sent(reports);
                    let received = thread.exchange(window, sent, |place| self.network.owner(place));
                    reports = received.reports;
                    if let Some((_, flights)) = &self.records {
                        flights.receive(&self.sim, received.packets);
                    }
                    self.network.add_returned(&received.returned);
                    self.sim.end_window();
                    received.next
                }
            };
            reports.sort_unstable();
            if !reports.is_empty() && stops(&reports) {
                return;
            }
            match next {
                Some(next) => self.sim.begin_window(next),
                None => return,
            }
        }
    }

    /// Takes the packets and credits that have crossed to other threads in the window that ends.
    fn sent(&self, reports: Vec<Report>) -> Crossing {
        let flights = self.records.iter();
        let packets = flights.flat_map(|(_, flights)| flights.take_outgoing());
        let packets: Vec<_> = packets.collect();
        let first = self.network.first_returned();
        let returned = self.network.returned_to_others();
        let crossing = packets.iter().map(|packet| packet.due).chain(first);
        let crossing = crossing.chain(self.sim.first_crossing()).min();
        let crossing = crossing.map(|instant| self.sim.window_of(instant));
        Crossing {
            next: crossing.into_iter().chain(self.sim.coming_window()).min(),
            packets,
            returned,
            reports,
        }
    }

    /// Ends the simulation and drops all waiting tasks. The cluster must not be used afterwards.
    pub fn finish(&self) {
        self.sim.clear();
    }
}

impl Node {
    /// Adds the usage of its cores, memory and engines, whose queues are not buffers.
    fn processing(&self, all: &mut Vec<Usage>) {
        let what = |server: &str| format!("node {}, {server}", self.number);
        for (number, core) in self.cores.iter().enumerate() {
            if core.time.busy() > Time::ZERO {
                let what = what(&format!("core {number}"));
                all.push(Usage::of(what, &core.time, Time(u64::MAX)));
            }
        }
        let memory = self.memory.server();
        all.push(Usage::of(what("memory"), memory, Time(u64::MAX)));
        let engines = self.adapter.engines().into_iter();
        all.extend(engines.filter_map(|(engines, busy)| {
            Some(Usage {
                what: what(engines),
                busy: busy?,
                longest_wait: Time::ZERO,
                most: Time(u64::MAX),
            })
        }));
    }
}

/// Bytes that a core requests from memory at a time, so that other accesses interleave.
pub const PAGE: u64 = 4096;

struct Core {
    time: Server,
    /// Whether a task holds the core for an unknown time.
    held: Cell<bool>,
    released: Watch,
}

impl Core {
    fn new(sim: &Sim) -> Rc<Core> {
        Rc::new(Core {
            time: Server::new(),
            held: Cell::new(false),
            released: Watch::new(sim),
        })
    }

    /// Waits until no task holds the core.
    async fn let_go(&self) {
        if self.held.get() {
            self.released.until(|| !self.held.get()).await;
        }
    }
}

/// Callback for the turns of a core.
type Watcher = Box<dyn Fn(Occupancy)>;

/// A process: a core of a node that does one thing at a time.
#[derive(Clone)]
pub struct Process {
    sim: Sim,
    node: Rc<Node>,
    core: Rc<Core>,
    turns: Rc<OnceCell<Watcher>>,
}

impl Process {
    /// Calls `told` for each later turn of its core when the turn is reserved, in order.
    ///
    /// # Panics
    ///
    /// If a callback is already set.
    pub fn watch(&self, told: impl Fn(Occupancy) + 'static) {
        let before = self.turns.set(Box::new(told));
        assert!(before.is_ok(), "this process is already watched");
    }

    /// Returns its node.
    pub fn node(&self) -> &Rc<Node> {
        &self.node
    }

    /// Returns the simulation.
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// Returns the current virtual time.
    pub fn now(&self) -> Time {
        self.sim.now()
    }

    /// Occupies the core for `span`.
    pub fn compute(&self, span: Time) -> Compute<'_> {
        Compute {
            process: self,
            span,
            end: None,
        }
    }

    /// Occupies the core for `span` while `bytes` pass to and from the node's memory, spread
    /// evenly; takes longer if memory is slowed down by other accesses. No other task gets the core
    /// in between. Returns the time taken.
    pub async fn compute_over_memory(&self, span: Time, bytes: u64) -> Time {
        self.core.let_go().await;
        self.core.held.set(true);
        // Earlier reservations come first.
        let begun = self.core.time.free().max(self.sim.now());
        self.sim.sleep_until(begun).await;
        let pages = bytes.div_ceil(PAGE).max(1);
        // Cumulative shares, so that rounding loses nothing.
        let share = |whole: u64, page: u64| {
            (u128::from(whole) * u128::from(page) / u128::from(pages)) as u64
        };
        for page in 0..pages {
            let now = self.sim.now();
            let part = |whole| share(whole, page + 1) - share(whole, page);
            // A page without bytes does not wait for memory.
            let memory = match part(bytes) {
                0 => now,
                bytes => self.node.memory.carry(now, bytes),
            };
            self.sim
                .sleep_until(memory.max(now + Time(part(span.0))))
                .await;
        }
        let taken = self.sim.now() - begun;
        self.turn(begun, taken);
        self.core.held.set(false);
        self.core.released.changed();
        taken
    }

    fn turn(&self, arrival: Time, span: Time) -> Occupancy {
        let turn = self.core.time.reserve(arrival, span);
        if let Some(told) = self.turns.get() {
            told(turn);
        }
        turn
    }

    /// Returns whether its core is free and was so before the current instant.
    pub fn is_idle(&self) -> bool {
        !self.core.held.get() && self.core.time.free() < self.sim.now()
    }

    /// Returns the total busy time of its core.
    pub fn busy(&self) -> Time {
        self.core.time.busy()
    }

    /// Posts requests to the adapter: builds the entries, copies inline data, rings the doorbell
    /// once. A single entry that is small enough travels inside the doorbell, if adapter and driver
    /// support that.
    pub async fn post<R>(&self, pair: &Rc<Pair>, requests: R)
    where
        R: AsRef<[Request]> + IntoIterator<Item = Request> + 'static,
    {
        let doorbell = self.write_doorbell(pair, requests.as_ref()).await;
        self.ring(pair, doorbell, requests);
    }

    /// Builds the entries of requests and writes the doorbell that posts them. At its end, the
    /// requests are to be passed to [`Process::ring`].
    pub(crate) async fn write_doorbell(&self, pair: &Pair, requests: &[Request]) -> Doorbell {
        let cpu = &self.node.cpu;
        let adapter = &self.node.adapter;
        let plan = Plan::of_list(
            requests
                .iter()
                .map(|request| adapter.plan(request.kind, pair.transport())),
        );
        let work = cpu.post * requests.len() as u64 + cpu.doorbell;
        let saved = plan.posting.min(work);
        // Inline data are a few lines in the first-level cache: copying them is part of building
        // the entry.
        let start = self.sim.now();
        self.compute(work - saved).await;
        let rung = self.sim.now().since(cpu.doorbell).max(start);
        self.sim.span(stage::POST, self.node.number, start, rung);
        let carried = match requests {
            [one] if adapter.takes_inside(one, pair.transport()) => Carried::Entry,
            _ => Carried::Address,
        };
        let rings = match carried {
            Carried::Address => self.node.bus.programmed(8).await,
            Carried::Entry => {
                let pieces = requests[0].entry_bytes(pair.transport()).div_ceil(64);
                let further = cpu.further.unwrap_or(cpu.doorbell);
                let mut arrival = self.node.bus.programmed(64).await;
                for _ in 1..pieces {
                    self.compute(further).await;
                    arrival = self.node.bus.programmed(64).await;
                }
                arrival
            }
        };
        let arrival = match plan.is_none() {
            true => pair.in_order(rings),
            false => self.corrected(pair, (&plan, saved), rings),
        };
        let end = rings.min(arrival);
        self.sim.span(stage::DOORBELL, self.node.number, rung, end);
        Doorbell { arrival, carried }
    }

    /// Has a doorbell that has just been written arrive with its requests.
    pub(crate) fn ring<R>(&self, pair: &Rc<Pair>, doorbell: Doorbell, requests: R)
    where
        R: IntoIterator<Item = Request> + 'static,
    {
        let Doorbell { arrival, carried } = doorbell;
        self.sim
            .start_at(arrival, pair.clone().ring(requests, carried));
    }

    /// Returns the corrected arrival of a doorbell, no earlier than that of the queue pair's
    /// previous one, and occupies the core for the time that follows the message. Posting took
    /// `saved` less than by the profile.
    fn corrected(&self, pair: &Pair, (plan, saved): (&Plan, Time), arrival: Time) -> Time {
        let now = self.sim.now();
        let due = (arrival + saved + plan.held).since(plan.doorbell);
        let due = pair.in_order(due.max(now));
        if due > arrival {
            self.sim.span(stage::ANCHOR, self.node.number, arrival, due);
        }
        self.occupy(plan.after);
        due
    }

    /// Keeps the core busy for `span` from now on, or after its reserved turns, without waiting.
    pub fn occupy(&self, span: Time) {
        if span > Time::ZERO {
            self.turn(self.sim.now(), span);
        }
    }

    /// Posts receive requests.
    pub async fn post_receives(&self, pair: &Rc<Pair>, requests: u64) {
        self.compute(self.node.cpu.post * requests).await;
        pair.receives().post(requests);
    }

    /// Takes an available completion.
    pub async fn take_completion(&self) {
        let start = self.sim.now();
        self.compute(self.node.cpu.miss).await;
        self.span(stage::POLL, start);
    }

    /// Sees a changed byte.
    pub async fn notice(&self) {
        let start = self.sim.now();
        self.compute(self.node.cpu.miss).await;
        self.span(stage::NOTICE, start);
    }

    fn span(&self, stage: &'static str, start: Time) {
        self.sim
            .span(stage, self.node.number, start, self.sim.now());
    }

    /// Copies memory at the core's rate, limited by the node's memory; data that another core has
    /// just written and still has in its cache pass from cache to cache.
    pub async fn copy(&self, bytes: u64, state: CacheState) {
        let cpu = &self.node.cpu;
        if let CacheState::OtherCore(cores) = state
            && bytes <= cpu.cache.0
        {
            self.compute(cpu.between_caches(cores).time(bytes)).await;
            return;
        }
        self.pass(bytes, 2).await;
    }

    /// Reads uncached memory at the core's copy rate, limited by the node's memory. Profiles do not
    /// state that a core reads faster than it copies.
    pub async fn read(&self, bytes: u64) {
        self.pass(bytes, 1).await;
    }

    /// Moves bytes through the core, and through the node's memory `times` times.
    async fn pass(&self, bytes: u64, times: u64) {
        let cpu = &self.node.cpu;
        // Page by page, so that other accesses to memory interleave.
        let mut left = bytes;
        while left > 0 {
            let part = left.min(PAGE);
            // Other tasks of the process may occupy the core; memory is requested when the copy
            // begins.
            self.core.let_go().await;
            while self.core.time.free() > self.sim.now() {
                self.sim.sleep_until(self.core.time.free()).await;
                self.core.let_go().await;
            }
            let now = self.sim.now();
            let memory = self.node.memory.carry(now, times * part);
            self.compute(cpu.copy.time(part).max(memory - now)).await;
            left -= part;
        }
    }
}

/// Future that occupies a core. Written by hand instead of `async` to take fewer instructions: a
/// message has six.
#[must_use = "it occupies nothing until it is awaited"]
pub struct Compute<'a> {
    process: &'a Process,
    span: Time,
    /// The end of its turn, once reserved.
    end: Option<Time>,
}

impl Future for Compute<'_> {
    type Output = ();
    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let process = self.process;
        let now = process.sim.now();
        let end = match self.end {
            Some(end) => end,
            None if process.core.held.get() => {
                process.core.released.notify_current();
                return Poll::Pending;
            }
            None => {
                let end = process.turn(now, self.span).end;
                self.end = Some(end);
                if end > now {
                    process.sim.wake_at(end);
                }
                end
            }
        };
        match now >= end {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

/// A doorbell on its way to the adapter.
#[must_use = "its requests are not posted until it rings"]
pub(crate) struct Doorbell {
    arrival: Time,
    carried: Carried,
}

/// Location of the data of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheState {
    /// One side of the copy is in another core's cache, if it fits.
    OtherCore(CorePair),
    /// The data are in memory.
    Cold,
}
