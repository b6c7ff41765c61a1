//! Streams and latencies by the reservations that `verbena run --as` makes, in virtual time,
//! against the model: programs as on the model, each with a processor, of adapters that process
//! one request at a time, and of another.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::AtomicU64;
use verbena_emulation::operation::{Operation, Placement};
use verbena_emulation::reservation::{Request, WORDS, Words};
use verbena_emulation::table::Table;
use verbena_fabric::model::{Fidelity, Machine};
use verbena_model::profile::{Library, Overrides};
use verbena_reproduce::suite::{Asked, figure, run};
use verbena_workloads::context::{Mode, Options, Sweep};
use verbena_workloads::registry::find;

#[derive(Clone, Copy)]
struct Due {
    arrival: f64,
    completion: f64,
    posted: f64,
}

/// The nodes' words.
struct Memory(Vec<AtomicU64>);

impl Words for Memory {
    fn word(&self, node: usize, index: usize) -> Option<&AtomicU64> {
        self.0.get(node * WORDS + index)
    }
}

/// An emulated adapter of two nodes.
struct Adapter<'a> {
    table: &'a Table,
    words: Memory,
}

impl Adapter<'_> {
    fn post(&self, post: &Request) -> Due {
        let times = self.table.times(post.operation, post.placement, post.bytes);
        let wait = self.table.reserve(post, &times, &self.words);
        let start = (post.now + wait) as f64;
        Due {
            arrival: start + times.visible,
            completion: start + times.completion,
            posted: post.now as f64 + times.posting,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Stream,
    Ping,
    Pong,
    Reader,
}

struct Process {
    kind: Kind,
    node: usize,
    peer: usize,
    pair: usize,
    state: u8,
    now: f64,
    posted: u64,
    completed: u64,
    /// Completion times in order.
    done: VecDeque<f64>,
    last: (f64, f64),
    ended: f64,
    arrived: VecDeque<f64>,
    start: f64,
    waited: f64,
    samples: Vec<f64>,
}

#[derive(Clone, Copy)]
struct Scenario {
    kinds: (Kind, Option<Kind>),
    pairs: usize,
    both: bool,
    operation: Operation,
    placement: Placement,
    bytes: u64,
    every: u64,
    count: u64,
    lockstep: bool,
}

const WINDOW: u64 = 64;

/// Start of the clock, in nanoseconds.
const START: f64 = 1e6;

struct World<'a> {
    adapter: &'a Adapter<'a>,
    scenario: Scenario,
    processes: Vec<Process>,
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Run(usize),
    Completed(usize),
    Arrived(usize),
}

