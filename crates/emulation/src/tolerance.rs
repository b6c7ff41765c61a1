//! How much of a change of one parameter a program bears: its time against overhead, latency, gap
//! or rate, measured at several values.
//!
//! The slope of time against latency is the number of latencies that follow each other on the
//! program's critical path, as in LLAMP (Shen et al., arXiv 2404.14193), which computes it; for a
//! rate, it is the number of bytes.

use crate::knob::Parameter;

/// A value of a parameter, and the figures of the runs with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Nanoseconds, for a rate bits a nanosecond.
    pub value: f64,
    /// At least one.
    pub figures: Vec<f64>,
}

impl Setting {
    /// Returns the median figure.
    pub fn median(&self) -> f64 {
        let mut sorted = self.figures.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => f64::NAN,
            odd if odd % 2 == 1 => sorted[middle],
            _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
        }
    }

    /// Returns the least and the largest figure.
    pub fn range(&self) -> (f64, f64) {
        let first = (f64::INFINITY, f64::NEG_INFINITY);
        let widen = |(low, high): (f64, f64), one: &f64| (low.min(*one), high.max(*one));
        self.figures.iter().fold(first, widen)
    }

    /// Returns the difference of the largest and the least figure, as a share of the median.
    pub fn spread(&self) -> f64 {
        let (low, high) = self.range();
        match high > low {
            true => (high - low) / self.median().abs(),
            false => 0.0,
        }
    }
}

/// Whether a figure has grown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It is larger.
    Larger,
    /// It is smaller.
    Smaller,
}

/// The value at which the figure has changed by a share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// This value, between two that were measured; the figure is larger there, or smaller.
    At(f64, Direction),
    /// Beyond the last value that was measured.
    Beyond(f64),
    /// Runs with the same value differ by more than the share, or by more than the change: the
    /// larger one of the spreads.
    Noise(f64),
    /// The figure is 0 without a change, so it has no shares.
    NoBase,
}

/// A figure against one parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The parameter.
    pub parameter: Parameter,
    /// Without a change.
    pub base: Setting,
    /// With changes, of which each makes the adapter slower than the one before, or each faster.
    pub changed: Vec<Setting>,
}

impl Curve {
    /// Returns the slope of the median figures by least squares, from the base: the change of the
    /// figure for each nanosecond, for a rate for each nanosecond of a byte. None without a change.
    pub fn slope(&self) -> Option<f64> {
        let cost = |setting: &Setting| match self.parameter {
            Parameter::Rate => 8.0 / setting.value,
            _ => setting.value,
        };
        let (from, at) = (cost(&self.base), self.base.median());
        let offsets = self.changed.iter();
        let offsets = offsets.map(|one| (cost(one) - from, one.median() - at));
        let (products, squares) = offsets.fold((0.0, 0.0), |(products, squares), (x, y)| {
            (products + x * y, squares + x * x)
        });
        (squares > 0.0).then(|| products / squares)
    }

    /// Returns the value at which the median has changed by `share`, up or down.
    pub fn tolerance(&self, share: f64) -> Tolerance {
        let base = self.base.median();
        if base == 0.0 || !base.is_finite() {
            return Tolerance::NoBase;
        }
        if self.base.spread() > share {
            return Tolerance::Noise(self.base.spread());
        }
        let wanted = share * base.abs();
        let mut last = (self.base.value, 0.0);
        for setting in &self.changed {
            let next = (setting.value, (setting.median() - base).abs());
            if next.1 >= wanted {
                let (low, high) = setting.range();
                if next.1 < high - low {
                    return Tolerance::Noise((high - low) / base.abs());
                }
                let part = (wanted - last.1) / (next.1 - last.1);
                let direction = match setting.median() > base {
                    true => Direction::Larger,
                    false => Direction::Smaller,
                };
                return Tolerance::At(last.0 + part * (next.0 - last.0), direction);
            }
            last = next;
        }
        Tolerance::Beyond(last.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn setting(value: f64, figures: &[f64]) -> Setting {
        Setting {
            value,
            figures: figures.to_vec(),
        }
    }

    #[test]
    fn medians_and_spreads() {
        let one = setting(0.0, &[3.0, 1.0, 2.0]);
        assert_eq!((one.median(), one.range()), (2.0, (1.0, 3.0)));
        assert_eq!(one.spread(), 1.0);
        assert_eq!(setting(0.0, &[1.0, 2.0]).median(), 1.5);
    }

    #[test]
    fn the_slope_of_latency_counts_latencies() {
        // 400 latencies of 1000 ns and half a millisecond of other work.
        let at = |value: f64| setting(value, &[500_000.0 + 400.0 * value]);
        let curve = Curve {
            parameter: Parameter::Latency,
            base: at(1000.0),
            changed: vec![at(2000.0), at(6000.0)],
        };
        assert!((curve.slope().unwrap() - 400.0).abs() < 1e-6);
        // 1 % of 900 us are 9 us: 22.5 ns for each.
        assert_eq!(
            curve.tolerance(0.01),
            Tolerance::At(1022.5, Direction::Larger)
        );
        assert_eq!(curve.tolerance(10.0), Tolerance::Beyond(6000.0));
    }

    #[test]
    fn the_slope_of_a_rate_counts_bytes() {
        let at = |rate: f64| setting(rate, &[1000.0 + 8.0 / rate * 5e6]);
        let curve = Curve {
            parameter: Parameter::Rate,
            base: at(40.0),
            changed: vec![at(20.0), at(10.0)],
        };
        assert!((curve.slope().unwrap() - 5e6).abs() < 1.0);
        let none = Curve {
            changed: vec![at(40.0)],
            ..curve
        };
        assert_eq!(none.slope(), None);
    }

    #[test]
    fn differences_between_equal_runs_are_noise() {
        let curve = Curve {
            parameter: Parameter::Gap,
            base: setting(1.0, &[1.0, 1.02]),
            changed: vec![setting(2.0, &[2.0])],
        };
        assert!(matches!(curve.tolerance(0.01), Tolerance::Noise(_)));
        assert!(matches!(curve.tolerance(0.05), Tolerance::At(..)));
        let uncertain = Curve {
            changed: vec![setting(2.0, &[1.0, 1.2])],
            ..curve
        };
        assert!(matches!(uncertain.tolerance(0.05), Tolerance::Noise(_)));
    }

    #[test]
    fn a_figure_of_0_has_no_tolerance() {
        let curve = Curve {
            parameter: Parameter::Gap,
            base: setting(1.0, &[0.0, 0.0]),
            changed: vec![setting(2.0, &[0.0]), setting(3.0, &[1.0])],
        };
        assert_eq!(curve.tolerance(0.01), Tolerance::NoBase);
        assert_eq!(curve.base.spread(), 0.0);
    }

    proptest! {
        #[test]
        fn a_tolerance_lies_between_values_that_were_measured(
            figures in prop::collection::vec(-1e9..1e9f64, 1..6),
            share in 0.001..1.0f64,
        ) {
            let settings = figures.iter().zip(1..);
            let mut settings = settings.map(|(one, value)| setting(f64::from(value), &[*one]));
            let curve = Curve {
                parameter: Parameter::Latency,
                base: settings.next().unwrap(),
                changed: settings.collect(),
            };
            let last = figures.len() as f64;
            match curve.tolerance(share) {
                Tolerance::At(value, _) => prop_assert!((1.0..=last).contains(&value), "{value}"),
                Tolerance::Beyond(value) => prop_assert_eq!(value, last),
                Tolerance::Noise(_) | Tolerance::NoBase => prop_assert!(false),
            }
        }
    }
}
