//! Sampling of single operations: warm-up that doubles until all agree, blocks after an agreed start, stopping when the
//! median is known, every sample kept (rules 2 to 4, 8, 9, 11).

use crate::agreement::{Outcome, Stop, agree, agree_present, pack, unpack};
use crate::context::{Context, Mode};
use crate::disturbance::Watch;
use verbena_fabric::{Error, Fabric, Group, Result, Ticks};
use verbena_measure::converge;
use verbena_measure::recorder::Recorder;
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

struct Sampler<'a, 'c, F: Fabric, S> {
    context: &'a Context<'c, F>,
    members: &'a [usize],
    role: Role,
    mode: Mode,
    step: S,
    iteration: u64,
    failed: Option<Error>,
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
    // In lockstep every sample is told, one by one and in order, so that several processes' can be laid side by side.
    let most = match mode {
        Mode::Free => context.budget.most,
        Mode::Lockstep => {
            let told = TOLD as u64 / u64::from(context.budget.blocks.max(1));
            context.budget.most.min(told)
        }
    };
    let samples = (samples as u64)
        .clamp(10, most)
        .max(round.div_ceil(u64::from(batch)));
    let blocks = context.budget.blocks;
    let room = CAP.min((samples * u64::from(blocks)) as usize);
    let [mut counted, mut aside] = [Recorder::new(room), Recorder::new(room)];
    let mut block = Recorder::new(CAP.min(samples as usize));
    let watch = Watch::new(context, members.len());
    let (mut taken, mut set_aside) = (0, 0);
    let mut skew: f64 = 0.0;
    for _ in 0..watch.attempts(blocks) {
        block.clear();
        let before = watch.is_disturbed();
        let start = sampler.block(samples, batch, &mut block).await?;
        let disturbed = role != Role::Idle && (watch.is_disturbed() || before);
        let votes = sampler.vote(start, [&counted, &block], disturbed).await?;
        let present = || votes.iter().flatten();
        if present().any(|vote| vote.get(2) == Some(&1.0)) {
            aside.absorb(&block);
            set_aside += 1;
            if votes.contains(&None) {
                break;
            }
            continue;
        }
        counted.absorb(&block);
        taken += 1;
        let starts = present()
            .filter_map(|vote| vote.first())
            .filter(|start| start.is_finite());
        let (first, last) = starts.fold((f64::MAX, f64::MIN), |(a, b), &s| (a.min(s), b.max(s)));
        skew = skew.max(last - first);
        // A process without an opinion votes infinity below zero.
        let widest = present()
            .filter_map(|vote| vote.get(1))
            .copied()
            .fold(f64::MIN, f64::max);
        // With a process that hangs there is no further block, but what was measured so far counts.
        if widest <= context.budget.target || taken == blocks || votes.contains(&None) {
            break;
        }
    }
    let mut warnings = Vec::new();
    if taken == 0 {
        counted = aside;
        set_aside = 0;
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
        set_aside,
    };
    sampler.collect(&counted, batch, conduct, warnings).await
}

struct Warm {
    operations: u64,
    nanos_per_operation: f64,
    first: Option<f64>,
    /// What the slowest process's clock costs. Agreed upon like the rest, for who times how many operations together
    /// follows from it, and both sides of a pair must come to the same number.
    clock_nanos: f64,
}

impl<F: Fabric, S: AsyncFnMut(u64) -> Result<()>> Sampler<'_, '_, F, S> {
    /// One operation; in lockstep after a barrier that is not part of it.
    async fn operation(&mut self) -> Result<(Ticks, Ticks)> {
        if self.mode == Mode::Lockstep {
            self.context.fabric.group().barrier(self.members).await?;
        }
        let start = self.context.fabric.now();
        (self.step)(self.iteration).await?;
        self.iteration += 1;
        Ok((start, self.context.fabric.now()))
    }

    fn stepping(&self) -> bool {
        self.role != Role::Idle && self.failed.is_none()
    }

    /// Keeps a failure of this process, so that the others can finish; the end of the run is passed on.
    fn keep(&mut self, error: Error) -> Outcome<()> {
        match error {
            Error::PeerLost { .. } => Err(Stop::Run(error)),
            Error::Interrupted => Err(Stop::Mine(error)),
            other => {
                self.failed = Some(other);
                Ok(())
            }
        }
    }

