//! Pools the distributions of launches: tails need more samples than a launch has (rule 6).

use verbena_measure::result::Summary;
use verbena_measure::stats::outlier::Outliers;

/// Number of samples required beyond a percentile.
const BEYOND: f64 = 10.0;

/// Returns the pooled distribution of the launches. `None` if one of them has no tail to pool; a
/// single launch is returned unchanged.
pub fn pooled(launches: &[&Summary]) -> Option<Summary> {
    let first = *launches.first()?;
    if launches.len() == 1 {
        return Some(first.clone());
    }
    if launches.iter().any(|one| one.tail.is_empty()) {
        return None;
    }
    let mut parts: Vec<(f64, f64)> = launches.iter().flat_map(|one| parts(one)).collect();
    parts.sort_by(|a, b| a.0.total_cmp(&b.0));
    let n: u64 = launches.iter().map(|one| one.n).sum();
    let at = |share: f64| {
        let mut left = share * n as f64 - 1e-6;
        let reached = parts.iter().find(|(_, weight)| {
            left -= weight;
            left <= 0.0
        });
        reached.or(parts.last()).map_or(f64::NAN, |part| part.0)
    };
    let known = |share: f64| ((1.0 - share) * n as f64 + 1e-6 >= BEYOND).then(|| at(share));
    let (min, max) = (
        launches.iter().map(|one| one.min).fold(f64::MAX, f64::min),
        launches.iter().map(|one| one.max).fold(f64::MIN, f64::max),
    );
    let weighted = |of: &dyn Fn(&Summary) -> f64| {
        launches
            .iter()
            .map(|one| one.n as f64 * of(one))
            .sum::<f64>()
            / n as f64
    };
    let mean = weighted(&|one| one.mean);
    let within = weighted(&|one| one.deviation.unwrap_or(0.0).powi(2));
    let between = weighted(&|one| (one.mean - mean).powi(2));
    let drawn = first.quantiles.len().max(2);
    let inner = (1..drawn - 1).map(|i| at(i as f64 / (drawn - 1) as f64));
    Some(Summary {
        n,
        min,
        p50: at(0.5),
        p90: known(0.9),
        p99: known(0.99),
        p999: known(0.999),
        max,
        mean,
        deviation: Some((within + between).sqrt()),
        // That of samples, which are not independent; the figure has the interval over launches.
        median_interval: None,
        outliers: launches
            .iter()
            .fold(Outliers::default(), |sum, one| Outliers {
                low_severe: sum.low_severe + one.outliers.low_severe,
                low_mild: sum.low_mild + one.outliers.low_mild,
                high_mild: sum.high_mild + one.outliers.high_mild,
                high_severe: sum.high_severe + one.outliers.high_severe,
            }),
        quantiles: [min].into_iter().chain(inner).chain([max]).collect(),
        tail: launches.iter().flat_map(|one| one.tail.clone()).collect(),
    })
}

/// Returns a distribution as values with weights: its tail as recorded, the rest from the
/// quantiles.
fn parts(one: &Summary) -> Vec<(f64, f64)> {
    let tail: u64 = one.tail.iter().map(|(_, count)| count).sum();
    let body = one.n.saturating_sub(tail) as f64;
    let last = one.quantiles.len().saturating_sub(1).max(1) as f64;
    let share = body / one.n.max(1) as f64;
    let inside = one.quantiles.iter().enumerate();
    let inside = inside.filter(|(i, _)| *i == 0 || (*i as f64) / last <= share);
    let inside: Vec<f64> = inside.map(|(_, value)| *value).collect();
    let each = body / inside.len().max(1) as f64;
    let tail = one
        .tail
        .iter()
        .map(|(value, count)| (*value, *count as f64));
    inside
        .into_iter()
        .map(|value| (value, each))
        .chain(tail)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_measure::random::Random;
    use verbena_measure::sample::Sample;
    use verbena_measure::stats::quantile::supported;

    /// Most take a little more than 300 ns, one in two hundred is ten times as slow.
    fn launch(seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        let mut one = || {
            let usual = 300.0 + 20.0 * random.unit();
            match random.unit() < 0.005 {
                true => usual * (8.0 + 4.0 * random.unit()),
                false => usual,
            }
        };
        (0..2000).map(|_| one()).collect()
    }

    #[test]
    fn pooled_launches_support_a_higher_percentile() {
        let launches: Vec<Vec<f64>> = (0..5).map(launch).collect();
        let summaries = launches
            .iter()
            .map(|l| Summary::of(&Sample::new(l.clone()).unwrap()));
        let summaries: Vec<Summary> = summaries.collect();
        assert!(summaries.iter().all(|one| one.p999.is_none()));
        let together = pooled(&summaries.iter().collect::<Vec<_>>()).unwrap();
        let all = Sample::new(launches.concat()).unwrap();
        assert_eq!((together.n, together.max), (10_000, all.max()));
        for (found, p) in [
            (together.p99, 0.99),
            (together.p999, 0.999),
            (together.p90, 0.9),
        ] {
            let (found, exact) = (found.unwrap(), supported(&all, p).unwrap());
            assert!((found / exact - 1.0).abs() < 0.01, "{p}: {found} {exact}");
        }
        assert!((together.mean - all.mean()).abs() < 1e-6);
        let deviation = together.deviation.unwrap() / all.standard_deviation().unwrap();
        assert!((deviation - 1.0).abs() < 0.01);
    }

    #[test]
    fn files_without_tails_are_not_pooled() {
        let mut one = Summary::of(&Sample::new(launch(1)).unwrap());
        one.tail.clear();
        assert_eq!(pooled(&[&one, &one]), None);
        assert_eq!(pooled(&[&one]), Some(one.clone()));
        assert_eq!(pooled(&[]), None);
    }
}
