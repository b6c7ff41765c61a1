//! Sampling of single operations: warm-up that doubles until all processes agree, blocks after an
//! agreed start, stopping when the median is known and the tail has its samples, every sample kept
//! (rules 2 to 6, 8, 9, 11).
//!
//! If reading the clock costs too large a part of an operation, the median comes from batches. A
//! batch's mean does not show the distribution of single operations, so these are also timed
//! singly, in separate blocks.

mod process;

use crate::agreement::Outcome;
use crate::context::{Context, Mode};
use process::Sampler;
use verbena_fabric::{Fabric, Result};
use verbena_measure::recorder::Recorder;
use verbena_measure::result::{Conduct, Times};
use verbena_measure::sample::Sample;
use verbena_measure::warning::Warning;

/// Operations kept singly in each process; more go to the histogram.
const CAP: usize = 1 << 17;
/// Maximum number of values of each kind that a process contributes to a result.
const MOST_SHARED: usize = 1 << 15;
/// Operations are timed in batches if the clock costs more than this fraction of the median.
const CLOCK_SHARE: f64 = 0.01;
/// Maximum length of a batch.
const LARGEST_BATCH: u32 = 64;

/// The role of a process in a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Executes steps that are timed.
    Timed,
    /// Executes steps in answer to another process.
    Answering,
    /// Only votes.
    Idle,
}

/// The result of sampling, the same in every process.
pub struct Sampled {
    /// Nanoseconds of single operations by rank; empty for processes that are not timed or have
    /// failed.
    pub singles: Vec<Vec<f64>>,
    /// Nanoseconds per operation, one value per batch, by rank; all empty if single operations
    /// suffice.
    pub batches: Vec<Vec<f64>>,
    /// The number of the first single operation.
    pub first: u64,
    /// Processes that failed, with the reason.
    pub out: Vec<(usize, String)>,
    pub conduct: Conduct,
    pub warnings: Vec<Warning>,
}

impl Sampled {
    /// Returns the times of all timed processes together.
    pub fn together(&self) -> Option<Times> {
        self.of_ranks(0..self.singles.len())
    }

    /// Returns the times of some processes together.
    pub fn of_ranks(&self, ranks: impl Iterator<Item = usize> + Clone) -> Option<Times> {
        let sample = |by_rank: &[Vec<f64>]| {
            let values = ranks.clone().flat_map(|rank| &by_rank[rank]);
            Sample::new(values.copied().collect())
        };
        Some(Times {
            singles: sample(&self.singles)?,
            batches: sample(&self.batches),
        })
    }

    /// Scales every time, e.g. by half for one way.
    pub fn scaled(mut self, factor: f64) -> Sampled {
        let both = [&mut self.singles, &mut self.batches];
        let all = both.into_iter().flatten().flatten();
        all.for_each(|value| *value *= factor);
        self.conduct.first = self.conduct.first.map(|first| first * factor);
        self
    }
}

/// Samples `step`, which receives the operation's number from 0. `members` are the processes with
/// steps, sorted.
pub async fn sample<F: Fabric>(
    context: &Context<'_, F>,
    members: &[usize],
    role: Role,
    mode: Mode,
    step: impl AsyncFnMut(u64) -> Result<()>,
) -> Outcome<Sampled> {
    sample_rounds(context, members, role, mode, 1, step).await
}

/// Like [`sample`], for operations that cycle over `round` objects: the warm-up covers each at
/// least once, and every block is at least one round.
pub async fn sample_rounds<F: Fabric>(
    context: &Context<'_, F>,
    members: &[usize],
    role: Role,
    mode: Mode,
    round: u64,
    step: impl AsyncFnMut(u64) -> Result<()>,
) -> Outcome<Sampled> {
    let mut sampler = Sampler::new(context, members, role, mode, step);
    let warm = sampler.warm_up(round).await?;
    let per_operation = warm.nanos_per_operation.max(1.0);
    let share = warm.clock_nanos / per_operation;
    let batch = match mode {
        Mode::Free if share > CLOCK_SHARE => {
            ((share / CLOCK_SHARE).ceil() as u32).clamp(1, LARGEST_BATCH)
        }
        _ => 1,
    };
    let budget = context.budget;
    let mut batches = Recorder::new(1);
    if batch > 1 {
        let plan = Plan {
            samples: plan_samples(context, mode, per_operation * f64::from(batch))
                .max(round.div_ceil(u64::from(batch))),
            batch,
            until: Until::Known,
            blocks: u64::from(budget.blocks),
        };
        batches = sampler.blocks(plan).await?;
    }
    let first = sampler.iteration;
    let samples = plan_samples(context, mode, per_operation).max(round);
    let affordable = budget.tail_time.as_nanos() as f64 / per_operation;
    let tail = budget.tail.min(affordable as u64).div_ceil(samples);
    let plan = Plan {
        samples,
        batch: 1,
        until: match batch {
            1 => Until::KnownAfter(tail),
            _ => Until::Done,
        },
        blocks: match batch {
            1 => tail.max(u64::from(budget.blocks)),
            _ => tail.max(1),
        },
    };
    let singles = sampler.blocks(plan).await?;
    let mut warnings = Vec::new();
    if batch > 1 {
        warnings.push(Warning::TimerOverhead {
            fraction: share,
            batch,
        });
    }
    if warm.unbound {
        warnings.push(Warning::Unpinned);
    }
    let (skew, error) = (sampler.skew, sampler.start_error);
    // Without comparable clocks the start skew is unknown.
    let is_known = error.is_finite();
    if !is_known {
        warnings.push(Warning::UnknownStart);
    }
    let conduct = Conduct {
        warmup: warm.operations,
        first: warm.first,
        batch,
        start_skew: (members.len() > 1 && skew > 0.0 && is_known).then_some(skew),
        start_error: (error > 0.0 && is_known).then_some(error),
        overlap: None,
        mode: Some(mode.word().to_owned()),
        validated: false,
        disturbed: None,
        footprint: None,
        reader: None,
        search: false,
    };
    let sampled = Sampled {
        singles: Vec::new(),
        batches: Vec::new(),
        first,
        out: Vec::new(),
        conduct,
        warnings,
    };
    sampler.collect(&singles, &batches, batch, sampled).await
}

/// Blocks to measure.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Samples per block.
    pub samples: u64,
    /// Operations per sample.
    pub batch: u32,
    /// Condition to stop early.
    pub until: Until,
    /// Maximum number of blocks.
    pub blocks: u64,
}

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// When the median is known.
    Known,
    /// When the median is known, after at least this many blocks.
    KnownAfter(u64),
    /// After all blocks.
    Done,
}

/// Returns the number of samples per block, each of `nanos` nanoseconds.
fn plan_samples<F: Fabric>(context: &Context<'_, F>, mode: Mode, nanos: f64) -> u64 {
    let budget = context.budget;
    // In lockstep every sample is exchanged, singly and in order, so that those of several
    // processes can be compared.
    let most = match mode {
        Mode::Free => budget.most,
        Mode::Lockstep => budget
            .most
            .min(MOST_SHARED as u64 / u64::from(budget.blocks)),
    };
    let samples = (budget.block.as_nanos() as f64 / nanos).ceil() as u64;
    samples.clamp(10, most)
}
