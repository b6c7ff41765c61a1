//! The thresholds for rating figures. They are constants or follow from a link's rate. No
//! measurement of the run affects them, so a disturbed machine cannot improve a rating.

use super::measured_at::{MeasuredAt, is_of_host};
use crate::headline::{Headline, Subject};
use crate::older_records::CACHED_BANDWIDTH;
use serde::Serialize;
use verbena_measure::compare::Better;
use verbena_measure::unit;

/// Thresholds for rating a figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Marks {
    /// Strong from this value on.
    pub strong: f64,
    /// Weak beyond this.
    pub weak: f64,
    /// The bound stated by a link or by the definition of the figure.
    pub bound: Option<f64>,
    /// Reason for the bound.
    pub bound_reason: String,
    /// Whether the thresholds are shares of the bound.
    pub shares: bool,
}

/// Thresholds of latency and message rate apply to messages up to this size in bytes, a cache line.
const SHORT: f64 = 64.0;
/// Thresholds of bandwidth apply to messages of at least this size in bytes, perftest's default.
const LONG: f64 = 65_536.0;
/// Shares of a link's payload rate.
const LINK_SHARES: (f64, f64) = (0.85, 0.5);

/// Returns the thresholds.
///
/// # Errors
///
/// Returns the reason if there are none.
pub(super) fn marks(headline: &Headline, kind: MeasuredAt) -> Result<Marks, String> {
    let subject = headline.subject;
    let size = headline.size;
    let stated = |strong, weak| Marks {
        strong,
        weak,
        bound: None,
        bound_reason: String::new(),
        shares: false,
    };
    let bound = headline.bound.as_ref();
    let link = bound.filter(|(_, reason)| kind != MeasuredAt::Host && !is_of_host(reason));
    match subject {
        Subject::Latency if size.is_none_or(|size| size > SHORT) => Err(format!(
            "not rated: marks hold for messages of up to {}",
            unit::size(SHORT)
        )),
        Subject::Latency if kind == MeasuredAt::Host => Ok(stated(250.0, 1000.0)),
        Subject::Latency => Ok(stated(1500.0, 5000.0)),
        Subject::Bandwidth if size.is_none_or(|size| size < LONG) => Err(format!(
            "not rated: marks hold for messages of at least {}",
            unit::size(LONG)
        )),
        Subject::Bandwidth if kind == MeasuredAt::Host => Ok(match headline.metric.as_str() {
            CACHED_BANDWIDTH => stated(10e9, 3e9),
            _ => stated(6e9, 2e9),
        }),
        Subject::Bandwidth => match link {
            Some((bound, reason)) => Ok(shares(*bound, reason, LINK_SHARES)),
            None => Err("not rated: the rate of the link is not known".to_owned()),
        },
        Subject::Rate if size.is_none_or(|size| size > SHORT) => Err(format!(
            "not rated: marks hold for messages of up to {}",
            unit::size(SHORT)
        )),
        Subject::Rate => Ok(Marks {
            bound: link.map(|(bound, _)| *bound),
            bound_reason: link.map(|(_, reason)| reason.clone()).unwrap_or_default(),
            ..stated(4e6, 1e6)
        }),
        Subject::Scaling => Ok(Marks {
            bound: Some(1.0),
            bound_reason: "the latency of one pair".to_owned(),
            ..stated(1.25, 2.5)
        }),
        Subject::Memory => Ok(stated(16.0 * 1024.0, 128.0 * 1024.0)),
    }
}

fn shares(bound: f64, reason: &str, (strong, weak): (f64, f64)) -> Marks {
    Marks {
        strong: strong * bound,
        weak: weak * bound,
        bound: Some(bound),
        bound_reason: reason.to_owned(),
        shares: true,
    }
}

/// Returns a value in per cent of a bound; for a lower bound, the bound in per cent of the value.
pub(super) fn percent_of(value: f64, bound: f64, better: Better) -> f64 {
    100.0
        * match better {
            Better::Higher => value / bound,
            Better::Lower => bound / value,
        }
}

impl Marks {
    pub(super) fn text(&self, headline: &Headline) -> String {
        let subject = headline.subject;
        let better = subject.better();
        let [strong, weak] = [self.strong, self.weak].map(|mark| subject.display(mark));
        match (better, self.bound.filter(|_| self.shares)) {
            (_, Some(bound)) => format!(
                "{:.0} % of its bound, {}; strong from {:.0} %, weak below {:.0} %",
                percent_of(headline.value, bound, better),
                subject.display(bound),
                percent_of(self.strong, bound, better),
                percent_of(self.weak, bound, better)
            ),
            (Better::Lower, None) => format!("strong up to {strong}, weak above {weak}"),
            (Better::Higher, None) => format!("strong from {strong}, weak below {weak}"),
        }
    }

    /// Returns the position of a value on a bar from 0 to 1: weak below a third, strong from two
    /// thirds.
    pub fn bar(&self, value: f64) -> f64 {
        let place = (value / self.weak).ln() / (self.strong / self.weak).ln();
        match place.is_nan() {
            true => 0.0,
            false => ((1.0 + place) / 3.0).clamp(0.0, 1.0),
        }
    }
}
