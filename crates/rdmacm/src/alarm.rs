//! What becomes due by itself: the end of a connection's time wait and of the patience with a caller, and what is sent
//! again.

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use verbena_hca::errno::{Errno, Result};

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alarm {
    /// The time wait of an identifier: its number and generation.
    TimeWait(u32, u32),
    /// The patience with a caller: its number. Another may have it by now.
    Caller(u32),
    /// What was said in the correspondence with this number of ours may have to be said again.
    Correspondence(u32),
    /// Requests that nobody has claimed are offered again.
    Unclaimed,
    /// The hosts of peers are probed.
    Probe,
    /// Wills are looked for, or there is something to be said again.
    Wills,
}

/// Alarms by their time (nanoseconds of [`verbena_hca::sys::clock`]), and a descriptor that is readable when one is due.
pub struct Alarms {
    timer: OwnedFd,
    set: BTreeSet<(u64, Alarm)>,
}

impl Alarms {
    /// None yet.
    ///
    /// # Errors
    /// What timerfd_create(2) says.
    pub fn new() -> Result<Alarms> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(|error| Errno(error.raw_os_error()))?;
        Ok(Alarms {
            timer,
            set: BTreeSet::new(),
        })
    }

    /// Sets one.
    pub fn set(&mut self, at: u64, alarm: Alarm) {
        self.set.insert((at, alarm));
        self.wind();
    }

    /// Takes those that are due. The descriptor is readable again when the next is.
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
            // 0 stops the timer, and what was due is no longer readable.
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
    use verbena_hca::sys::clock;

    /// Whether the descriptor becomes readable, waiting for ever if `patient`.
    fn rings(alarms: &Alarms, patient: bool) -> bool {
        let mut wanted = [PollFd::new(alarms, PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut wanted, (!patient).then_some(&now)).unwrap() > 0
    }

    #[test]
    fn alarms_come_in_order_and_the_descriptor_tells() {
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
