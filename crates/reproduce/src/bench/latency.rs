//! Latency of several concurrent pairs: ping-pong of writes or sends, or reads one after the other.
//!
//! The pairs run between two nodes, each process on its own core. `Lockstep` is the method of the
//! connectx_multicore paper: the processes of a node synchronize before every message, so that all
//! of them send at the same moment. A pair's time starts when it may send; waiting for the other
//! pairs before that does not count. They synchronize through a flag in shared memory, which the
//! cores see one after the other, a cache-line transfer apart.

use super::operation::{Operation, run};
use std::cell::Cell;
use std::rc::Rc;
use verbena_model::adapter::{Fidelity, Kind, Pair, Transport};
use verbena_model::cluster::{Cluster, Process};
use verbena_model::kernel::{Barrier, Mailbox, Time};
use verbena_model::profile::System;

/// How the pairs start their messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Each pair when it is ready.
    Free,
    /// All pairs of a node at the same moment, before every message.
    Lockstep,
}

/// A latency benchmark.
#[derive(Debug, Clone, Copy)]
pub struct Latency {
    /// The operation of each message.
    pub operation: Operation,
    /// Number of process pairs.
    pub pairs: usize,
    /// How the pairs start.
    pub start: Start,
    /// Queue pairs of each process, used in turn.
    pub connections: usize,
    /// Number of measured exchanges.
    pub rounds: u64,
    /// Level of detail.
    pub fidelity: Fidelity,
}

impl Latency {
    /// One pair, one connection.
    pub fn of(operation: Operation) -> Latency {
        Latency {
            operation,
            pairs: 1,
            start: Start::Lockstep,
            connections: 1,
            rounds: 10,
            fidelity: Fidelity::Packet,
        }
    }

    /// Returns the benchmark with another number of pairs.
    pub fn pairs(self, pairs: usize) -> Latency {
        Latency { pairs, ..self }
    }

    /// Returns the benchmark with another number of connections.
    pub fn connections(self, connections: usize) -> Latency {
        Latency {
            connections,
            rounds: 3 * connections as u64,
            ..self
        }
    }
}

struct Side {
    process: Process,
    pairs: Vec<Rc<Pair>>,
    arrived: Mailbox<()>,
    completed: Mailbox<()>,
    barrier: Barrier,
    /// Delay from the first process's release to this one's.
    behind: Time,
}

impl Side {
    async fn meet(&self) {
        self.barrier.wait().await;
        self.process.compute(self.behind).await;
    }

    async fn send(&self, operation: Operation, round: u64, peer: &Mailbox<()>) {
        let pair = &self.pairs[round as usize % self.pairs.len()];
        let mut request = operation.request();
        let peer = peer.clone();
        request.placed = Some(Box::new(move || peer.send(())));
        let completed = self.completed.clone();
        request.completed = Some(Box::new(move || completed.send(())));
        self.process.post(pair, vec![request]).await;
    }

    async fn receive(&self, kind: Kind) {
        self.arrived.receive().await;
        match kind.is_received() {
            true => self.process.take_completion().await,
            false => self.process.notice().await,
        }
    }
}

/// Returns the mean over pairs and rounds in microseconds: half a round trip, or the whole one for
/// reads.
pub fn latency(system: &System, bench: Latency) -> f64 {
    let cluster = Cluster::new(system, 2, bench.fidelity);
    let barriers = [0, 1].map(|_| {
        let size = if bench.start == Start::Lockstep {
            bench.pairs
        } else {
            1
        };
        (0..bench.pairs)
            .map(|_| Barrier::new(cluster.sim(), size))
            .collect::<Vec<_>>()
    });
    let mut tasks = Vec::new();
    for pair in 0..bench.pairs {
        let connections: Vec<_> = (0..bench.connections)
            .map(|_| cluster.connected((0, 1), 0, Transport::Reliable))
            .collect();
        let side = |node: usize| Side {
            process: cluster.process(node),
            pairs: connections
                .iter()
                .map(|(one, other)| {
                    if node == 0 {
                        one.clone()
                    } else {
                        other.clone()
                    }
                })
                .collect(),
            arrived: Mailbox::new(cluster.sim()),
            completed: Mailbox::new(cluster.sim()),
            behind: match bench.start {
                Start::Lockstep => cluster.node(node).cpu().behind(pair),
                Start::Free => Time::ZERO,
            },
            barrier: match bench.start {
                Start::Lockstep => barriers[node][0].clone(),
                Start::Free => barriers[node][pair].clone(),
            },
        };
        let (ping, pong) = (side(0), side(1));
        for (one, other) in &connections {
            one.receives().post(2 * bench.rounds + 8);
            other.receives().post(2 * bench.rounds + 8);
        }
        tasks.push(cluster.sim().spawn(pair_of(bench, ping, pong)));
    }
    run(&cluster, async move {
        let mut sum = 0.0;
        for task in tasks {
            sum += task.await.micros();
        }
        sum / bench.pairs as f64
    })
}

/// Returns one pair's mean time of a message (half of an exchange), or of a read.
async fn pair_of(bench: Latency, ping: Side, pong: Side) -> Time {
    let warm_up = bench.connections as u64 + 2;
    let operation = bench.operation;
    let rounds = warm_up + bench.rounds;
    let one_sided = operation.kind.is_answered();
    let pong_arrived = pong.arrived.clone();
    let ping_arrived = ping.arrived.clone();
    let sim = ping.process.sim().clone();
    let waited = Rc::new(Cell::new(Time::ZERO));
    if !one_sided {
        let (own, waited) = (sim.clone(), waited.clone());
        sim.start(async move {
            for round in 0..rounds {
                pong.receive(operation.kind).await;
                let ready = own.now();
                pong.meet().await;
                waited.set(own.now() - ready);
                pong.send(operation, round, &ping_arrived).await;
            }
        });
    }
    let mut sum = Time::ZERO;
    for round in 0..rounds {
        ping.meet().await;
        let begun = sim.now();
        if one_sided {
            ping.send(operation, round, &Mailbox::new(&sim)).await;
            ping.completed.receive().await;
            ping.process.take_completion().await;
        } else {
            ping.send(operation, round, &pong_arrived).await;
            ping.receive(operation.kind).await;
        }
        if round >= warm_up {
            sum += (sim.now() - begun).since(waited.get());
        }
    }
    let each = sum.scaled(1.0 / bench.rounds as f64);
    if one_sided { each } else { each.scaled(0.5) }
}
