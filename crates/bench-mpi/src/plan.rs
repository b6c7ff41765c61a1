//! Plans a run of the measuring program: one benchmark, its sizes, and the time per point.

use super::catalogue::{Quantity, quantity};
use std::path::Path;
use verbena_bench::plan::Task;
use verbena_measure::processors;
use verbena_measure::topology::{SYSTEM, in_order_of_use};
use verbena_workloads::{Benchmark, Budget, Processes, Sweep};

/// Bytes per word of the modelled ocean.
pub const WORD: usize = 4;
/// Largest message of a collective, in bytes; each process may have one for each other.
const LARGEST_COLLECTIVE: usize = 1 << 20;
/// Largest message of all other benchmarks, in bytes.
const LARGEST: usize = 1 << 22;
/// Default number of processes of patterns and collectives.
const PATTERN: usize = 4;

/// Returns the numbers of processes to run a benchmark with. Each number gets its own launch,
/// because idle processes would spin on a processor.
pub fn process_counts(task: &Task, benchmark: &Benchmark, wanted: Option<usize>) -> Vec<usize> {
    match benchmark.processes {
        Processes::One => vec![1],
        Processes::Two => vec![2],
        Processes::Pairs => {
            let most = (task.cores / 2).max(1) * 2;
            let powers = (0..)
                .map(|power| 1 << power)
                .take_while(|pairs| *pairs <= most);
            let pairs = task.pairs.clone().unwrap_or_else(|| powers.collect());
            pairs.into_iter().map(|pairs| 2 * pairs).collect()
        }
        Processes::AtLeast(least) => vec![wanted.unwrap_or(least.max(PATTERN))],
    }
}

/// Returns the message sizes in bytes.
pub fn sizes(task: &Task, benchmark: &Benchmark) -> Vec<usize> {
    let coarse = task.budget().sweep == Sweep::Coarse;
    if benchmark.name == "mpi.barrier-latency" {
        return vec![0];
    }
    let largest = match quantity(benchmark.name) {
        Some(Quantity::Collective) => LARGEST_COLLECTIVE,
        _ => LARGEST,
    };
    let usual: Vec<usize> = match (benchmark.axis, coarse) {
        ("tiles", true) => [1, 32, 1024].map(|words| words * WORD).to_vec(),
        ("tiles", false) => (0..=10).map(|power| WORD << power).collect(),
        ("pairs", true) => vec![8, 65_536],
        ("pairs", false) => vec![1, 8, 64, 512, 4096, 65_536, 1 << 20],
        (_, true) => vec![1, 8, 64, 512, 4096, 65_536, 1 << 20],
        (_, false) => (0..=22).map(|power| 1 << power).collect(),
    };
    let sizes = task.sizes.clone().unwrap_or(usual);
    sizes.into_iter().filter(|size| *size <= largest).collect()
}

pub fn arguments(
    task: &Task,
    benchmark: &Benchmark,
    sizes: &[usize],
    processes: usize,
) -> Vec<String> {
    let Budget {
        warmup,
        block,
        blocks,
        target,
        most,
        tail,
        tail_time,
        rates,
        sweep: _,
    } = task.budget();
    let mut arguments = vec![
        format!("benchmark={}", benchmark.name),
        format!("sizes={}", list(sizes)),
        format!("warmup={}", warmup.as_nanos()),
        format!("block={}", block.as_nanos()),
        format!("blocks={blocks}"),
        format!("target={target}"),
        format!("most={most}"),
        format!("tail={tail}"),
        format!("tail-time={}", tail_time.as_nanos()),
        format!("rate-block={}", rates.block.as_nanos()),
        format!("rate-blocks={}", rates.blocks),
        format!("nanos-per-tick={}", task.nanos_per_tick.unwrap_or(0.0)),
    ];
    let allowed = processors::allowed();
    if allowed.len() >= processes {
        let ordered = in_order_of_use(&allowed, None, Path::new(SYSTEM));
        arguments.push(format!("processors={}", list(&ordered[..processes])));
    }
    arguments
}

fn list(numbers: &[usize]) -> String {
    let words: Vec<String> = numbers.iter().map(usize::to_string).collect();
    words.join(",")
}
