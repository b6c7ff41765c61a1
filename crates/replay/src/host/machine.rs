//! Processors, and how the ranks on a processor take turns.

use super::costs::Costs;
use super::run::run;
use crate::program::{Act, Program, Step};
use std::sync::Arc;
use verbena_model::kernel::Time;
use verbena_model::mpi::Member;

/// A host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    /// Number of processors; rank r runs on processor r modulo this number.
    pub processors: usize,
    /// Time slice of a computing rank on a shared processor.
    pub turn: Time,
    /// Time that a computing rank loses when its slice is over and a waiting rank polls.
    pub look: Time,
    /// Time to yield from one waiting rank to the next.
    pub give_way: Time,
}

/// Number of barriers in the calibration run.
const BARRIERS: usize = 64;
/// Upper limit of the yield time: 10 ms.
const LONGEST: Time = Time(10_000_000_000);

impl Machine {
    /// Returns the machine with the yield time of a library, which polls before each yield. It is
    /// chosen such that a barrier of all ranks takes the measured `barrier` nanoseconds; it is at
    /// least the time without a library.
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

    /// Returns the time of one of many barriers.
    fn barrier(&self, costs: &Costs, ranks: usize) -> Time {
        let all: Arc<[usize]> = (0..ranks).collect();
        let program = |place| {
            let member = Member { place, size: ranks };
            let rounds: Arc<[_]> = member.barrier().into();
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
        // All ranks take part in the barriers, so the run always ends.
        let last = ran.map_or(Time::ZERO, |outcome| outcome.last());
        Time(last.0 / BARRIERS as u64)
    }
}
