//! What a rank's processor did, all the time until it ended: computing, overhead, nothing. What it had nothing to do for is known by what
//! it went on with.

use std::cell::{Cell, RefCell};
use verbena_model::kernel::{Occupancy, Time};
use verbena_model::mpi::{Cause, Woken};

/// What a processor does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// The program's own computing.
    Computing,
    /// What messages take.
    Overhead,
    /// Nothing, until something came: whose doing, if that is known. What a rank waits for at its own adapter is its own.
    Nothing(Option<Cause>),
}

/// A while in which it did one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// From when.
    pub start: Time,
    /// Until when.
    pub end: Time,
    /// What.
    pub deed: Deed,
}

/// A rank's diary while it is written.
#[derive(Debug, Default)]
pub(super) struct Diary {
    spans: RefCell<Vec<Span>>,
    /// Whether the next turn is the program's own.
    computes: Cell<bool>,
}

impl Diary {
    /// The processor's next turn is the program's own.
    pub fn next_computes(&self) {
        self.computes.set(true);
    }

    /// The processor has a turn, by what the rank went on with before.
    pub fn turn(&self, turn: Occupancy, woken: Option<Woken>) {
        let deed = match self.computes.replace(false) {
            true => Deed::Computing,
            false => Deed::Overhead,
        };
        if turn.end == turn.start {
            return;
        }
        self.idle_until(turn.start, woken);
        self.write(Span {
            start: turn.start,
            end: turn.end,
            deed,
        });
    }

    /// The rank has ended.
    pub fn end(&self, now: Time, woken: Option<Woken>) -> Vec<Span> {
        self.idle_until(now, woken);
        let mut spans = self.spans.take();
        // What it has begun and does not wait for may have turns that are still to come.
        spans.retain(|span| span.start < now);
        if let Some(last) = spans.last_mut() {
            last.end = last.end.min(now);
        }
        spans
    }

    /// The processor has had nothing to do until then, if it had not.
    pub fn idle_until(&self, end: Time, woken: Option<Woken>) {
        let start = self
            .spans
            .borrow()
            .last()
            .map_or(Time::ZERO, |span| span.end);
        if start >= end {
            return;
        }
        // What it went on with before did not end this.
        let cause = woken
            .filter(|woken| start < woken.at && woken.at <= end)
            .map(|woken| woken.cause);
        let deed = Deed::Nothing(cause);
        self.write(Span { start, end, deed });
    }

    /// Adds what comes next; what goes on is one span.
    fn write(&self, next: Span) {
        let mut spans = self.spans.borrow_mut();
        match spans.last_mut() {
            Some(last) if last.deed == next.deed && !matches!(next.deed, Deed::Nothing(_)) => {
                last.end = next.end;
            }
            _ => spans.push(next),
        }
    }
}
