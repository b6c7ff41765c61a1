//! Every benchmark runs on the timing models, measures something and validates its data;
//! unsupported features are reported, not measured. Repeated runs are identical, to the bit.

use verbena_fabric::model::Machine;
use verbena_model::profile::{Library, Overrides, System};
use verbena_workloads::modelled::Modelled;
use verbena_workloads::registry::ALL;
use verbena_workloads::{Options, Processes, Record};

fn system(name: &str) -> System {
    Library::shipped(&Overrides::none())
        .and_then(|library| library.system(name))
        .expect("shipped profiles are sound")
}

fn small() -> Options {
    Options {
        sizes: Some(vec![8, 4096]),
        pairs: Some(vec![1, 2]),
        ..Options::default()
    }
}

/// Benchmarks of features that a model does not have.
const WITHOUT: [&str; 8] = [
    "baseline.cache-line",
    "baseline.memcpy",
    "baseline.tcp",
    "internals.registration",
    "ip.datagrams",
    "ip.latency",
    "ip.stream",
    "ip.stream-both",
];

#[test]
fn every_benchmark_measures_and_validates() {
    for name in ["connectx-ddr", "infinihost3-ddr", "infinihost-pcix"] {
        let system = system(name);
        for benchmark in ALL {
            let records = Modelled {
                options: small(),
                ..Modelled::new(&system, benchmark)
            }
            .run()
            .unwrap_or_else(|error| panic!("{} on {name}: {error}", benchmark.name))
            .records;
            let mut points = 0;
            for record in &records {
                match record {
                    Record::Point(point) => {
                        points += 1;
                        let sound = point
                            .metrics
                            .iter()
                            .all(|metric| metric.value > 0.0 || metric.name == "host-memory");
                        assert!(sound, "{} on {name}: {point:?}", benchmark.name);
                        let validated = point.conduct.validated
                            || benchmark.name == "internals.footprint"
                            || benchmark.name == "patterns.halo";
                        assert!(validated, "{} on {name}: {point:?}", benchmark.name);
                    }
                    Record::Failure(failure) => {
                        assert!(
                            failure.unsupported,
                            "{} on {name}: {failure:?}",
                            benchmark.name
                        );
                    }
                    Record::Finding(_) => {}
                }
            }
            let none = WITHOUT.contains(&benchmark.name);
            assert_eq!(
                points == 0,
                none,
                "{} on {name}: {records:?}",
                benchmark.name
            );
        }
    }
}

/// Benchmarks between two processes run on the software adapter's model, validate their data, and
/// are deterministic; none of its processors is busy for longer than the elapsed time.
#[test]
fn the_software_model_runs_every_two_process_benchmark() {
    let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
    let machine = Machine::of(&library, "software").expect("is shipped");
    for benchmark in ALL {
        let of_two = matches!(benchmark.processes, Processes::Two | Processes::Pairs);
        if !of_two || WITHOUT.contains(&benchmark.name) {
            continue;
        }
        let run = || {
            Modelled {
                options: Options {
                    pairs: Some(vec![1]),
                    ..small()
                },
                ..Modelled::new(machine.clone(), benchmark)
            }
            .audited()
            .unwrap_or_else(|error| panic!("{}: {error}", benchmark.name))
        };
        let (ran, audit) = run();
        assert_eq!(ran, run().0, "{}", benchmark.name);
        for usage in &audit.usage {
            assert!(usage.busy <= audit.now, "{}: {usage:?}", benchmark.name);
        }
        let mut points = 0;
        for record in &ran.records {
            match record {
                Record::Point(point) => {
                    points += 1;
                    let unchecked = benchmark.name == "internals.footprint";
                    assert!(point.conduct.validated || unchecked, "{point:?}");
                }
                Record::Failure(failure) => assert!(failure.unsupported, "{failure:?}"),
                Record::Finding(_) => {}
            }
        }
        let nothing = benchmark.name == "internals.footprint";
        assert_eq!(
            points == 0,
            nothing,
            "{}: {:?}",
            benchmark.name,
            ran.records
        );
    }
}

#[test]
fn the_software_model_refuses_oversubscribed_processes() {
    let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
    let machine = Machine::of(&library, "software").expect("is shipped");
    let benchmark = verbena_workloads::find("patterns.ring").expect("it exists");
    let refused = Modelled::new(machine, benchmark).run();
    let text = refused.expect_err("it has two processors").to_string();
    assert!(text.contains("4 processes on 2 processors"), "{text}");
}

