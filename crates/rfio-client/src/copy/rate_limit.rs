//! Rate limit of a copy.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A rate limit in bytes per second, shared by all sessions of a copy. The delay follows the data,
/// so a copy of `n` bytes takes at least `n / rate` seconds with any number of sessions.
#[derive(Debug)]
pub struct RateLimit {
    rate: u64,
    /// When the data moved so far will have used up its time.
    paid: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// Makes a limit of `rate` bytes per second, at least one.
    pub fn new(rate: u64) -> Self {
        Self {
            rate: rate.max(1),
            paid: Mutex::new(None),
        }
    }

    /// Waits until the data moved so far and `bytes` more have used up their time at this rate.
    pub fn wait(&self, bytes: u64) {
        let now = Instant::now();
        std::thread::sleep(self.due(now, bytes).saturating_duration_since(now));
    }

    /// Returns the end of that wait for `bytes` moved at `now`. Idle time is not credited.
    fn due(&self, now: Instant, bytes: u64) -> Instant {
        let mut paid = self
            .paid
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        let took = Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        let due = paid.unwrap_or(now).max(now) + took;
        *paid = Some(due);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sessions_share_one_rate() {
        let (rate_limit, start) = (RateLimit::new(1000), Instant::now());
        // Three sessions at the same time wait one after the other.
        let dues: Vec<_> = (0..3).map(|_| rate_limit.due(start, 500) - start).collect();
        assert_eq!(dues, [500, 1000, 1500].map(Duration::from_millis));
    }

    #[test]
    fn an_idle_time_is_not_saved_up() {
        let (rate_limit, start) = (RateLimit::new(1000), Instant::now());
        rate_limit.due(start, 1000);
        let later = start + Duration::from_secs(10);
        assert_eq!(rate_limit.due(later, 1000), later + Duration::from_secs(1));
    }
}
