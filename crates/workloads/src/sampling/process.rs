//! What one process does while operations are sampled: warm up, run blocks, tell the others what it saw.

use super::tally::{Block, Settled, Shape};
use super::{Role, Sampled, TOLD};
use crate::agreement::{Outcome, Stop, agree, agree_present, pack, unpack};
use crate::context::{Context, Mode};
use crate::disturbance::{Watch, between};
use verbena_fabric::{Error, Fabric, Group, Result, Ticks};
use verbena_measure::converge;
use verbena_measure::result::Conduct;
use verbena_measure::sample::Sample;
use verbena_measure::warning::Warning;

pub struct Sampler<'a, 'c, F: Fabric, S> {
    pub context: &'a Context<'c, F>,
    pub members: &'a [usize],
    pub role: Role,
    pub mode: Mode,
    pub step: S,
    pub iteration: u64,
    pub failed: Option<Error>,
}

/// What the warm-up tells, the same in every process.
pub struct Warm {
    pub operations: u64,
    pub nanos_per_operation: f64,
    pub first: Option<f64>,
    /// What the slowest process's clock costs. Agreed upon like the rest, for who times how many operations together
    /// follows from it, and both sides of a pair must come to the same number.
    pub clock_nanos: f64,
}

/// What a process tells of a block.
#[derive(Debug, Clone)]
pub struct Told {
    pub start: f64,
    pub disturbed: Vec<bool>,
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

    pub async fn warm_up(&mut self, round: u64) -> Outcome<Warm> {
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

    /// A block, in slices: between two of them each process looks at its processor, outside of what is timed.
    pub async fn block(&mut self, watch: &Watch<'_, F>, block: &mut Block) -> Outcome<()> {
        block.clear();
        block.first = self.iteration;
        if self.role == Role::Idle {
            return Ok(());
        }
        let mut looks = vec![watch.is_disturbed()];
        let agreed = self.context.fabric.group().align(self.members).await?;
        let start = self.context.fabric.now();
        block.start = self.context.nanos(start.since(agreed));
        let Shape {
            samples,
            batch,
            slice,
        } = block.shape;
        let mut left = samples;
        looks.reserve(block.shape.slices());
        while left > 0 {
            self.slice(left.min(slice), batch, block).await?;
            left -= left.min(slice);
            looks.push(watch.is_disturbed());
        }
        block.disturbed = between(&looks);
        Ok(())
    }

    async fn slice(&mut self, samples: u64, batch: u32, block: &mut Block) -> Outcome<()> {
        let mut last = self.context.fabric.now();
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
                        block.samples.push(ticks);
                    }
                }
                Err(error) => self.keep(error)?,
            }
        }
        Ok(())
    }

    #[inline]
    async fn batch(&mut self, batch: u32) -> Result<()> {
        for _ in 0..batch {
            (self.step)(self.iteration).await?;
            self.iteration += 1;
        }
        Ok(())
    }

    /// Tells the others when the block began and which of its slices were disturbed. `None` for a process that hangs.
    pub async fn tell(&self, block: &Block) -> Outcome<Vec<Option<Told>>> {
        let mut mine = pack(&[block.start]);
        mine.extend(block.disturbed.iter().map(|&slice| u8::from(slice)));
        let all = agree_present(self.context, &mine).await?;
        let told = |bytes: Vec<u8>| {
            let (start, slices) = bytes.split_at(bytes.len().min(8));
            Told {
                start: unpack(start).first().copied().unwrap_or(f64::NAN),
                disturbed: slices.iter().map(|&slice| slice != 0).collect(),
            }
        };
        Ok(all.into_iter().map(|bytes| bytes.map(told)).collect())
    }

    /// How well the median is known, by the timed process that knows it worst: relative half-width.
    pub async fn widest(&self, samples: &[u64]) -> Outcome<f64> {
        let width = match self.role {
            Role::Timed if self.failed.is_none() => {
                Sample::new(samples.iter().map(|&ticks| ticks as f64).collect())
                    .and_then(|sample| {
                        converge::judge(&sample, self.context.budget.target).half_width
                    })
                    .unwrap_or(f64::INFINITY)
            }
            // A process without an opinion votes infinity below zero.
            _ => f64::NEG_INFINITY,
        };
        let votes = agree_present(self.context, &pack(&[width])).await?;
        let widths = votes.iter().flatten().flat_map(|vote| unpack(vote));
        Ok(widths.fold(f64::NEG_INFINITY, f64::max))
    }

    /// Everybody's samples, for everybody.
    pub async fn collect(
        self,
        settled: Settled,
        batch: u32,
        conduct: Conduct,
        warnings: Vec<Warning>,
    ) -> Outcome<Sampled> {
        let mut mine = vec![u8::from(self.failed.is_some())];
        match &self.failed {
            Some(error) => mine.extend(error.to_string().bytes()),
            None => {
                let per = |ticks: u64| self.context.nanos(ticks) / f64::from(batch);
                let values: Vec<f64> = settled.samples.values(TOLD).into_iter().map(per).collect();
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
            operations: settled.operations,
            out,
            conduct,
            warnings,
        })
    }
}
