//! Timers: the end of a connection's time wait and of a caller's time to send its request, and
//! retransmissions.

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use verbena_hca_os::errno::{Errno, Result};

/// A timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// End of an identifier's time wait: its number and generation.
    TimeWait(u32, u32),
    /// Reports a peer's disconnect once the program has taken its completions, at the deadline at
    /// the latest: the identifier's number and generation, the deadline.
    Disconnected(u32, u32, u64),
    /// Another attempt to resolve an address: the identifier's number and generation, the deadline.
    Resolution(u32, u32, u64),
    /// The answer of subnet administration to a membership is late: the group's number, the
    /// transaction.
    Membership(u32, u64),
    /// End of a caller's time to send its request: its number, which another caller may have by
    /// now.
    Caller(u32),
    /// Retransmission in the exchange with this local ID.
    Retransmission(u32),
    /// Requests without a listener are offered again.
    Unclaimed,
    /// The hosts of peers are probed.
    Probe,
    /// Death records are looked for and sent.
    Reap,
}

/// Alarms by time (nanoseconds of [`verbena_hca_os::clock`]), and a descriptor that is readable
/// when one is due.
pub struct Alarms {
    timer: OwnedFd,
    set: BTreeSet<(u64, Alarm)>,
}

impl Alarms {
    /// Returns an empty set.
    ///
    /// # Errors
    /// Those of timerfd_create(2).
    pub fn new() -> Result<Alarms> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(|error| Errno(error.raw_os_error()))?;
        Ok(Alarms {
            timer,
            set: BTreeSet::new(),
        })
    }

    /// Adds an alarm.
    pub fn set(&mut self, at: u64, alarm: Alarm) {
        self.set.insert((at, alarm));
        self.wind();
    }

    /// Takes the alarms that are due. The descriptor becomes readable again with the next one.
    pub fn take_due(&mut self, now: u64) -> Vec<Alarm> {
        let later = match now.checked_add(1) {
            Some(after) => self.set.split_off(&(after, Alarm::TimeWait(0, 0))),
            None => BTreeSet::new(),
        };
        let due = std::mem::replace(&mut self.set, later);
        self.wind();
        due.into_iter().map(|(_, alarm)| alarm).collect()
    }

    fn wind(&self) {
        let at = self.set.first().map_or(0, |(at, _)| *at);
        let time = |nanoseconds: u64| Timespec {
            tv_sec: (nanoseconds / 1_000_000_000) as i64,
            tv_nsec: (nanoseconds % 1_000_000_000) as i64,
        };
        let setting = Itimerspec {
            it_interval: time(0),
            // 0 stops the timer and makes the descriptor unreadable.
            it_value: time(at),
        };
        // Cannot fail: the descriptor is a timer's and the time is well formed.
        let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting);
    }
}

impl AsFd for Alarms {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use verbena_hca_os::clock;

    /// Returns whether the descriptor is readable; waits forever for it if `patient`.
    fn rings(alarms: &Alarms, patient: bool) -> bool {
        let mut wanted = [PollFd::new(alarms, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut wanted, (!patient).then_some(&now)).unwrap() > 0
    }

    #[test]
    fn alarms_fire_in_order_and_make_the_descriptor_readable() {
        let mut alarms = Alarms::new().unwrap();
        assert!(!rings(&alarms, false));
        let now = clock::now();
        let far = now + 3600 * 1_000_000_000;
        alarms.set(far, Alarm::Caller(3));
        assert!(!rings(&alarms, false));
        alarms.set(now + 2, Alarm::Caller(1));
        alarms.set(now + 1, Alarm::TimeWait(2, 7));
        assert!(rings(&alarms, true));
        let due = [Alarm::TimeWait(2, 7), Alarm::Caller(1)];
        assert_eq!(alarms.take_due(clock::now()), due);
        assert!(!rings(&alarms, false));
        assert_eq!(alarms.take_due(far), [Alarm::Caller(3)]);
        assert!(!rings(&alarms, false));
    }
}
