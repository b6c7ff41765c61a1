//! Computes the published figures of the paper `memfree`: InfiniHost III Ex with contexts in
//! adapter memory and in host memory.

use super::{Bench, Computed};
use crate::application::{Kernel, nas};
use crate::bench::{Bandwidth, Operation, bandwidth};
use crate::suite::Suite;
use std::collections::BTreeMap;
use verbena_model::adapter::{Kind, Placement};
use verbena_model::profile::System;

pub(crate) const CONNECTIONS: usize = 128;

/// Buffer size of the access experiment in bytes.
const BUFFER: u64 = 512;

/// Returns the time of a write up to its completion, over a number of queue pairs in turn.
pub(crate) fn in_turn(system: &System, connections: usize) -> f64 {
    let at = [
        ("queue-pairs", connections.into()),
        ("series", "active".into()),
    ];
    Suite::new(system, "internals.contexts").figure_at(&at)
}

/// Returns the one-way time of a transfer within one adapter, from one of its memories to the same.
pub(crate) fn loopback(system: &System, memory: &str, bytes: u64) -> f64 {
    let suite = Suite::new(system, "internals.device-memory").size(bytes);
    suite.figure_at(&[("memory", memory.into())]) / 2.0
}

/// Returns the time of a scatter over all connections, in microseconds.
pub(crate) fn scatter(system: &System, bytes: u64) -> f64 {
    let suite = Suite::new(system, "internals.scatter").size(bytes).fine();
    suite.figure_at(&[("queue-pairs", CONNECTIONS.into())])
}

/// Returns the host memory of a process with a number of connections, in 10^6 bytes.
pub(crate) fn host_memory(system: &System, connections: usize) -> f64 {
    let at = [
        ("connections", connections.into()),
        ("transport", "rc".into()),
    ];
    Suite::new(system, "internals.footprint").figure_at(&at)
}

/// Sends 64 KB messages one after the other on one connection; a share `reuse` of them uses the
/// previous buffer.
pub(crate) fn reuse(system: &System, reuse: f64) -> f64 {
    let operation = Operation::new(Kind::Send, 65536, Placement::Reference);
    let messages = 120;
    let buffers = ((1.0 - reuse) * messages as f64).max(1.0) as u64;
    let bench = Bandwidth {
        messages,
        window: 1,
        buffers,
        ..Bandwidth::of(operation)
    };
    bandwidth(system, bench).sent
}

/// Returns the additional time of a scatter without adapter memory, in per cent.
pub(crate) fn penalty(mem: &System, free: &System, bytes: u64) -> f64 {
    (scatter(free, bytes) / scatter(mem, bytes) - 1.0) * 100.0
}

pub(super) fn measure(bench: &Bench<'_>, what: &str) -> Option<Computed> {
    let mem = bench.system("infinihost3-mem-sdr");
    let free = bench.system("infinihost3-memfree-sdr");
    let both = |run: &dyn Fn(&System) -> f64| {
        Computed::Figures(BTreeMap::from([
            ("mem".to_owned(), run(&mem)),
            ("memfree".to_owned(), run(&free)),
        ]))
    };
    let shape = |holds: bool, seen: String, figures: &[f64]| {
        Some(Computed::Shape {
            holds,
            seen,
            figures: figures.to_vec(),
        })
    };
    Some(match what {
        "pcix_nic_memory_faster" => {
            let pcix = bench.system("infinihost-pcix");
            let [nic, host] = ["adapter", "host"].map(|memory| loopback(&pcix, memory, BUFFER));
            return shape(
                nic < 0.9 * host,
                format!("adapter {nic:.2} us, host {host:.2} us"),
                &[nic, host],
            );
        }
        "pcie_memory_equal" => {
            let [nic, host] = ["adapter", "host"].map(|memory| loopback(&mem, memory, BUFFER));
            let apart = (nic / host - 1.0).abs();
            return shape(
                apart <= 0.05,
                format!("adapter {nic:.2} us, host {host:.2} us"),
                &[nic, host],
            );
        }
        "icm_miss_equal" => {
            let [hit, miss, free_hit, free_miss] = [
                in_turn(&mem, 1),
                in_turn(&mem, CONNECTIONS),
                in_turn(&free, 1),
                in_turn(&free, CONNECTIONS),
            ];
            let apart = free_miss / miss - 1.0;
            let seen = format!(
                "with memory {hit:.2} to {miss:.2} us, without {free_hit:.2} to {free_miss:.2} us"
            );
            return shape(
                miss > 1.2 * hit && free_miss > 1.2 * free_hit && apart.abs() <= 0.05,
                seen,
                &[hit, miss, free_hit, free_miss],
            );
        }
        "scatter_penalty" => {
            let sizes = [1, 64, 512, 2048, 4096];
            let sum: f64 = sizes.iter().map(|&bytes| penalty(&mem, &free, bytes)).sum();
            Computed::Figure(sum / sizes.len() as f64)
        }
        "scatter_penalty_large" => {
            let seen = [16_384, 65_536].map(|bytes| penalty(&mem, &free, bytes));
            return shape(
                seen.iter().all(|p| p.abs() < 2.0),
                format!("{seen:.2?} % at 16 and 64 KiB"),
                &seen,
            );
        }
        "bandwidth_reuse_100" => both(&|system| reuse(system, 1.0)),
        "bandwidth_reuse_75" => both(&|system| reuse(system, 0.75)),
        "bandwidth_reuse_50" => both(&|system| reuse(system, 0.5)),
        "bandwidth_reuse_25" => both(&|system| reuse(system, 0.25)),
        "bandwidth_reuse_0" => both(&|system| reuse(system, 0.0)),
        "host_memory_128_qps" => {
            // The processes of both sides are on nodes with the adapter; the figure of one process
            // is a node's share.
            Computed::Figure(host_memory(&free, CONNECTIONS) - host_memory(&mem, CONNECTIONS))
        }
        "nas_difference" => {
            let applications = bench.applications();
            let worst = Kernel::ALL
                .map(|kernel| {
                    let [one, other] =
                        [&mem, &free].map(|system| nas(system, &applications, kernel, 8, 4));
                    (other / one - 1.0).abs() * 100.0
                })
                .into_iter()
                .fold(0.0, f64::max);
            Computed::Figure(worst)
        }
        _ => return None,
    })
}
