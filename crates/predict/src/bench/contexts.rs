//! The memfree paper's experiments: DMA between two buffers of one adapter, scatter over many queue pairs, memory that
//! connections cost.

use super::run;
use verbena_model::adapter::{Fidelity, Kind, MemoryHome, Pair, Placement, Request, Transport};
use verbena_model::cluster::Cluster;
use verbena_model::kernel::Mailbox;
use verbena_model::profile::{ContextHome, System};

/// One process, two queue pairs of one port: an RDMA write from one buffer to the other, both in the given memory.
/// Half the time in microseconds (the paper's one-way access).
pub fn loopback(system: &System, home: MemoryHome, bytes: u64) -> f64 {
    let cluster = Cluster::new(system, 1, Fidelity::Packet);
    let one = cluster.pair(0, 0, Transport::Reliable, None);
    let other = cluster.pair(0, 0, Transport::Reliable, None);
    Pair::connect(&one, &other);
    let process = cluster.process(0);
    run(&cluster, async move {
        const ROUNDS: u64 = 8;
        let mut begun = process.now();
        for round in 0..ROUNDS + 2 {
            if round == 2 {
                begun = process.now();
            }
            let done: Mailbox<()> = Mailbox::new(process.sim());
            let mut request = Request::new(Kind::Write, bytes, Placement::Reference);
            request.local.home = home;
            request.remote.home = home;
            request.remote.address = 1 << 20;
            let told = done.clone();
            request.completed = Some(Box::new(move || told.send(())));
            process.post(&one, vec![request]).await;
            done.receive().await;
            process.take_completion().await;
        }
        (process.now() - begun).micros() / 2.0 / ROUNDS as f64
    })
}

/// One process sends a buffer of its own on each of `connections` queue pairs back to back and waits for all; the time
/// of a scatter in microseconds, caches warm as after many.
pub fn scatter(system: &System, connections: usize, bytes: u64) -> f64 {
    let cluster = Cluster::new(system, 2, Fidelity::Packet);
    let pairs: Vec<_> = (0..connections)
        .map(|_| cluster.connected((0, 1), 0, Transport::Reliable))
        .collect();
    let regions: Vec<_> = (0..connections)
        .map(|_| (cluster.region(), cluster.region()))
        .collect();
    let process = cluster.process(0);
    for (_, other) in &pairs {
        other.receives().post(64);
    }
    run(&cluster, async move {
        const ROUNDS: u64 = 3;
        let mut begun = process.now();
        for round in 0..=ROUNDS {
            if round == 1 {
                begun = process.now();
            }
            let done: Mailbox<()> = Mailbox::new(process.sim());
            for ((pair, _), region) in pairs.iter().zip(&regions) {
                let mut request = Request::new(Kind::Send, bytes, Placement::Reference);
                request.local.region = region.0;
                request.remote.region = region.1;
                let told = done.clone();
                request.completed = Some(Box::new(move || told.send(())));
                process.post(pair, vec![request]).await;
            }
            for _ in 0..connections {
                done.receive().await;
                process.take_completion().await;
            }
        }
        (process.now() - begun).micros() / ROUNDS as f64
    })
}

/// Host memory in bytes that the contexts of `connections` queue pairs take, beyond what they take with memory on the
/// adapter: for each table the pieces that the driver gives the adapter. Queue pair and extended contexts are one table
/// each, completion queues, translations and protection entries others; one of each a connection.
pub fn context_memory(system: &System, connections: u64) -> u64 {
    if system.adapter.home == ContextHome::Adapter {
        return 0;
    }
    let caches = &system.adapter.caches;
    // Queue pair context, extended context, read resources (4 x 32 B), CQ context, protection entry, translations.
    let tables = [
        caches.context.0 - 32,
        32,
        128,
        64,
        64,
        caches.translation_line.0,
    ];
    tables
        .iter()
        .map(|entry| (entry * connections).next_multiple_of(caches.chunk.0))
        .sum()
}
