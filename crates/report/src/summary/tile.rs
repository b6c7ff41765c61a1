//! A figure of the summary as data: its meaning, its rating with the reason, its launches, its
//! rank.

use super::marks::percent_of;
use super::measured_at::{MeasuredAt, is_of_host};
use super::published::Published;
use super::ranking::{Headlines, Other, Ranking, others, place};
use super::rules::{Rating, Word, rate};
use super::sentence::count;
use crate::headline::{Curve, Headline, Subject};
use serde::Serialize;
use verbena_measure::compare::Better;
use verbena_measure::sample::Sample;
use verbena_measure::stats::interval::Interval;
use verbena_measure::stats::launches;
use verbena_measure::unit;

/// A measured bound counts as wrong from this percentage on.
const DISPROVED: f64 = 105.0;

/// One figure of the first screen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tile {
    /// The measured quantity.
    pub subject: Subject,
    /// Its title: `Latency`.
    pub name: &'static str,
    /// Description of the measurement: `8 B write until the receiver sees it`.
    pub of: String,
    /// The figure with its unit: `141 ns`.
    pub value: String,
    /// The figure in [`Tile::unit`].
    pub number: f64,
    /// `ns`, `bytes/s`, `1/s`, `×` (a ratio) or `bytes`.
    pub unit: &'static str,
    /// Whether more or less is better.
    pub better: Better,
    /// Place of the measurement.
    pub kind: MeasuredAt,
    /// The word, its reason, and the thresholds.
    pub rating: Rating,
    /// Position from 0 to 1: weak below a third, strong from two thirds. `None` without thresholds.
    pub bar: Option<f64>,
    /// Share of the link's stated bound.
    pub share: Option<Share>,
    /// A bound measured on the host before the run. It does not affect the rating.
    pub measured_bound: Option<MeasuredBound>,
    /// The figure of each launch.
    pub launches: Vec<f64>,
    /// Number of launches during which other processes ran on the same cores.
    pub busy_launches: usize,
    /// Interval of the median over several launches.
    pub interval: Option<Interval>,
    /// Two levels, lower value first, if the launches have two; otherwise empty.
    pub levels: Vec<Level>,
    /// 99th and 99.9th percentile of the operations, if enough of them were timed.
    pub tail: [Option<f64>; 2],
    /// The curve that contains the figure, for a sparkline.
    pub curve: Option<Curve>,
    /// Rank among figures of the same kind; `None` if there are none.
    pub place: Option<Ranking>,
    /// Figures of other runs and published ones.
    pub others: Vec<Other>,
}

/// A share of a stated bound.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Share {
    /// Per cent; for a lower bound, the bound in per cent of the figure.
    pub percent: f64,
    /// The bound with its unit.
    pub bound: String,
    /// Reason for the bound.
    pub reason: String,
}

/// A bound that was measured on the host before the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeasuredBound {
    /// The bound with its unit.
    pub bound: String,
    /// Per cent of it, computed as [`Share::percent`].
    pub percent: f64,
    /// Whether the figure is better than the bound, which is then wrong.
    pub is_wrong: bool,
    /// A sentence without its full stop.
    pub text: String,
}

impl MeasuredBound {
    /// Compares a figure with its bound, in a unit as in files.
    pub(crate) fn of(
        value: f64,
        (bound, reason): &(f64, String),
        better: Better,
        unit: &str,
    ) -> MeasuredBound {
        let percent = percent_of(value, *bound, better);
        let is_wrong = percent > DISPROVED;
        let bound = unit::display(*bound, unit);
        let text = match is_wrong {
            true => format!(
                "the bound measured before the run, {bound} ({reason}), is wrong: \
                 the figure is {percent:.0} % of it"
            ),
            false => format!("measured before the run: {reason}, {bound}"),
        };
        MeasuredBound {
            bound,
            percent,
            is_wrong,
            text,
        }
    }

