//! Virtual time: an instant or a span as a whole number of picoseconds (one byte at QDR lasts 250
//! ps).

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};

/// An instant, or the span between two, in picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    /// The origin, or an empty span.
    pub const ZERO: Time = Time(0);

    /// Converts from nanoseconds, rounded to the nearest picosecond; negative values and NaN become
    /// zero.
    pub fn from_nanos(nanos: f64) -> Time {
        Time::rounded(nanos * 1e3)
    }

    /// Converts from seconds, rounded like [`Time::from_nanos`].
    pub fn from_seconds(seconds: f64) -> Time {
        Time::rounded(seconds * 1e12)
    }

    /// Converts from picoseconds, rounded to the nearest, halves up; negative values and NaN become
    /// zero. (`f64::round` is a C library call on targets whose baseline lacks the rounding
    /// instruction.)
    pub(crate) fn rounded(picoseconds: f64) -> Time {
        let whole = picoseconds as u64;
        Time(whole.saturating_add(u64::from(picoseconds - whole as f64 >= 0.5)))
    }

    /// Returns the time in nanoseconds.
    pub fn nanos(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Returns the time in microseconds.
    pub fn micros(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the time in seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// Returns the span since `earlier`, or zero if `earlier` is later.
    pub fn since(self, earlier: Time) -> Time {
        Time(self.0.saturating_sub(earlier.0))
    }

    /// Returns this span multiplied by `factor`.
    pub fn scaled(self, factor: f64) -> Time {
        Time::rounded(self.0 as f64 * factor)
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0 + other.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        self.0 += other.0;
    }
}

impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}

impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, times: u64) -> Time {
        Time(self.0 * times)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= 1_000_000 {
            write!(f, "{:.3} us", self.micros())
        } else {
            write!(f, "{:.3} ns", self.nanos())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Time;

    #[test]
    fn conversions_round_to_the_picosecond() {
        assert_eq!(Time::from_nanos(0.25), Time(250));
        assert_eq!(Time::from_nanos(-1.0), Time::ZERO);
        assert_eq!(Time::from_seconds(1e-6).micros(), 1.0);
        assert_eq!(Time(5).since(Time(9)), Time::ZERO);
        assert_eq!(Time(1_500_000).to_string(), "1.500 us");
    }

    #[test]
    fn rounding_equals_f64_round() {
        let odd = [
            -0.5,
            -7.0,
            0.49999999999999994,
            0.5,
            1.5,
            4503599627370495.5,
            1e19,
            1e300,
        ];
        let spread = (0..100_000u64).map(|n| (n * n) as f64 / 48.0 + f64::from(n as u32) / 7.0);
        let wild = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
        for picoseconds in odd.into_iter().chain(spread).chain(wild) {
            let expected = Time(picoseconds.round().max(0.0) as u64);
            assert_eq!(Time::rounded(picoseconds), expected, "{picoseconds}");
        }
    }
}
