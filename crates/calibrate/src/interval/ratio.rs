//! Whether one of two predicted systems is faster.
//!
//! Errors that two systems have in common cancel in the ratio of their figures. How far they do is
//! read off the residuals: the differences of two sources' log ratios at the same message size.

use super::weighted::{Scores, supported};
use super::{Class, FIDELITY, Intervals, LEAST_SOURCES, LEVELS, Subject, by_messages};
use crate::residual::Basis;
use serde::Serialize;

/// How far the ratio of two systems' figures may be from that of the models.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ratio {
    /// The share of ratios that it holds.
    pub level: f64,
    /// The real ratio is within modelled / factor and modelled x factor.
    pub factor: f64,
    /// Number of sources.
    pub sources: usize,
    /// The class in words.
    pub class: String,
    /// Blind or anchored.
    pub basis: Basis,
    /// Whether it is of figures by whole messages, and includes their difference to packets.
    pub is_by_messages: bool,
}

/// Result of the comparison of two predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// The second is faster.
    Faster,
    /// The second is slower.
    Slower,
    /// The difference is within the errors of the models.
    NotDistinguishable,
}

impl Verdict {
    /// Returns the verdict in words, of the second system.
    pub fn text(self) -> &'static str {
        match self {
            Verdict::Faster => "faster: sure",
            Verdict::Slower => "slower: sure",
            Verdict::NotDistinguishable => "not distinguishable",
        }
    }
}

/// A predicted time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictedTime {
    /// The part that is exact.
    pub exact: f64,
    /// The rest, which the adapter determines.
    pub other: f64,
    /// A bound of the whole that is known: the real time is not shorter.
    pub least: f64,
}

impl PredictedTime {
    /// Returns the whole time.
    pub fn whole(self) -> f64 {
        self.exact + self.other
    }

    /// Returns the shortest real time if the rest is too long by a factor. A bound above the
    /// prediction itself is of something else.
    pub fn shortest(self, factor: f64) -> f64 {
        let shortest = self.exact + self.other / factor;
        shortest.max(self.least.min(self.whole()))
    }

    /// Returns the longest real time if the rest is too short by a factor.
    pub fn longest(self, factor: f64) -> f64 {
        self.exact + self.other * factor
    }
}

impl Ratio {
    /// Returns the interval of a ratio of which at least one figure is by whole messages.
    pub fn by_messages(self) -> Ratio {
        Ratio {
            factor: self.factor * FIDELITY,
            is_by_messages: true,
            ..self
        }
    }

    /// Compares two times. The ratio of the parts that are not exact may be wrong by the factor.
    pub fn verdict(&self, first: PredictedTime, second: PredictedTime) -> Verdict {
        match self.range(first, second) {
            (_, high) if high < 1.0 => Verdict::Faster,
            (low, _) if low > 1.0 => Verdict::Slower,
            _ => Verdict::NotDistinguishable,
        }
    }

    /// Returns the interval of the second time over the first. The error is charged to either
    /// side: to the one that makes the interval wider. Neither time passes its bound.
    pub fn range(&self, first: PredictedTime, second: PredictedTime) -> (f64, f64) {
        let slowest = |time: PredictedTime| time.longest(self.factor);
        let fastest = |time: PredictedTime| time.shortest(self.factor);
        let (first_whole, second_whole) = (first.whole(), second.whole());
        let low = (fastest(second) / first_whole).min(second_whole / slowest(first));
        let high = (slowest(second) / first_whole).max(second_whole / fastest(first));
        (low, high)
    }

    /// Returns the rule by which it decides, in a sentence.
    pub fn rule(&self) -> String {
        format!(
            "rule: a verdict is sure if the {:.0} % interval of the ratio, divided to multiplied \
             by {:.2}, excludes 1; it is the spread of the ratios of {} sources' errors at equal \
             sizes ({}), {}{}",
            100.0 * self.level,
            self.factor,
            self.sources,
            self.class,
            self.basis.word(),
            by_messages(self.is_by_messages)
        )
    }
}

impl Intervals {
    /// Returns how far the ratio of two systems' figures may be from that of the models: of the
    /// narrowest class with enough sources that both systems belong to. `None` if there is none,
    /// or the figures are not of the same kind.
    pub fn ratio(&self, first: &Subject, second: &Subject) -> Option<Ratio> {
        let kind = |one: &Subject| (one.figure, one.layer, one.size, one.stand_in);
        let is_same = kind(first) == kind(second);
        let both = match first.adapter == second.adapter {
            true => first.clone(),
            false => Subject {
                adapter: None,
                ..first.clone()
            },
        };
        // An anchor of one of the two does not narrow the other's error.
        let basis = first.basis.min(second.basis);
        is_same
            .then(|| self.ratio_without(&Subject { basis, ..both }, None))
            .flatten()
    }

