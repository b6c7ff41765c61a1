//! Narrowing a knee: measuring between the points that it lies between, again and again.

use verbena_fabric::Result;
use verbena_measure::stats::knee::{self, Knee};

/// A knee is narrow enough when its ends differ by less.
const NARROW: f64 = 1.06;

/// What a point is measured for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The curve, which every launch measures alike.
    Curve,
    /// Narrowing its knee, which each launch does where it sees one.
    Search,
}

/// The knee of a curve over a capacity, `measure`d at more capacities until it is narrow, cannot be measured there, or
/// does not move any more. None if the curve has none.
///
/// # Errors
/// Those of `measure`.
pub async fn narrow(
    mut curve: Vec<(f64, f64)>,
    measure: impl AsyncFn(usize) -> Result<Option<f64>>,
) -> Result<Option<Knee>> {
    let mut knee = knee::find(&curve);
    while let Some(found) = knee.filter(|found| found.high / found.low > NARROW) {
        let middle = (found.low * found.high).sqrt().round();
        if middle <= found.low || middle >= found.high {
            break;
        }
        let Some(value) = measure(middle as usize).await? else {
            break;
        };
        curve.push((middle, value));
        let before = knee;
        knee = knee::find(&curve);
        if knee == before {
            break;
        }
    }
    Ok(knee)
}
