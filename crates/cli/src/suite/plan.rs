//! What one process of a benchmark is told by its launcher: everything, so that it asks nobody.

use super::options::{MeasureOptions, mode};
use super::route::RouteOptions;
use super::target::Resolved;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use verbena_measure::pace::Paces;
use verbena_measure::processors;
use verbena_workloads::{Benchmark, Budget, Options, Processes};

/// The variable that carries the plan.
pub const VARIABLE: &str = "VERBENA_PROCESS_PLAN";

/// The name of a job of the local launcher; each has an exchange of its own, on loopback.
pub const LOCAL_JOB: &str = "local";

/// What is measured, the same for all processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// On what.
    pub target: Resolved,
    /// Index of the port's identifier, if the user named one.
    pub gid_index: Option<u8>,
    /// How packets are marked.
    pub route: RouteOptions,
    /// Whether what peers write may reach memory in another order.
    pub relaxed_ordering: bool,
    /// Launches of each benchmark.
    pub launches: u32,
    /// `quick` or `full`.
    pub effort: String,
    /// Message sizes.
    pub sizes: Option<Vec<usize>>,
    /// Numbers of pairs.
    pub pairs: Option<Vec<usize>>,
    /// `free` or `lockstep`.
    pub mode: Option<String>,
    /// Transports.
    pub transports: Option<Vec<String>>,
    /// Largest message posted inline.
    pub inline: Option<u32>,
    /// Seed.
    pub seed: u64,
    /// Length of the counter's tick, calibrated by the launcher; `None` for the system clock.
    pub nanos_per_tick: Option<f64>,
    /// The floor of latencies on this host.
    pub floor_latency: Option<f64>,
    /// Memory copies on this host, by size.
    pub copies: Vec<(usize, f64)>,
    /// Memory copies over buffers in turn that the caches do not hold.
    pub copies_in_turn: Option<f64>,
    /// Times of the computation that tells an undisturbed processor.
    pub paces: Paces,
    /// Processors that the launcher may use.
    pub cores: usize,
}

/// A process's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The benchmark.
    pub benchmark: String,
    /// The launch.
    pub launch: u32,
    /// What is measured.
    pub task: Task,
    /// This process.
    pub rank: usize,
    /// All processes.
    pub size: usize,
    /// Where the exchange listens.
    pub hub: String,
    /// What a process proves to the exchange that it knows. The environment of a process is its user's alone to read.
    pub secret: String,
    /// The page for barriers.
    pub page: PathBuf,
}

/// What this host can do at best.
#[derive(Debug, Clone, Default)]
pub struct Floors {
    /// A cache line from core to core in nanoseconds.
    pub latency: Option<f64>,
    /// Memory copies as (bytes, bytes a second).
    pub copies: Vec<(usize, f64)>,
    /// The same over buffers in turn, in bytes a second.
    pub copies_in_turn: Option<f64>,
    /// Times of the computation that tells an undisturbed processor.
    pub paces: Paces,
}

impl Task {
    /// From the options as typed.
    pub fn new(
        target: Resolved,
        options: &MeasureOptions,
        nanos_per_tick: Option<f64>,
        floors: Floors,
    ) -> Task {
        Task {
            target,
            gid_index: options.gid_index,
            route: options.route.clone(),
            relaxed_ordering: options.relaxed_ordering,
            launches: options.launches(),
            effort: options.effort().to_owned(),
            sizes: options.sizes.clone(),
            pairs: options.pairs.clone(),
            mode: options.mode.clone(),
            transports: options.transports.clone(),
            inline: options.inline,
            seed: options.seed,
            nanos_per_tick,
            floor_latency: floors.latency,
            copies: floors.copies,
            copies_in_turn: floors.copies_in_turn,
            paces: floors.paces,
            cores: processors::count(),
        }
    }

    /// How long points may take.
    pub fn budget(&self) -> Budget {
        let budget = match self.effort.as_str() {
            "quick" => Budget::quick(),
            _ => Budget::full(),
        };
        budget.shared_by(self.launches)
    }

    /// For the benchmark, whose processes have so many processors on their node.
    pub fn options(&self, processors: usize) -> Options {
        Options {
            sizes: self.sizes.clone(),
            pairs: self.pairs.clone(),
            mode: self.mode.as_deref().map(mode),
            transports: self.transports.clone(),
            inline: self.inline,
            signal_every: None,
            seed: self.seed,
            floor_latency: self.floor_latency,
            copies: self.copies.clone(),
            copies_in_turn: self.copies_in_turn,
            paces: self.paces.clone(),
            cores: Some(processors),
        }
    }

    /// Processes of a local job for a benchmark.
    pub fn processes(&self, benchmark: &Benchmark, wanted: Option<usize>) -> usize {
        match benchmark.processes {
            Processes::One => 1,
            Processes::Two => 2,
            // By default up to one pair more than the cores carry, to show what then happens.
            Processes::Pairs => {
                let most = self
                    .pairs
                    .as_ref()
                    .and_then(|pairs| pairs.iter().copied().max());
                2 * most.unwrap_or_else(|| (self.cores / 2).max(1) * 2).min(512)
            }
            Processes::AtLeast(least) => wanted.unwrap_or(4).max(least),
        }
    }
}
