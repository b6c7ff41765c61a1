//! CLOCK_MONOTONIC by the processor's cycle counter: a read costs about half of clock_gettime(2)'s.
//!
//! The counter is used where Linux itself has chosen it as its clock source, after checking that it
//! runs evenly and is the same on all processors. Its rate is measured against CLOCK_MONOTONIC, so
//! that corrections of that (NTP) are in it, and each millisecond the time is read from the system
//! again. Until the rate is known, and on other machines, each read is one of the system.

use crate::clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

/// Nanoseconds for which the counter is followed without a look at the system's clock.
const SPAN: u64 = 1_000_000;

/// Least and greatest time over which the rate is measured, in nanoseconds.
const MEASURED: (u64, u64) = (20_000_000, 1_000_000_000);

/// Most ticks of a look at the system's clock: some tens are usual.
const UNINTERRUPTED: u64 = 1000;

/// Looks in a row after which the counter is given up, if each was interrupted: reading it, or the
/// system's clock, is slow on this machine.
const MOST_INTERRUPTED: u32 = 100;

/// The counter and the system's clock at one time.
#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    ticks: u64,
    nanoseconds: u64,
}

impl Pair {
    /// Reads both. Returns the nanoseconds alone if this thread was interrupted in between.
    fn read() -> Result<Pair, u64> {
        let before = ticks();
        let nanoseconds = clock::now();
        let ticks = ticks().wrapping_sub(before);
        match ticks < UNINTERRUPTED {
            true => Ok(Pair {
                ticks: before + ticks / 2,
                nanoseconds,
            }),
            false => Err(nanoseconds),
        }
    }
}

/// The rate that a clock of this process measured last; 0 before.
static KNOWN_RATE: AtomicU64 = AtomicU64::new(0);

/// The pair from which clocks measure that begin later ([`prepare`]).
static EARLY: Mutex<Option<Pair>> = Mutex::new(None);

/// Returns a pair of this process that was read before another one, but not long before.
fn earlier(now: Pair) -> Option<Pair> {
    // After a fork(2) another thread may hold it for ever.
    let early = (*EARLY.try_lock().ok()?)?;
    let passed = now.nanoseconds.checked_sub(early.nanoseconds)?;
    (passed <= MEASURED.1).then_some(early)
}

/// A clock, of one thread at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct CounterClock {
    /// Where the measurement of the rate begins; 0 before.
    first: Pair,
    /// The last look at the system's clock.
    last: Pair,
    /// Ticks from then on for which the counter is followed; 0 while the rate is unknown.
    span: u64,
    /// Nanoseconds of a tick, in parts of 2^32.
    rate: u64,
    /// Looks in a row that were interrupted.
    interrupted: u32,
}

impl CounterClock {
    /// Returns the nanoseconds of CLOCK_MONOTONIC. They can decrease by a few at a look at the
    /// system's clock.
    #[inline]
    pub fn now(&mut self) -> u64 {
        match self.span {
            0 => self.look(),
            _ => self.at(ticks()),
        }
    }

    #[inline]
    fn at(&mut self, ticks: u64) -> u64 {
        let passed = ticks.wrapping_sub(self.last.ticks);
        match passed < self.span {
            true => self.last.nanoseconds + ((passed * self.rate) >> 32),
            false => self.look(),
        }
    }

    #[cold]
    fn look(&mut self) -> u64 {
        if !is_counter_even() || self.interrupted == MOST_INTERRUPTED {
            return clock::now();
        }
        match Pair::read() {
            Ok(pair) => {
                self.interrupted = 0;
                let is_first = self.first.nanoseconds == 0;
                if is_first && let Some(early) = earlier(pair) {
                    self.first = early;
                }
                self.follow(pair);
                if self.rate != 0 {
                    KNOWN_RATE.store(self.rate, Ordering::Relaxed);
                } else if is_first {
                    self.adopt(KNOWN_RATE.load(Ordering::Relaxed));
                }
                pair.nanoseconds
            }
            Err(nanoseconds) => {
                self.interrupted += 1;
                nanoseconds
            }
        }
    }

