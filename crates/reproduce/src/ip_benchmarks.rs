//! The benchmarks `ip.*` on modelled systems: TCP over IP over InfiniBand in connected mode, by the
//! kernel's stack of 2009 (`profiles/stack`). The claims of qdr_evaluation use the same functions.

use crate::bench::{Direction, ipoib_bandwidth, ipoib_latency};
use verbena_measure::compare::Better;
use verbena_measure::result::{Conduct, Metric, Parameters, Point, Value};
use verbena_model::profile::{Stack, System};
use verbena_workloads::{Benchmark, Group};

/// Returns the result of a benchmark for messages of `bytes` bytes, at least one; none if it is not
/// one of `ip.*`.
pub fn point(benchmark: &Benchmark, system: &System, stack: &Stack, bytes: u64) -> Option<Point> {
    if benchmark.group != Group::Ip {
        return None;
    }
    let rate = |direction| {
        let bandwidth = ipoib_bandwidth(system, stack, bytes, direction) * 1e6;
        let metric = |name, unit, value| Metric::figure(name, unit, Better::Higher, value);
        vec![
            metric("bandwidth", "bytes/s", bandwidth),
            metric("message-rate", "1/s", bandwidth / bytes as f64),
        ]
    };
    let metrics = match benchmark.name {
        "ip.latency" => {
            let nanos = ipoib_latency(system, stack, bytes) * 1e3;
            vec![Metric::figure(
                "one-way-latency",
                "ns",
                Better::Lower,
                nanos,
            )]
        }
        "ip.stream" => rate(Direction::One),
        "ip.stream-both" => rate(Direction::Both),
        _ => return None,
    };
    Some(Point {
        benchmark: benchmark.name.to_owned(),
        launch: 0,
        parameters: Parameters::from([
            ("mode".to_owned(), Value::from("connected")),
            ("mtu".to_owned(), Value::from(stack.mtu.0 as usize)),
            ("size".to_owned(), Value::from(bytes as usize)),
        ]),
        metrics,
        pairs: Vec::new(),
        conduct: Conduct::default(),
        hot_ports: Vec::new(),
        warnings: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_model::profile::{Library, Overrides, Profile, ProfileKind};

    #[test]
    fn each_of_them_has_a_figure_that_grows_with_the_size() {
        let library = Library::shipped(&Overrides::none()).unwrap();
        let system = library.system("connectx-qdr").unwrap();
        let Some(Profile::Stack(stack)) = library.profile(ProfileKind::Stack, "ipoib") else {
            panic!("the stack is shipped");
        };
        let all = verbena_workloads::registry::ALL.iter();
        let of_ip = all.filter(|one| one.group == Group::Ip);
        // The stack has no times of UDP.
        let (without, of_ip): (Vec<_>, Vec<_>) =
            of_ip.partition(|one| point(one, &system, stack, 64).is_none());
        assert_eq!(
            without
                .iter()
                .map(|one: &&Benchmark| one.name)
                .collect::<Vec<_>>(),
            ["ip.datagrams"]
        );
        assert_eq!(of_ip.len(), 3);
        for benchmark in of_ip {
            let value = |bytes| {
                let point = point(benchmark, &system, stack, bytes).unwrap();
                assert_eq!(
                    point.parameters.get(benchmark.axis),
                    Some(&Value::from(bytes as usize))
                );
                point.metrics[0].value
            };
            // A message of more than the MTU is two packets.
            let values = [1, 4096, stack.mtu.0, stack.mtu.0 + 1].map(value);
            let grows = values[..3].is_sorted_by(|one, next| one < next);
            assert!(grows && values[3] > 0.0, "{}: {values:?}", benchmark.name);
        }
        let write = verbena_workloads::find("latency.write").unwrap();
        assert!(point(write, &system, stack, 8).is_none());
    }
}
