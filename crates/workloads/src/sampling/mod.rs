//! Sampling of single operations: warm-up that doubles until all agree, blocks after an agreed start, stopping when the
//! median is known, every sample kept (rules 2 to 5, 8, 9, 11).

mod process;
mod tally;

use crate::agreement::Outcome;
use crate::context::{Context, Mode};
use crate::disturbance::{Watch, in_any};
use process::Sampler;
use std::ops::Range;
use tally::{Block, Shape, Tally};
use verbena_fabric::{Fabric, Result};
use verbena_measure::result::Conduct;
use verbena_measure::sample::Sample;
use verbena_measure::warning::Warning;

/// Operations kept one by one in each process; more go to the histogram.
const CAP: usize = 1 << 17;
/// Values that a process contributes to a result at most.
const TOLD: usize = 1 << 15;
/// The clock may cost this share of the median before operations are timed in batches.
const CLOCK_SHARE: f64 = 0.01;
/// Longest batch.
const LARGEST_BATCH: u32 = 64;

/// What a process does in a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Steps, and its times count.
    Timed,
    /// Steps in answer to another.
    Answering,
    /// Has nothing to do but to vote.
    Idle,
}

/// What sampling yields, the same in every process.
pub struct Sampled {
    /// Nanoseconds an operation by rank; empty for those not timed or out.
    pub by_rank: Vec<Vec<f64>>,
    /// The numbers of the operations that count, in the order of each rank's values.
    pub operations: Vec<Range<u64>>,
    /// Processes that failed, with the reason.
    pub out: Vec<(usize, String)>,
    pub conduct: Conduct,
    pub warnings: Vec<Warning>,
}

impl Sampled {
    /// The samples of all timed processes together.
    pub fn together(&self) -> Option<Sample> {
        Sample::new(self.by_rank.iter().flatten().copied().collect())
    }

    /// The samples of one process.
    pub fn of(&self, rank: usize) -> Option<Sample> {
        Sample::new(self.by_rank[rank].clone())
    }

    /// The same with every time scaled, e.g. halved for one way.
    pub fn scaled(mut self, factor: f64) -> Sampled {
        self.by_rank
            .iter_mut()
            .flatten()
            .for_each(|value| *value *= factor);
        self.conduct.first = self.conduct.first.map(|first| first * factor);
        self
    }
}

/// Samples `step`, which is given the number of the operation from 0. `members` are the processes with steps, sorted.
pub async fn sample<F: Fabric>(
    context: &Context<'_, F>,
    members: &[usize],
    role: Role,
    mode: Mode,
    step: impl AsyncFnMut(u64) -> Result<()>,
) -> Outcome<Sampled> {
    sample_rounds(context, members, role, mode, 1, step).await
}

/// As [`sample`], for operations that go over `round` things in turn: the warm-up visits each at least once, and every
/// block is at least one round.
pub async fn sample_rounds<F: Fabric>(
    context: &Context<'_, F>,
    members: &[usize],
    role: Role,
    mode: Mode,
    round: u64,
    step: impl AsyncFnMut(u64) -> Result<()>,
) -> Outcome<Sampled> {
    let watch = Watch::new(context, members.len());
    let mut sampler = Sampler {
        context,
        members,
        role,
        mode,
        step,
        iteration: 0,
        failed: None,
    };
    let warm = sampler.warm_up(round).await?;
    let per_operation = warm.nanos_per_operation.max(1.0);
    let share = warm.clock_nanos / per_operation;
    let batch = match mode {
        Mode::Free if share > CLOCK_SHARE => {
            ((share / CLOCK_SHARE).ceil() as u32).clamp(1, LARGEST_BATCH)
        }
        _ => 1,
    };
    let block = context.budget.block.as_nanos() as f64;
    let samples = (block / per_operation / f64::from(batch)).ceil();
    let blocks = context.budget.blocks;
    let attempts = watch.attempts(blocks, context.budget.block);
    // In lockstep every sample is told, one by one and in order, so that several processes' can be laid side by side.
    let most = match mode {
        Mode::Free => context.budget.most,
        Mode::Lockstep => {
            let told = TOLD as u64 / u64::from(attempts.max(1));
            context.budget.most.min(told)
        }
    };
    let samples = (samples as u64)
        .clamp(10, most)
        .max(round.div_ceil(u64::from(batch)));
    let shape = Shape {
        samples,
        batch,
        slice: watch.slice(per_operation * f64::from(batch), samples),
    };
    let mut tally = Tally::new(CAP.min((samples * u64::from(attempts)) as usize));
    let mut block = Block::new(shape);
    let mut skew: f64 = 0.0;
    for _ in 0..attempts {
        sampler.block(&watch, &mut block).await?;
        let told = sampler.tell(&block).await?;
        let present = told.iter().flatten();
        tally.take(
            &block,
            &in_any(present.clone().map(|told| &told.disturbed[..])),
        );
        let starts = present
            .map(|told| told.start)
            .filter(|start| start.is_finite());
        let (first, last) = starts.fold((f64::MAX, f64::MIN), |(a, b), s| (a.min(s), b.max(s)));
        skew = skew.max(last - first);
        // With a process that hangs there is no further block, but what was measured so far counts.
        if told.iter().any(Option::is_none) {
            break;
        }
        // However disturbed, a point is at least one block's worth.
        if tally.slices() < shape.slices() {
            continue;
        }
        let enough = tally.slices() >= shape.slices() * blocks as usize;
        if enough || sampler.widest(tally.samples()).await? <= context.budget.target {
            break;
        }
    }
    let settled = tally.settle(shape.slices());
    let mut warnings = Vec::new();
    if settled.disturbed {
        warnings.push(Warning::Disturbed);
    }
    if batch > 1 {
        warnings.push(Warning::TimerOverhead {
            fraction: share,
            batch,
        });
    }
    let conduct = Conduct {
        warmup: warm.operations,
        first: warm.first,
        batch,
        start_skew: (members.len() > 1 && skew > 0.0).then_some(skew),
        overlap: None,
        mode: Some(mode.word().to_owned()),
        validated: false,
        set_aside: settled.set_aside,
    };
    sampler.collect(settled, batch, conduct, warnings).await
}
