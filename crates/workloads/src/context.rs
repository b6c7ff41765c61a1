//! What a benchmark is given: the fabric, what the user asked for, how long it may take, where results go.

use crate::disturbance::Rest;
use std::time::Duration;
use verbena_fabric::{Fabric, FabricKind, Group};
use verbena_measure::pace::Paces;
use verbena_measure::result::{Conduct, Failure, Finding, Metric, PairResult, Parameters, Point};
use verbena_measure::warning::Warning;

/// A result, as it arises.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// A measured point.
    Point(Box<Point>),
    /// A point that could not be measured.
    Failure(Failure),
    /// Something found by analysis.
    Finding(Finding),
}

/// How several pairs run (rule 11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Pairs run on after a common start.
    Free,
    /// A barrier before each exchange.
    Lockstep,
}

impl Mode {
    /// The word in files.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Free => "free",
            Mode::Lockstep => "lockstep",
        }
    }
}

/// How long a point may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Warm-up doubles until it took so long.
    pub warmup: Duration,
    /// Length of a block of counted operations.
    pub block: Duration,
    /// Blocks at most; sampling stops earlier when the median is known well enough.
    pub blocks: u32,
    /// Relative half-width of the median's interval to reach.
    pub target: f64,
    /// Operations a block at most.
    pub most: u64,
    /// Single operations that the tail of a time should be known from, by this launch.
    pub tail: u64,
    /// The longest that may take.
    pub tail_time: Duration,
    /// The same of rates.
    pub rates: RateBudget,
    /// Whether sweeps are coarse.
    pub sweep: Sweep,
}

/// How long a point that is a rate may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateBudget {
    /// Length of a block of messages.
    pub block: Duration,
    /// Blocks.
    pub blocks: usize,
    /// Messages a block at least; where nothing varies, enough that filling the adapter's pipeline does not count.
    pub least: u64,
    /// Messages a block at most.
    pub most: u64,
}

impl RateBudget {
    fn of_block(block: Duration) -> RateBudget {
        RateBudget {
            block,
            blocks: 7,
            least: 1,
            most: 50_000_000,
        }
    }
}

/// Single operations of which ten lie beyond the 99.9th percentile (rule 6).
const TAIL: u64 = 10_000;

/// How fine sweeps are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// A few points.
    Coarse,
    /// Every power of two.
    Fine,
}

impl Budget {
    /// The same where so many launches are pooled to know a tail.
    pub fn shared_by(self, launches: u32) -> Budget {
        let tail = self.tail.div_ceil(u64::from(launches.max(1)));
        Budget { tail, ..self }
    }

    /// For `--quick`.
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

    /// For a full evaluation.
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

    /// For virtual time, where nothing varies but by contention.
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
            },
            sweep: Sweep::Coarse,
        }
    }
}

/// What the user asked for; `None` leaves it to the benchmark.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Options {
    /// Message sizes.
    pub sizes: Option<Vec<usize>>,
    /// Numbers of pairs.
    pub pairs: Option<Vec<usize>>,
    /// How pairs run.
    pub mode: Option<Mode>,
    /// Transports by word.
    pub transports: Option<Vec<String>>,
    /// Largest message posted inline.
    pub inline: Option<u32>,
    /// Messages for which a stream asks for one completion.
    pub signal_every: Option<u64>,
    /// Seed of patterns and orders.
    pub seed: u64,
    /// Cache line from core to core on this host in nanoseconds, where measured: the floor of latencies through memory.
    pub floor_latency: Option<f64>,
    /// Memory copies by one core of this host, as (bytes, bytes a second) by size, where measured: the bound of bandwidths
    /// through memory.
    pub copies: Vec<(usize, f64)>,
    /// The same over buffers in turn that the caches do not hold, in bytes a second.
    pub copies_in_turn: Option<f64>,
    /// What [`verbena_measure::pace`] computes takes so long on undisturbed processors of this host; where that was not
    /// measured, nobody looks whether something shares them.
    pub paces: Paces,
    /// Cores of the node, where processes are real; `None` in virtual time.
    pub cores: Option<usize>,
}

impl Options {
    /// The fastest copy of so many bytes or more: a stream of larger messages fits no nearer cache.
    pub fn copy_bandwidth(&self, size: usize) -> Option<f64> {
        let from = self.copies.iter().position(|(bytes, _)| *bytes >= size);
        let from = from.or(self.copies.len().checked_sub(1))?;
        let rates = self.copies[from..].iter().map(|(_, rate)| *rate);
        rates.reduce(f64::max)
    }
}

/// What a benchmark works with.
pub struct Context<'a, F: Fabric> {
    /// The adapter and the job.
    pub fabric: &'a F,
    /// The benchmark's name.
    pub benchmark: &'static str,
    /// The launch, from 0.
    pub launch: u32,
    /// What the user asked for.
    pub options: &'a Options,
    /// How long a point may take.
    pub budget: Budget,
    /// How long it waited for processors at rest.
    pub rest: &'a Rest,
    /// Takes results; called in process 0 only.
    pub sink: &'a dyn Fn(Record),
}

impl<F: Fabric> Context<'_, F> {
    /// This process.
    pub fn rank(&self) -> usize {
        self.fabric.group().rank()
    }

    /// Processes of the job.
    pub fn size(&self) -> usize {
        self.fabric.group().size()
    }

    /// All ranks.
    pub fn everybody(&self) -> Vec<usize> {
        (0..self.size()).collect()
    }

    /// Pairs of ranks: across the first two nodes where there are two, else neighbours.
    pub fn pairing(&self) -> Vec<[usize; 2]> {
        self.fabric.group().pairing()
    }

    /// Whether pairs are on one node, so that what bounds memory bounds them; across nodes there is a network in between.
    pub fn is_through_memory(&self) -> bool {
        let group = self.fabric.group();
        let pairs = self.pairing();
        let together = |[a, b]: &[usize; 2]| group.node_of(*a) == group.node_of(*b);
        pairs.first().is_none_or(together)
    }

    /// The sizes to sweep: the user's, else the coarse or fine list, up to `largest`.
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

    /// Either list by how fine sweeps are.
    pub fn choose<T: Clone>(&self, coarse: &[T], fine: &[T]) -> Vec<T> {
        match self.budget.sweep {
            Sweep::Coarse => coarse.to_vec(),
            Sweep::Fine => fine.to_vec(),
        }
    }

    /// The largest message that goes inline: as the user says, else `usual`, as far as the fabric can.
    pub fn inline_most(&self, usual: u32) -> u32 {
        let wanted = self.options.inline.unwrap_or(usual);
        wanted.min(self.fabric.capabilities().max_inline)
    }

    /// Whether the user wants this transport.
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

    /// Emits a point; warnings that hold for every point of this job are added.
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
        // A model repeats itself: pairs that differ are not samples that vary.
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
            warnings,
        })));
    }

    /// Nanoseconds of ticks.
    pub fn nanos(&self, ticks: u64) -> f64 {
        self.fabric.clock().nanos(ticks)
    }
}

/// Parameters from pairs of names and values.
#[macro_export]
macro_rules! parameters {
    ($($name:literal => $value:expr),* $(,)?) => {
        verbena_measure::result::Parameters::from([
            $(($name.to_owned(), verbena_measure::result::Value::from($value))),*
        ])
    };
}
