//! The RFIO server: readers of one cached file.
//!
//! The server has a thread per reader. It fills a block (system call, page look-up, copy from the
//! page cache) and writes it to the reader by RDMA, followed by a short notification message; the
//! reader passes the block to its caller and requests the next one. Server threads share the
//! server's cores, memory, bus and adapter; up to two readers share a node.

use super::operation::run;
use std::cell::Cell;
use std::rc::Rc;
use verbena_model::adapter::{Fidelity, Kind, Placement, Request, Transport};
use verbena_model::cluster::{CacheState, Cluster};
use verbena_model::kernel::{Mailbox, Semaphore, Time};
use verbena_model::profile::{FileService, System};

/// Size in bytes of the message that announces a block, and of its answer.
const NOTICE: u64 = 32;

/// Source of a block's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// The file, copied from the page cache.
    File,
    /// No contents: network and protocol alone (rfio_infiniband, Figure 3).
    Unfilled,
}

/// Parameters of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Concurrent readers, on up to 12 nodes.
    pub readers: usize,
    /// Blocks per reader.
    pub blocks: u64,
    /// Source of the contents.
    pub contents: Contents,
}

impl Reading {
    /// A cached file, long enough that start and end do not matter.
    pub fn by(readers: usize) -> Reading {
        Reading {
            readers,
            blocks: 60,
            contents: Contents::File,
        }
    }
}

/// Observed performance of the server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Service {
    /// Rate of all readers together, 10^6 bytes a second.
    pub aggregate: f64,
    /// Number of busy server processors.
    pub processors: f64,
}

/// Runs the readers and the server.
pub fn file_service(system: &System, service: &FileService, reading: Reading) -> Service {
    const CLIENT_NODES: usize = 12;
    let cluster = Cluster::new(system, 1 + CLIENT_NODES, Fidelity::Packet);
    let moved = Rc::new(Cell::new(0u64));
    let first_end = Rc::new(Cell::new((0u64, Time::ZERO)));
    let busy = Rc::new(Cell::new(Time::ZERO));
    let cores = Semaphore::new(cluster.sim(), system.host.cpu.cores.0 as usize);
    let mut tasks = Vec::new();
    for reader in 0..reading.readers {
        let node = 1 + reader % CLIENT_NODES;
        let (server_pair, client_pair) = cluster.connected((0, node), 0, Transport::Reliable);
        let (server, client) = (cluster.process(0), cluster.process(node));
        // A buffer is free again when the reader's answer has arrived.
        let buffers: Mailbox<()> = Mailbox::new(cluster.sim());
        (0..service.blocks.0).for_each(|_| buffers.send(()));
        let filled: Mailbox<()> = Mailbox::new(cluster.sim());
        let (free, full) = (buffers.clone(), filled.clone());
        let (own, busy, cores) = (service.clone(), busy.clone(), cores.clone());
        cluster.sim().start(async move {
            for _ in 0..reading.blocks {
                free.receive().await;
                let core = cores.acquire().await;
                let begun = server.now();
                server.compute(own.block_time).await;
                if reading.contents == Contents::File {
                    server.copy(own.block.0, CacheState::Cold).await;
                }
                let data = Request::new(Kind::Write, own.block.0, Placement::Reference);
                let mut flag = Request::new(Kind::Write, NOTICE, Placement::Inline);
                let told = full.clone();
                flag.placed = Some(Box::new(move || told.send(())));
                server.post(&server_pair, vec![data, flag]).await;
                busy.set(busy.get() + (server.now() - begun));
                drop(core);
            }
        });
        let (own, moved, first_end) = (service.clone(), moved.clone(), first_end.clone());
        tasks.push(cluster.sim().spawn(async move {
            for _ in 0..reading.blocks {
                filled.receive().await;
                client.notice().await;
                client.compute(own.block_time).await;
                moved.set(moved.get() + own.block.0);
                let mut answer = Request::new(Kind::Write, NOTICE, Placement::Inline);
                let told = buffers.clone();
                answer.placed = Some(Box::new(move || told.send(())));
                client.post(&client_pair, vec![answer]).await;
            }
            // The rate counts only the time in which all readers were active.
            if first_end.get() == (0, Time::ZERO) {
                first_end.set((moved.get(), client.now()));
            }
        }));
    }
    let sim = cluster.sim().clone();
    let busy = busy.clone();
    run(&cluster, async move {
        for task in tasks {
            task.await;
        }
        let (bytes, end) = first_end.get();
        Service {
            aggregate: bytes as f64 / end.seconds() / 1e6,
            processors: busy.get().seconds() / sim.now().seconds(),
        }
    })
}
