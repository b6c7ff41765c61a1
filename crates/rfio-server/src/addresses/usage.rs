//! Usage of the limits by one host or network.

use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

/// A token bucket: refills to the amount of one second at most.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Refill per second.
    rate: f64,
    pub(super) left: f64,
    at: Instant,
}

impl Bucket {
    pub(super) fn full(rate: u64, now: Instant) -> Self {
        let rate = rate as f64;
        Self {
            rate,
            left: rate,
            at: now,
        }
    }

    /// Returns whether anything is left. More than that may be taken, as debt: a request may be
    /// larger than the rate.
    pub(super) fn has_some(&mut self, rate: u64, now: Instant) -> bool {
        self.rate = rate as f64;
        self.left = self.left_at(now);
        self.at = self.at.max(now);
        self.left > 0.0
    }

    fn left_at(&self, now: Instant) -> f64 {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        (self.left + passed * self.rate).min(self.rate)
    }

    fn is_full(&self, now: Instant) -> bool {
        self.left_at(now) >= self.rate
    }
}

/// A host, or a network as a whole, to which limits apply.
#[derive(Debug, Default)]
pub(super) struct AddressUsage(Mutex<Used>);

#[derive(Debug, Default)]
pub(super) struct Used {
    pub(super) sessions: usize,
    pub(super) requests: Option<Bucket>,
    pub(super) bytes: Option<Bucket>,
}

impl AddressUsage {
    pub(super) fn lock(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Returns whether any bucket is not full, so that the usage must be kept.
    pub(super) fn has_used_some(&self, now: Instant) -> bool {
        let used = self.lock();
        let mut buckets = used.requests.iter().chain(&used.bytes);
        buckets.any(|bucket| !bucket.is_full(now))
    }
}
