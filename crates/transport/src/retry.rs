//! Retries of a requester, and its reaction to the responder's answer (specification 9.7.6,
//! 9.9.2.1.1; ibv_modify_qp(3): timeout, retry_cnt, rnr_retry).

use verbena_wire::AckTimeout;

use crate::completion::Status;
use crate::fault::Answer;

/// Retries after a loss: 0 to 7, where 7 means seven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RetryCount(u8);

impl RetryCount {
    /// Returns the count, or `None` if it exceeds three bits.
    pub const fn new(count: u8) -> Option<Self> {
        if count < 8 { Some(Self(count)) } else { None }
    }

    /// No retry.
    pub const NONE: Self = Self(0);

    /// Returns the count.
    pub const fn value(self) -> u8 {
        self.0
    }

    /// Returns for how many nanoseconds a request is repeated without an answer, if each attempt
    /// waits for the timeout; `None` for ever.
    pub const fn patience(self, timeout: AckTimeout) -> Option<u64> {
        match timeout.nanoseconds() {
            Some(once) => Some(once.saturating_mul(self.0 as u64 + 1)),
            None => None,
        }
    }
}

/// Retries after a receiver was not ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RnrRetry {
    /// 0 to 6 times.
    Limited(u8),
    /// Unlimited: attribute value 7.
    Infinite,
}

impl RnrRetry {
    /// Returns the policy of the attribute value, or `None` above 7.
    pub const fn new(count: u8) -> Option<Self> {
        match count {
            0..=6 => Some(Self::Limited(count)),
            7 => Some(Self::Infinite),
            _ => None,
        }
    }
}

/// A requester's reaction to a request that was not executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub enum Reaction {
    /// Sends it again, as a lost one, while retries are left.
    Repeat,
    /// Sends it again after the receiver's RNR timer.
    Wait,
    /// Completes it with this status. The queue pair enters the error state.
    Fail(Status),
}

/// The RNR retry counter of a requester. An acknowledgement of a new packet reloads it.
#[derive(Debug, Clone, Copy)]
pub struct RnrRetries {
    /// The attribute value.
    limit: u8,
    left: u8,
}

impl RnrRetries {
    /// The attribute value that means unlimited.
    const INFINITE: u8 = 7;

    /// Returns a full counter.
    pub const fn new(limit: RnrRetry) -> Self {
        let limit = match limit {
            RnrRetry::Limited(count) => count,
            RnrRetry::Infinite => Self::INFINITE,
        };
        Self { limit, left: limit }
    }

    /// Returns the attribute value `rnr_retry`.
    pub const fn attribute(self) -> u8 {
        self.limit
    }

    /// Returns whether they never run out.
    pub const fn is_infinite(self) -> bool {
        self.limit == Self::INFINITE
    }

    /// Reloads the counter after progress.
    pub const fn reload(&mut self) {
        self.left = self.limit;
    }

    /// Returns the reaction to the responder's answer, and counts an RNR NAK.
    pub const fn react(&mut self, answer: Answer) -> Reaction {
        match answer {
            Answer::Silence => Reaction::Repeat,
            Answer::Nak(code) => match Status::of_refusal(code) {
                Some(status) => Reaction::Fail(status),
                None => Reaction::Repeat,
            },
            Answer::RnrNak => match (self.limit, self.left.checked_sub(1)) {
                (Self::INFINITE, _) => Reaction::Wait,
                (_, Some(left)) => {
                    self.left = left;
                    Reaction::Wait
                }
                (_, None) => Reaction::Fail(Status::RnrRetryExceeded),
            },
        }
    }
}

/// The two retry counters of a requester.
///
/// They count failures since the last progress: an acknowledgement of a new packet reloads them.
#[derive(Debug, Clone)]
pub struct Retries {
    limit: RetryCount,
    left: u8,
    rnr: RnrRetries,
}

impl Retries {
    /// Returns full counters.
    pub const fn new(limit: RetryCount, rnr_limit: RnrRetry) -> Self {
        Self {
            limit,
            left: limit.0,
            rnr: RnrRetries::new(rnr_limit),
        }
    }

    /// Reloads the counters after progress.
    pub const fn reload(&mut self) {
        self.left = self.limit.0;
        self.rnr.reload();
    }

