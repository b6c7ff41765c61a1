//! The context of a benchmark: the fabric, the user's options, time budgets, and the sink of
//! results.

use crate::ip_interface::Open;
use crate::waiting_budget::WaitingBudget;
use std::time::Duration;
use verbena_fabric::{Fabric, FabricKind, Group};
use verbena_measure::pace::Paces;
use verbena_measure::result::{Conduct, Failure, Finding, Metric, PairResult, Parameters, Point};
use verbena_measure::warning::Warning;

/// A result record.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A measured point.
    Point(Box<Point>),
    /// A point that could not be measured.
    Failure(Failure),
    /// A finding of the analysis.
    Finding(Finding),
}

/// How several pairs run (rule 11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Independently after a common start.
    Free,
    /// With a barrier before each exchange.
    Lockstep,
}

impl Mode {
    /// Returns the mode's name in files.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Free => "free",
            Mode::Lockstep => "lockstep",
        }
    }
}

/// The time budget of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Warm-up doubles until it takes this long.
    pub warmup: Duration,
    /// Duration of a block of counted operations.
    pub block: Duration,
    /// Maximum number of blocks; sampling stops earlier when the median is known well enough.
    pub blocks: u32,
    /// Target for the relative half-width of the median's interval.
    pub target: f64,
    /// Maximum number of operations per block.
    pub most: u64,
    /// Single operations in this launch for the tail of a time.
    pub tail: u64,
    /// Maximum duration for the tail.
    pub tail_time: Duration,
    /// The budget of rates.
    pub rates: RateBudget,
    /// Resolution of sweeps.
    pub sweep: Sweep,
}

/// The time budget of a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateBudget {
    /// Duration of a block of messages.
    pub block: Duration,
    /// Number of blocks.
    pub blocks: usize,
    /// Minimum number of messages per block; where results do not vary, enough to make filling the
    /// adapter's pipeline negligible.
    pub least: u64,
    /// Maximum number of messages per block.
    pub most: u64,
    /// Whether blocks are lengthened only if the overlap of the processes may then suffice: where
    /// results do not vary, it is known from two lengths.
    pub extrapolates: bool,
}

impl RateBudget {
    fn of_block(block: Duration) -> RateBudget {
        RateBudget {
            block,
            blocks: 7,
            least: 1,
            most: 50_000_000,
            extrapolates: false,
        }
    }
}

/// Single operations such that ten exceed the 99.9th percentile (rule 6).
const TAIL: u64 = 10_000;

/// The resolution of sweeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// A few points.
    Coarse,
    /// Every power of two.
    Fine,
}

impl Budget {
    /// Returns the budget for `launches` launches whose samples are pooled for the tail.
    pub fn shared_by(self, launches: u32) -> Budget {
        let tail = self.tail.div_ceil(u64::from(launches.max(1)));
        Budget { tail, ..self }
    }

    /// Returns the budget of `--quick`.
    pub fn quick() -> Budget {
        Budget {
            warmup: Duration::from_millis(4),
            block: Duration::from_millis(12),
            blocks: 3,
            target: 0.02,
            most: 20_000,
            tail: TAIL,
            tail_time: Duration::from_millis(50),
            rates: RateBudget::of_block(Duration::from_millis(4)),
            sweep: Sweep::Coarse,
        }
    }

    /// Returns the budget of a full evaluation.
    pub fn full() -> Budget {
        Budget {
            warmup: Duration::from_millis(8),
            block: Duration::from_millis(6),
            blocks: 6,
            target: 0.02,
            most: 100_000,
            tail: TAIL,
            tail_time: Duration::from_secs(1),
            rates: RateBudget::of_block(Duration::from_millis(4)),
            sweep: Sweep::Fine,
        }
    }

    /// Returns the budget for virtual time, where only contention causes variation.
    pub fn virtual_time() -> Budget {
        Budget {
            warmup: Duration::from_micros(5),
            block: Duration::from_micros(200),
            blocks: 1,
            target: 0.02,
            most: 200,
            tail: 0,
            tail_time: Duration::ZERO,
            rates: RateBudget {
                block: Duration::from_millis(5),
                blocks: 1,
                least: 48,
                most: 1000,
                extrapolates: true,
            },
            sweep: Sweep::Coarse,
        }
    }
}

/// The user's options; `None` selects the benchmark's default.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Options {
    /// Message sizes.
    pub sizes: Option<Vec<usize>>,
    /// Numbers of pairs.
    pub pairs: Option<Vec<usize>>,
    /// How pairs run.
    pub mode: Option<Mode>,
    /// Names of transports.
    pub transports: Option<Vec<String>>,
    /// Largest message posted inline.
    pub inline: Option<u32>,
    /// Messages of a stream per signalled completion.
    pub signal_every: Option<u64>,
    /// Seed of patterns and orders.
    pub seed: u64,
    /// Time of a cache line between cores of this host in nanoseconds, where measured: the lower
    /// bound of latencies through memory.
    pub floor_latency: Option<f64>,
    /// Memory copies by one core of this host, as (bytes, bytes per second) by size, where
    /// measured: the bound of bandwidths through memory.
    pub copies: Vec<(usize, f64)>,
    /// The same over buffers used in turn that exceed the caches, in bytes per second.
    pub copies_in_turn: Option<f64>,
    /// Duration of [`verbena_measure::pace`]'s computation on undisturbed processors of this host.
    /// Without it, processors are not watched for disturbance.
    pub paces: Paces,
    /// Cores of the node, where processes are real; `None` in virtual time.
    pub cores: Option<usize>,
    /// Whether points are listed instead of measured: each is a failure without a reason.
    pub lists_points: bool,
}

