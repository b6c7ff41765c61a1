//! The offset between two clocks from request-reply exchanges (Cristian 1989): a reply carries a
//! reading of the remote clock taken at some moment between the request and the arrival of the
//! reply. Each exchange thus bounds the offset from both sides. Over many exchanges, the remaining
//! uncertainty is the sum of the shortest delays in both directions.

/// Largest deviation of the ratio of two calibrated clocks' rates from its assumed value, with a
/// margin.
const DRIFT: f64 = 100e-6;

/// One exchange with the remote clock, in ticks of the respective clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Local clock when the request was sent.
    pub sent: u64,
    /// Remote clock when it was read.
    pub there: u64,
    /// Local clock when the reply arrived.
    pub back: u64,
}

/// A remote clock relative to the local one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offset {
    /// One instant, by the remote clock and by the local one.
    there: u64,
    here: f64,
    /// Local ticks per remote tick.
    ratio: f64,
    /// Error bound at that instant, in local ticks.
    error: f64,
}

impl Offset {
    /// Computes the offset from readings; `ratio` is local ticks per remote tick. `None` if there
    /// are no readings or they contradict each other, as when a clock was set or went backwards in
    /// between.
    pub fn of(readings: &[Reading], ratio: f64) -> Option<Offset> {
        let first = readings.first()?;
        let since = |later: u64, earlier: u64| later.wrapping_sub(earlier) as i64 as f64;
        // How far the remote clock is ahead of the local one, in local ticks.
        let ahead = |reading: &Reading, own: u64| {
            since(reading.there, first.there) * ratio - since(own, first.sent)
        };
        let least = readings.iter().map(|one| ahead(one, one.back));
        let most = readings.iter().map(|one| ahead(one, one.sent));
        let (least, most) = (
            least.fold(f64::NEG_INFINITY, f64::max),
            most.fold(f64::INFINITY, f64::min),
        );
        let span = readings.iter().map(|one| since(one.back, first.sent));
        let drift = DRIFT * span.fold(0.0, f64::max);
        // Readings are whole ticks of either clock.
        let room = most - least + 2.0 * drift + 1.0 + ratio;
        (room >= 0.0).then_some(Offset {
            there: first.there,
            here: first.sent as f64 - (least + most) / 2.0,
            ratio,
            error: (most - least).abs() / 2.0 + drift,
        })
    }

    /// Converts an instant of the remote clock to the local clock.
    pub fn here(&self, there: u64) -> u64 {
        let since = there.wrapping_sub(self.there) as i64 as f64;
        (self.here + since * self.ratio).round().max(0.0) as u64
    }

    /// Returns the error bound of [`Offset::here`], in local ticks.
    pub fn error(&self, there: u64) -> f64 {
        let since = there.wrapping_sub(self.there) as i64 as f64;
        self.error + (since * self.ratio).abs() * DRIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Two hosts: the remote clock is 3 ms ahead and 20 ppm faster, and each clock has its own tick
    /// length.
    const AHEAD: f64 = 3e6;
    const FASTER: f64 = 20e-6;
    const OWN_TICK: f64 = 0.4;
    const OTHER_TICK: f64 = 0.5;

    fn own(nanos: f64) -> u64 {
        (nanos / OWN_TICK) as u64
    }

    fn other(nanos: f64) -> u64 {
        ((nanos * (1.0 + FASTER) + AHEAD) / OTHER_TICK) as u64
    }

    /// Simulates exchanges with these minimum delays in each direction; most take longer.
    fn ask(random: &mut Random, there: f64, back: f64) -> Vec<Reading> {
        let mut now = 1e12 + random.below(1_000_000) as f64;
        let mut later = |least: f64| {
            let late = random.below(1000) as f64 / 1000.0;
            // Most delays are short, a few are very long.
            least + 40_000.0 * late.powi(8) + 2000.0 * late
        };
        (0..64)
            .map(|_| {
                let sent = now;
                let answered = sent + later(there);
                let arrived = answered + later(back);
                now = arrived + 500.0;
                Reading {
                    sent: own(sent),
                    there: other(answered),
                    back: own(arrived),
                }
            })
            .collect()
    }

    /// Returns the error of an agreed start, 5 ms after the last reply, and the stated bound, both
    /// in nanoseconds.
    fn missed(readings: &[Reading]) -> (f64, f64) {
        // Both clocks were calibrated; the 20 ppm are unknown to the estimate.
        let found = Offset::of(readings, OTHER_TICK / OWN_TICK).unwrap();
        let start = readings.last().unwrap().back as f64 * OWN_TICK + 5e6;
        let here = found.here(other(start)) as f64 * OWN_TICK;
        ((here - start).abs(), found.error(other(start)) * OWN_TICK)
    }

    #[test]
    fn clock_offset_is_found_within_a_microsecond() {
        let mut random = Random::new(1);
        for _ in 0..2000 {
            let (wrong, said) = missed(&ask(&mut random, 10_000.0, 10_000.0));
            assert!(wrong < 1000.0, "{wrong} ns");
            assert!(wrong <= said, "{wrong} ns, {said} ns said");
        }
    }

    #[test]
    fn the_stated_error_holds_for_asymmetric_delays() {
        let mut random = Random::new(2);
        for (there, back) in [(500.0, 50_000.0), (50_000.0, 500.0), (0.0, 0.0)] {
            for _ in 0..500 {
                let (wrong, said) = missed(&ask(&mut random, there, back));
                assert!(wrong <= said + 2.0, "{wrong} ns, {said} ns said");
                assert!(said < (there + back) / 2.0 + 4000.0, "{said} ns");
            }
        }
    }

    #[test]
    fn no_answers_give_no_offset() {
        assert_eq!(Offset::of(&[], 1.0), None);
    }

    #[test]
    fn a_clock_that_steps_back_gives_no_offset() {
        let readings = ask(&mut Random::new(3), 1000.0, 1000.0);
        for (at, back) in [(1, 1_000_000), (40, u64::MAX / 2), (63, 100_000)] {
            let mut readings = readings.clone();
            readings[at].there = readings[at].there.wrapping_sub(back);
            assert_eq!(Offset::of(&readings, OTHER_TICK / OWN_TICK), None, "{at}");
        }
        assert_eq!(Offset::of(&readings, f64::NAN), None);
    }
}
