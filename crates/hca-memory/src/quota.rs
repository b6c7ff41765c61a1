//! Limits on the number of objects of a kind in a process: those that the device advertises.
//!
//! The limits are for each process, because every process is a separate adapter. Queue pair
//! numbers are the one resource that the processes of a host share: 2^24 less one block, so that
//! 127 processes can each have all the queue pairs that the device advertises.

use crate::limits::{Limit, MAX_AH, MAX_CQ, MAX_PD, MAX_QP, MAX_SRQ};
use std::sync::atomic::{AtomicU32, Ordering};
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

/// Protection domains. Parent domains are names for them and not counted.
pub static PROTECTION_DOMAINS: Quota = Quota::new(&MAX_PD);
/// Address handles.
pub static ADDRESS_HANDLES: Quota = Quota::new(&MAX_AH);
/// Queue pairs.
pub static QUEUE_PAIRS: Quota = Quota::new(&MAX_QP);
/// Completion queues.
pub static COMPLETION_QUEUES: Quota = Quota::new(&MAX_CQ);
/// Shared receive queues.
pub static SHARED_RECEIVE_QUEUES: Quota = Quota::new(&MAX_SRQ);

/// Number and limit of objects of one kind.
#[derive(Debug)]
pub struct Quota {
    limit: &'static Limit,
    used: AtomicU32,
}

/// One object's share of a quota, released when dropped.
#[derive(Debug)]
pub struct QuotaShare(&'static Quota);

impl Quota {
    /// Returns an unused quota.
    pub const fn new(limit: &'static Limit) -> Quota {
        Quota {
            limit,
            used: AtomicU32::new(0),
        }
    }

    /// Takes a share for an object.
    ///
    /// # Errors
    /// ENOMEM at the limit.
    pub fn take(&'static self) -> Result<QuotaShare> {
        let mut used = self.used();
        while u64::from(used) < self.limit.get() {
            let (relaxed, more) = (Ordering::Relaxed, used + 1);
            match self
                .used
                .compare_exchange_weak(used, more, relaxed, relaxed)
            {
                Ok(_) => return Ok(QuotaShare(self)),
                Err(now) => used = now,
            }
        }
        Err(refused!(
            ENOMEM,
            "the limit of {} ({} of ibv_query_device) is reached: destroy some first",
            self.limit,
            self.limit.name
        ))
    }

    /// Returns the number of objects.
    pub fn used(&self) -> u32 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Drop for QuotaShare {
    fn drop(&mut self) {
        self.0.used.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_hca_os::errno::Errno;

    #[test]
    fn quota_refuses_beyond_the_limit_and_reuses_released_shares() {
        static LIMIT: Limit = Limit::new("few", 3);
        static FEW: Quota = Quota::new(&LIMIT);
        let mut shares: Vec<QuotaShare> = (0..3).map(|_| FEW.take().unwrap()).collect();
        assert_eq!(FEW.take().err(), Some(Errno::ENOMEM));
        shares.pop();
        shares.push(FEW.take().unwrap());
        assert_eq!(FEW.take().err(), Some(Errno::ENOMEM));
        assert!(LIMIT.lower(2));
        shares.pop();
        assert_eq!(FEW.take().err(), Some(Errno::ENOMEM));
        drop(shares);
        assert_eq!(FEW.used(), 0);
    }

    #[test]
    fn concurrent_takers_never_exceed_the_quota() {
        static LIMIT: Limit = Limit::new("shared", 8);
        static SHARED: Quota = Quota::new(&LIMIT);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        let shares: Vec<_> = (0..3).map_while(|_| SHARED.take().ok()).collect();
                        assert!(SHARED.used() <= 8);
                        drop(shares);
                    }
                });
            }
        });
        assert_eq!(SHARED.used(), 0);
    }
}
