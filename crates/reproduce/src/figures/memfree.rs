//! Figures 2 to 4 and Table 1 of memfree.

use super::Position::{At, Over};
use super::sketch::{LATENCY, SIZE, Sketch, doubling, evenly};
use crate::application::{Kernel, nas};
use crate::claims::Bench;
use crate::claims::memfree::{
    CONNECTIONS, host_memory, in_turn, loopback, penalty, reuse, scatter,
};
use std::sync::Arc;
use verbena_model::profile::System;

const LOOPED: [u64; 6] = [8, 64, 256, 512, 1024, 4096];
const QUEUE_PAIRS: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const SCATTERED: [u64; 8] = [1, 64, 512, 1024, 2048, 4096, 16_384, 65_536];
const REUSED: [u64; 5] = [0, 25, 50, 75, 100];
const OPENED: [u64; 3] = [1, 64, 128];
const KERNELS: [(&str, Kernel); 4] = [
    ("IS", Kernel::Is),
    ("MG", Kernel::Mg),
    ("LU", Kernel::Lu),
    ("CG", Kernel::Cg),
];

pub(super) fn figures<'a>(bench: &'a Bench<'a>) -> Vec<Sketch<'a>> {
    let system = |name: &str| Arc::new(bench.system(name));
    let mem = system("infinihost3-mem-sdr");
    let free = system("infinihost3-memfree-sdr");
    let pcix = system("infinihost-pcix");
    let looped = |system: &Arc<System>, memory: &'static str| {
        let system = system.clone();
        move |bytes| loopback(&system, memory, bytes)
    };
    let modes = |sketch: Sketch<'a>, xs: &[u64], measure: fn(&System, u64) -> f64| {
        let (mem, free) = (mem.clone(), free.clone());
        sketch
            .curve("with memory", xs, move |x| measure(&mem, x))
            .curve("without", xs, move |x| measure(&free, x))
    };
    let turns = Sketch::new(
        "queue-pairs-in-turn",
        "4.1, Figure 3(a)",
        "A write to its completion, queue pairs used in turn",
        [doubling("queue pairs"), evenly("latency", "us")],
    );
    let scattered = Sketch::new(
        "scatter",
        "4.2, Figure 3(b)",
        "Scatter over 128 queue pairs",
        [SIZE, LATENCY],
    );
    let table = Sketch::new(
        "buffer-reuse",
        "4.3, Table 1",
        "One message of 64 KiB outstanding, buffers reused",
        [evenly("reuse", "%"), evenly("bandwidth", "MB/s")],
    );
    let (penalty_of, extra_of) = ([mem.clone(), free.clone()], [mem.clone(), free.clone()]);
    let mut figures = vec![
        Sketch::new(
            "memory-access",
            "3, Figure 2",
            "From a memory to the same through the adapter, one way",
            [SIZE, LATENCY],
        )
        .curve("PCI-X, adapter memory", &LOOPED, looped(&pcix, "adapter"))
        .curve("PCI-X, host memory", &LOOPED, looped(&pcix, "host"))
        .curve(
            "PCI Express, adapter memory",
            &LOOPED,
            looped(&mem, "adapter"),
        )
        .curve("PCI Express, host memory", &LOOPED, looped(&mem, "host")),
        modes(turns, &QUEUE_PAIRS, |system, number| {
            in_turn(system, number as usize)
        }),
        modes(scattered, &SCATTERED, scatter),
        Sketch::new(
            "scatter-penalty",
            "4.2, Figure 3(b)",
            "Scatter over 128 queue pairs, without memory against with",
            [SIZE, evenly("more time", "%")],
        )
        .curve("without memory", &SCATTERED, move |bytes| {
            penalty(&penalty_of[0], &penalty_of[1], bytes)
        })
        .claim("scatter_penalty", "without memory", Over(1.0, 4096.0)),
    ];
    let table = modes(table, &REUSED, |system, percent| {
        reuse(system, percent as f64 / 100.0)
    });
    let claims = [
        ("bandwidth_reuse_0", 0.0),
        ("bandwidth_reuse_25", 25.0),
        ("bandwidth_reuse_50", 50.0),
        ("bandwidth_reuse_75", 75.0),
        ("bandwidth_reuse_100", 100.0),
    ];
    figures.push(claims.into_iter().fold(table, |table, (claim, percent)| {
        table.part(claim, "mem", "with memory", At(percent)).part(
            claim,
            "memfree",
            "without",
            At(percent),
        )
    }));
    figures.push(
        Sketch::new(
            "host-memory",
            "4.4, Figure 3(c)",
            "Host memory without adapter memory, beyond that with",
            [evenly("connections", ""), evenly("more memory", "MB")],
        )
        .curve("without memory", &OPENED, move |number| {
            let [mem, free] = extra_of
                .each_ref()
                .map(|system| host_memory(system, number as usize));
            free - mem
        })
        .claim(
            "host_memory_128_qps",
            "without memory",
            At(CONNECTIONS as f64),
        ),
    );
    figures.push(applications(bench, mem, free));
    figures
}

/// Draws Figure 4. The paper draws times to show their difference; the difference is drawn here.
fn applications<'a>(bench: &'a Bench<'a>, mem: Arc<System>, free: Arc<System>) -> Sketch<'a> {
    let sketch = Sketch::new(
        "nas",
        "5, Figure 4",
        "NAS kernels, time without adapter memory against with",
        [doubling("processes"), evenly("difference", "%")],
    );
    KERNELS
        .into_iter()
        .fold(sketch, |sketch, (label, kernel)| {
            let systems = [mem.clone(), free.clone()];
            sketch.curve(label, &[2, 4, 8], move |ranks| {
                let applications = bench.applications();
                let [mem, free] = systems
                    .each_ref()
                    .map(|system| nas(system, &applications, kernel, ranks as usize, 4));
                (free / mem - 1.0).abs() * 100.0
            })
        })
        .claim("nas_difference", "IS", At(8.0))
}
