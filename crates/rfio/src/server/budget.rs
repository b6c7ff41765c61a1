//! Memory outside the cache, bounded: what is read past the cache and what clients send on its way to a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many bytes for all sessions together.
#[derive(Debug)]
pub struct Budget {
    limit: usize,
    used: AtomicUsize,
}

/// Part of the budget, until it is dropped.
#[derive(Debug)]
pub struct Grant {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budget {
    /// A budget of `limit` bytes.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            used: AtomicUsize::new(0),
        })
    }

    /// `bytes` of it, if they are free. A request larger than the whole budget gets through when nothing else is out,
    /// so it is slow and not impossible.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<Grant> {
        let fits = |used: usize| {
            let sum = used.checked_add(bytes)?;
            (sum <= self.limit || used == 0).then_some(sum)
        };
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fits)
            .ok()?;
        Some(Grant {
            budget: Arc::clone(self),
            bytes,
        })
    }

    /// Nothing of it, for what needs next to nothing and must never wait.
    pub fn nothing(self: &Arc<Self>) -> Grant {
        Grant {
            budget: Arc::clone(self),
            bytes: 0,
        }
    }

    /// Bytes that are out.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Grant {
    /// Gives back what is more than `bytes`.
    pub fn shrink(&mut self, bytes: usize) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        self.budget.used.fetch_sub(surplus, Ordering::AcqRel);
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_and_everything_comes_back() {
        let budget = Budget::new(100);
        let first = budget.take(60).unwrap();
        assert!(budget.take(41).is_none());
        let second = budget.take(40).unwrap();
        drop(first);
        assert_eq!(budget.used(), 40);
        let mut third = budget.take(50).unwrap();
        third.shrink(10);
        third.shrink(30);
        assert_eq!(budget.used(), 50);
        drop((third, budget.nothing()));
        assert!(
            budget.take(usize::MAX).is_none(),
            "a sum that overflows does not fit"
        );
        drop(second);
        assert!(
            budget.take(1000).is_some(),
            "alone, even a large one gets through"
        );
    }
}