impl World<'_> {
    fn at(&mut self, time: f64, event: Event) {
        self.number += 1;
        // The bits of positive numbers are in their order.
        self.heap
            .push(Reverse((time.to_bits(), self.number, event)));
    }

    fn post(&mut self, p: usize) {
        let scenario = self.scenario;
        let process = &self.processes[p];
        let post = self.request(p, process.now);
        let due = self.adapter.post(&post);
        let process = &mut self.processes[p];
        process.now = due.posted;
        process.posted += 1;
        process.last.0 = process.last.0.max(due.arrival);
        process.last.1 = process.last.1.max(due.completion);
        let (last, peer) = (process.last, process.peer);
        self.at(last.1, Event::Completed(p));
        if scenario.kinds.1.is_some() && scenario.operation != Operation::Read {
            self.at(last.0, Event::Arrived(peer));
        }
    }

    fn request(&self, p: usize, now: f64) -> Request {
        let process = &self.processes[p];
        Request {
            now: now as u64,
            own: process.node,
            peer: Some(1 - process.node),
            queue_pair: process.pair as u32,
            operation: self.scenario.operation,
            placement: self.scenario.placement,
            bytes: self.scenario.bytes,
        }
    }

    fn barrier(&mut self, p: usize) -> bool {
        let kind = self.processes[p].kind;
        let all = self.processes.iter().filter(|one| one.kind == kind);
        if !self.scenario.lockstep {
            return true;
        }
        if all.clone().all(|one| one.state == 0) {
            let latest = all.map(|one| one.now).fold(0.0, f64::max);
            let waiting: Vec<usize> = (0..self.processes.len())
                .filter(|one| self.processes[*one].kind == kind)
                .collect();
            for one in waiting {
                let process = &mut self.processes[one];
                process.waited = latest - process.now;
                process.now = latest;
                process.state = 1;
                self.at(latest, Event::Run(one));
            }
        }
        false
    }

    fn step(&mut self, p: usize, time: f64) {
        loop {
            let scenario = self.scenario;
            let process = &mut self.processes[p];
            if process.now > time {
                let now = process.now;
                return self.at(now, Event::Run(p));
            }
            process.now = time;
            match (process.kind, process.state) {
                (Kind::Stream, _) => {
                    let every = scenario.every.min(WINDOW / 2);
                    let reaped = match process.completed == scenario.count {
                        true => process.completed,
                        false => process.completed / every * every,
                    };
                    if process.posted == scenario.count || process.posted - reaped == WINDOW {
                        return;
                    }
                    self.post(p);
                }
                // Before the barrier; behind it; posted; completed.
                (Kind::Ping | Kind::Reader, 0) => {
                    if process.samples.len() as u64 == scenario.count {
                        process.state = 9;
                        return;
                    }
                    if !self.barrier(p) {
                        return;
                    }
                    self.processes[p].state = 1;
                }
                (Kind::Ping | Kind::Reader, 1) => {
                    process.start = process.now;
                    process.state = 2;
                    self.post(p);
                }
                (_, 2) => {
                    if process.done.is_empty() {
                        return;
                    }
                    let done = process.done.pop_front().unwrap();
                    process.now = process.now.max(done);
                    process.state = 3;
                }
                (Kind::Reader, 3) => {
                    process.samples.push(process.now - process.start);
                    process.state = 0;
                }
                (Kind::Ping, 3) => {
                    let Some(at) = process.arrived.pop_front() else {
                        return;
                    };
                    process.now = process.now.max(at);
                    let (time, peer) = (process.now - process.start, process.peer);
                    process.state = 0;
                    let waited = self.processes[peer].waited;
                    self.processes[p].samples.push((time - waited) / 2.0);
                }
                (Kind::Pong, 0) => {
                    // Between completion and barrier.
                    if !self.barrier(p) {
                        return;
                    }
                    self.processes[p].state = 1;
                }
                (Kind::Pong, 1) => {
                    process.state = 2;
                    self.post(p);
                }
                (Kind::Pong, _) => {
                    let Some(at) = process.arrived.pop_front() else {
                        return;
                    };
                    process.now = process.now.max(at);
                    process.state = 0;
                }
                _ => return,
            }
        }
    }

    fn run(&mut self) {
        // Times begin later than never; processes do not begin together.
        for p in 0..self.processes.len() {
            let start = START
                + if self.scenario.lockstep {
                    0.0
                } else {
                    37.0 * p as f64
                };
            self.at(start, Event::Run(p));
        }
        while let Some(Reverse((time, _, event))) = self.heap.pop() {
            let time = f64::from_bits(time);
            match event {
                Event::Run(p) => self.step(p, time),
                Event::Arrived(p) => {
                    self.processes[p].arrived.push_back(time);
                    self.step(p, time);
                }
                Event::Completed(p) => {
                    let process = &mut self.processes[p];
                    process.completed += 1;
                    process.ended = time;
                    process.done.push_back(time);
                    self.step(p, time);
                }
            }
        }
    }
}

impl Scenario {
    fn run(self, table: &Table) -> f64 {
        let words = (0..2 * WORDS).map(|_| AtomicU64::new(0)).collect();
        let adapter = &Adapter {
            table,
            words: Memory(words),
        };
        let mut processes = Vec::new();
        for pair in 0..self.pairs {
            for side in 0..2 {
                let kind = match (side, self.kinds.1, self.both) {
                    (0, ..) | (1, _, true) => self.kinds.0,
                    (_, Some(kind), _) => kind,
                    _ => continue,
                };
                let number = processes.len();
                processes.push(Process {
                    kind,
                    node: side,
                    peer: number ^ 1,
                    // A queue pair of each side.
                    pair: 2 * pair + side,
                    state: if kind == Kind::Pong { 4 } else { 0 },
                    now: 0.0,
                    posted: 0,
                    completed: 0,
                    done: VecDeque::new(),
                    last: (0.0, 0.0),
                    ended: 0.0,
                    arrived: VecDeque::new(),
                    start: 0.0,
                    waited: 0.0,
                    samples: Vec::new(),
                });
            }
        }
        let mut world = World {
            adapter,
            scenario: self,
            processes,
            heap: BinaryHeap::new(),
            number: 0,
        };
        world.run();
        match self.kinds.0 {
            Kind::Stream => {
                let end = world
                    .processes
                    .iter()
                    .map(|one| one.ended)
                    .fold(0.0, f64::max);
                let senders = world.processes.len() as f64;
                1000.0 * senders * (self.count * self.bytes) as f64 / (end - START)
            }
            kind => {
                let all = world.processes.iter().filter(|one| one.kind == kind);
                let mut all: Vec<f64> = all.flat_map(|one| one.samples[2..].to_vec()).collect();
                all.sort_by(f64::total_cmp);
                all.iter().sum::<f64>() / all.len() as f64 / 1000.0
            }
        }
    }
}

const SIZES: [u64; 7] = [8, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10];

/// A curve of the model.
#[derive(Clone, Copy)]
enum Curve {
    Streams(usize),
    BothWays,
    Writes(usize, Mode),
    Reads(usize, Mode),
}