#[test]
fn results_are_deterministic_to_the_bit() {
    let system = system("infinihost3-ddr");
    let benchmark = verbena_workloads::find("multi-pair.write-latency").expect("it exists");
    let run = || {
        Modelled {
            options: Options {
                pairs: Some(vec![4]),
                ..small()
            },
            ..Modelled::new(&system, benchmark)
        }
        .run()
    };
    assert_eq!(run(), run());
}

/// If a core reads memory more slowly than the link transfers, messages that are read flow at the
/// core's rate.
#[test]
fn reading_received_data_costs_time() {
    let slow = Overrides::none().with("bensley.cpu.copy", 300.0);
    let library = Library::shipped(&slow).expect("a value of the profile");
    let system = library.system("connectx-ddr").expect("a shipped system");
    for (name, is_read) in [
        ("bandwidth.send", true),
        ("bandwidth.write-immediate", true),
        ("bandwidth.read", true),
        ("bandwidth.write", false),
    ] {
        let benchmark = verbena_workloads::find(name).expect("it exists");
        let options = Options {
            sizes: Some(vec![1 << 20]),
            ..Options::default()
        };
        let ran = Modelled {
            options,
            ..Modelled::new(&system, benchmark)
        }
        .run()
        .expect("it runs");
        let point = ran.records.iter().find_map(|record| match record {
            Record::Point(point) => Some(point),
            _ => None,
        });
        let point = point.expect("a point");
        let figure = |name: &str| {
            let found = point.metrics.iter().find(|metric| metric.name == name);
            found.expect("both figures").value / 1e6
        };
        let (used, cached) = (figure("bandwidth"), figure("cached-bandwidth"));
        assert!(cached > 1000.0, "{name}: {cached}");
        assert_eq!(used < 310.0, is_read, "{name}: {used}");
    }
}

/// Bounds of memory do not apply to a network.
#[test]
fn no_cache_line_bound_applies_between_nodes() {
    let system = system("connectx-ddr");
    let benchmark = verbena_workloads::find("latency.write").expect("it exists");
    let options = Options {
        floor_latency: Some(100.0),
        ..small()
    };
    let ran = Modelled {
        options,
        ..Modelled::new(&system, benchmark)
    }
    .run()
    .expect("it runs");
    let mut points = 0;
    for record in &ran.records {
        if let Record::Point(point) = record {
            assert_eq!(point.metrics[0].bound, None, "{point:?}");
            points += 1;
        }
    }
    assert!(points > 0);
}

/// Returns the bandwidth of 1 MiB messages with its bound.
fn bounded(system: &System, name: &str, processes: Option<usize>) -> (f64, f64, String) {
    let benchmark = ALL.iter().find(|one| one.name == name).expect("it exists");
    let ran = Modelled {
        options: Options {
            sizes: Some(vec![1 << 20]),
            pairs: Some(vec![1]),
            transports: Some(vec!["rc".to_owned()]),
            ..Options::default()
        },
        processes,
        fidelity: verbena_fabric::model::Fidelity::Message,
        ..Modelled::new(system, benchmark)
    };
    let ran = ran.run().expect("it runs");
    let point = ran.records.iter().find_map(|record| match record {
        Record::Point(point) => Some(point),
        _ => None,
    });
    let mut metrics = point.expect("a point").metrics.iter();
    let metric = metrics.find(|metric| metric.name == "bandwidth");
    let metric = metric.expect("a bandwidth");
    let bound = metric.bound.clone().expect("a bound");
    (metric.value, bound.value, bound.reason)
}

#[test]
fn the_busiest_link_bounds_a_pattern() {
    let system = system("connectx6-hdr");
    let (value, bound, reason) = bounded(&system, "patterns.fan-in", Some(4));
    assert_eq!(reason, "the link to node 0");
    assert!(0.9 * bound < value && value <= bound, "{value} {bound}");
    // All links carry as much: together that of four.
    let (value, bound, _) = bounded(&system, "patterns.bisection", Some(4));
    assert!((98e9..99.5e9).contains(&bound), "{bound}");
    assert!(0.9 * bound < value && value <= bound, "{value} {bound}");
}

#[test]
fn a_slow_bus_is_the_bound() {
    let library = Library::shipped(&Overrides::none().with("pcie3-x16.pcie.lanes", 8.0));
    let system = library
        .and_then(|library| library.system("connectx6-hdr"))
        .expect("shipped profiles are sound");
    let (value, bound, reason) = bounded(&system, "bandwidth.write", None);
    assert!(reason.starts_with("PCI Express of the host"), "{reason}");
    assert!(0.8 * bound < value && value <= bound, "{value} {bound}");
}
