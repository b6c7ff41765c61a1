//! The clock of measured fabrics (rule 1): the processor's time-stamp counter if it is constant and
//! non-stop and two calibrations agree, otherwise `CLOCK_MONOTONIC_RAW`.

mod calibrate;
pub mod offset;
#[allow(unsafe_code, reason = "reads the counter and the system clock")]
mod source;

pub use calibrate::{Calibration, calibrate};

/// A clock whose readings are ticks.
#[derive(Debug, Clone, PartialEq)]
pub struct Clock {
    kind: ClockKind,
    /// Length of a tick in nanoseconds.
    pub nanos_per_tick: f64,
    /// Median time between two consecutive readings, in nanoseconds.
    pub overhead_nanos: f64,
    /// Smallest nonzero difference between two consecutive readings, in nanoseconds.
    pub resolution_nanos: f64,
    /// Why the counter is not used, if it is not.
    pub refused_counter: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ClockKind {
    Counter,
    System,
    /// Simulates the system clock of another host: `ahead` nanoseconds ahead, and faster by the
    /// fraction `faster`.
    Apart {
        ahead: u64,
        faster: f64,
    },
}

impl Clock {
    /// Returns the best clock of this machine. Calibration takes about 0.2 s.
    pub fn best() -> Clock {
        let calibration = match source::counter_is_usable() {
            Ok(()) => calibrate(),
            Err(reason) => Err(reason),
        };
        match calibration {
            Ok(calibration) => {
                Clock::describe(ClockKind::Counter, calibration.nanos_per_tick, None)
            }
            Err(reason) => Clock::describe(ClockKind::System, 1.0, Some(reason)),
        }
    }

    /// Returns the counter with a calibration made by another process of this machine, so that many
    /// processes need not repeat it; `None` if the counter is not usable.
    pub fn calibrated(nanos_per_tick: f64) -> Option<Clock> {
        let usable = source::counter_is_usable().is_ok() && nanos_per_tick > 0.0;
        usable.then(|| Clock::describe(ClockKind::Counter, nanos_per_tick, None))
    }

    /// Returns `CLOCK_MONOTONIC_RAW`.
    pub fn system() -> Clock {
        Clock::describe(ClockKind::System, 1.0, Some("not asked for".to_owned()))
    }

    /// Returns `CLOCK_MONOTONIC_RAW` as it might read on another host: `ahead` nanoseconds ahead,
    /// and faster by `millionths` ppm. For testing clock comparison.
    pub fn apart(ahead: u64, millionths: f64) -> Clock {
        let faster = millionths * 1e-6;
        Clock::describe(ClockKind::Apart { ahead, faster }, 1.0, None)
    }

    fn describe(kind: ClockKind, nanos_per_tick: f64, refused_counter: Option<String>) -> Clock {
        let mut clock = Clock {
            kind,
            nanos_per_tick,
            overhead_nanos: 0.0,
            resolution_nanos: 0.0,
            refused_counter,
        };
        let mut steps: Vec<u64> = (0..1000)
            .map(|_| {
                let first = clock.now();
                clock.now().saturating_sub(first)
            })
            .collect();
        steps.sort_unstable();
        clock.overhead_nanos = steps[steps.len() / 2] as f64 * nanos_per_tick;
        let smallest = steps.iter().copied().find(|&step| step > 0).unwrap_or(1);
        clock.resolution_nanos = smallest as f64 * nanos_per_tick;
        clock
    }

    /// Reads the clock, in ticks.
    #[inline]
    pub fn now(&self) -> u64 {
        match self.kind {
            ClockKind::Counter => source::counter(),
            ClockKind::System => source::system_nanos(),
            ClockKind::Apart { ahead, faster } => {
                let nanos = source::system_nanos();
                nanos + ahead + (nanos as f64 * faster) as u64
            }
        }
    }

    /// Returns `tsc` or `monotonic-raw`.
    pub fn name(&self) -> &'static str {
        match self.kind {
            ClockKind::Counter => "tsc",
            ClockKind::System | ClockKind::Apart { .. } => "monotonic-raw",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_clock_is_monotonic_and_calibrated() {
        let clock = Clock::best();
        let first = clock.now();
        let later = (0..1000).map(|_| clock.now()).max().unwrap();
        assert!(later >= first);
        assert!(clock.nanos_per_tick > 0.0 && clock.resolution_nanos > 0.0);
    }

    #[test]
    fn an_implausible_calibration_is_refused() {
        assert!(Clock::calibrated(0.0).is_none());
        assert!(Clock::calibrated(f64::NAN).is_none());
    }
}