    async fn warm_up(&mut self, round: u64) -> Outcome<Warm> {
        let mut count = 1u64;
        let mut warm = Warm {
            operations: 0,
            nanos_per_operation: 0.0,
            first: None,
            clock_nanos: 0.0,
        };
        let clock = self.context.fabric.clock().overhead_nanos;
        loop {
            if self.role != Role::Idle {
                self.context.fabric.group().align(self.members).await?;
            }
            let start = self.context.fabric.now();
            for _ in 0..count {
                if !self.stepping() {
                    break;
                }
                match self.operation().await {
                    Ok((from, to)) if warm.first.is_none() && self.role == Role::Timed => {
                        warm.first = Some(self.context.nanos(to.since(from)));
                    }
                    Ok(_) => {}
                    Err(error) => self.keep(error)?,
                }
            }
            warm.operations += count;
            let spent = match self.stepping() {
                true => self.context.nanos(self.context.fabric.now().since(start)),
                false => 0.0,
            };
            let votes = agree(
                self.context,
                &pack(&[spent, warm.first.unwrap_or(f64::NAN), clock]),
            )
            .await?;
            let votes: Vec<Vec<f64>> = votes.iter().map(|vote| unpack(vote)).collect();
            let longest = votes.iter().map(|vote| vote[0]).fold(0.0, f64::max);
            warm.clock_nanos = votes.iter().map(|vote| vote[2]).fold(0.0, f64::max);
            // The first operation of the first process that has one, the same for everybody.
            warm.first = votes
                .iter()
                .map(|vote| vote[1])
                .find(|first| first.is_finite());
            let long_enough = longest >= self.context.budget.warmup.as_nanos() as f64
                || count >= self.context.budget.most
                || longest == 0.0 && count > 4;
            if long_enough && warm.operations >= round {
                warm.nanos_per_operation = longest / count as f64;
                return Ok(warm);
            }
            count *= 2;
        }
    }

    /// A block; gives the start on the node's clock in nanoseconds.
    async fn block(&mut self, samples: u64, batch: u32, recorder: &mut Recorder) -> Outcome<f64> {
        if self.role == Role::Idle {
            return Ok(f64::NAN);
        }
        let agreed = self.context.fabric.group().align(self.members).await?;
        let mut last = self.context.fabric.now();
        let start = last;
        for _ in 0..samples {
            if !self.stepping() {
                break;
            }
            let outcome = match self.mode {
                Mode::Lockstep => self.operation().await.map(|(from, to)| to.since(from)),
                Mode::Free => self.batch(batch).await.map(|()| {
                    let now = self.context.fabric.now();
                    let spent = now.since(last);
                    last = now;
                    spent
                }),
            };
            match outcome {
                Ok(ticks) => {
                    if self.role == Role::Timed {
                        recorder.record(ticks);
                    }
                }
                Err(error) => self.keep(error)?,
            }
        }
        Ok(self.context.nanos(start.since(agreed)))
    }

    #[inline]
    async fn batch(&mut self, batch: u32) -> Result<()> {
        for _ in 0..batch {
            (self.step)(self.iteration).await?;
            self.iteration += 1;
        }
        Ok(())
    }

    /// Tells the others when the block began, how well the median would be known with it, and whether it was disturbed.
    async fn vote(
        &self,
        start: f64,
        recorders: [&Recorder; 2],
        disturbed: bool,
    ) -> Outcome<Vec<Option<Vec<f64>>>> {
        let width = match self.role {
            Role::Timed if self.failed.is_none() => {
                let values = recorders.iter().flat_map(|recorder| recorder.samples());
                Sample::new(values.map(|&ticks| ticks as f64).collect())
                    .and_then(|sample| {
                        converge::judge(&sample, self.context.budget.target).half_width
                    })
                    .unwrap_or(f64::INFINITY)
            }
            _ => f64::NEG_INFINITY,
        };
        let votes = agree_present(
            self.context,
            &pack(&[start, width, f64::from(u8::from(disturbed))]),
        )
        .await?;
        let numbers = |vote: Option<Vec<u8>>| vote.map(|vote| unpack(&vote));
        Ok(votes.into_iter().map(numbers).collect())
    }

    async fn collect(
        self,
        recorder: &Recorder,
        batch: u32,
        conduct: Conduct,
        warnings: Vec<Warning>,
    ) -> Outcome<Sampled> {
        let mut mine = vec![u8::from(self.failed.is_some())];
        match &self.failed {
            Some(error) => mine.extend(error.to_string().bytes()),
            None => {
                let per = |ticks: u64| self.context.nanos(ticks) / f64::from(batch);
                let values: Vec<f64> = recorder.values(TOLD).into_iter().map(per).collect();
                let step = values.len().div_ceil(TOLD).max(1);
                let thinned: Vec<f64> = values.into_iter().step_by(step).collect();
                mine.extend(pack(&thinned));
            }
        }
        let all = agree_present(self.context, &mine).await?;
        let mut by_rank = Vec::with_capacity(all.len());
        let mut out = Vec::new();
        for (rank, told) in all.iter().enumerate() {
            match told.as_deref().and_then(<[u8]>::split_first) {
                Some((1, text)) => {
                    out.push((rank, String::from_utf8_lossy(text).into_owned()));
                    by_rank.push(Vec::new());
                }
                Some((_, numbers)) => by_rank.push(unpack(numbers)),
                None => {
                    out.push((rank, "it hangs".to_owned()));
                    by_rank.push(Vec::new());
                }
            }
        }
        if by_rank.iter().all(Vec::is_empty) {
            let reason = out
                .first()
                .map_or("nothing was timed".to_owned(), |(rank, text)| {
                    format!("process {rank}: {text}")
                });
            return Err(Stop::Known {
                reason,
                unsupported: false,
            });
        }
        Ok(Sampled {
            by_rank,
            out,
            conduct,
            warnings,
        })
    }
}
