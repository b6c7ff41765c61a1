//! Root finding on a simulation.

/// Relative error at which a figure counts as reached.
pub const TOLERANCE: f64 = 5e-4;
/// Largest number of simulations for one anchor.
const MOST: usize = 40;

/// Returns the offset, at least `least`, at which `time` is closest to `target`; all are in
/// nanoseconds.
///
/// `time` must not fall as the offset grows. It need not grow everywhere: a resource that the
/// offset does not change may determine it. Of offsets with the same result the one nearest to
/// `start` is returned.
///
/// # Errors
///
/// Returns an error of `time`.
pub fn solve<E>(
    mut time: impl FnMut(f64) -> Result<f64, E>,
    start: f64,
    target: f64,
    least: f64,
) -> Result<f64, E> {
    let tolerance = target * TOLERANCE;
    let mut offset = start.max(least);
    let mut reached = time(offset)?;
    let mut best = (offset, (target - reached).abs());
    let mut step = target - reached;
    let mut below: Option<(f64, f64)> = None;
    let mut above: Option<(f64, f64)> = None;
    for round in 0..MOST {
        let miss = target - reached;
        if miss.abs() <= tolerance {
            break;
        }
        match miss > 0.0 {
            true => below = Some((offset, reached)),
            false => above = Some((offset, reached)),
        }
        let next = match (below, above) {
            (Some(low), Some(high)) => {
                if (high.0 - low.0).abs() < 1e-3 {
                    break;
                }
                let share = match round % 3 {
                    2 => 0.5,
                    _ => (target - low.1) / (high.1 - low.1),
                };
                low.0 + share * (high.0 - low.0)
            }
            _ => (offset + step).max(least),
        };
        if next == offset {
            break;
        }
        let before = (offset, reached);
        (offset, reached) = (next, time(next)?);
        let answered = (reached - before.1) / (offset - before.0);
        // Where the offset has no effect yet, steps grow.
        step = match answered < 0.1 {
            true => 2.0 * (offset - before.0),
            false => target - reached,
        };
        let miss = (target - reached).abs();
        if miss < best.1 - tolerance / 2.0 {
            best = (offset, miss);
        }
    }
    Ok(best.0)
}

#[cfg(test)]
mod tests {
    use super::solve;
    use std::convert::Infallible;

    fn solved(time: impl Fn(f64) -> f64, target: f64, least: f64) -> (f64, usize) {
        let mut calls = 0;
        let counted = |offset| {
            calls += 1;
            Ok::<f64, Infallible>(time(offset))
        };
        let Ok(offset) = solve(counted, 0.0, target, least);
        (offset, calls)
    }

    #[test]
    fn a_time_that_follows_the_offset_takes_two_simulations() {
        assert_eq!(solved(|x| 900.0 + x, 1880.0, -500.0), (980.0, 2));
        assert_eq!(solved(|x| 900.0 + x, 700.0, -500.0), (-200.0, 2));
    }

    #[test]
    fn a_step_behind_another_resource_is_found() {
        let (offset, calls) = solved(|x| (60.0 + x).max(140.0), 150.0, 0.0);
        assert!((offset - 90.0).abs() < 0.1, "{offset}");
        assert!(calls < 20, "{calls}");
        let (offset, _) = solved(|x| 500.0 + 0.4 * x, 1500.0, 0.0);
        assert!((offset - 2500.0).abs() < 2.0, "{offset}");
    }

    #[test]
    fn a_time_below_the_least_is_clamped() {
        assert_eq!(solved(|x| 900.0 + x, 100.0, -300.0).0, -300.0);
    }

    #[test]
    fn an_offset_without_effect_is_not_applied() {
        assert_eq!(solved(|_| 500.0, 400.0, -300.0).0, 0.0);
    }
}
