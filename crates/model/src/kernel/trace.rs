//! Optional trace of named spans of virtual time. While disabled, recording costs one flag check.

use super::executor::Sim;
use super::time::Time;
use std::cell::{Cell, RefCell};

/// A named interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Start.
    pub start: Time,
    /// End.
    pub end: Time,
    /// Name of the stage.
    pub stage: &'static str,
    /// Location, as numbered by the model.
    pub place: usize,
}

#[derive(Default)]
pub(super) struct Trace {
    recording: Cell<bool>,
    spans: RefCell<Vec<Span>>,
}

impl Sim {
    /// Starts recording spans.
    pub fn record_spans(&self) {
        self.trace().recording.set(true);
    }

    /// Returns whether spans are recorded.
    #[inline]
    pub(crate) fn records(&self) -> bool {
        self.trace().recording.get()
    }

    /// Records that `stage` took from `start` to `end`, which may lie in the future.
    #[inline]
    pub fn span(&self, stage: &'static str, place: usize, start: Time, end: Time) {
        if self.records() {
            self.trace().spans.borrow_mut().push(Span {
                start,
                end,
                stage,
                place,
            });
        }
    }

    /// Takes the spans recorded so far.
    pub fn take_spans(&self) -> Vec<Span> {
        std::mem::take(&mut self.trace().spans.borrow_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_recorded_only_on_request() {
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
