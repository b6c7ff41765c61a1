//! The part of one process in sampling: warm up, run blocks, exchange results.

use super::{CAP, MOST_SHARED, Plan, Role, Sampled, Until};
use crate::agreement::{Outcome, Stop, agree, agree_present, pack, unpack};
use crate::context::{Context, Mode};
use crate::disturbance::{SpeedChecks, SpeedMonitor};
use verbena_fabric::{Error, Fabric, Group, Pinning, Result, Ticks};
use verbena_measure::converge;
use verbena_measure::recorder::Recorder;
use verbena_measure::sample::Sample;

pub struct Sampler<'a, 'c, F: Fabric, S> {
    context: &'a Context<'c, F>,
    members: &'a [usize],
    role: Role,
    mode: Mode,
    step: S,
    monitor: SpeedMonitor<'c, F>,
    failed: Option<Error>,
    /// The number of the next operation.
    pub iteration: u64,
    /// Maximum so far of the time between the first and the last process's start of a block.
    pub skew: f64,
    /// Error of the skew in nanoseconds.
    pub start_error: f64,
}

/// The results of the warm-up, the same in every process.
pub struct Warm {
    pub operations: u64,
    pub nanos_per_operation: f64,
    pub first: Option<f64>,
    /// Clock cost of the slowest process. Agreed upon like the rest, because it determines the
    /// batch size, which both sides of a pair must agree on.
    pub clock_nanos: f64,
    /// Whether the system refused to bind a process to its own processor.
    pub unbound: bool,
}

impl<'a, 'c, F: Fabric, S: AsyncFnMut(u64) -> Result<()>> Sampler<'a, 'c, F, S> {
    pub fn new(
        context: &'a Context<'c, F>,
        members: &'a [usize],
        role: Role,
        mode: Mode,
        step: S,
    ) -> Self {
        Sampler {
            context,
            members,
            role,
            mode,
            step,
            monitor: SpeedMonitor::new(context, members.len()),
            failed: None,
            iteration: 0,
            skew: 0.0,
            start_error: 0.0,
        }
    }

    /// Executes one operation; in lockstep after a barrier that is not timed.
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

    /// Keeps a failure of this process, so that the others can finish; passes on the end of the
    /// run.
    fn keep(&mut self, error: Error) -> Outcome<()> {
        match error {
            Error::PeerLost { .. } | Error::LeftBehind => Err(Stop::Run(error)),
            Error::Interrupted => Err(Stop::Mine(error)),
            other => {
                self.failed = Some(other);
                Ok(())
            }
        }
    }

    pub async fn warm_up(&mut self, round: u64) -> Outcome<Warm> {
        let pinning = match self.role {
            Role::Idle => Pinning::Own,
            _ => self.context.fabric.pin_cpu(self.members),
        };
        let unbound = f64::from(u8::from(pinning == Pinning::Unbound));
        let mut count = 1u64;
        let mut warm = Warm {
            operations: 0,
            nanos_per_operation: f64::INFINITY,
            first: None,
            clock_nanos: 0.0,
            unbound: false,
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
            let first = warm.first.unwrap_or(f64::NAN);
            let votes = agree(self.context, &pack(&[spent, first, clock, unbound])).await?;
            let votes: Vec<Vec<f64>> = votes.iter().map(|vote| unpack(vote)).collect();
            let largest = |of: usize| votes.iter().map(|vote| vote[of]).fold(0.0, f64::max);
            let longest = largest(0);
            warm.clock_nanos = largest(2);
            warm.unbound = largest(3) > 0.0;
            // The first operation of the first process that has one, the same for all.
            warm.first = votes
                .iter()
                .map(|vote| vote[1])
                .find(|first| first.is_finite());
            // The minimum over several repetitions: one in which the process was preempted is no
            // warm-up, and does not show the duration of an operation.
            warm.nanos_per_operation = warm.nanos_per_operation.min(longest / count as f64);
            let warmed = warm.nanos_per_operation * count as f64;
            let long_enough = warmed >= self.context.budget.warmup.as_nanos() as f64
                || count >= self.context.budget.most
                || longest == 0.0 && count > 4;
            if long_enough && count > 1 && warm.operations >= round {
                return Ok(warm);
            }
            count *= 2;
        }
    }

    /// Runs blocks of samples, each after an agreed start; between them each process checks its
    /// processor. After a process has hung no further block runs, but earlier measurements count.
    pub async fn blocks(&mut self, plan: Plan) -> Outcome<Recorder> {
        let room = plan.samples.saturating_mul(plan.blocks);
        let mut recorder = Recorder::new(usize::try_from(room).unwrap_or(CAP).min(CAP));
        for done in 1..=plan.blocks {
            if !self
                .monitor
                .rest(self.context, self.members, self.role)
                .await?
            {
                break;
            }
            let start = self.block(plan, &mut recorder).await?;
            let error = self.context.fabric.group().start_error().unwrap_or(0.0);
            let starts = agree_present(self.context, &pack(&[start, error])).await?;
            let told: Vec<Vec<f64>> = starts.iter().flatten().map(|one| unpack(one)).collect();
            let begun = told.iter().filter(|one| one[0].is_finite());
            let (first, last) = begun.fold((f64::MAX, f64::MIN), |(a, b), one| {
                self.start_error = self.start_error.max(one[1]);
                (a.min(one[0]), b.max(one[0]))
            });
            self.skew = self.skew.max(last - first);
            if starts.iter().any(Option::is_none) {
                break;
            }
            let ask = match plan.until {
                Until::Known => true,
                Until::KnownAfter(least) => done >= least,
                Until::Done => false,
            };
            let more = done < plan.blocks;
            if ask && more && self.widest(&recorder).await? <= self.context.budget.target {
                break;
            }
        }
        Ok(recorder)
    }

