//! A resource that serves one request after the other at a rate: a bus, a link, an engine, a memory.
//!
//! A server is reserved, not queued at: the caller comes at the present instant and is told when its turn begins and
//! ends. As long as callers come in the order of time (they do: they come when an event happens), that is a
//! first-come-first-served queue without an event of its own.

use super::time::Time;
use std::cell::Cell;

/// When a reservation begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Its turn begins.
    pub start: Time,
    /// The server is free again.
    pub end: Time,
}

/// One server with a first-come-first-served queue of reservations.
#[derive(Debug, Default)]
pub struct Server {
    free: Cell<Time>,
    busy: Cell<Time>,
    /// The longest that a caller had to wait for its end.
    ahead: Cell<Time>,
}

impl Server {
    /// A free server.
    pub fn new() -> Server {
        Server::default()
    }

    /// Reserves `span` for a caller who comes at `arrival`.
    pub fn reserve(&self, arrival: Time, span: Time) -> Occupancy {
        let start = arrival.max(self.free.get());
        let end = start + span;
        self.free.set(end);
        self.busy.set(self.busy.get() + span);
        self.ahead.set(self.ahead.get().max(end.since(arrival)));
        Occupancy { start, end }
    }

    /// Reserves `span` for a caller who comes at `arrival` and whose last part is not there before `last`, that part
    /// taking `tail` of the span: a train of packets of which the first has come.
    pub fn reserve_train(&self, arrival: Time, span: Time, last: Time, tail: Time) -> Occupancy {
        let start = arrival.max(self.free.get());
        let end = (start + span).max(last + tail);
        self.free.set(end);
        self.busy.set(self.busy.get() + span);
        self.ahead.set(self.ahead.get().max(end.since(arrival)));
        Occupancy { start, end }
    }

    /// When it is free.
    pub fn free(&self) -> Time {
        self.free.get()
    }

    /// The longest time between a caller's coming and the end of its turn: what queued here, as time.
    pub fn longest_wait(&self) -> Time {
        self.ahead.get()
    }

    /// How long it has been reserved for in all.
    pub fn busy(&self) -> Time {
        self.busy.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_follow_each_other() {
        let server = Server::new();
        let first = server.reserve(Time(10), Time(100));
        let second = server.reserve(Time(20), Time(5));
        let third = server.reserve(Time(500), Time(1));
        assert_eq!((first.start, first.end), (Time(10), Time(110)));
        assert_eq!((second.start, second.end), (Time(110), Time(115)));
        assert_eq!(third.start, Time(500));
        assert_eq!(server.busy(), Time(106));
    }

    #[test]
    fn a_train_ends_no_earlier_than_its_last_part() {
        let server = Server::new();
        let slow = server.reserve_train(Time(0), Time(100), Time(400), Time(10));
        assert_eq!(slow.end, Time(410));
        let fast = server.reserve_train(Time(0), Time(100), Time(400), Time(10));
        assert_eq!((fast.start, fast.end), (Time(410), Time(510)));
    }
}