    /// Counts a loss: a timeout, a NAK for a PSN sequence error, or an implied NAK.
    ///
    /// # Errors
    ///
    /// No retry is left; the status of the request.
    pub const fn spend(&mut self) -> Result<(), Status> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Status::RetryExceeded),
        }
    }

    /// Returns the number of losses since the last progress.
    pub const fn spent(&self) -> u8 {
        self.limit.0 - self.left
    }

    /// Returns the reaction to the responder's answer, and counts an RNR NAK. That reloads the loss
    /// counter: the receiver has answered, so nothing is lost at this moment. A request that waits
    /// long for a receive on a network with occasional losses thus does not use up the retries
    /// meant for a broken path.
    pub const fn react(&mut self, answer: Answer) -> Reaction {
        if matches!(answer, Answer::RnrNak) {
            self.left = self.limit.0;
        }
        self.rnr.react(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_wire::aeth::NakCode;

    const LOST: Result<(), Status> = Err(Status::RetryExceeded);

    #[test]
    fn a_limit_of_n_allows_n_retries() {
        for n in 0..8 {
            let mut retries = Retries::new(RetryCount::new(n).unwrap(), RnrRetry::new(n).unwrap());
            for _ in 0..n {
                assert_eq!(retries.spend(), Ok(()));
            }
            assert_eq!(retries.spend(), LOST);
            retries.reload();
            assert_eq!(retries.spend().is_ok(), n > 0);
        }
        assert_eq!(RetryCount::new(8), None);
        assert_eq!(RnrRetry::new(8), None);
    }

    #[test]
    fn an_rnr_nak_reloads_the_retry_count() {
        let mut retries = Retries::new(RetryCount::new(1).unwrap(), RnrRetry::Infinite);
        for _ in 0..1000 {
            assert_eq!(retries.spend(), Ok(()));
            assert_eq!(retries.react(Answer::RnrNak), Reaction::Wait);
        }
        assert_eq!((retries.spend(), retries.spend()), (Ok(()), LOST));
    }

    #[test]
    fn only_rnr_retry_7_is_infinite() {
        let mut retries = Retries::new(RetryCount::new(7).unwrap(), RnrRetry::new(7).unwrap());
        for _ in 0..1000 {
            assert_eq!(retries.react(Answer::RnrNak), Reaction::Wait);
        }
        let mut limited = Retries::new(RetryCount::new(7).unwrap(), RnrRetry::new(6).unwrap());
        for _ in 0..6 {
            assert_eq!(limited.react(Answer::RnrNak), Reaction::Wait);
        }
        let exceeded = Reaction::Fail(Status::RnrRetryExceeded);
        assert_eq!(limited.react(Answer::RnrNak), exceeded);
        assert_eq!((0..100).take_while(|_| retries.spend().is_ok()).count(), 7);
    }

    #[test]
    fn only_losses_are_repeated_at_once() {
        let mut retries = RnrRetries::new(RnrRetry::Infinite);
        let table = [
            (Answer::Silence, Reaction::Repeat),
            (Answer::Nak(NakCode::PsnSequenceError), Reaction::Repeat),
            (
                Answer::Nak(NakCode::InvalidRequest),
                Reaction::Fail(Status::RemoteInvalidRequest),
            ),
            (
                Answer::Nak(NakCode::RemoteAccessError),
                Reaction::Fail(Status::RemoteAccess),
            ),
            (
                Answer::Nak(NakCode::RemoteOperationalError),
                Reaction::Fail(Status::RemoteOperation),
            ),
            (Answer::RnrNak, Reaction::Wait),
        ];
        for (answer, reaction) in table {
            assert_eq!(retries.react(answer), reaction, "{answer:?}");
        }
    }

    #[test]
    fn patience_is_one_timeout_for_each_attempt() {
        let timeout = AckTimeout::from_code(10).unwrap();
        let once = timeout.nanoseconds().unwrap();
        assert_eq!(RetryCount(0).patience(timeout), Some(once));
        assert_eq!(RetryCount(7).patience(timeout), Some(8 * once));
        assert_eq!(RetryCount(7).patience(AckTimeout::INFINITE), None);
    }
}