impl Options {
    /// Returns the fastest copy of this many bytes or more: a stream of larger messages fits no
    /// nearer cache.
    pub fn copy_bandwidth(&self, size: usize) -> Option<f64> {
        let from = self.copies.iter().position(|(bytes, _)| *bytes >= size);
        let from = from.or(self.copies.len().checked_sub(1))?;
        let rates = self.copies[from..].iter().map(|(_, rate)| *rate);
        rates.reduce(f64::max)
    }
}

/// The context of a benchmark.
pub struct Context<'a, F: Fabric> {
    /// The adapter and the job.
    pub fabric: &'a F,
    /// The benchmark's name.
    pub benchmark: &'static str,
    /// The launch's number, from 0.
    pub launch: u32,
    /// The user's options.
    pub options: &'a Options,
    /// The time budget.
    pub budget: Budget,
    /// Time spent waiting for undisturbed processors.
    pub waiting_budget: &'a WaitingBudget,
    /// Opens the IP interfaces of the adapter; none on a model.
    pub interfaces: Option<&'a Open<'a>>,
    /// The sink of results; called in process 0 only.
    pub sink: &'a dyn Fn(Record),
}

impl<F: Fabric> Context<'_, F> {
    /// Returns this process's rank.
    pub fn rank(&self) -> usize {
        self.fabric.group().rank()
    }

    /// Returns the number of processes of the job.
    pub fn size(&self) -> usize {
        self.fabric.group().size()
    }

    /// Returns all ranks.
    pub fn all_ranks(&self) -> Vec<usize> {
        (0..self.size()).collect()
    }

    /// Returns pairs of ranks: across the first two nodes if there are two, else neighbours.
    pub fn pairing(&self) -> Vec<[usize; 2]> {
        self.fabric.group().pairing()
    }

    /// Returns whether pairs are on one node, where bounds of memory apply; across nodes there is a
    /// network in between.
    pub fn is_through_memory(&self) -> bool {
        let group = self.fabric.group();
        let pairs = self.pairing();
        let together = |[a, b]: &[usize; 2]| group.node_of(*a) == group.node_of(*b);
        pairs.first().is_none_or(together)
    }

    /// Returns the sizes to sweep: the user's, or the coarse or fine list, up to `largest`.
    pub fn sizes(&self, largest: usize) -> Vec<usize> {
        let limit = usize::try_from(self.fabric.capabilities().max_message).unwrap_or(usize::MAX);
        let all: Vec<usize> = match (&self.options.sizes, self.budget.sweep) {
            (Some(sizes), _) => sizes.clone(),
            (None, Sweep::Coarse) => vec![1, 8, 64, 512, 4096, 65_536, 1 << 20],
            (None, Sweep::Fine) => (0..=22).map(|i| 1 << i).collect(),
        };
        all.into_iter()
            .filter(|&size| size >= 1 && size <= largest.min(limit))
            .collect()
    }

    /// Returns one of the lists, by the resolution of sweeps.
    pub fn choose<T: Clone>(&self, coarse: &[T], fine: &[T]) -> Vec<T> {
        match self.budget.sweep {
            Sweep::Coarse => coarse.to_vec(),
            Sweep::Fine => fine.to_vec(),
        }
    }

    /// Returns the maximum inline message: the user's, or `usual`, limited by the fabric.
    pub fn inline_most(&self, usual: u32) -> u32 {
        let wanted = self.options.inline.unwrap_or(usual);
        wanted.min(self.fabric.capabilities().max_inline)
    }

    /// Returns whether the user has selected this transport.
    pub fn wants(&self, transport: &str) -> bool {
        let wanted = self.options.transports.as_ref();
        wanted.is_none_or(|list| list.iter().any(|word| word == transport))
    }

    /// Emits a record, in process 0.
    pub fn emit(&self, record: Record) {
        if self.rank() == 0 {
            (self.sink)(record);
        }
    }

    /// Emits a point and adds warnings that apply to every point of this job.
    pub fn point(
        &self,
        parameters: &Parameters,
        metrics: Vec<Metric>,
        pairs: Vec<PairResult>,
        conduct: Conduct,
        mut warnings: Vec<Warning>,
        active: usize,
    ) {
        if let Some(cores) = self.options.cores.filter(|&cores| active > cores) {
            warnings.push(Warning::OversubscribedCores {
                processes: active,
                cores,
            });
        }
        // Models are deterministic: differences between pairs are not variance of samples.
        if self.fabric.capabilities().kind == FabricKind::Model {
            warnings.retain(|warning| !matches!(warning, Warning::Unconverged { .. }));
        }
        self.emit(Record::Point(Box::new(Point {
            benchmark: self.benchmark.to_owned(),
            launch: self.launch,
            parameters: parameters.clone(),
            metrics,
            pairs,
            conduct,
            hot_ports: Vec::new(),
            warnings,
        })));
    }

    /// Converts ticks to nanoseconds.
    pub fn nanos(&self, ticks: u64) -> f64 {
        self.fabric.clock().nanos(ticks)
    }
}

/// Returns parameters from pairs of names and values.
#[macro_export]
macro_rules! parameters {
    ($($name:literal => $value:expr),* $(,)?) => {
        verbena_measure::result::Parameters::from([
            $(($name.to_owned(), verbena_measure::result::Value::from($value))),*
        ])
    };
}
