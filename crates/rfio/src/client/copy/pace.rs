//! A copy that takes no more than its share of a line.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Bytes a second, for all lanes of a copy together. What was moved has its time afterwards, so a copy of `n` bytes takes
/// `n / rate` seconds at least, however many lanes it has.
#[derive(Debug)]
pub struct Pace {
    rate: u64,
    /// When what was moved so far has had its time.
    paid: Mutex<Option<Instant>>,
}

impl Pace {
    /// A pace of `rate` bytes a second, at least one.
    pub fn new(rate: u64) -> Self {
        Self {
            rate: rate.max(1),
            paid: Mutex::new(None),
        }
    }

    /// Waits until so many bytes more have had their time.
    pub fn wait(&self, bytes: u64) {
        let now = Instant::now();
        std::thread::sleep(self.due(now, bytes).saturating_duration_since(now));
    }

    /// When they have had it, if they were moved just now. Time in which nothing was moved is not saved up.
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
    fn all_lanes_share_one_rate() {
        let (pace, start) = (Pace::new(1000), Instant::now());
        // Three lanes that come at once wait one after the other.
        let dues: Vec<_> = (0..3).map(|_| pace.due(start, 500) - start).collect();
        assert_eq!(dues, [500, 1000, 1500].map(Duration::from_millis));
    }

    #[test]
    fn an_idle_time_is_not_saved_up() {
        let (pace, start) = (Pace::new(1000), Instant::now());
        pace.due(start, 1000);
        let later = start + Duration::from_secs(10);
        assert_eq!(pace.due(later, 1000), later + Duration::from_secs(1));
    }
}
