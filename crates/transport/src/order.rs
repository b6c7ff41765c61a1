//! Start conditions of requests (specification 10.8.3.3, fence and ordering; 9.4.4 limits of reads
//! and atomics).
//!
//! Requests start in the order of posting. Two conditions delay the next one: a fence while earlier
//! reads or atomics are outstanding, and the limit of outstanding reads and atomics, for which the
//! responder keeps resources (`max_rd_atomic`).

use crate::fault::Fault;
use crate::request::{Answer, Fence};

/// Counts a requester's outstanding reads and atomics.
#[derive(Debug, Clone)]
pub struct Outstanding {
    unanswered: u32,
    limit: u32,
}

/// When a request may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum Start {
    /// Immediately.
    Now,
    /// After all outstanding reads and atomics.
    AfterAll,
    /// After one outstanding read or atomic.
    AfterOne,
    /// Never: the queue pair permits no reads or atomics.
    Never,
}

impl Outstanding {
    /// Returns a counter at zero with this limit (`max_rd_atomic`).
    pub const fn new(limit: u32) -> Self {
        Self {
            unanswered: 0,
            limit,
        }
    }

    /// Changes the limit for requests that start from now on.
    pub const fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Returns the limit.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Returns when a request may start.
    #[inline]
    pub const fn may_start(&self, answer: Answer, fence: Fence) -> Start {
        match (answer, fence) {
            (Answer::Response, _) if self.limit == 0 => Start::Never,
            (_, Fence::On) if self.unanswered > 0 => Start::AfterAll,
            (Answer::Response, _) if self.unanswered >= self.limit => Start::AfterOne,
            _ => Start::Now,
        }
    }

    /// Records that a request has started.
    #[inline]
    pub const fn start(&mut self, answer: Answer) {
        if matches!(answer, Answer::Response) {
            self.unanswered += 1;
        }
    }

    /// Records that all started requests have ended.
    pub const fn clear(&mut self) {
        self.unanswered = 0;
    }

    /// Records that a started request has ended.
    #[inline]
    pub const fn end(&mut self, answer: Answer) {
        if matches!(answer, Answer::Response) {
            self.unanswered -= 1;
        }
    }
}

/// Checks that a responder has resources for reads and atomics (`max_dest_rd_atomic`).
///
/// # Errors
///
/// [`Fault::UnsupportedOpcode`]: the queue pair has none, so it accepts no such request.
#[inline]
pub const fn check_resources(max_dest_rd_atomic: u32) -> Result<(), Fault> {
    match max_dest_rd_atomic {
        0 => Err(Fault::UnsupportedOpcode),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Answer::{Acknowledgement, Response};

    #[test]
    fn requests_start_by_the_ordering_table() {
        // Limit, outstanding, answer, fence, verdict.
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
    fn an_ended_request_frees_its_slot() {
        let mut outstanding = Outstanding::new(1);
        outstanding.start(Response);
        outstanding.start(Acknowledgement);
        assert_eq!(outstanding.may_start(Response, Fence::Off), Start::AfterOne);
        outstanding.end(Acknowledgement);
        outstanding.end(Response);
        assert_eq!(outstanding.may_start(Response, Fence::On), Start::Now);
    }
}
