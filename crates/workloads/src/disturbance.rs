//! Detects other load on the processors and unusual placement (rule 5). A block begins when the
//! processors are undisturbed, as far as waiting for that is possible. No measurement is removed:
//! an adapter's threads and a neighbour's load look alike here, and the former belong to the
//! result. The result states the disturbance.
//!
//! Processors of a virtual machine are threads of its host, which may share a core with a
//! neighbour's or with each other, and move: on a machine of 2 processors a cache line took 17, 51
//! or 208 ns between them, and a message 195, 200 or 390, for a second or a minute each.

use crate::agreement::{Outcome, agree_present, pack, unpack};
use crate::context::Context;
use crate::sampling::Role;
use std::time::{Duration, Instant};
use verbena_fabric::{Fabric, Group, Result};
use verbena_measure::pace;
use verbena_measure::warning::Warning;

/// Fraction of checks that found a slow processor above which the point has a warning.
const OFTEN: f64 = 0.5;
/// Factor by which a cache line's time deviates from the usual if its path is unusual.
const ELSEWHERE: f64 = 1.5;
/// Interval between checks while waiting, spent computing, because idle processors are woken,
/// slowed and moved.
const PAUSE: Duration = Duration::from_millis(1);

/// Checks, between blocks, whether this processor runs at full speed.
pub struct SpeedMonitor<'a, F> {
    fabric: &'a F,
    /// Whether processes wait for undisturbed processors: the same in all processes of the job.
    waits: bool,
    /// Minimum duration of a slow computation in ticks; `None` if full speed is unknown, as in
    /// virtual time, or this machine has fewer processors than active processes.
    limit: Option<f64>,
    /// Usual time of a cache line between two processors.
    usual: Option<f64>,
    /// Whether the cache line's time was unusual at the beginning of the block.
    elsewhere: bool,
    /// Results of the checks.
    pub seen: SpeedChecks,
}

/// Number of checks, and of those that found a slow processor.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SpeedChecks {
    pub all: f64,
    pub slow: f64,
}

impl<'a, F: Fabric> SpeedMonitor<'a, F> {
    /// Returns a watch for points with this many active processes. If they exceed the processors
    /// they always disturb each other, so no checks are made.
    pub fn new(context: &Context<'a, F>, processes: usize) -> SpeedMonitor<'a, F> {
        let nanos_per_tick = context.fabric.clock().nanos_per_tick;
        let crowded = context.options.cores.is_some_and(|cores| processes > cores);
        let pace = context.options.paces.of(processes);
        let limit = pace.filter(|_| !crowded);
        SpeedMonitor {
            fabric: context.fabric,
            waits: pace.is_some(),
            limit: limit.map(|nanos| nanos / nanos_per_tick * pace::DISTURBED),
            usual: context.options.floor_latency,
            elsewhere: false,
            seen: SpeedChecks::default(),
        }
    }

    /// Makes a check.
    pub fn check(&mut self) {
        if let Some(limit) = self.limit {
            let slow = pace::slower_than(limit, || self.fabric.now().0);
            self.seen.add(slow || self.elsewhere);
        }
    }

    /// Waits, with all processes of the job, until the processors of `members` are undisturbed, or
    /// until the waiting time is used up. Returns `false` if a process hangs: then no further joint
    /// measurement is possible.
    pub async fn rest(
        &mut self,
        context: &Context<'_, F>,
        members: &[usize],
        role: Role,
    ) -> Outcome<bool> {
        if !self.waits {
            return Ok(true);
        }
        // All processes vote, also those of a machine that makes no checks: others may have more
        // processors.
        let works = role != Role::Idle && self.limit.is_some();
        loop {
            let since = Instant::now();
            self.elsewhere = works && self.is_elsewhere(members).await?;
            let limit = self.limit.unwrap_or(f64::INFINITY);
            let slow = works && pace::slower_than(limit, || self.fabric.now().0);
            let ballot = [self.elsewhere || slow, context.waiting_budget.is_over()];
            let votes = agree_present(context, &pack(&ballot.map(f64::from))).await?;
            let votes: Option<Vec<Vec<f64>>> = votes
                .iter()
                .map(|vote| vote.as_deref().map(unpack))
                .collect();
            let Some(votes) = votes else {
                return Ok(false);
            };
            let disturbed = votes.iter().any(|vote| vote.first() == Some(&1.0));
            // All follow the first process's decision.
            let over = votes.first().and_then(|vote| vote.get(1)) == Some(&1.0);
            if !disturbed || over {
                return Ok(true);
            }
            context.fabric.compute(PAUSE).await;
            // With the exchange, which takes far longer than the pause on a loaded machine: else
            // the share of the benchmark's duration would grow faster than the time waited. In
            // virtual time no real time passes here.
            context.waiting_budget.add(since.elapsed().max(PAUSE));
        }
    }

    /// Returns whether the two active processes' distance is unusual.
    async fn is_elsewhere(&self, members: &[usize]) -> Result<bool> {
        // Also without a usual value: the measurement needs both processes.
        let now = self.fabric.group().line_time(members).await?;
        let is_unusual = |(now, usual)| now > usual * ELSEWHERE || now < usual / ELSEWHERE;
        Ok(now.zip(self.usual).is_some_and(is_unusual))
    }
}

impl SpeedChecks {
    fn add(&mut self, slow: bool) {
        self.all += 1.0;
        self.slow += f64::from(slow);
    }

    /// Returns the sum over several processes.
    pub fn together(checks: impl Iterator<Item = SpeedChecks>) -> SpeedChecks {
        checks.fold(SpeedChecks::default(), |sum, one| SpeedChecks {
            all: sum.all + one.all,
            slow: sum.slow + one.slow,
        })
    }

    /// Returns the fraction that found a slow processor; `None` without checks.
    pub fn share(self) -> Option<f64> {
        (self.all > 0.0).then(|| self.slow / self.all)
    }

    /// Returns the warning, if it applies.
    pub fn warning(self) -> Option<Warning> {
        let share = self.share().filter(|share| *share > OFTEN)?;
        Some(Warning::Disturbed { share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_all_processes_are_combined() {
        let checks = |all, slow| SpeedChecks { all, slow };
        let together = SpeedChecks::together([checks(4.0, 4.0), checks(4.0, 0.0)].into_iter());
        assert_eq!(together.share(), Some(0.5));
        assert_eq!(together.warning(), None);
        assert!(checks(4.0, 3.0).warning().is_some());
        assert_eq!(SpeedChecks::default().share(), None);
    }
}
