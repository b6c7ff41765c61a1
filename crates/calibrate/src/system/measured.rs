//! Selects the points of a run that the models can predict.
//!
//! A point counts only if all of its parameters match the questions of [`Observation::predicted`]:
//! reliable connections, free-running pairs, and streams of messages long enough that the
//! completion interval does not matter.

use super::observation::{INLINE, Observation, Quantity};
use verbena_measure::result::{Point, Value};
use verbena_model::adapter::Kind;
use verbena_reproduce::bench::Direction;

/// Shortest stream message in bytes. The cost of shorter ones is that of their completions, and
/// programs differ in how many they request.
const LEAST_STREAM: u64 = 4096;
/// The suite's pairs post inline up to this size, others up to [`INLINE`].
const INLINE_OF_PAIRS: u64 = 400;
/// Known parameters; a point with any other parameter measures something else.
const UNDERSTOOD: [&str; 6] = [
    "size",
    "transport",
    "receive-queue",
    "ways",
    "pairs",
    "mode",
];

impl Observation {
    /// Converts the point; `None` if the models cannot predict it.
    pub fn of(point: &Point) -> Option<Observation> {
        let (quantity, metric) = quantity(&point.benchmark)?;
        if point
            .parameters
            .keys()
            .any(|name| !UNDERSTOOD.contains(&name.as_str()))
        {
            return None;
        }
        let transport = match quantity {
            Quantity::MpiLatency | Quantity::MpiBandwidth => "mpi",
            _ => "rc",
        };
        let usual = |name: &str, usual: &str| match point.parameters.get(name) {
            None => true,
            Some(Value::Word(word)) => word == usual,
            Some(Value::Number(_)) => false,
        };
        if !usual("transport", transport)
            || !usual("receive-queue", "own")
            || !usual("mode", "free")
        {
            return None;
        }
        let whole = |name: &str| match point.parameters.get(name) {
            Some(Value::Number(number)) if *number >= 1.0 && number.fract() == 0.0 => {
                Some(*number as u64)
            }
            _ => None,
        };
        let bytes = whole("size")?;
        let pairs = match point.parameters.contains_key("pairs") {
            true => whole("pairs")?,
            false => 1,
        };
        let otherwise_inline = point.benchmark == "multi-pair.write-latency"
            && (INLINE + 1..=INLINE_OF_PAIRS).contains(&bytes);
        if otherwise_inline || (metric == "bandwidth" && bytes < LEAST_STREAM) {
            return None;
        }
        let of_name = |name: &str| point.metrics.iter().find(|found| found.name == name);
        // The models' streams use one buffer, as the tools behind most published figures do.
        let found = of_name(&format!("cached-{metric}")).or_else(|| of_name(metric))?;
        let figure = match found.unit.as_str() {
            "ns" => found.value / 1e3,
            "bytes/s" => found.value / 1e6,
            _ => return None,
        };
        (figure.is_finite() && figure > 0.0).then_some(Observation {
            quantity,
            bytes,
            pairs: pairs as usize,
            figure,
        })
    }
}

/// Returns a benchmark's quantity and the name of its metric.
fn quantity(benchmark: &str) -> Option<(Quantity, &'static str)> {
    let latency = |kind, metric| Some((Quantity::Latency(kind), metric));
    let stream = |kind, direction| Some((Quantity::Bandwidth(kind, direction), "bandwidth"));
    match benchmark {
        "latency.write" | "multi-pair.write-latency" => latency(Kind::Write, "one-way-latency"),
        "latency.send" => latency(Kind::Send, "one-way-latency"),
        "latency.read" | "multi-pair.read-latency" => latency(Kind::Read, "completion-latency"),
        "bandwidth.write" | "multi-pair.write-bandwidth" => stream(Kind::Write, Direction::One),
        "bandwidth.write-both" => stream(Kind::Write, Direction::Both),
        "bandwidth.read" => stream(Kind::Read, Direction::One),
        "bandwidth.send" => stream(Kind::Send, Direction::One),
        "mpi.latency" => Some((Quantity::MpiLatency, "one-way-latency")),
        "mpi.bandwidth" => Some((Quantity::MpiBandwidth, "bandwidth")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_measure::compare::Better;
    use verbena_measure::result::{Conduct, Metric};

    fn point(benchmark: &str, parameters: &[(&str, Value)], metric: Metric) -> Point {
        Point {
            benchmark: benchmark.to_owned(),
            launch: 0,
            parameters: parameters
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
            metrics: vec![metric],
            pairs: Vec::new(),
            conduct: Conduct::default(),
            hot_ports: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn latency(parameters: &[(&str, Value)]) -> Option<Observation> {
        let metric = Metric::figure("one-way-latency", "ns", Better::Lower, 1250.0);
        Observation::of(&point("latency.write", parameters, metric))
    }

    #[test]
    fn latencies_are_in_microseconds() {
        let found = latency(&[("size", 8.0.into()), ("transport", "rc".into())]);
        let expected = Observation {
            quantity: Quantity::Latency(Kind::Write),
            bytes: 8,
            pairs: 1,
            figure: 1.25,
        };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn points_measured_with_other_options_are_left_out() {
        for parameters in [
            vec![("size", 8.0.into()), ("transport", "uc".into())],
            vec![("size", 8.0.into()), ("receive-queue", "shared".into())],
            vec![("size", 8.0.into()), ("mode", "lockstep".into())],
            vec![("size", 8.0.into()), ("load-percent", 50.0.into())],
            vec![("size", 0.0.into())],
            vec![],
        ] {
            assert_eq!(latency(&parameters), None, "{parameters:?}");
        }
    }

    #[test]
    fn streams_of_short_messages_are_left_out() {
        let stream = |bytes: f64| {
            let metric = Metric::figure("bandwidth", "bytes/s", Better::Higher, 1.5e9);
            let parameters = [("size", bytes.into()), ("ways", "both".into())];
            Observation::of(&point("bandwidth.write-both", &parameters, metric))
        };
        assert_eq!(stream(64.0), None);
        assert_eq!(stream(65_536.0).map(|found| found.figure), Some(1500.0));
    }
}
