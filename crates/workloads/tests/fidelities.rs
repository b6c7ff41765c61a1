//! Packet and message fidelity agree within 5 %, on every benchmark that supports both. Messages
//! here have up to 32 packets; `verbena-reproduce` tests longer ones, which are sent as packet
//! trains.

use std::collections::BTreeMap;
use std::time::Duration;
use verbena_fabric::model::Fidelity;
use verbena_model::profile::{Library, Overrides, System};
use verbena_workloads::modelled::Modelled;
use verbena_workloads::registry::ALL;
use verbena_workloads::{Benchmark, Budget, Options, RateBudget, Record};

/// Maximum relative difference.
const APART: f64 = 0.05;

/// Benchmarks of messages that fit a packet, regardless of the sizes: both fidelities use the same
/// code there.
const SMALL: [&str; 4] = [
    "internals.contexts",
    "internals.translation",
    "internals.regions",
    "patterns.all-pairs",
];

fn system(name: &str) -> System {
    Library::shipped(&Overrides::none())
        .and_then(|library| library.system(name))
        .expect("shipped profiles are sound")
}

/// Long enough for a steady state, short enough for every `make test`.
fn short() -> Budget {
    let whole = Budget::virtual_time();
    Budget {
        most: 20,
        rates: RateBudget {
            block: Duration::from_millis(1),
            least: 32,
            most: 200,
            ..whole.rates
        },
        ..whole
    }
}

/// Returns the headline of each point, by benchmark and parameters.
fn figures(
    system: &System,
    benchmark: &'static Benchmark,
    fidelity: Fidelity,
) -> BTreeMap<String, f64> {
    let ran = Modelled {
        fidelity,
        options: Options {
            sizes: Some(vec![64, 4096, 65_536]),
            pairs: Some(vec![1, 4]),
            ..Options::default()
        },
        budget: short(),
        ..Modelled::new(system, benchmark)
    }
    .run()
    .expect("benchmarks of models end");
    let points = ran.records.into_iter().filter_map(|record| match record {
        Record::Point(point) => Some(point),
        _ => None,
    });
    points
        .map(|point| {
            let key = format!("{} {:?}", point.benchmark, point.parameters);
            (key, point.metrics[0].value)
        })
        .collect()
}

fn check(name: &str) {
    let system = system(name);
    let mut wrong = Vec::new();
    let mut points = 0;
    for benchmark in ALL.iter().filter(|b| !SMALL.contains(&b.name)) {
        let packets = figures(&system, benchmark, Fidelity::Packet);
        let messages = figures(&system, benchmark, Fidelity::Message);
        for (key, packet) in packets {
            points += 1;
            let Some(&message) = messages.get(&key) else {
                wrong.push(format!("{key}: not by messages"));
                continue;
            };
            let apart = message / packet - 1.0;
            // Both may be zero: host memory per connection, if the adapter has its own memory.
            if apart.abs() > APART && packet != message {
                wrong.push(format!(
                    "{key}: {packet} by packets, {message} by messages ({:+.1} %)",
                    apart * 100.0
                ));
            }
        }
    }
    assert!(points > 100, "only {points} points");
    assert!(
        wrong.is_empty(),
        "{name}, {} of {points}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn fidelities_agree_for_parallel_scheduling_over_pci_express() {
    check("connectx-ddr");
}

#[test]
fn fidelities_agree_for_serial_scheduling_over_pci_express() {
    check("infinihost3-ddr");
}

#[test]
fn fidelities_agree_over_pci_x() {
    check("infinihost-pcix");
}

#[test]
fn fidelities_agree_at_qdr() {
    check("connectx-qdr");
}