    /// Returns a short text about a wrong bound.
    pub fn brief(&self) -> String {
        format!(
            "a measured bound of {} is wrong: this is {:.0} % of it",
            self.bound, self.percent
        )
    }
}

/// One of two levels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Level {
    /// The median of its launches.
    pub number: f64,
    /// The median with its unit.
    pub value: String,
    /// Launches at this level.
    pub launches: usize,
}

/// Returns the tile of a headline, with other runs' headlines and published figures for comparison.
pub(super) fn tile(
    headline: &Headline,
    kind: MeasuredAt,
    beside: &[Headlines<'_>],
    published: &[Published],
) -> Tile {
    let subject = headline.subject;
    let rating = rate(headline, kind);
    let marks = rating.marks.as_ref();
    let share = marks
        .and_then(|marks| Some((marks.bound?, marks)))
        .map(|(bound, marks)| Share {
            percent: percent_of(headline.value, bound, subject.better()),
            bound: subject.display(bound),
            reason: marks.bound_reason.clone(),
        });
    let others = others(headline, kind, beside, published);
    let several = headline.launches.len() > 1;
    Tile {
        subject,
        name: subject.title(),
        of: headline.of.clone(),
        value: subject.display(headline.value),
        number: headline.value,
        unit: subject.unit(),
        better: subject.better(),
        kind,
        bar: marks.map(|marks| marks.bar(headline.value)),
        share: share.filter(|_| subject != Subject::Rate),
        measured_bound: measured_bound(headline, kind),
        launches: headline.launches.clone(),
        busy_launches: headline.busy_launches,
        interval: headline.interval.filter(|_| several),
        levels: levels(headline),
        tail: headline.tail,
        curve: headline.curve.clone(),
        place: place(headline, kind, &others),
        others,
        rating,
    }
}

fn measured_bound(headline: &Headline, kind: MeasuredAt) -> Option<MeasuredBound> {
    let subject = headline.subject;
    // Copies do not bound the rate of short messages, whose cost depends on their number.
    let has_one = matches!(subject, Subject::Latency | Subject::Bandwidth);
    let bound = headline.bound.as_ref().filter(|_| has_one)?;
    let is_measured = kind == MeasuredAt::Host || is_of_host(&bound.1);
    is_measured.then(|| MeasuredBound::of(headline.value, bound, subject.better(), subject.unit()))
}

fn levels(headline: &Headline) -> Vec<Level> {
    let sample = Sample::new(headline.launches.clone());
    let split = sample.as_ref().and_then(launches::split);
    let level = |sample: Sample| Level {
        number: sample.median(),
        value: headline.subject.display(sample.median()),
        launches: sample.count(),
    };
    split.into_iter().flatten().map(level).collect()
}

impl Tile {
    /// Returns the word.
    pub fn word(&self) -> Word {
        self.rating.word
    }

    /// Returns a value in the tile's unit, for people.
    pub fn display(&self, value: f64) -> String {
        self.subject.display(value)
    }

    /// Returns the spread over launches in words: two levels, an interval, or one launch.
    pub fn spread(&self) -> String {
        match (self.levels.as_slice(), self.interval) {
            ([low, high], _) => format!(
                "{} in {}, {} in {}",
                low.value,
                count(low.launches, "launch", "launches"),
                high.value,
                high.launches
            ),
            (_, Some(range)) => format!(
                "{} to {} over {} launches",
                self.display(range.low),
                self.display(range.high),
                self.launches.len()
            ),
            _ if self.kind == MeasuredAt::Model => "computed: no spread".to_owned(),
            _ => "one launch: no interval".to_owned(),
        }
    }

    /// Returns the number of incomparable figures beside it, in words.
    pub fn not_ranked(&self) -> Option<String> {
        let unlike = self.others.iter().filter(|other| !other.is_ranked).count();
        (unlike > 0).then(|| format!("{unlike} not comparable"))
    }
}
