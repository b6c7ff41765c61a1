//! Pauses between attempts to recover from a failure.

use std::time::{Duration, Instant};

use verbena_rfio_common::random::random;

/// The first pause, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// A period without success: the pauses double while there is time.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    since: Instant,
    next: Duration,
}

impl Default for Backoff {
    /// Begins now.
    fn default() -> Self {
        Self {
            since: Instant::now(),
            next: PAUSES.0,
        }
    }
}

impl Backoff {
    /// Returns whether there is time for another attempt, which must be within `timeout` of the
    /// beginning.
    pub fn has_time(&self, timeout: Duration) -> bool {
        self.since.elapsed() < timeout
    }

    /// Waits before the next attempt, but not beyond `timeout`.
    pub fn wait(&mut self, timeout: Duration) {
        let left = timeout.saturating_sub(self.since.elapsed());
        // Randomized, so that many clients of one server do not all return at once.
        let [share] = random::<1>();
        let part = self.next.mul_f64(0.5 + f64::from(share) / 512.0);
        std::thread::sleep(part.min(left));
        self.next = (2 * self.next).min(PAUSES.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_and_end_with_the_timeout() {
        let timeout = Duration::from_millis(350);
        let (mut backoff, mut pauses) = (Backoff::default(), Vec::new());
        while backoff.has_time(timeout) {
            let begun = Instant::now();
            backoff.wait(timeout);
            pauses.push(begun.elapsed());
        }
        assert!((2..=4).contains(&pauses.len()), "{pauses:?}");
        assert!(pauses.iter().sum::<Duration>() < timeout + Duration::from_millis(300));
        assert!(!Backoff::default().has_time(Duration::ZERO));
    }
}
