//! Narrows a knee by repeated measurement between its neighbouring points.

use verbena_fabric::Result;
use verbena_measure::stats::knee::{self, Knee};

/// A knee is narrow enough if the ratio of its ends is below this.
const NARROW: f64 = 1.06;

/// The purpose of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The curve, measured alike in every launch.
    Curve,
    /// Narrowing the knee, in each launch that has one.
    Search,
}

/// Returns the knee of a curve over a capacity. Calls `measure` at more capacities until the knee
/// is narrow, cannot be measured there, or does not move any more. `None` if the curve has no knee.
///
/// # Errors
/// Those of `measure`.
pub async fn narrow_knee(
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
