//! Processors, and how those that share one take turns.

use super::costs::Costs;
use super::run::run;
use crate::recorded::{Act, Program, Step};
use std::rc::Rc;
use verbena_model::kernel::Time;
use verbena_model::mpi::Member;

/// A host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Processors; rank r is at number r modulo these.
    pub processors: usize,
    /// How long who computes keeps a processor that another wants, too.
    pub turn: Time,
    /// What it takes from one that computes when its turn is over and another looks whether it need still wait.
    pub look: Time,
    /// From one that waits to the next that waits.
    pub give_way: Time,
}

/// Barriers that are run to see what one takes.
const BARRIERS: usize = 64;
/// No rank looks for longer before it gives way: 10 ms.
const LONGEST: Time = Time(10_000_000_000);

impl Machine {
    /// What giving way takes in a library, which looks for what has come before each time: so long that a barrier of all takes what it
    /// was measured to take, in nanoseconds; not less than it takes without a library.
    pub fn giving_way_as_in_barriers(self, costs: &Costs, ranks: usize, barrier: f64) -> Machine {
        let with = |give_way| Machine { give_way, ..self };
        if ranks <= self.processors {
            return self;
        }
        let wanted = Time::from_nanos(barrier);
        let (mut low, mut high) = (self.give_way, LONGEST.max(self.give_way));
        while high > low + Time(1000) {
            let middle = Time((low.0 + high.0) / 2);
            match with(middle).barrier(costs, ranks) < wanted {
                true => low = middle,
                false => high = middle,
            }
        }
        with(low)
    }

    /// What one of many takes.
    fn barrier(&self, costs: &Costs, ranks: usize) -> Time {
        let all: Rc<[usize]> = (0..ranks).collect();
        let program = |place| {
            let member = Member { place, size: ranks };
            let rounds: Rc<[_]> = member.barrier().into();
            let one = |number: usize| {
                let act = Act::Rounds {
                    rounds: rounds.clone(),
                    members: all.clone(),
                    mark: number as u32,
                };
                let (slot, call) = (0, number);
                [Step::Begin { slot, act }, Step::Wait { slot, call }]
            };
            Program {
                steps: (0..BARRIERS).flat_map(one).collect(),
            }
        };
        let ran = run(self, costs, (0..ranks).map(program).collect(), 1.0);
        // What all take part in comes to its end.
        let last = ran.map_or(Time::ZERO, |outcome| outcome.last());
        Time(last.0 / BARRIERS as u64)
    }
}
