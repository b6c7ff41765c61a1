//! Whether the processors were all ours (rule 5). Nothing that was measured is removed for it: what an adapter's own threads
//! take, and what a neighbour takes, look the same from here, and the first belongs to the figure. It is said beside it.

use crate::context::Context;
use verbena_fabric::Fabric;
use verbena_measure::pace;
use verbena_measure::warning::Warning;

/// When more of the looks than this found a slower processor, the point says so.
const OFTEN: f64 = 0.5;

/// Looks, between blocks, whether this processor runs at its full speed.
pub struct Watch<'a, F> {
    fabric: &'a F,
    /// Ticks from which on it does not; `None` where nobody knows what full speed is, as in virtual time.
    limit: Option<f64>,
    /// What was seen.
    pub seen: Looks,
}

/// Looks, and how many of them found the processor slower.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Looks {
    pub all: f64,
    pub slow: f64,
}

impl<'a, F: Fabric> Watch<'a, F> {
    /// For points with so many processes at work. More than there are processors disturb each other always; then nobody
    /// looks.
    pub fn new(context: &Context<'a, F>, processes: usize) -> Watch<'a, F> {
        let nanos_per_tick = context.fabric.clock().nanos_per_tick;
        let crowded = context.options.cores.is_some_and(|cores| processes > cores);
        let pace = context.options.paces.of(processes);
        let limit = pace.filter(|_| !crowded);
        Watch {
            fabric: context.fabric,
            limit: limit.map(|nanos| nanos / nanos_per_tick * pace::DISTURBED),
            seen: Looks::default(),
        }
    }

    /// One look.
    pub fn look(&mut self) {
        if let Some(limit) = self.limit {
            self.seen.all += 1.0;
            self.seen.slow += f64::from(u8::from(pace::slower_than(limit, || self.fabric.now().0)));
        }
    }
}

impl Looks {
    /// Of several processes.
    pub fn together(looks: impl Iterator<Item = Looks>) -> Looks {
        looks.fold(Looks::default(), |sum, one| Looks {
            all: sum.all + one.all,
            slow: sum.slow + one.slow,
        })
    }

    /// The share that found a processor slower; `None` where nobody looked.
    pub fn share(self) -> Option<f64> {
        (self.all > 0.0).then(|| self.slow / self.all)
    }

    /// What to say of it.
    pub fn warning(self) -> Option<Warning> {
        let share = self.share().filter(|share| *share > OFTEN)?;
        Some(Warning::Disturbed { share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_looks_of_all_processes_count() {
        let looks = |all, slow| Looks { all, slow };
        let together = Looks::together([looks(4.0, 4.0), looks(4.0, 0.0)].into_iter());
        assert_eq!(together.share(), Some(0.5));
        assert_eq!(together.warning(), None);
        assert!(looks(4.0, 3.0).warning().is_some());
        assert_eq!(Looks::default().share(), None);
    }
}
