//! Event moderation: gathers completions before an event is raised (ibv_modify_cq(3)).
//!
//! Without side effects: time is an argument. An event is due as soon as `count` completions were
//! gathered or `period` has passed since the first of them, whichever comes first; so a count of 0
//! or 1, or a period of 0, moderates nothing.

/// Decision on a completion that would raise an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModerationVerdict {
    /// Raise the event.
    Raise,
    /// Wait for more, at most until this time. Returned once for each gathering.
    WaitUntil(u64),
    /// Wait for more; the time is known already.
    Wait,
}

/// Parameters and state of a queue's moderation. Times are nanoseconds of one clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moderation {
    count: u32,
    period: u64,
    gathered: u32,
    deadline: u64,
}

impl Moderation {
    /// Returns moderation that gathers `count` completions, for at most `period` nanoseconds.
    pub fn new(count: u16, period: u64) -> Moderation {
        Moderation {
            count: u32::from(count),
            period,
            ..Moderation::default()
        }
    }

    /// Handles a completion that would raise an event.
    #[inline]
    pub fn gather(&mut self, now: impl FnOnce() -> u64) -> ModerationVerdict {
        if self.count <= 1 || self.period == 0 {
            return ModerationVerdict::Raise;
        }
        self.gathered += 1;
        if self.gathered >= self.count {
            self.gathered = 0;
            return ModerationVerdict::Raise;
        }
        if self.gathered > 1 {
            return ModerationVerdict::Wait;
        }
        self.deadline = now() + self.period;
        ModerationVerdict::WaitUntil(self.deadline)
    }

    /// Returns whether the event is due at time `now`.
    pub fn expire(&mut self, now: u64) -> bool {
        let due = self.gathered > 0 && now >= self.deadline;
        if due {
            self.gathered = 0;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unmoderated_event_is_raised_at_once() {
        for mut moderation in [
            Moderation::default(),
            Moderation::new(1, 1000),
            Moderation::new(10, 0),
        ] {
            assert_eq!(moderation.gather(|| 5), ModerationVerdict::Raise);
            assert!(!moderation.expire(u64::MAX));
        }
    }

    #[test]
    fn moderation_count_raises_before_the_period_ends() {
        let mut moderation = Moderation::new(3, 1000);
        for _ in 0..2 {
            assert_eq!(moderation.gather(|| 50), ModerationVerdict::WaitUntil(1050));
            assert_eq!(moderation.gather(|| 60), ModerationVerdict::Wait);
            assert_eq!(moderation.gather(|| 70), ModerationVerdict::Raise);
        }
        assert!(!moderation.expire(u64::MAX));
    }

    #[test]
    fn moderation_period_raises_once_for_all_gathered() {
        let mut moderation = Moderation::new(3, 1000);
        assert_eq!(moderation.gather(|| 50), ModerationVerdict::WaitUntil(1050));
        assert!(!moderation.expire(1049));
        assert!(moderation.expire(1050));
        assert!(!moderation.expire(2000));
        assert_eq!(
            moderation.gather(|| 2000),
            ModerationVerdict::WaitUntil(3000)
        );
    }
}
