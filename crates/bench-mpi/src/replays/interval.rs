//! The interval of a replay's time, and which of several systems is faster.
//!
//! The computing part of the critical path is exact: it was recorded, or a schedule states it. The
//! rest, overhead and wire, is scaled by the interval of MPI latencies at the program's mean
//! message size. The errors of all messages are taken as fully correlated, so they do not average
//! out. No time is shorter than the bytes of a link take at its rate ([`least`]).

use serde::Serialize;
use verbena_bench::Failure;
use verbena_bench::model_target::ModelTarget;
use verbena_bench::physical::Physical;
use verbena_bench::predicted::Predicting;
use verbena_bench::profiles::Profiles;
use verbena_calibrate::interval::{Interval, Intervals, PredictedTime, Subject, Verdict};
use verbena_calibrate::residual::FigureKind;
use verbena_fabric::model::Fidelity;
use verbena_measure::unit;
use verbena_model::kernel::Time;
use verbena_model::traffic::Bottleneck;

/// The assumption behind the intervals.
pub const ASSUMED: &str = "computing exact, overhead and wire scaled by the interval, their errors \
                           fully correlated";

/// The class of a replay's messages, and its interval.
pub struct Judge {
    intervals: Intervals,
    subject: Subject,
    interval: Option<Interval>,
    fidelity: Fidelity,
    physical: Physical,
}

/// An interval of the time of a replay, in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToldInterval {
    level: f64,
    low: f64,
    high: f64,
    wide_level: f64,
    wide_low: f64,
    wide_high: f64,
    /// The published curves that it comes from, and whether the model is blind or anchored.
    origin: String,
    assumed: &'static str,
}

impl ToldInterval {
    /// Returns the range with its level, e.g. `1.2 to 1.4 ms (80 %)`.
    pub fn range(&self) -> String {
        format!(
            "{} to {} ({:.0} %)",
            unit::time(self.low),
            unit::time(self.high),
            100.0 * self.level
        )
    }

    /// Returns where the interval comes from.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

impl Judge {
    /// Returns the judge of replays on a model of a program with these messages: their bytes, and
    /// their number; `None` if no published curve is of their kind.
    ///
    /// # Errors
    ///
    /// Fails if a profile or the stored residuals cannot be read.
    pub fn of(
        model: &ModelTarget,
        profiles: &Profiles,
        (bytes, messages): (u64, u64),
    ) -> Result<Option<Judge>, Failure> {
        let Some(predicting) = Predicting::of(model, profiles)? else {
            return Ok(None);
        };
        let size = bytes / messages.max(1);
        let subject = predicting.subject("mpi.latency", None, FigureKind::Latency, size);
        Ok(subject.map(|subject| Judge {
            interval: predicting.of_subject(&subject),
            intervals: predicting.intervals().clone(),
            subject,
            fidelity: model.fidelity,
            physical: predicting.physical(),
        }))
    }

    /// Returns the least time of a message of so many bytes on a node's link.
    pub fn message(&self, bytes: u64) -> Time {
        self.physical.message(bytes)
    }

    /// Returns the interval of a time.
    pub fn told(&self, parts: Parts) -> Option<ToldInterval> {
        let interval = self.interval.as_ref()?;
        let time = parts.predicted();
        Some(ToldInterval {
            level: interval.level,
            low: time.shortest(interval.factor),
            high: time.longest(interval.factor),
            wide_level: interval.wide_level,
            wide_low: time.shortest(interval.wide_factor),
            wide_high: time.longest(interval.wide_factor),
            origin: interval.origin(),
            assumed: ASSUMED,
        })
    }
}

/// The time of a replay and the part of it that is exact, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Parts {
    /// The whole time.
    pub all: f64,
    /// Computing on the critical path.
    pub computing: f64,
    /// The least time in which links and computing permit it.
    pub least: f64,
}

impl Parts {
    fn predicted(self) -> PredictedTime {
        PredictedTime {
            exact: self.computing,
            other: (self.all - self.computing).max(0.0),
            least: self.least,
        }
    }
}

/// Returns the least time of a program in nanoseconds, as far as it is known. `in_order` is that of
/// its computing and of each node's link, the bottleneck the link or bus that carried most.
pub fn least(in_order: Time, bottleneck: Option<&Bottleneck>) -> f64 {
    let link = bottleneck.map_or(Time::ZERO, |one| one.time);
    in_order.max(link).nanos()
}

/// The verdict on a replay against another one.
pub struct Judged {
    /// The verdict.
    pub verdict: Verdict,
    /// The interval of the ratio of the times.
    pub range: (f64, f64),
    /// The share of ratios that it holds.
    pub level: f64,
    /// The rule by which it was decided.
    pub rule: String,
}

impl Judged {
    /// Returns the interval of the ratio in words; `first` is the system of the first replay.
    pub fn range(&self, first: &str) -> String {
        let (low, high) = self.range;
        let level = 100.0 * self.level;
        format!("{low:.3} to {high:.3} times the time of {first} ({level:.0} %)")
    }

    /// Returns the verdict with the interval.
    pub fn text(&self, first: &str) -> String {
        format!("{}; {}", self.verdict.text(), self.range(first))
    }
}

/// Returns the verdict on a replay against another one; `None` if they have no class in common.
pub fn verdict(first: (&Judge, Parts), other: (&Judge, Parts)) -> Option<Judged> {
    let ratio = first
        .0
        .intervals
        .ratio(&first.0.subject, &other.0.subject)?;
    let ratio = match (first.0.fidelity, other.0.fidelity) {
        (Fidelity::Packet, Fidelity::Packet) => ratio,
        _ => ratio.by_messages(),
    };
    let times = (first.1.predicted(), other.1.predicted());
    Some(Judged {
        verdict: ratio.verdict(times.0, times.1),
        range: ratio.range(times.0, times.1),
        level: ratio.level,
        rule: ratio.rule(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_bench::anchors::find;

    #[test]
    fn computing_is_exact_and_the_rest_is_not() {
        let profiles = Profiles::default();
        let library = profiles.library().unwrap();
        let model = find(&library, "connectx5-edr", Fidelity::Packet, &[]).unwrap();
        let judge = Judge::of(&model, &profiles, (800, 100)).unwrap();
        let judge = judge.expect("is a system");
        let told = |all, computing| {
            let least = 0.0;
            judge.told(Parts {
                all,
                computing,
                least,
            })
        };
        let whole = told(1e6, 1e6).expect("there are curves");
        assert_eq!((whole.low, whole.high), (1e6, 1e6));
        let told = told(1e6, 0.9e6).expect("there are curves");
        assert!(
            0.9e6 < told.low && told.low < 1e6 && 1e6 < told.high,
            "{told:?}"
        );
        assert!(told.range().ends_with("(80 %)"));
        let cut = judge.told(Parts {
            all: 1e6,
            computing: 0.9e6,
            least: 0.99e6,
        });
        let cut = cut.expect("there are curves");
        assert_eq!(
            (cut.low, cut.wide_low, cut.high),
            (0.99e6, 0.99e6, told.high)
        );
        assert!(told.wide_low <= told.low && told.wide_high >= told.high);
    }
}