    /// Runs a block; returns its start in nanoseconds after the agreed time.
    async fn block(&mut self, plan: Plan, recorder: &mut Recorder) -> Outcome<f64> {
        if self.role == Role::Idle {
            return Ok(f64::NAN);
        }
        self.monitor.check();
        let agreed = self.context.fabric.group().align(self.members).await?;
        let mut last = self.context.fabric.now();
        let start = self.context.nanos(last.since(agreed));
        for _ in 0..plan.samples {
            if !self.stepping() {
                break;
            }
            let outcome = match self.mode {
                Mode::Lockstep => self.operation().await.map(|(from, to)| to.since(from)),
                Mode::Free => self.batch(plan.batch).await.map(|()| {
                    let now = self.context.fabric.now();
                    let spent = now.since(last);
                    last = now;
                    spent
                }),
            };
            match outcome {
                Ok(ticks) if self.role == Role::Timed => recorder.record(ticks),
                Ok(_) => {}
                Err(error) => self.keep(error)?,
            }
        }
        self.monitor.check();
        Ok(start)
    }

    #[inline]
    async fn batch(&mut self, batch: u32) -> Result<()> {
        for _ in 0..batch {
            (self.step)(self.iteration).await?;
            self.iteration += 1;
        }
        Ok(())
    }

    /// Returns the largest relative half-width of the median's interval over the timed processes.
    async fn widest(&self, recorder: &Recorder) -> Outcome<f64> {
        let width = match self.role {
            Role::Timed if self.failed.is_none() => {
                let samples = recorder.samples().iter();
                Sample::new(samples.map(|&ticks| ticks as f64).collect())
                    .and_then(|sample| {
                        converge::judge(&sample, self.context.budget.target).half_width
                    })
                    .unwrap_or(f64::INFINITY)
            }
            // A process without a value votes negative infinity.
            _ => f64::NEG_INFINITY,
        };
        let votes = agree_present(self.context, &pack(&[width])).await?;
        let widths = votes.iter().flatten().flat_map(|vote| unpack(vote));
        Ok(widths.fold(f64::NEG_INFINITY, f64::max))
    }

    /// Exchanges the samples of all processes.
    pub async fn collect(
        self,
        singles: &Recorder,
        batches: &Recorder,
        batch: u32,
        mut sampled: Sampled,
    ) -> Outcome<Sampled> {
        let mut mine = vec![u8::from(self.failed.is_some())];
        match &self.failed {
            Some(error) => mine.extend(error.to_string().bytes()),
            None => {
                let told = |recorder: &Recorder, operations: u32| -> Vec<f64> {
                    let values = recorder.values(MOST_SHARED);
                    let step = values.len().div_ceil(MOST_SHARED).max(1);
                    let per = |ticks: u64| self.context.nanos(ticks) / f64::from(operations);
                    values.into_iter().step_by(step).map(per).collect()
                };
                let (singles, batches) = (told(singles, 1), told(batches, batch));
                let SpeedChecks { all, slow } = self.monitor.seen;
                mine.extend(pack(&[all, slow, singles.len() as f64]));
                mine.extend(pack(&singles));
                mine.extend(pack(&batches));
            }
        }
        let all = agree_present(self.context, &mine).await?;
        let mut checks = Vec::new();
        for (rank, told) in all.iter().enumerate() {
            let (mut singles, mut batches) = (Vec::new(), Vec::new());
            match told.as_deref().and_then(<[u8]>::split_first) {
                Some((1, text)) => {
                    let reason = String::from_utf8_lossy(text).into_owned();
                    sampled.out.push((rank, reason));
                }
                Some((_, numbers)) => {
                    if let [all, slow, count, values @ ..] = &unpack(numbers)[..] {
                        let (one, other) = values.split_at((*count as usize).min(values.len()));
                        (singles, batches) = (one.to_vec(), other.to_vec());
                        checks.push(SpeedChecks {
                            all: *all,
                            slow: *slow,
                        });
                    }
                }
                None => sampled.out.push((rank, "it hangs".to_owned())),
            }
            sampled.singles.push(singles);
            sampled.batches.push(batches);
        }
        if sampled.singles.iter().all(Vec::is_empty) {
            let first = sampled.out.first();
            let reason = first.map(|(rank, text)| format!("process {rank}: {text}"));
            return Err(Stop::Known {
                reason: reason.unwrap_or("nothing was timed".to_owned()),
                unsupported: false,
            });
        }
        let checks = SpeedChecks::together(checks.into_iter());
        sampled.conduct.disturbed = checks.share();
        sampled.warnings.extend(checks.warning());
        Ok(sampled)
    }
}
