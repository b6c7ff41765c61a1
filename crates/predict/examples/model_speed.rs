//! The model's speed beside its targets: events a second at packet level, and the Halo exchange of thousands of nodes at
//! message level. `make bench` runs it; the last line says whether all targets are met.

use std::time::Instant;
use verbena_model::adapter::{Fidelity, Kind, Placement};
use verbena_model::kernel::events_of_this_thread;
use verbena_model::profile::{Library, Overrides, System};
use verbena_predict::application::halo_run;
use verbena_predict::bench::{Bandwidth, Operation, bandwidth};

/// Events a second on one core.
const RATE: f64 = 5e6;
/// Seconds and bytes of the largest exchange.
const SECONDS: f64 = 60.0;
const BYTES: f64 = 8e9;
/// Cost of a message in a large system over that in a small one.
const GROWTH: f64 = 1.2;

fn system(name: &str) -> System {
    Library::shipped(&Overrides::none())
        .and_then(|library| library.system(name))
        .expect("shipped profiles are sound")
}

/// Largest resident memory of this process so far, in bytes.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kibibytes.unwrap_or(f64::NAN) * 1024.0
}

fn packets(name: &str) -> f64 {
    let system = system(name);
    let operation = Operation::new(Kind::Write, 65_536, Placement::Reference);
    let bench = Bandwidth {
        messages: 3_000,
        fidelity: Fidelity::Packet,
        ..Bandwidth::of(operation).pairs(8)
    };
    let before = events_of_this_thread();
    let begun = Instant::now();
    bandwidth(&system, bench);
    let seconds = begun.elapsed().as_secs_f64();
    let rate = (events_of_this_thread() - before) as f64 / seconds;
    println!(
        "packet level, {name}: {:.2} million events a second",
        rate / 1e6
    );
    rate
}

/// Nanoseconds of computing for a message of the exchange, and its seconds.
fn exchange(nodes: usize) -> (f64, f64) {
    let system = system("connectx-ddr");
    let begun = Instant::now();
    let run = halo_run(&system, nodes * 8, nodes, 256, Fidelity::Message);
    let seconds = begun.elapsed().as_secs_f64();
    let each = seconds * 1e9 / run.messages as f64;
    println!(
        "message level, Halo on {nodes} nodes x 8: {seconds:.2} s, {} messages, {each:.0} ns a message, {:.2} us of virtual time, {:.2} GB",
        run.messages,
        run.micros,
        peak_memory() / 1e9
    );
    (each, seconds)
}

fn main() {
    let rate = packets("connectx-ddr").min(packets("infinihost3-ddr"));
    exchange(64);
    let small = exchange(64).0;
    let (large, seconds) = exchange(4096);
    println!(
        "cost of a message, 4096 nodes over 64: {:.2}",
        large / small
    );
    let met = rate >= RATE
        && seconds <= SECONDS
        && peak_memory() <= BYTES
        && large / small <= GROWTH
        && large / small >= 1.0 / GROWTH;
    println!(
        "{}",
        if met {
            "all targets met"
        } else {
            "TARGETS MISSED"
        }
    );
    if !met && std::env::args().any(|argument| argument == "--gate") {
        std::process::exit(1);
    }
}
