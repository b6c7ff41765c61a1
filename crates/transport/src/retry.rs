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

/// The two retry counters of a requester.
///
/// They count failures since the last progress: an acknowledgement of a new packet reloads them.
#[derive(Debug, Clone)]
pub struct Retries {
    limit: RetryCount,
    rnr_limit: RnrRetry,
    left: u8,
    rnr_left: u8,
}

impl Retries {
    /// Returns full counters.
    pub const fn new(limit: RetryCount, rnr_limit: RnrRetry) -> Self {
        let mut retries = Self {
            limit,
            rnr_limit,
            left: 0,
            rnr_left: 0,
        };
        retries.reload();
        retries
    }

    /// Reloads the counters after progress.
    pub const fn reload(&mut self) {
        self.left = self.limit.0;
        self.rnr_left = match self.rnr_limit {
            RnrRetry::Limited(count) => count,
            RnrRetry::Infinite => 0,
        };
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
        match (self.rnr_limit, self.rnr_left.checked_sub(1)) {
            (RnrRetry::Infinite, _) => Ok(()),
            (RnrRetry::Limited(_), Some(left)) => {
                self.rnr_left = left;
                Ok(())
            }
            (RnrRetry::Limited(_), None) => Err(Exhausted),
        }
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
