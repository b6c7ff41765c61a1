//! Retry counters of a requester (specification 9.7.6, 9.9.2.1.1; ibv_modify_qp(3): retry_cnt,
//! rnr_retry).

/// Retries after a loss: 0 to 7, where 7 means seven.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RetryCount(u8);

impl RetryCount {
    /// Returns the count, or `None` if it exceeds three bits.
    pub const fn new(count: u8) -> Option<Self> {
        if count < 8 { Some(Self(count)) } else { None }
    }

    /// Returns the count.
    pub const fn value(self) -> u8 {
        self.0
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

/// No retry is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[error("no retry is left")]
pub struct Exhausted;

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

    /// Reloads the counter after progress.
    pub const fn reload(&mut self) {
        self.left = self.limit;
    }

    /// Counts an RNR NAK.
    ///
    /// # Errors
    ///
    /// No RNR retry is left.
    pub const fn spend(&mut self) -> Result<(), Exhausted> {
        match (self.limit, self.left.checked_sub(1)) {
            (Self::INFINITE, _) => Ok(()),
            (_, Some(left)) => {
                self.left = left;
                Ok(())
            }
            (_, None) => Err(Exhausted),
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
    /// No retry is left.
    pub const fn spend(&mut self) -> Result<(), Exhausted> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Exhausted),
        }
    }

    /// Returns the number of losses since the last progress.
    pub const fn spent(&self) -> u8 {
        self.limit.0 - self.left
    }

    /// Counts an RNR NAK and reloads the loss counter: the receiver has answered, so nothing is
    /// lost at this moment. A request that waits long for a receive on a network with occasional
    /// losses thus does not use up the retries meant for a broken path.
    ///
    /// # Errors
    ///
    /// No RNR retry is left.
    pub const fn spend_rnr(&mut self) -> Result<(), Exhausted> {
        self.left = self.limit.0;
        self.rnr.spend()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_n_allows_n_retries() {
        for n in 0..8 {
            let mut retries = Retries::new(RetryCount::new(n).unwrap(), RnrRetry::new(n).unwrap());
            for _ in 0..n {
                assert_eq!(retries.spend(), Ok(()));
            }
            assert_eq!(retries.spend(), Err(Exhausted));
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
            assert_eq!(retries.spend_rnr(), Ok(()));
        }
        assert_eq!((retries.spend(), retries.spend()), (Ok(()), Err(Exhausted)));
    }

    #[test]
    fn only_rnr_retry_7_is_infinite() {
        let mut retries = Retries::new(RetryCount::new(7).unwrap(), RnrRetry::new(7).unwrap());
        for _ in 0..1000 {
            assert_eq!(retries.spend_rnr(), Ok(()));
        }
        let mut limited = Retries::new(RetryCount::new(7).unwrap(), RnrRetry::new(6).unwrap());
        assert_eq!(
            (0..100).take_while(|_| limited.spend_rnr().is_ok()).count(),
            6
        );
        assert_eq!((0..100).take_while(|_| retries.spend().is_ok()).count(), 7);
    }
}
