//! What happened when, for who asks: named spans of virtual time. Recording costs a look at a flag while nobody does.

use super::executor::Sim;
use super::time::Time;
use std::cell::{Cell, RefCell};

/// Something that took a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// When it began.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// What it was.
    pub stage: &'static str,
    /// Where, as the model numbers places.
    pub place: usize,
}

/// Spans that have been recorded.
#[derive(Default)]
pub(super) struct Trace {
    recording: Cell<bool>,
    spans: RefCell<Vec<Span>>,
}

impl Sim {
    /// Records spans from now on.
    pub fn record_spans(&self) {
        self.trace().recording.set(true);
    }

    /// Something took from `start` to `end`, which may lie ahead.
    pub fn span(&self, stage: &'static str, place: usize, start: Time, end: Time) {
        let trace = self.trace();
        if trace.recording.get() {
            trace.spans.borrow_mut().push(Span {
                start,
                end,
                stage,
                place,
            });
        }
    }

    /// Takes what has been recorded so far.
    pub fn take_spans(&self) -> Vec<Span> {
        std::mem::take(&mut self.trace().spans.borrow_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_asks_gets_spans() {
        let sim = Sim::new();
        sim.span("wire", 0, Time(1), Time(2));
        assert_eq!(sim.take_spans(), []);
        sim.record_spans();
        sim.span("wire", 1, Time(3), Time(9));
        let span = Span {
            start: Time(3),
            end: Time(9),
            stage: "wire",
            place: 1,
        };
        assert_eq!((sim.take_spans(), sim.take_spans()), (vec![span], vec![]));
    }
}
