//! Invariants of any machine that must hold for the models under every benchmark: nothing exceeds
//! its rate, no byte is lost, nothing completes before it is done, and queued data fits the
//! buffers.

use verbena_fabric::model::Fidelity;
use verbena_measure::result::Point;
use verbena_model::profile::{Library, Overrides, System};
use verbena_workloads::modelled::Modelled;
use verbena_workloads::registry::ALL;
use verbena_workloads::{Options, Record, find};

fn system(name: &str, settings: &[(&str, f64)]) -> System {
    let overrides = settings
        .iter()
        .fold(Overrides::none(), |all, (path, value)| {
            all.with(path, *value)
        });
    Library::shipped(&overrides)
        .and_then(|library| library.system(name))
        .expect("shipped profiles are sound")
}

fn points(records: Vec<Record>) -> Vec<Point> {
    let points = records.into_iter().filter_map(|record| match record {
        Record::Point(point) => Some(*point),
        _ => None,
    });
    points.collect()
}

/// Systems with a bottleneck: as shipped, a bus of one lane, buffers of one or two packets.
const SYSTEMS: [(&str, &[(&str, f64)]); 5] = [
    ("connectx-ddr", &[("bensley.pcie.lanes", 1.0)]),
    ("connectx-qdr", &[("4x-sdr.buffer", 4.0)]),
    ("infinihost3-ddr", &[]),
    ("infinihost3-mem-sdr-2port", &[]),
    ("infinihost-pcix", &[]),
];

#[test]
fn every_benchmark_satisfies_the_machine_invariants() {
    for (name, settings) in SYSTEMS {
        let system = system(name, settings);
        for benchmark in ALL {
            let options = Options {
                sizes: Some(vec![8, 16_384]),
                pairs: Some(vec![1, 4]),
                ..Options::default()
            };
            let (_, audit) = Modelled {
                options,
                ..Modelled::new(&system, benchmark)
            }
            .audited()
            .unwrap_or_else(|error| panic!("{} on {name}: {error}", benchmark.name));
            let breaches = audit.breaches();
            assert!(
                breaches.is_empty(),
                "{} on {name}: {breaches:#?}",
                benchmark.name
            );
        }
    }
}

#[test]
fn patterns_and_streams_satisfy_the_invariants_at_message_fidelity() {
    let system = system("connectx-ddr", &[("bensley.pcie.lanes", 2.0)]);
    for name in [
        "patterns.fan-in",
        "patterns.fan-out",
        "patterns.ring",
        "bandwidth.write-both",
        "bandwidth.read",
        "bandwidth.send",
    ] {
        let options = Options {
            sizes: Some(vec![8, 1 << 20]),
            ..Options::default()
        };
        let (_, audit) = Modelled {
            options,
            fidelity: Fidelity::Message,
            ..Modelled::new(&system, find(name).expect("a benchmark of the suite"))
        }
        .audited()
        .unwrap_or_else(|error| panic!("{name}: {error}"));
        let breaches = audit.breaches();
        assert!(breaches.is_empty(), "{name}: {breaches:#?}");
    }
}

/// Senders of a fan-in, each on a separate node.
const SENDERS: usize = 4;

/// Priority flow control stops senders, so nothing is lost, and the receiver's link is the limit:
/// packets of 1024 B of payload in frames of 1106 B. DCQCN slows senders down: a few milliseconds
/// show how it begins, at less than half of the rate.
#[test]
fn fan_in_over_roce_has_the_rate_of_the_receivers_link() {
    for (name, owner, least) in [
        ("connectx4lx-25gbe", "connectx4lx-25gbe", 0.97),
        ("connectx5-100gbe", "connectx5-100gbe", 0.97),
        ("connectx5-100gbe-dcqcn", "connectx5-100gbe", 0.35),
    ] {
        let nodes = format!("{owner}.nodes");
        let system = system(name, &[(&nodes, SENDERS as f64 + 1.0)]);
        let options = Options {
            sizes: Some(vec![65_536]),
            ..Options::default()
        };
        let (ran, audit) = Modelled {
            options,
            processes: Some(SENDERS + 1),
            ..Modelled::new(&system, find("patterns.fan-in").expect("of the suite"))
        }
        .audited()
        .expect("it ends");
        assert_eq!(audit.breaches(), Vec::<String>::new(), "{name}");
        let point = points(ran.records).pop().expect("a point");
        assert_eq!(point.metrics[0].name, "bandwidth", "{name}");
        let together = point.metrics[0].value / 1e6;
        let link = system.link.rate.0 / 1e6 * 1024.0 / 1106.0;
        assert!(
            (least * link..1.005 * link).contains(&together),
            "{name}: {together} of {link} MB/s"
        );
    }
}

