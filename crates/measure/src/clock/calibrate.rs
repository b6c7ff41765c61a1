//! The counter's rate against `CLOCK_MONOTONIC_RAW`: two intervals of at least 100 ms that agree within 50 ppm (rule 1).

use super::source;

/// Length of an interval in nanoseconds.
const INTERVAL: u64 = 100_000_000;
/// How far the two intervals may differ.
const AGREEMENT: f64 = 50e-6;
/// Tries before the counter is given up: a process that is moved between two readings spoils an interval.
const TRIES: usize = 5;

/// The counter's rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// Length of a tick.
    pub nanos_per_tick: f64,
    /// How far the two intervals differed, relative.
    pub disagreement: f64,
}

/// Measures the counter's rate, or says why it cannot be trusted.
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

/// Nanoseconds a tick over one interval.
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

/// Both clocks at the same moment: of several readings, the one with the least counter ticks around it.
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
    fn disagreement_is_relative() {
        let calibration = agree(0.5, 0.5001);
        assert!((calibration.disagreement - 2e-4).abs() < 1e-6);
    }
}
