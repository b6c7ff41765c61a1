//! MPI ping-pong and bandwidth, as in the OSU benchmarks.

use super::bandwidth::Direction;
use super::operation::{Observed, observe, run};
use std::cell::Cell;
use std::rc::Rc;
use verbena_fabric::model::Traced;
use verbena_model::adapter::Fidelity;
use verbena_model::cluster::Cluster;
use verbena_model::kernel::Time;
use verbena_model::mpi::World;
use verbena_model::profile::System;

/// Location of the two ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ranks {
    /// On two nodes.
    Apart,
    /// On the same node.
    Together,
}

impl Ranks {
    fn nodes(self) -> Vec<usize> {
        match self {
            Ranks::Apart => vec![0, 1],
            Ranks::Together => vec![0, 0],
        }
    }
}

/// Returns half a round trip in microseconds.
pub fn mpi_latency(system: &System, ranks: Ranks, bytes: u64) -> f64 {
    mpi_latency_observed(system, ranks, bytes).figure
}

/// Like [`mpi_latency`], with the ports that the messages use most.
pub fn mpi_latency_observed(system: &System, ranks: Ranks, bytes: u64) -> Observed {
    let cluster = Cluster::new(system, 2, Fidelity::Packet);
    let world = World::new(&cluster, ranks.nodes());
    let (one, other) = (world.rank(0), world.rank(1));
    const ROUNDS: u64 = 12;
    cluster.sim().start(async move {
        for _ in 0..ROUNDS {
            other.receive(0).await;
            other.send(0, bytes).await;
        }
    });
    observe(&cluster, async move {
        let mut begun = one.process().now();
        for round in 0..ROUNDS {
            if round == 2 {
                begun = one.process().now();
            }
            one.send(1, bytes).await;
            one.receive(1).await;
        }
        (one.process().now() - begun).micros() / 2.0 / (ROUNDS - 2) as f64
    })
}

/// Returns the rate of windows of messages, each followed by a short answer, in 10^6 bytes a
/// second, both directions together.
pub fn mpi_bandwidth(system: &System, ranks: Ranks, bytes: u64, direction: Direction) -> f64 {
    mpi_bandwidth_observed(system, ranks, bytes, direction).figure
}

/// Like [`mpi_bandwidth`], with the ports that the messages use most.
pub fn mpi_bandwidth_observed(
    system: &System,
    ranks: Ranks,
    bytes: u64,
    direction: Direction,
) -> Observed {
    let cluster = Cluster::new(system, 2, Fidelity::Packet);
    let world = World::new(&cluster, ranks.nodes());
    let (one, other) = (world.rank(0), world.rank(1));
    let window = (4_000_000 / bytes).clamp(16, 64);
    const ROUNDS: u64 = 3;
    let both = direction == Direction::Both;
    cluster.sim().start(async move {
        for _ in 0..ROUNDS {
            let receives: Vec<_> = (0..window).map(|_| other.begin_receive(0)).collect();
            let sends: Vec<_> = (0..if both { window } else { 0 })
                .map(|_| other.begin_send(0, bytes))
                .collect();
            for part in receives.into_iter().chain(sends) {
                part.await;
            }
            other.send(0, 4).await;
        }
    });
    observe(&cluster, async move {
        let mut begun = one.process().now();
        for round in 0..ROUNDS {
            if round == 1 {
                begun = one.process().now();
            }
            let sends: Vec<_> = (0..window).map(|_| one.begin_send(1, bytes)).collect();
            let receives: Vec<_> = (0..if both { window } else { 0 })
                .map(|_| one.begin_receive(1))
                .collect();
            for part in sends.into_iter().chain(receives) {
                part.await;
            }
            one.receive(1).await;
        }
        let moved = bytes * window * (ROUNDS - 1) * if both { 2 } else { 1 };
        moved as f64 / (one.process().now() - begun).seconds() / 1e6
    })
}

/// Returns the trace of one message between two nodes, and of its answer if `answered`, after two
/// exchanges that are not traced.
pub fn mpi_traced(system: &System, fidelity: Fidelity, bytes: u64, answered: bool) -> Traced {
    const BEFORE: u32 = 2;
    let cluster = Cluster::new(system, 2, fidelity);
    let world = World::new(&cluster, Ranks::Apart.nodes());
    let (one, other) = (world.rank(0), world.rank(1));
    let received = Rc::new(Cell::new(Time::ZERO));
    let at = received.clone();
    let served = cluster.sim().spawn(async move {
        for _ in 0..BEFORE {
            other.receive(0).await;
            other.send(0, bytes).await;
        }
        other.receive(0).await;
        at.set(other.process().now());
        if answered {
            other.send(0, bytes).await;
        }
    });
    let sim = cluster.sim().clone();
    sim.record_spans();
    run(&cluster, async move {
        for _ in 0..BEFORE {
            one.send(1, bytes).await;
            one.receive(1).await;
        }
        let start = one.process().now();
        one.send(1, bytes).await;
        let end = match answered {
            true => {
                one.receive(1).await;
                one.process().now()
            }
            false => {
                served.await;
                received.get()
            }
        };
        let mut spans = sim.take_spans();
        spans.retain(|span| span.end > start && span.start < end);
        spans.sort();
        Traced { start, end, spans }
    })
}
