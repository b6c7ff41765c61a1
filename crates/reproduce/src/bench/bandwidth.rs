//! Bandwidth: each process keeps a window of messages outstanding.

use super::operation::{Operation, run};
use std::cell::Cell;
use std::rc::Rc;
use verbena_model::adapter::{Fidelity, Pair, Transport};
use verbena_model::cluster::{Cluster, Process};
use verbena_model::kernel::{Mailbox, Time};
use verbena_model::profile::System;

/// Direction of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the first node to the second.
    One,
    /// Both directions at the same time; the figure is the sum.
    Both,
}

/// A bandwidth benchmark.
#[derive(Debug, Clone, Copy)]
pub struct Bandwidth {
    /// The operation of each message.
    pub operation: Operation,
    /// The transport service.
    pub transport: Transport,
    /// Number of process pairs.
    pub pairs: usize,
    /// Connections of each pair, used in turn, distributed over the system's ports.
    pub connections: usize,
    /// Outstanding messages per process.
    pub window: u64,
    /// Measured messages per process.
    pub messages: u64,
    /// Direction.
    pub direction: Direction,
    /// Number of buffers, used in turn.
    pub buffers: u64,
    /// Messages per signalled completion; smaller if the window is small.
    pub signal_every: u64,
    /// Level of detail.
    pub fidelity: Fidelity,
}

impl Bandwidth {
    /// One pair, one direction.
    pub fn of(operation: Operation) -> Bandwidth {
        Bandwidth {
            operation,
            transport: Transport::Reliable,
            pairs: 1,
            connections: 1,
            window: 64,
            messages: (8_000_000 / operation.bytes.max(1)).clamp(48, 1000),
            direction: Direction::One,
            buffers: 1,
            signal_every: 1,
            fidelity: Fidelity::Packet,
        }
    }

    /// Returns the benchmark with another number of pairs.
    pub fn pairs(self, pairs: usize) -> Bandwidth {
        Bandwidth { pairs, ..self }
    }

    /// Returns the benchmark with another number of connections.
    pub fn connections(self, connections: usize) -> Bandwidth {
        Bandwidth {
            connections,
            ..self
        }
    }

    /// Returns the benchmark in both directions.
    pub fn both_ways(self) -> Bandwidth {
        Bandwidth {
            direction: Direction::Both,
            ..self
        }
    }
}

/// Measured rates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Bytes completed at the senders, 10^6 a second.
    pub sent: f64,
    /// Bytes that arrived at the receivers, 10^6 a second.
    pub received: f64,
}

/// Bytes from the first start to the last end (measurement rule 10); the first start is the time
/// origin.
#[derive(Default)]
struct Tally {
    bytes: Cell<u64>,
    ended: Cell<Time>,
}

impl Tally {
    fn add(&self, bytes: u64, now: Time) {
        self.bytes.set(self.bytes.get() + bytes);
        self.ended.set(now);
    }

    fn rate(&self) -> f64 {
        let span = self.ended.get().seconds();
        if span > 0.0 {
            self.bytes.get() as f64 / span / 1e6
        } else {
            0.0
        }
    }
}

/// Runs the benchmark.
pub fn bandwidth(system: &System, bench: Bandwidth) -> Rates {
    let cluster = Cluster::new(system, 2, bench.fidelity);
    let mut senders = Vec::new();
    let (sent, received): (Rc<Tally>, Rc<Tally>) = Default::default();
    for pair in 0..bench.pairs {
        let connections: Vec<_> = (0..bench.connections)
            .map(|number| {
                let port = (pair * bench.connections + number) as u64 % system.ports;
                cluster.connected((0, 1), port as usize, bench.transport)
            })
            .collect();
        for (one, other) in &connections {
            one.receives().post(1 << 40);
            other.receives().post(1 << 40);
        }
        let (ones, others): (Vec<_>, Vec<_>) = connections.into_iter().unzip();
        let regions = (cluster.region(), cluster.region());
        for (node, pairs) in [(0, ones), (1, others)] {
            if node == 0 || bench.direction == Direction::Both {
                let process = cluster.process(node);
                let (sent, received) = (sent.clone(), received.clone());
                senders.push(
                    cluster
                        .sim()
                        .spawn(keep_window(bench, process, pairs, regions, sent, received)),
                );
            }
        }
    }
    run(&cluster, async move {
        for sender in senders {
            sender.await;
        }
    });
    Rates {
        sent: sent.rate(),
        received: received.rate(),
    }
}

async fn keep_window(
    bench: Bandwidth,
    process: Process,
    pairs: Vec<Rc<Pair>>,
    regions: (u64, u64),
    sent: Rc<Tally>,
    received: Rc<Tally>,
) {
    let sim = process.sim().clone();
    let completions: Mailbox<u64> = Mailbox::new(&sim);
    let every = bench.signal_every.min(bench.window / 2).max(1);
    let (mut outstanding, mut covered) = (0, 0);
    for number in 0..bench.messages {
        while outstanding == bench.window {
            outstanding -= completions.receive().await;
            process.take_completion().await;
        }
        let mut request = bench.operation.request();
        let buffer = number % bench.buffers;
        request.local.region = regions.0;
        request.remote.region = regions.1;
        request.local.address = buffer * bench.operation.bytes;
        request.remote.address = request.local.address;
        let bytes = bench.operation.bytes;
        let (own, tally) = (sim.clone(), received.clone());
        request.placed = Some(Box::new(move || tally.add(bytes, own.now())));
        covered += 1;
        // Completions are in order on each connection only, so with several connections every
        // message is signalled.
        if covered == every || number + 1 == bench.messages || pairs.len() > 1 {
            let (own, tally, done) = (sim.clone(), sent.clone(), completions.clone());
            let messages = std::mem::take(&mut covered);
            request.completed = Some(Box::new(move || {
                tally.add(bytes * messages, own.now());
                done.send(messages);
            }));
        }
        let pair = &pairs[number as usize % pairs.len()];
        process.post(pair, vec![request]).await;
        outstanding += 1;
    }
    while outstanding > 0 {
        outstanding -= completions.receive().await;
        process.take_completion().await;
    }
}
