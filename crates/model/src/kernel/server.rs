//! A resource that serves requests one after another at a rate: a bus, a link, an engine, a memory.
//!
//! A server is reserved, not queued at: the caller passes the present instant and gets the start
//! and end of its turn. As long as callers come in time order (they do: they run when an event
//! happens), that is a first-come-first-served queue without its own event.

use super::time::Time;
use std::cell::Cell;

/// Start and end of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Start of the turn.
    pub start: Time,
    /// End of the turn: the server is free again.
    pub end: Time,
}

/// One server with a first-come-first-served queue of reservations.
#[derive(Debug, Default)]
pub struct Server {
    free: Cell<Time>,
    busy: Cell<Time>,
    /// Longest time from a caller's arrival to the end of its turn.
    ahead: Cell<Time>,
}

impl Server {
    /// Creates a free server.
    pub fn new() -> Server {
        Server::default()
    }

    /// Reserves `span` for a caller that arrives at `arrival`.
    pub fn reserve(&self, arrival: Time, span: Time) -> Occupancy {
        let start = arrival.max(self.free.get());
        let end = start + span;
        self.free.set(end);
        self.busy.set(self.busy.get() + span);
        self.ahead.set(self.ahead.get().max(end.since(arrival)));
        Occupancy { start, end }
    }

    /// Reserves `span` for a batch of packets whose first arrives at `arrival` and whose last
    /// arrives no earlier than `last`; the last takes `tail` of the span.
    pub fn reserve_train(&self, arrival: Time, span: Time, last: Time, tail: Time) -> Occupancy {
        let start = arrival.max(self.free.get());
        let end = (start + span).max(last + tail);
        self.free.set(end);
        self.busy.set(self.busy.get() + span);
        self.ahead.set(self.ahead.get().max(end.since(arrival)));
        Occupancy { start, end }
    }

    /// Returns the instant from which the server is free.
    pub fn free(&self) -> Time {
        self.free.get()
    }

    /// Returns the longest time from a caller's arrival to the end of its turn: the queue length as
    /// time.
    pub fn longest_wait(&self) -> Time {
        self.ahead.get()
    }

    /// Returns the total reserved time.
    pub fn busy(&self) -> Time {
        self.busy.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_served_in_order() {
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
