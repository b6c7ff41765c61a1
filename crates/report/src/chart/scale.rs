//! Scales and their ticks.

use std::ops::RangeInclusive;

/// Scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Evenly.
    Linear,
    /// By logarithm.
    Log,
}

/// Magnitudes that can be drawn, with headroom for computations. Values beyond are at the edge.
const DRAWABLE: RangeInclusive<f64> = 1e-150..=1e150;

/// Returns whether a value has its own position on a scale.
fn usable(kind: Kind, value: f64) -> bool {
    match kind {
        Kind::Linear => value == 0.0 || DRAWABLE.contains(&value.abs()),
        Kind::Log => DRAWABLE.contains(&value),
    }
}

/// A scale from values to positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale {
    kind: Kind,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// Returns a scale over the values, from position `from` to `to`. A logarithmic scale ignores
    /// values that are not positive.
    pub fn over(kind: Kind, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Scale {
        let usable = values.filter(|value| usable(kind, *value));
        let (low, high) = usable.fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(v), b.max(v)));
        let (low, high) = match (low <= high, kind) {
            (false, _) => (1.0, 10.0),
            (true, Kind::Linear) => (low.min(0.0), if high > 0.0 { high * 1.05 } else { 1.0 }),
            (true, Kind::Log) if low == high => (low / 2.0, high * 2.0),
            (true, Kind::Log) => (low, high),
        };
        Scale {
            kind,
            low,
            high,
            from,
            to,
        }
    }

    /// Returns a scale over the values with little margin, for axes that need not start at zero.
    pub fn zoomed(kind: Kind, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Scale {
        let usable: Vec<f64> = values.filter(|value| usable(kind, *value)).collect();
        let mut scale = Scale::over(kind, usable.iter().copied(), from, to);
        let low = usable.iter().copied().fold(f64::MAX, f64::min);
        let high = usable.iter().copied().fold(f64::MIN, f64::max);
        if low < high {
            (scale.low, scale.high) = match kind {
                Kind::Linear => {
                    let edge = (high - low) * 0.04;
                    // Values that are never negative get no negative axis.
                    let floor = if low >= 0.0 { 0.0 } else { f64::MIN };
                    ((low - edge).max(floor), high + edge)
                }
                Kind::Log => {
                    let edge = (high / low).powf(0.04);
                    (low / edge, high * edge)
                }
            };
        }
        scale
    }

    /// Widens a logarithmic scale to whole powers of ten.
    pub fn to_decades(mut self) -> Scale {
        if self.kind == Kind::Log {
            self.low = 10f64.powf(self.low.log10().floor());
            self.high = 10f64.powf(self.high.log10().ceil());
            if self.low == self.high {
                self.high *= 10.0;
            }
        }
        self
    }

    /// Returns the position of a value, within the drawing.
    pub fn at(&self, value: f64) -> f64 {
        let share = match self.kind {
            Kind::Linear => (value - self.low) / (self.high - self.low),
            Kind::Log => {
                let value = value.max(f64::MIN_POSITIVE);
                (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
            }
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Returns values for ticks, at most about `most`.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        match self.kind {
            Kind::Linear => self.even_ticks(most),
            Kind::Log => {
                // Within a decade or two, its ends alone are too few. Powers of ten are unsuitable
                // for sizes and counts, which are powers of two; their callers supply ticks.
                let first = self.low.log10().floor() as i32;
                let last = self.high.log10().ceil() as i32;
                let within = |factors: &[f64], step: usize| -> Vec<f64> {
                    let decades = (first..=last).step_by(step);
                    let all = decades
                        .flat_map(|power| factors.iter().map(move |f| f * 10f64.powi(power)));
                    all.filter(|tick| (self.low..=self.high).contains(tick))
                        .collect()
                };
                let [tens, fives] =
                    [&[1.0][..], &[1.0, 2.0, 5.0]].map(|factors| within(factors, 1));
                match (tens.len(), fives.len()) {
                    (_, 0..2) => self.even_ticks(most),
                    (0..3, ..) if fives.len() <= most.max(3) => fives,
                    (count, _) => within(&[1.0], count.div_ceil(most.max(1)).max(1)),
                }
            }
        }
    }

    /// Returns round values at even distances.
    fn even_ticks(&self, most: usize) -> Vec<f64> {
        let raw = (self.high - self.low) / most as f64;
        let power = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * power)
            .into_iter()
            .find(|step| *step >= raw)
            .unwrap_or(raw);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_of_no_values_and_of_one_are_valid() {
        for kind in [Kind::Linear, Kind::Log] {
            for values in [vec![], vec![5.0], vec![f64::NAN], vec![0.0]] {
                let scale = Scale::over(kind, values.into_iter(), 0.0, 100.0);
                assert!(scale.at(5.0).is_finite());
                assert!(scale.ticks(5).len() < 50);
            }
        }
    }

    #[test]
    fn values_of_any_magnitude_have_valid_coordinates() {
        let extremes = [
            -f64::MAX,
            -1e-300,
            -0.0,
            5e-324,
            1e-150,
            1.0,
            1.0 + f64::EPSILON,
            1e150,
            1.7e308,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ];
        for kind in [Kind::Linear, Kind::Log] {
            for pair in extremes.iter().flat_map(|a| extremes.map(|b| [*a, b])) {
                let scales = [Scale::over, Scale::zoomed];
                for scale in scales.map(|of| of(kind, pair.into_iter(), 0.0, 100.0)) {
                    let ticks = scale.ticks(5);
                    assert!(ticks.len() < 50, "{kind:?} {pair:?}: {} ticks", ticks.len());
                    assert!(
                        ticks.iter().all(|tick| tick.is_finite()),
                        "{kind:?} {pair:?}"
                    );
                    let places = pair.iter().filter(|value| !value.is_nan());
                    assert!(
                        places.clone().all(|value| scale.at(*value).is_finite()),
                        "{kind:?} {pair:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_few_times_have_round_ticks() {
        let scale = Scale::over(Kind::Log, [254.0, 1110.0].into_iter(), 0.0, 300.0);
        assert_eq!(scale.ticks(6), [500.0, 1000.0]);
        let wide = Scale::over(Kind::Log, [1.0, 1e12].into_iter(), 0.0, 300.0);
        assert!(
            (4..=7).contains(&wide.ticks(6).len()),
            "{:?}",
            wide.ticks(6)
        );
    }

    #[test]
    fn a_zoomed_scale_fits_its_values_tightly() {
        let scale = Scale::zoomed(Kind::Log, [210.0, 390.0].into_iter(), 0.0, 300.0);
        assert!(scale.at(210.0) < 20.0 && scale.at(390.0) > 280.0);
        assert!(
            (3..=7).contains(&scale.ticks(5).len()),
            "{:?}",
            scale.ticks(5)
        );
        let scale = Scale::zoomed(Kind::Linear, [0.0, 100.0].into_iter(), 0.0, 300.0);
        assert_eq!(scale.at(0.0), 0.0);
    }

    #[test]
    fn decades_have_equal_length() {
        let scale = Scale::over(Kind::Log, [3.0, 700.0].into_iter(), 0.0, 300.0).to_decades();
        assert_eq!(scale.ticks(10), [1.0, 10.0, 100.0, 1000.0]);
        assert!((scale.at(10.0) - 100.0).abs() < 1e-9);
    }
}
