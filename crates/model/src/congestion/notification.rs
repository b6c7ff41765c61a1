//! The notification point: when a receiver notifies a flow's sender of marked packets.

use crate::kernel::Time;

/// The receiver's state of a flow.
#[derive(Debug, Clone, Default)]
pub struct Notification {
    /// Earliest time of the next notification.
    next: Time,
}

impl Notification {
    /// Handles the arrival of a marked packet and returns whether to notify the sender: at most
    /// once per `interval`.
    pub fn marked(&mut self, now: Time, interval: Time) -> bool {
        let tells = now >= self.next;
        if tells {
            self.next = now + interval;
        }
        tells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_notified_once_per_interval() {
        let mut flow = Notification::default();
        let told =
            [0, 10, 49, 50, 60, 99, 240, 289, 290].map(|now| flow.marked(Time(now), Time(50)));
        let expected = [true, false, false, true, false, false, true, false, true];
        assert_eq!(told, expected);
    }
}
