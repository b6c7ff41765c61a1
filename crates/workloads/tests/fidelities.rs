//! Following packets and following whole messages give the same figures within 5 %, on every benchmark that both can run.

use std::collections::BTreeMap;
use std::time::Duration;
use verbena_fabric::model::Fidelity;
use verbena_model::profile::{Library, Overrides, System};
use verbena_workloads::modelled::Modelled;
use verbena_workloads::registry::ALL;
use verbena_workloads::{Benchmark, Budget, Options, RateBudget, Record};

/// How far the two may be apart.
const APART: f64 = 0.05;

/// Points that are further apart, for known reasons (docs/models.md): system, benchmark, a word of the parameters.
const KNOWN: [(&str, &str, &str); 8] = [
    // Pairs that follow packets stay in step; of those that follow trains, some send while others receive.
    ("connectx-ddr", "multi-pair.write-latency", "free"),
    ("connectx-qdr", "multi-pair.write-latency", "free"),
    // A train's reads do not wait for each packet that the half-duplex bus carries the other way.
    ("infinihost-pcix", "bandwidth.write-both", "both"),
    ("infinihost-pcix", "internals.loopback", "host"),
    ("infinihost-pcix", "patterns.ring", "rc"),
    ("infinihost-pcix", "patterns.bisection", "rc"),
    // Four pairs take a serial adapter's turns in another order; not traced further.
    ("infinihost-pcix", "multi-pair.write-latency", "lockstep"),
    ("infinihost3-ddr", "multi-pair.read-latency", "65536"),
];

/// Benchmarks of messages that fit a packet, whatever the sizes asked for: there the two are the same code.
const SMALL: [&str; 4] = [
    "internals.contexts",
    "internals.translation",
    "internals.regions",
    "patterns.all-pairs",
];

fn is_known(system: &str, key: &str) -> bool {
    KNOWN.iter().any(|(known, benchmark, word)| {
        *known == system && key.starts_with(benchmark) && key.contains(word)
    })
}

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

/// The headline of each point, by benchmark and parameters.
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
            // Both may be nothing: memory that connections cost where the adapter has its own.
            if apart.abs() > APART && packet != message && !is_known(name, &key) {
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
fn they_agree_on_parallel_scheduling_and_pci_express() {
    check("connectx-ddr");
}

#[test]
fn they_agree_on_serial_scheduling_and_pci_express() {
    check("infinihost3-ddr");
}

#[test]
fn they_agree_on_pci_x() {
    check("infinihost-pcix");
}

#[test]
fn they_agree_at_qdr() {
    check("connectx-qdr");
}
