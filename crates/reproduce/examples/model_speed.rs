//! Measures the model's speed, one figure per line: events a second at packet level, and the Halo
//! exchange of up to thousands of nodes at message level. `make bench` runs it and compares the
//! figures with their targets (benches/suite/model.py). With numbers of nodes as arguments it runs
//! only these exchanges, once each; `threads=N` before one has up to N threads run it.
//!
//! The cost of a message is the processor time of the whole run, including creation and release of
//! nodes and queue pairs, divided by the number of messages of its six exchanges; at every size
//! there is one queue pair per six messages.

use std::time::Instant;
use verbena_model::adapter::{Fidelity, Kind, Placement};
use verbena_model::kernel::events_of_this_thread;
use verbena_model::profile::{Library, Overrides, System};
use verbena_model::threads::limit_threads;
use verbena_reproduce::application::halo_run;
use verbena_reproduce::bench::{Bandwidth, Operation, bandwidth};

/// Sizes of the exchange, in nodes of eight processes, and the number of runs of each. The first is
/// the small system.
const SIZES: [(usize, u32); 3] = [(64, 10), (512, 1), (4096, 1)];

fn system(name: &str) -> System {
    Library::shipped(&Overrides::none())
        .and_then(|library| library.system(name))
        .expect("shipped profiles are sound")
}

/// Returns a number from a file in /proc/self; NaN if there is none.
fn of_this_process(file: &str, line: &str, word: usize) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let found = text.lines().find(|l| l.starts_with(line));
    let number = found.and_then(|l| l.split_whitespace().nth(word)?.parse().ok());
    number.unwrap_or(f64::NAN)
}

/// Returns the processor time so far in nanoseconds.
fn processor_time() -> f64 {
    of_this_process("schedstat", "", 0)
}

/// Returns the peak resident memory so far in bytes.
fn peak_memory() -> f64 {
    of_this_process("status", "VmHWM:", 1) * 1024.0
}

/// Returns events a second of eight streaming pairs.
fn packets(name: &str) -> f64 {
    let system = system(name);
    let operation = Operation::new(Kind::Write, 65_536, Placement::Reference);
    let bench = Bandwidth {
        messages: 3_000,
        fidelity: Fidelity::Packet,
        ..Bandwidth::of(operation).pairs(8)
    };
    let (events, begun) = (events_of_this_thread(), processor_time());
    bandwidth(&system, bench);
    let spent = processor_time() - begun;
    (events_of_this_thread() - events) as f64 / spent * 1e9
}

/// Runs the exchange `times` times and prints its figures.
fn exchange(nodes: usize, times: u32) {
    let system = system("connectx-ddr");
    let run = || halo_run(&system, nodes * 8, nodes, 256, Fidelity::Message);
    let (events, begun, clock) = (events_of_this_thread(), processor_time(), Instant::now());
    let messages: u64 = (0..times).map(|_| run().messages).sum();
    let spent = processor_time() - begun;
    let passed = clock.elapsed().as_secs_f64() / f64::from(times);
    let events = events_of_this_thread() - events;
    println!("halo_{nodes}_ns {:.0}", passed * 1e9);
    println!("halo_{nodes}_message_ns {:.1}", spent / messages as f64);
    println!(
        "halo_{nodes}_message_events {:.2}",
        events as f64 / messages as f64
    );
    println!("halo_{nodes}_bytes {:.0}", peak_memory());
}

/// Returns the ratio of the time of an exchange on 512 nodes by one thread to that by two, of the
/// fastest of three alternating runs each.
fn two_threads() -> f64 {
    let system = system("connectx-ddr");
    let mut fastest = [f64::INFINITY; 2];
    for _ in 0..3 {
        for (threads, fastest) in fastest.iter_mut().enumerate() {
            limit_threads(threads + 1);
            let clock = Instant::now();
            halo_run(&system, 512 * 8, 512, 256, Fidelity::Message);
            *fastest = fastest.min(clock.elapsed().as_secs_f64());
        }
    }
    fastest[0] / fastest[1]
}

fn main() {
    limit_threads(1);
    // Sizes as arguments: only these exchanges, once each, for an analysis.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.is_empty() {
        for argument in arguments {
            let number = |text: &str| text.parse().expect("an argument is a number of nodes");
            match argument.strip_prefix("threads=") {
                Some(threads) => limit_threads(number(threads)),
                None => exchange(number(&argument), 1),
            }
        }
        return;
    }
    for name in ["connectx-ddr", "infinihost3-ddr"] {
        let figure = name.replace('-', "_");
        println!("packet_{figure}_events_per_s {:.0}", packets(name));
    }
    for (nodes, times) in SIZES {
        exchange(nodes, times);
    }
    println!("halo_two_threads_ratio {:.3}", two_threads());
}