    /// Follows the counter from a pair on, and measures its rate.
    fn follow(&mut self, now: Pair) {
        self.last = now;
        let passed = now.nanoseconds.saturating_sub(self.first.nanoseconds);
        let ticks = now.ticks.saturating_sub(self.first.ticks);
        let rate = (u128::from(passed) << 32) / u128::from(ticks.max(1));
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        // While the machine slept, one of the clocks stood still.
        let is_another = self.rate != 0 && self.rate.abs_diff(rate) > self.rate / 1024;
        if self.first.nanoseconds == 0 || passed > 2 * MEASURED.1 {
            self.begin(now);
        } else if passed >= MEASURED.0 {
            // From a tick each 1024 ns to 16 a nanosecond.
            let is_possible = (0x1000_0000..0x400_0000_0000).contains(&rate);
            if is_another || !is_possible {
                return self.begin(now);
            }
            self.adopt(rate);
            if passed >= MEASURED.1 {
                self.first = now;
            }
        }
    }

    /// Follows the counter at a rate, if that is known.
    fn adopt(&mut self, rate: u64) {
        if rate != 0 {
            (self.rate, self.span) = (rate, (SPAN << 32) / rate);
        }
    }

    /// Begins to measure the rate anew.
    fn begin(&mut self, now: Pair) {
        if self.rate != 0 {
            KNOWN_RATE.store(0, Ordering::Relaxed);
        }
        *self = CounterClock {
            first: now,
            last: now,
            ..CounterClock::default()
        };
    }
}

/// Finds out whether the counter can be used, which reads a file, and begins to measure its rate.
pub fn prepare() {
    if is_counter_even()
        && let Ok(pair) = Pair::read()
        && let Ok(mut early) = EARLY.try_lock()
    {
        *early = Some(pair);
    }
}

/// Returns whether the counter measures time on this machine.
fn is_counter_even() -> bool {
    static IS: OnceLock<bool> = OnceLock::new();
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    *IS.get_or_init(|| {
        cfg!(target_arch = "x86_64")
            && std::fs::read_to_string(SOURCE).is_ok_and(|source| source.trim() == "tsc")
    })
}

#[inline]
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction has no requirements.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(target_arch = "x86_64"))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that has measured 2.5 ticks a nanosecond, at 100 ms.
    fn measured() -> CounterClock {
        let mut clock = CounterClock::default();
        let pair = |nanoseconds| Pair {
            ticks: nanoseconds * 5 / 2,
            nanoseconds,
        };
        for milliseconds in [1, 10, 100] {
            clock.follow(pair(milliseconds * 1_000_000));
        }
        clock
    }

    #[test]
    fn the_counter_is_followed_at_the_measured_rate() {
        let mut clock = measured();
        for after in [0, 1, 1000, 999_000] {
            let ticks = (100_000_000 + after) * 5 / 2;
            assert!(clock.at(ticks).abs_diff(100_000_000 + after) <= 1);
        }
    }

    #[test]
    fn the_rate_is_unknown_until_it_is_measured_and_after_a_long_sleep() {
        let mut clock = CounterClock::default();
        let pair = |ticks, nanoseconds| Pair { ticks, nanoseconds };
        clock.follow(pair(1000, 1000));
        clock.follow(pair(2000, 2000));
        assert_eq!(clock.span, 0);
        let mut clock = measured();
        assert_ne!(clock.span, 0);
        // The counter has stood still meanwhile.
        clock.follow(pair(250_000_100, 10_000_000_000));
        assert_eq!(clock.span, 0);
        // The system's clock has stood still.
        let mut clock = measured();
        clock.follow(pair(10_000_000_000, 101_000_000));
        assert_eq!(clock.span, 0);
    }

    #[test]
    fn a_counter_of_another_machine_is_not_followed() {
        for ticks in [1, 10, 1 << 50] {
            let mut clock = CounterClock::default();
            let pair = |ticks, nanoseconds| Pair { ticks, nanoseconds };
            clock.follow(pair(1, 1));
            clock.follow(pair(1 + ticks, 1_000_000_001));
            assert_eq!(clock.span, 0, "{ticks}");
        }
    }

    #[test]
    fn it_agrees_with_the_system() {
        let mut clock = CounterClock::default();
        let end = clock::now() + 60_000_000;
        let mut nearest = u64::MAX;
        while clock::now() < end {
            let (before, now, after) = (clock::now(), clock.now(), clock::now());
            nearest = nearest.min(now.abs_diff(before).max(now.abs_diff(after)));
            assert!(now + 100_000 > before && now < after + 100_000);
        }
        assert!(nearest < 10_000, "{nearest} ns away at best");
    }
}