/// Returns the rate of a benchmark's senders together, in 10^6 bytes per second.
fn rate(system: &System, benchmark: &str, size: usize) -> f64 {
    let options = Options {
        sizes: Some(vec![size]),
        ..Options::default()
    };
    let ran = Modelled {
        options,
        ..Modelled::new(system, find(benchmark).expect("a benchmark of the suite"))
    }
    .run()
    .expect("it ends");
    let point = points(ran.records).pop().expect("a point");
    point.metrics[0].value / 1e6
}

/// Payload rate of an older PCI Express slot in MB/s: of 2 GB/s, 256 of every 280 bytes.
const SLOT: f64 = 2000.0 * 256.0 / 280.0;

/// Payload rate of 4x HDR in MB/s: 25 GB/s, of which headers take a part.
const HDR: f64 = 25_000.0;

/// The shipped set-up has two nodes, and every process has one nevertheless: no rate contains
/// traffic inside a node, and the headline is the total into the receiver however many send.
#[test]
fn fan_in_is_limited_by_the_receivers_link() {
    let system = system("connectx6-hdr", &[]);
    for (processes, fidelity) in [
        (3, Fidelity::Packet),
        (8, Fidelity::Packet),
        (8, Fidelity::Message),
        (32, Fidelity::Message),
    ] {
        let ran = Modelled {
            options: Options {
                sizes: Some(vec![8192, 65_536]),
                ..Options::default()
            },
            processes: Some(processes),
            fidelity,
            ..Modelled::new(&system, find("patterns.fan-in").expect("is of the suite"))
        }
        .run()
        .expect("it ends");
        let points = points(ran.records);
        assert_eq!(points.len(), 2);
        for point in points {
            let names: Vec<_> = point.metrics.iter().map(|one| one.name.as_str()).collect();
            let expected = ["bandwidth", "message-rate", "median-process-bandwidth"];
            assert_eq!(names, expected, "{processes} processes");
            let total = point.metrics[0].value / 1e6;
            assert!(
                total <= HDR && total > 0.85 * HDR,
                "{processes} processes: {total} MB/s over {HDR}"
            );
        }
    }
}

#[test]
fn a_pattern_is_refused_with_too_few_processes_or_nodes() {
    let error = |system: &str, processes| {
        Modelled {
            processes: Some(processes),
            ..Modelled::new(
                &self::system(system, &[]),
                find("patterns.fan-in").expect("one"),
            )
        }
        .run()
        .expect_err("refused")
        .to_string()
    };
    let few = error("connectx6-hdr", 2);
    assert!(few.contains("at least 3 processes, the job has 2"), "{few}");
    let back_to_back = error("connectx-qdr-back-to-back", 4);
    assert!(back_to_back.contains("connects 2 nodes"), "{back_to_back}");
}

#[test]
fn fan_in_is_limited_by_the_bus() {
    let full = rate(&system("connectx-ddr", &[]), "patterns.fan-in", 65_536);
    assert!(full <= SLOT, "{full} MB/s through a slot of {SLOT}");
    let narrow = system("connectx-ddr", &[("bensley.pcie.lanes", 1.0)]);
    let narrow = rate(&narrow, "patterns.fan-in", 65_536);
    assert!(narrow <= SLOT / 8.0, "{narrow} MB/s through a lane");
    // The bus is the bottleneck, and is nearly saturated.
    assert!(
        full > 0.85 * SLOT && narrow > 0.85 * SLOT / 8.0,
        "{full}, {narrow}"
    );
}
