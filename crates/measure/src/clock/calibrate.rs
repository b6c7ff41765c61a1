//! Calibrates the time-stamp counter against `CLOCK_MONOTONIC_RAW`: two intervals of at least 100
//! ms must agree within 50 ppm (rule 1).

use super::source;

/// Length of an interval in nanoseconds.
const INTERVAL: u64 = 100_000_000;
/// Largest relative difference between the two intervals.
const AGREEMENT: f64 = 50e-6;
/// Attempts before the counter is rejected: migration to another processor between two readings
/// spoils an interval.
const TRIES: usize = 5;

/// The counter's rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// Length of a tick in nanoseconds.
    pub nanos_per_tick: f64,
    /// Relative difference between the two intervals.
    pub disagreement: f64,
}

/// Measures the counter's rate.
///
/// # Errors
///
/// States by how much the calibrations differ if none of five pairs agreed.
pub fn calibrate() -> Result<Calibration, String> {
    let mut worst = 0.0;
    for _ in 0..TRIES {
        let calibration = agree(interval(), interval());
        if calibration.disagreement <= AGREEMENT {
            return Ok(calibration);
        }
        worst = calibration.disagreement;
    }
    Err(format!(
        "two calibrations differ by {:.0} ppm, more than 50",
        worst * 1e6
    ))
}

fn agree(first: f64, second: f64) -> Calibration {
    let nanos_per_tick = (first + second) / 2.0;
    Calibration {
        nanos_per_tick,
        disagreement: ((first - second) / nanos_per_tick).abs(),
    }
}

/// Returns the nanoseconds per tick over one interval.
fn interval() -> f64 {
    let (start_nanos, start_ticks) = together();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (nanos, ticks) = together();
        if nanos - start_nanos >= INTERVAL && ticks > start_ticks {
            return (nanos - start_nanos) as f64 / (ticks - start_ticks) as f64;
        }
    }
}

/// Reads both clocks at the same moment: of several readings, the one that took the fewest counter
/// ticks.
fn together() -> (u64, u64) {
    (0..16)
        .map(|_| {
            let before = source::counter();
            let nanos = source::system_nanos();
            let after = source::counter();
            (after.wrapping_sub(before), nanos, before / 2 + after / 2)
        })
        .min()
        .map(|(_, nanos, ticks)| (nanos, ticks))
        .expect("sixteen readings")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disagreement_is_a_relative_error() {
        let calibration = agree(0.5, 0.5001);
        assert!((calibration.disagreement - 2e-4).abs() < 1e-6);
    }
}