    pub(super) fn ratio_without(&self, subject: &Subject, left_out: Option<&str>) -> Option<Ratio> {
        Class::of(subject).into_iter().find_map(|class| {
            let known = self.curves.iter();
            let known = known.filter(|curve| left_out != Some(curve.source.as_str()));
            let members = class.by_source(known);
            let sources = members.sources.len();
            if sources < LEAST_SOURCES {
                return None;
            }
            let pairs = members
                .sources
                .iter()
                .enumerate()
                .flat_map(|(number, one)| {
                    let others = &members.sources[number + 1..];
                    others.iter().map(|other| differences(&one.1, &other.1))
                });
            let pairs: Vec<Vec<f64>> = pairs.filter(|pair| !pair.is_empty()).collect();
            let scores = Scores::of_groups(&pairs);
            // As the interval of a figure of another kind is the wide one, so is that of a ratio.
            let wide = || scores.guaranteed(LEVELS[1].min(supported(sources)), sources);
            let (factor, class) = match subject.stand_in {
                None => (scores.quantile(LEVELS[0]), class.text()),
                Some(_) => (wide(), format!("{}; widened", subject.class(&class))),
            };
            Some(Ratio {
                level: LEVELS[0],
                factor: factor?.exp(),
                sources,
                class,
                basis: subject.basis,
                is_by_messages: false,
            })
        })
    }
}

/// Returns the absolute differences of the log ratios of two sources at equal sizes.
fn differences(one: &[(u64, f64)], other: &[(u64, f64)]) -> Vec<f64> {
    let mut found = Vec::new();
    for (bytes, ratio) in one {
        let same = other.iter().filter(|(size, _)| size == bytes);
        found.extend(same.map(|(_, other)| (ratio - other).abs()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{curve, subject};
    use super::*;

    fn intervals(ratios: [f64; 5]) -> Intervals {
        let named = ["a", "b", "c", "d", "e"].into_iter().zip(ratios);
        Intervals::of(
            named
                .map(|(source, ratio)| curve(source, "connectx5", &[ratio; 3]))
                .collect(),
        )
    }

    fn time(exact: f64, other: f64) -> PredictedTime {
        PredictedTime {
            exact,
            other,
            least: 0.0,
        }
    }

    #[test]
    fn times_do_not_pass_their_bounds() {
        let all = intervals([1.0, 1.5, 0.7, 1.2, 0.8]);
        let one = subject("connectx5", Basis::Blind);
        let ratio = all.ratio(&one, &one).expect("five sources");
        let bound = PredictedTime {
            least: 2.9,
            ..time(1.0, 2.0)
        };
        assert_eq!((bound.shortest(2.0), bound.longest(2.0)), (2.9, 5.0));
        let first = time(2.9, 0.1);
        let (low, _) = ratio.range(first, time(0.0, 3.0));
        let second = PredictedTime {
            least: 2.9,
            ..time(0.0, 3.0)
        };
        let (cut, _) = ratio.range(first, second);
        assert!(low < 0.7 && cut > 0.9, "{low} {cut}");
        // A bound above the time is no bound of it.
        let other = PredictedTime {
            least: 9.0,
            ..bound
        };
        assert_eq!(other.shortest(2.0), 3.0);
    }

    #[test]
    fn common_errors_cancel() {
        let all = intervals([1.5, 1.5, 1.55, 1.45, 1.5]);
        let one = subject("connectx5", Basis::Blind);
        let other = subject("connectx6", Basis::Blind);
        let ratio = all.ratio(&one, &other).expect("five sources");
        assert!(ratio.factor < 1.08, "{ratio:?}");
        assert!(all.interval(&one).unwrap().factor > 1.49);
        assert_eq!(
            ratio.verdict(time(0.0, 2.0), time(0.0, 1.8)),
            Verdict::Faster
        );
        assert_eq!(
            ratio.verdict(time(0.0, 1.8), time(0.0, 2.0)),
            Verdict::Slower
        );
        let close = ratio.verdict(time(0.0, 2.0), time(0.0, 1.95));
        assert_eq!(close, Verdict::NotDistinguishable);
        assert!(ratio.rule().contains("80 %"));
        let (low, high) = ratio.range(time(1.0, 1.0), time(1.0, 1.0));
        assert!(0.9 < low && low < 1.0 && (1.0 / low - high).abs() < 1e-9);
        let wider = ratio.clone().by_messages();
        assert!(wider.factor > 1.04 * ratio.factor);
        assert!(wider.rule().ends_with("as computed by messages"));
    }

    #[test]
    fn errors_that_differ_do_not_cancel() {
        let all = intervals([1.0, 1.5, 0.7, 1.2, 0.8]);
        let one = subject("connectx5", Basis::Blind);
        let ratio = all.ratio(&one, &one).expect("five sources");
        assert!(ratio.factor > 1.7, "{ratio:?}");
        // An exact part that both share leaves less to decide by.
        assert_eq!(
            ratio.verdict(time(0.0, 3.0), time(0.0, 2.0)),
            Verdict::NotDistinguishable
        );
        assert_eq!(
            ratio.verdict(time(1.0, 9.0), time(1.0, 1.0)),
            Verdict::Faster
        );
        let mut long = one.clone();
        long.size = crate::residual::SizeClass::Long;
        assert_eq!(all.ratio(&one, &long), None);
    }
}
