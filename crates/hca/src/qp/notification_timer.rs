//! When a queue pair notifies its peer of congestion again.

/// Nanoseconds between notifications of a queue pair: by then the sender has halved its rate, and
/// would halve it again each time.
const INTERVAL: u64 = 50_000;

/// Time of the last notification.
#[derive(Debug, Default)]
pub(crate) struct NotificationTimer(Option<u64>);

impl NotificationTimer {
    /// Returns whether another notification is due, and records it as sent.
    pub(super) fn try_restart(&mut self, now: u64) -> bool {
        let is_time = self.0.is_none_or(|last| now >= last + INTERVAL);
        if is_time {
            self.0 = Some(now);
        }
        is_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_notifications_are_rate_limited() {
        let mut notification_timer = NotificationTimer::default();
        let times = [0, 1, INTERVAL - 1, INTERVAL, INTERVAL + 1, 2 * INTERVAL];
        assert_eq!(
            times.map(|now| notification_timer.try_restart(now)),
            [true, false, false, true, false, true]
        );
    }
}
