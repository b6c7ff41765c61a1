//! Which benchmarks are launched more often than was asked, because a neighbour disturbed some of their launches (rule 5).

use std::collections::BTreeMap;
use verbena_measure::compare::LEAST_LAUNCHES;
use verbena_measure::result::Point;
use verbena_measure::warning::Warning;
use verbena_report::gather::key;

/// At most so many launches for each that was asked.
const MOST: u32 = 2;

/// How many launches there may be in all. With too few to compare, none is left out, and so none is repeated.
pub fn most(launches: u32) -> u32 {
    match launches as usize >= LEAST_LAUNCHES {
        true => launches * MOST,
        false => launches,
    }
}

/// Whether a point of this benchmark has fewer undisturbed launches than asked.
pub fn wants_another(points: &[Point], benchmark: &str, launches: u32) -> bool {
    let mut undisturbed: BTreeMap<String, u32> = BTreeMap::new();
    for point in points.iter().filter(|point| point.benchmark == benchmark) {
        let counts = !point.warnings.contains(&Warning::Disturbed);
        let key = key(&point.benchmark, &point.parameters);
        *undisturbed.entry(key).or_default() += u32::from(counts);
    }
    undisturbed.values().any(|&count| count < launches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_measure::result::{Parameters, Value};

    fn point(size: f64, launch: u32, disturbed: bool) -> Point {
        Point {
            benchmark: "latency.write".to_owned(),
            launch,
            parameters: Parameters::from([("size".to_owned(), Value::Number(size))]),
            warnings: disturbed
                .then_some(Warning::Disturbed)
                .into_iter()
                .collect(),
            ..Point::default()
        }
    }

    #[test]
    fn a_benchmark_goes_on_until_each_point_has_its_launches() {
        let mut points = vec![
            point(8.0, 0, false),
            point(64.0, 0, true),
            point(8.0, 1, false),
            point(64.0, 1, false),
        ];
        assert!(wants_another(&points, "latency.write", 2));
        assert!(
            !wants_another(&points, "latency.read", 2),
            "nothing to repeat"
        );
        points.push(point(64.0, 2, false));
        assert!(!wants_another(&points, "latency.write", 2));
    }

    #[test]
    fn a_launch_or_two_are_what_was_asked() {
        assert_eq!([1, 2, 3, 10].map(most), [1, 2, 6, 20]);
    }
}
