//! The task of a measurement, and the plan that the launcher passes to one process of it.

use super::options::{MeasureOptions, mode};
use super::packet_marks::RouteOptions;
use super::resolved::Resolved;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use verbena_measure::pace::Paces;
use verbena_measure::processors;
use verbena_workloads::{Benchmark, Budget, Options, Processes};

/// The environment variable that holds the plan.
pub(crate) const VARIABLE: &str = "VERBENA_PROCESS_PLAN";

/// Job name of the local launcher; each job has a separate exchange on loopback.
pub(crate) const LOCAL_JOB: &str = "local";

/// The measurement, the same for all processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The adapter.
    pub target: Resolved,
    /// GID index, if the user gave one.
    pub gid_index: Option<u8>,
    /// Marks of the packets.
    pub route: RouteOptions,
    /// Whether peers' writes may reach memory in relaxed order.
    pub relaxed_ordering: bool,
    /// Launches of each benchmark.
    pub launches: u32,
    /// `quick` or `full`.
    pub effort: String,
    /// Message sizes in bytes.
    pub sizes: Option<Vec<usize>>,
    /// Numbers of pairs in multi-pair benchmarks.
    pub pairs: Option<Vec<usize>>,
    /// `free` or `lockstep`.
    pub mode: Option<String>,
    /// Transports: rc, uc, ud, xrc.
    pub transports: Option<Vec<String>>,
    /// Largest message posted inline, in bytes.
    pub inline: Option<u32>,
    /// Seed of patterns and orders.
    pub seed: u64,
    /// Length of the counter's tick in nanoseconds, calibrated by the launcher; `None` for the
    /// system clock.
    pub nanos_per_tick: Option<f64>,
    /// Latency floor of this host, in nanoseconds.
    pub floor_latency: Option<f64>,
    /// Memory copy rates of this host as (bytes, bytes per second).
    pub copies: Vec<(usize, f64)>,
    /// The same over buffers used in rotation, which do not fit the caches, in bytes per second.
    pub copies_in_turn: Option<f64>,
    /// Pace of undisturbed processors.
    pub paces: Paces,
    /// Number of processors available to the launcher.
    pub cores: usize,
}

/// The part of one process in one launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub benchmark: String,
    pub launch: u32,
    pub task: Task,
    /// Rank of this process.
    pub rank: usize,
    /// Number of processes.
    pub size: usize,
    /// Address of the exchange.
    pub hub: String,
    /// Secret for the exchange. Only the process's user can read its environment.
    pub secret: String,
    pub page: PathBuf,
}

/// Best values this host can reach.
#[derive(Debug, Clone, Default)]
pub struct Floors {
    /// Time of a cache line from core to core, in nanoseconds.
    pub latency: Option<f64>,
    /// Memory copies as (bytes, bytes per second).
    pub copies: Vec<(usize, f64)>,
    /// The same over buffers used in rotation, in bytes per second.
    pub copies_in_turn: Option<f64>,
    /// Pace of undisturbed processors.
    pub paces: Paces,
}

impl Task {
    /// Returns the task of a measurement of a target.
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

    /// Returns the time and effort for one launch.
    pub fn budget(&self) -> Budget {
        let budget = match self.effort.as_str() {
            "quick" => Budget::quick(),
            _ => Budget::full(),
        };
        budget.shared_by(self.launches)
    }

    /// Returns the options for a benchmark whose processes have `processors` processors on their
    /// node.
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
            lists_points: false,
        }
    }

    /// Returns the number of processes of a local job for a benchmark.
    pub fn processes(&self, benchmark: &Benchmark, wanted: Option<usize>) -> usize {
        match benchmark.processes {
            Processes::One => 1,
            Processes::Two => 2,
            // By default up to twice as many pairs as the cores can carry, to show the effect of
            // oversubscription.
            Processes::Pairs => {
                let most = self
                    .pairs
                    .as_ref()
                    .and_then(|pairs| pairs.iter().copied().max());
                2 * most.unwrap_or_else(|| (self.cores / 2).max(1) * 2).min(512)
            }
            // The benchmark refuses too few.
            Processes::AtLeast(least) => wanted.unwrap_or(least.max(4)),
        }
    }
}