impl Curve {
    fn name(self) -> String {
        match self {
            Curve::Streams(pairs) => format!("streams of {pairs} pairs"),
            Curve::BothWays => "streams both ways".to_owned(),
            Curve::Writes(pairs, mode) => format!("write latency, {pairs} pairs, {}", mode.word()),
            Curve::Reads(pairs, mode) => format!("read latency, {pairs} pairs, {}", mode.word()),
        }
    }

    /// Returns the errors of the emulation in per cent, by size: of times, and of times for each
    /// message.
    fn errors(self, machine: &Machine, table: &Table) -> Vec<f64> {
        let error = |bytes: u64| {
            let (benchmark, pairs, mode) = match self {
                Curve::Streams(pairs) => ("multi-pair.write-bandwidth", pairs, Mode::Free),
                Curve::BothWays => ("bandwidth.write-both", 1, Mode::Free),
                Curve::Writes(pairs, mode) => ("multi-pair.write-latency", pairs, mode),
                Curve::Reads(pairs, mode) => ("multi-pair.read-latency", pairs, mode),
            };
            let is_stream = matches!(self, Curve::Streams(_) | Curve::BothWays);
            let options = Options {
                sizes: Some(vec![bytes as usize]),
                pairs: Some(vec![pairs]),
                mode: Some(mode),
                ..Options::default()
            };
            let wanted = model(machine, benchmark, options);
            let scenario = Scenario {
                kinds: match self {
                    Curve::Streams(_) | Curve::BothWays => (Kind::Stream, None),
                    Curve::Writes(..) => (Kind::Ping, Some(Kind::Pong)),
                    Curve::Reads(..) => (Kind::Reader, None),
                },
                pairs,
                both: matches!(self, Curve::BothWays),
                operation: match self {
                    Curve::Reads(..) => Operation::Read,
                    _ => Operation::Write,
                },
                placement: match self {
                    Curve::Writes(..) if bytes <= 256 => Placement::Inline,
                    _ => Placement::Reference,
                },
                bytes,
                every: 16,
                count: if is_stream { 1024 } else { 60 },
                lockstep: mode == Mode::Lockstep,
            };
            let got = scenario.run(table);
            100.0
                * if is_stream {
                    wanted / got
                } else {
                    got / wanted
                }
                - 100.0
        };
        SIZES.into_iter().map(error).collect()
    }
}

fn model(machine: &Machine, benchmark: &str, options: Options) -> f64 {
    let asked = Asked {
        options,
        sweep: Sweep::Coarse,
        processes: None,
        fidelity: Fidelity::Packet,
    };
    let points = run(machine.clone(), find(benchmark).unwrap(), asked).unwrap();
    points.first().map_or(f64::NAN, figure)
}

/// Prints the errors of a system's curves, and holds the mean of each to a limit.
fn check(name: &str, curves: &[(Curve, f64)]) {
    let library = Library::shipped(&Overrides::default()).unwrap();
    let machine = Machine::of(&library, name).unwrap();
    let table = verbena_calibrate::emulation::of(&machine).unwrap();
    let mut failed = Vec::new();
    for (curve, limit) in curves {
        let errors = curve.errors(&machine, &table);
        let mean = errors.iter().map(|one| one.abs()).sum::<f64>() / errors.len() as f64;
        let worst = errors
            .iter()
            .copied()
            .max_by(|a, b| a.abs().total_cmp(&b.abs()));
        let title = curve.name();
        println!(
            "{name:<22} {title:<34} {mean:5.1} ({:+.1}) {errors:.0?}",
            worst.unwrap()
        );
        if mean.is_nan() || mean > *limit {
            failed.push(format!("{title}: {mean:.1} %"));
        }
    }
    assert!(failed.is_empty(), "{name}: {failed:?}");
}

/// Latencies of pairs in step differ most: the model shares a link between messages, while
/// reservations are in order.
#[test]
fn streams_and_latencies_of_several_pairs_are_those_of_the_model() {
    use Curve::{BothWays, Reads, Streams, Writes};
    use Mode::{Free, Lockstep};
    let mut free = vec![(BothWays, 2.0)];
    let mut in_step = Vec::new();
    for pairs in [1, 2, 4, 8] {
        free.extend([
            (Streams(pairs), 1.0),
            (Writes(pairs, Free), 9.0),
            (Reads(pairs, Free), 5.0),
        ]);
        in_step.extend([
            (Writes(pairs, Lockstep), 22.0),
            (Reads(pairs, Lockstep), 13.0),
        ]);
    }
    check("infinihost-pcix", &free);
    free.extend(in_step);
    check("infinihost3-ddr", &free);
}

#[test]
fn streams_of_a_parallel_adapter_are_those_of_the_model() {
    let streams = [1, 2, 4, 8].map(|pairs| (Curve::Streams(pairs), 3.0));
    check("connectx-ddr", &streams);
    check(
        "connectx-ddr",
        &[(Curve::BothWays, 3.0), (Curve::Writes(1, Mode::Free), 1.0)],
    );
}
