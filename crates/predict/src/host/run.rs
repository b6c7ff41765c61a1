//! Ranks on their processors.
//!
//! A processor with several ranks gives each a turn. Who comes to wait gives way at once, and if all wait the processor is theirs who
//! first gets something; who works to the end of its turn while others wait is interrupted by their look.

use super::costs::Costs;
use super::machine::Machine;
use super::rank::{Next, Post, Rank};
use crate::recorded::{Parts, Program};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use verbena_model::kernel::Time;

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Of each rank; its overhead is its own work for messages, its waiting all else, also for a processor.
    pub ranks: Vec<Parts>,
}

impl Outcome {
    /// When all had ended.
    pub fn last(&self) -> Time {
        let ends = self.ranks.iter().map(|rank| rank.end);
        ends.max().unwrap_or_default()
    }
}

/// A rank waits for what does not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rank {rank} does not come out of its call {call} (from 0)")]
pub struct Endless {
    /// Which rank.
    pub rank: usize,
    /// The call's place in the trace.
    pub call: usize,
}

/// Runs the program of each rank; computing takes `scale` times what it took.
pub fn run(
    machine: &Machine,
    costs: &Costs,
    programs: Vec<Program>,
    scale: f64,
) -> Result<Outcome, Endless> {
    let ranks = programs
        .into_iter()
        .enumerate()
        .map(|(number, program)| Rank::new(number, program, scale));
    let mut host = Host {
        machine,
        costs,
        ranks: ranks.collect(),
        worked: Vec::new(),
        post: Post::default(),
        processors: Vec::new(),
        calendar: BinaryHeap::new(),
    };
    host.worked = vec![Time::ZERO; host.ranks.len()];
    host.processors = (0..machine.processors)
        .map(|number| {
            let mine = (number..host.ranks.len()).step_by(machine.processors);
            Processor::of(mine.collect(), machine.turn)
        })
        .collect();
    host.run()
}

/// A processor and its ranks.
struct Processor {
    ranks: Vec<usize>,
    /// Whose turn it is, by its place, and until when.
    at: usize,
    until: Time,
    /// Since when the one at work has been.
    since: Option<Time>,
    /// Somebody of it has got something for which it is due to look.
    due: bool,
}

impl Processor {
    fn of(ranks: Vec<usize>, turn: Time) -> Processor {
        Processor {
            ranks,
            at: 0,
            until: turn,
            since: None,
            due: false,
        }
    }

    fn next(&mut self, begins: Time, turn: Time) {
        self.at = (self.at + 1) % self.ranks.len();
        self.until = begins + turn;
    }
}

struct Host<'a> {
    machine: &'a Machine,
    costs: &'a Costs,
    ranks: Vec<Rank>,
    /// What each has worked.
    worked: Vec<Time>,
    post: Post,
    processors: Vec<Processor>,
    /// When which processor has something to do; of the same instant in the order of coming.
    calendar: BinaryHeap<Reverse<(Time, usize)>>,
}

impl Host<'_> {
    fn run(mut self) -> Result<Outcome, Endless> {
        for number in 0..self.processors.len() {
            self.calendar.push(Reverse((Time::ZERO, number)));
        }
        while let Some(Reverse((now, number))) = self.calendar.pop() {
            self.work_is_over(number, now);
            self.go_on(number, now);
        }
        if let Some(rank) = self.ranks.iter().position(|rank| rank.end.is_none()) {
            let call = self.ranks[rank].call;
            return Err(Endless { rank, call });
        }
        let parts = self.ranks.iter().zip(&self.worked).map(|(rank, worked)| {
            let end = rank.end.unwrap_or_default();
            Parts {
                computing: rank.computing,
                overhead: worked.since(rank.computing),
                waiting: end.since(*worked),
                end,
            }
        });
        Ok(Outcome {
            ranks: parts.collect(),
        })
    }

    /// Who was at work has been until now.
    fn work_is_over(&mut self, number: usize, now: Time) {
        let processor = &mut self.processors[number];
        processor.due = false;
        let Some(since) = processor.since.take() else {
            return;
        };
        let rank = processor.ranks[processor.at];
        let span = now.since(since);
        self.worked[rank] += span;
        if let Some(other) = self.ranks[rank].worked(span, &mut self.post) {
            self.tell(other, now);
        }
    }

    /// A rank may go on, which is seen at once if its processor has nothing else to do.
    fn tell(&mut self, rank: usize, now: Time) {
        let number = rank % self.machine.processors;
        let processor = &mut self.processors[number];
        if processor.since.is_some() || processor.due {
            return;
        }
        processor.due = true;
        // All of its ranks look in turn, so that half of the others do before this one on average.
        let others = processor.ranks.len() as f64 - 1.0;
        let seen = now + self.machine.give_way.scaled(others / 2.0);
        processor.at = rank / self.machine.processors;
        processor.until = seen + self.machine.turn;
        self.calendar.push(Reverse((seen, number)));
    }

    /// Gives the processor to the next who needs it.
    fn go_on(&mut self, number: usize, now: Time) {
        let Machine { turn, look, .. } = *self.machine;
        let ranks = self.processors[number].ranks.len();
        let (mut begins, mut waited) = (now, 0);
        if ranks > 1 && now >= self.processors[number].until {
            self.processors[number].next(now, turn);
            begins += look;
        }
        while waited < ranks {
            let rank = self.processors[number].ranks[self.processors[number].at];
            match self.ranks[rank].next(begins, self.costs, &mut self.post) {
                Next::Work(span) => {
                    let processor = &mut self.processors[number];
                    let most = match ranks {
                        1 => span,
                        _ => span.min(processor.until.since(begins).max(Time(1))),
                    };
                    processor.since = Some(begins);
                    self.calendar.push(Reverse((begins + most, number)));
                    return;
                }
                Next::Waits | Next::Ended => {
                    waited += 1;
                    if ranks > 1 {
                        begins += self.machine.give_way;
                        self.processors[number].next(begins, turn);
                    }
                }
            }
        }
    }
}
