//! Measured figures in a form that the model can predict.

use super::rule;
use verbena_measure::compare::Better;
use verbena_measure::result::{Metric, Parameters, Point, Value};
use verbena_workloads::{Benchmark, Processes, find};

/// A figure of a point, over all launches.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The benchmark.
    pub benchmark: &'static Benchmark,
    /// Parameters of the point.
    pub parameters: Parameters,
    /// Metric of the point.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The best of the launches.
    pub figure: f64,
}

impl Observed {
    pub(super) fn is_of(&self, point: &Point, metric: &Metric) -> bool {
        self.benchmark.name == point.benchmark
            && self.metric == metric.name
            && self.parameters == point.parameters
    }

    /// Returns a description of the figure for people.
    pub fn label(&self) -> String {
        let parameters = self.parameters.iter();
        // Values that all points share carry no information.
        let told = parameters.filter(|(_, value)| {
            !matches!(value, Value::Word(word) if word == "rc" || word == "own" || word == "one")
        });
        let words: Vec<String> = told
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let metric = match self.metric.as_str() {
            "cached-bandwidth" => ", over one buffer",
            _ => "",
        };
        format!("{}{metric}", words.join(", "))
    }
}

/// Returns the figures of all points that the rule covers, over any number of launches and runs, in
/// the order of the points.
pub fn observed(points: &[Point]) -> Vec<Observed> {
    let mut all: Vec<Observed> = Vec::new();
    for point in points.iter().filter(|point| rule::is_covered(point)) {
        let Some(benchmark) = find(&point.benchmark) else {
            continue;
        };
        if !matches!(benchmark.processes, Processes::Two | Processes::Pairs) {
            continue;
        }
        for metric in rule::figures(point).filter(|metric| metric.value > 0.0) {
            match all.iter_mut().find(|known| known.is_of(point, metric)) {
                Some(known) => known.figure = better(metric, known.figure),
                None => all.push(Observed {
                    benchmark,
                    parameters: point.parameters.clone(),
                    metric: metric.name.clone(),
                    unit: metric.unit.clone(),
                    figure: metric.value,
                }),
            }
        }
    }
    all
}

fn better(metric: &Metric, known: f64) -> f64 {
    match metric.better {
        Better::Lower => metric.value.min(known),
        Better::Higher => metric.value.max(known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_measure::result::Conduct;

    fn point(benchmark: &str, launch: u32, transport: &str, metrics: Vec<Metric>) -> Point {
        let parameters = [
            ("size", Value::Number(8.0)),
            ("transport", Value::Word(transport.to_owned())),
        ];
        Point {
            benchmark: benchmark.to_owned(),
            launch,
            parameters: parameters
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            metrics,
            pairs: Vec::new(),
            conduct: Conduct::default(),
            hot_ports: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn latency(nanos: f64) -> Vec<Metric> {
        vec![Metric::figure(
            "one-way-latency",
            "ns",
            Better::Lower,
            nanos,
        )]
    }

    fn bandwidth(rate: f64) -> Vec<Metric> {
        vec![Metric::figure("bandwidth", "bytes/s", Better::Higher, rate)]
    }

    #[test]
    fn the_best_launch_counts() {
        let all = observed(&[
            point("latency.write", 0, "rc", latency(150.0)),
            point("latency.write", 1, "rc", latency(140.0)),
            point("latency.write", 2, "rc", latency(330.0)),
            point("bandwidth.write", 0, "rc", bandwidth(2e9)),
            point("bandwidth.write", 1, "rc", bandwidth(3e9)),
        ]);
        let figures: Vec<f64> = all.iter().map(|one| one.figure).collect();
        assert_eq!(figures, [140.0, 3e9]);
    }

    #[test]
    fn points_outside_the_rule_are_left_out() {
        let rate = vec![Metric::figure("message-rate", "1/s", Better::Higher, 1e7)];
        let all = observed(&[
            point("latency.write", 0, "uc", latency(150.0)),
            point("latency.writ", 0, "rc", latency(150.0)),
            point("internals.loopback", 0, "rc", latency(150.0)),
            point("patterns.ring", 0, "rc", latency(150.0)),
            point("rate.list", 0, "rc", rate),
        ]);
        assert_eq!(all, []);
    }
}
