//! When a request may start (specification 10.8.3.3, fence and ordering; 9.4.4 limits of reads and atomics).
//!
//! Requests start in the order of posting. Two things keep the next one back: a fence while reads or atomics before it
//! are unanswered, and the number of these that the responder keeps resources for (`max_rd_atomic`).

use crate::request::{Answer, Fence};

/// The reads and atomics of a requester that are not answered yet.
#[derive(Debug, Clone)]
pub struct Outstanding {
    unanswered: u32,
    limit: u32,
}

/// Whether a request may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum Start {
    /// Now.
    Now,
    /// When all reads and atomics are answered.
    AfterAll,
    /// When one read or atomic is answered.
    AfterOne,
    /// Never: the queue pair was given no read or atomic at all.
    Never,
}

impl Outstanding {
    /// None, of at most `limit` (`max_rd_atomic`).
    pub const fn new(limit: u32) -> Self {
        Self {
            unanswered: 0,
            limit,
        }
    }

    /// Another limit: it holds for what starts from now on.
    pub const fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Whether a request may start.
    pub const fn may_start(&self, answer: Answer, fence: Fence) -> Start {
        match (answer, fence) {
            (Answer::Response, _) if self.limit == 0 => Start::Never,
            (_, Fence::On) if self.unanswered > 0 => Start::AfterAll,
            (Answer::Response, _) if self.unanswered >= self.limit => Start::AfterOne,
            _ => Start::Now,
        }
    }

    /// A request has started.
    pub const fn start(&mut self, answer: Answer) {
        if matches!(answer, Answer::Response) {
            self.unanswered += 1;
        }
    }

    /// A request that had started has ended.
    pub const fn end(&mut self, answer: Answer) {
        if matches!(answer, Answer::Response) {
            self.unanswered -= 1;
        }
    }

    /// How many are unanswered.
    pub const fn unanswered(&self) -> u32 {
        self.unanswered
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Answer::{Acknowledgement, Response};

    #[test]
    fn the_table_of_starts() {
        // Limit, unanswered, answer, fence, verdict.
        let table = [
            (4, 0, Acknowledgement, Fence::Off, Start::Now),
            (4, 4, Acknowledgement, Fence::Off, Start::Now),
            (4, 1, Acknowledgement, Fence::On, Start::AfterAll),
            (4, 0, Acknowledgement, Fence::On, Start::Now),
            (4, 3, Response, Fence::Off, Start::Now),
            (4, 4, Response, Fence::Off, Start::AfterOne),
            (4, 4, Response, Fence::On, Start::AfterAll),
            (4, 0, Response, Fence::On, Start::Now),
            (0, 0, Response, Fence::Off, Start::Never),
            (0, 0, Acknowledgement, Fence::On, Start::Now),
        ];
        for (limit, unanswered, answer, fence, verdict) in table {
            let mut outstanding = Outstanding::new(limit);
            for _ in 0..unanswered {
                outstanding.start(Response);
            }
            assert_eq!(
                outstanding.may_start(answer, fence),
                verdict,
                "{limit} {unanswered}"
            );
        }
    }

    #[test]
    fn what_ends_makes_room() {
        let mut outstanding = Outstanding::new(1);
        outstanding.start(Response);
        outstanding.start(Acknowledgement);
        assert_eq!(outstanding.may_start(Response, Fence::Off), Start::AfterOne);
        outstanding.end(Acknowledgement);
        assert_eq!(outstanding.unanswered(), 1);
        outstanding.end(Response);
        assert_eq!(outstanding.may_start(Response, Fence::On), Start::Now);
    }
}
