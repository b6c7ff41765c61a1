//! The timeline of a rank's processor until the rank's end: computing, overhead, idle. The event
//! that ends an idle span is its cause.

use std::cell::{Cell, RefCell};
use verbena_model::kernel::{Occupancy, Time};
use verbena_model::mpi::{Cause, Woken};

/// Activity of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// The program's own computing.
    Computing,
    /// Work for messages.
    Overhead,
    /// Idle until an event, with its cause if known. A rank that waits for its own adapter is its
    /// own cause.
    Nothing(Option<Cause>),
}

/// A span of time with one activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Start.
    pub start: Time,
    /// End.
    pub end: Time,
    /// Activity.
    pub activity: Activity,
}

/// A rank's timeline during the run.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    spans: RefCell<Vec<Span>>,
    /// Whether the processor's next occupancy is the program's own computing.
    computes: Cell<bool>,
}

impl Timeline {
    /// Marks the processor's next occupancy as the program's own computing.
    pub fn next_computes(&self) {
        self.computes.set(true);
    }

    /// Records an occupancy of the processor. `woken` is the event after which the rank last went
    /// on.
    pub fn turn(&self, turn: Occupancy, woken: Option<Woken>) {
        let activity = match self.computes.replace(false) {
            true => Activity::Computing,
            false => Activity::Overhead,
        };
        if turn.end == turn.start {
            return;
        }
        self.idle_until(turn.start, woken);
        self.write(Span {
            start: turn.start,
            end: turn.end,
            activity,
        });
    }

    /// Ends the rank's timeline and returns it.
    pub fn end(&self, now: Time, woken: Option<Woken>) -> Vec<Span> {
        self.idle_until(now, woken);
        let mut spans = self.spans.take();
        // Operations that were begun but not waited for may still have later occupancies.
        spans.retain(|span| span.start < now);
        if let Some(last) = spans.last_mut() {
            last.end = last.end.min(now);
        }
        spans
    }

    /// Records idle time up to `end`, if there was any.
    pub fn idle_until(&self, end: Time, woken: Option<Woken>) {
        let start = self
            .spans
            .borrow()
            .last()
            .map_or(Time::ZERO, |span| span.end);
        if start >= end {
            return;
        }
        // An earlier event did not end this idle span.
        let cause = woken
            .filter(|woken| start < woken.at && woken.at <= end)
            .map(|woken| woken.cause);
        let activity = Activity::Nothing(cause);
        self.write(Span {
            start,
            end,
            activity,
        });
    }

    /// Appends a span, merged with the previous one if it continues it.
    fn write(&self, next: Span) {
        let mut spans = self.spans.borrow_mut();
        match spans.last_mut() {
            Some(last)
                if last.activity == next.activity
                    && !matches!(next.activity, Activity::Nothing(_)) =>
            {
                last.end = next.end;
            }
            _ => spans.push(next),
        }
    }
}
