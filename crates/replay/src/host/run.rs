//! Runs ranks on their processors.
//!
//! A processor with several ranks gives each a time slice. A rank that starts to wait yields at
//! once; if all wait, the first one with a message gets the processor. A rank that works to the end
//! of its slice while others wait is interrupted by their polling.

use super::costs::Costs;
use super::machine::Machine;
use super::mail::Mail;
use super::rank::{Next, Rank};
use crate::player::{Endless, Parts, last};
use crate::program::Program;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use verbena_model::kernel::Time;

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRun {
    /// Times of each rank. Overhead is its own work for messages; waiting is the rest, including
    /// waiting for a processor.
    pub ranks: Vec<Parts>,
}

impl HostRun {
    /// Returns the time when all ranks have ended.
    pub fn last(&self) -> Time {
        last(&self.ranks)
    }
}

/// Runs the program of each rank; computing takes `scale` times the recorded time.
///
/// # Errors
///
/// Returns [`Endless`] if a rank never finishes.
pub fn run(
    machine: &Machine,
    costs: &Costs,
    programs: Vec<Program>,
    scale: f64,
) -> Result<HostRun, Endless> {
    let mail = RefCell::new(Mail::default());
    let ranks = programs
        .into_iter()
        .enumerate()
        .map(|(number, program)| Rank::new(number, program, scale, costs, &mail));
    let mut host = Host {
        machine,
        ranks: ranks.collect(),
        worked: Vec::new(),
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

struct Processor {
    ranks: Vec<usize>,
    /// Index of the rank whose slice it is, and the end of the slice.
    at: usize,
    until: Time,
    /// Start of the current rank's work; `None` if it does not work.
    since: Option<Time>,
    /// A rank of this processor can go on, and its poll is scheduled.
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
    ranks: Vec<Rank<'a>>,
    /// Work time of each rank.
    worked: Vec<Time>,
    processors: Vec<Processor>,
    /// Scheduled events by time and processor; simultaneous ones are ordered by processor.
    calendar: BinaryHeap<Reverse<(Time, usize)>>,
}

impl Host<'_> {
    fn run(mut self) -> Result<HostRun, Endless> {
        for number in 0..self.processors.len() {
            self.calendar.push(Reverse((Time::ZERO, number)));
        }
        while let Some(Reverse((now, number))) = self.calendar.pop() {
            self.work_is_over(number, now);
            self.go_on(number, now);
        }
        if let Some(rank) = self.ranks.iter().position(|rank| rank.end.is_none()) {
            let call = self.ranks[rank].call();
            return Err(Endless { rank, call });
        }
        let parts = self.ranks.iter().zip(&self.worked).map(|(rank, worked)| {
            let end = rank.end.unwrap_or_default();
            Parts::of(rank.computing(), *worked, end)
        });
        Ok(HostRun {
            ranks: parts.collect(),
        })
    }

    /// Accounts for the current rank's work up to now.
    fn work_is_over(&mut self, number: usize, now: Time) {
        let processor = &mut self.processors[number];
        processor.due = false;
        let Some(since) = processor.since.take() else {
            return;
        };
        let rank = processor.ranks[processor.at];
        let span = now.since(since);
        self.worked[rank] += span;
        if let Some(other) = self.ranks[rank].worked(span) {
            self.tell(other, now);
        }
    }

    /// A rank can go on. An idle processor notices it at once.
    fn tell(&mut self, rank: usize, now: Time) {
        let number = rank % self.machine.processors;
        let processor = &mut self.processors[number];
        if processor.since.is_some() || processor.due {
            return;
        }
        processor.due = true;
        // All of its ranks poll in turn, so on average half of the others poll before this one.
        let others = processor.ranks.len() as f64 - 1.0;
        let seen = now + self.machine.give_way.scaled(others / 2.0);
        processor.at = rank / self.machine.processors;
        processor.until = seen + self.machine.turn;
        self.calendar.push(Reverse((seen, number)));
    }

    /// Gives the processor to the next rank that needs it.
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
            match self.ranks[rank].next(begins) {
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
