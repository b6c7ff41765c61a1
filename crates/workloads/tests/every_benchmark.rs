//! Every benchmark runs over the in-process fabric, measures something, validates its data, and
//! fails only with "not supported".

use std::cell::RefCell;
use std::time::Duration;
use verbena_fabric::instant::{Cost, NoTime, Posted, Timing, run_job};
use verbena_fabric::simulated_limits::SimulatedLimits;
use verbena_fabric::{Fabric, Group};
use verbena_measure::pace::Paces;
use verbena_measure::result::{Point, Value};
use verbena_measure::warning::Warning;
use verbena_workloads::registry::ALL;
use verbena_workloads::{Budget, Context, Options, Processes, Record, WaitingBudget, run};

fn collect(
    name: &'static str,
    size: usize,
    options: Options,
    limits: SimulatedLimits,
) -> Vec<Record> {
    let results = limits.run_job(size, async |process| {
        let records = RefCell::new(Vec::new());
        let sink = |record| records.borrow_mut().push(record);
        let budget = Budget::virtual_time();
        let context = Context {
            fabric: &process,
            benchmark: name,
            launch: 0,
            options: &options,
            budget,
            waiting_budget: &WaitingBudget::default(),
            interfaces: None,
            sink: &sink,
        };
        let outcome = run(&context).await;
        assert_eq!(outcome, Ok(()), "{name}");
        records.into_inner()
    });
    results.into_iter().next().expect("process 0")
}

fn processes(wanted: Processes) -> usize {
    match wanted {
        Processes::One => 1,
        Processes::Two => 2,
        Processes::Pairs => 8,
        Processes::AtLeast(number) => number.max(4),
    }
}

fn even() -> SimulatedLimits {
    SimulatedLimits {
        straggler: None,
        ..SimulatedLimits::default()
    }
}

fn small() -> Options {
    Options {
        sizes: Some(vec![8, 4096]),
        ..Options::default()
    }
}

/// Registration and the memory of connections move no data; the smallest halo has space only for
/// its tag.
fn moves_nothing(point: &Point) -> bool {
    match point.benchmark.as_str() {
        "internals.registration" | "internals.footprint" => true,
        "patterns.halo" => point.parameters["size"] == Value::Number(1.0),
        _ => false,
    }
}

#[test]
fn every_benchmark_measures_and_validates() {
    for benchmark in ALL {
        let records = collect(
            benchmark.name,
            processes(benchmark.processes),
            small(),
            even(),
        );
        let points: Vec<_> = records
            .iter()
            .filter_map(|record| match record {
                Record::Point(point) => Some(point),
                _ => None,
            })
            .collect();
        // Real connections do not run in virtual time.
        let in_real_time = benchmark.name == "baseline.tcp" || benchmark.name.starts_with("ip.");
        assert!(
            points.is_empty() == in_real_time,
            "{} measured nothing: {records:?}",
            benchmark.name
        );
        for point in &points {
            assert!(
                point
                    .metrics
                    .iter()
                    .all(|m| m.value.is_finite() && m.value >= 0.0),
                "{point:?}"
            );
            assert!(
                point.conduct.validated || moves_nothing(point),
                "the data of a point was not checked: {point:?}"
            );
            assert!(
                point.parameters.contains_key(benchmark.axis),
                "{}",
                benchmark.name
            );
        }
        for record in &records {
            if let Record::Failure(failure) = record {
                assert!(failure.unsupported, "{failure:?}");
            }
        }
    }
}

fn finding(records: &[Record], name: &str) -> f64 {
    let found = records.iter().find_map(|record| match record {
        Record::Finding(finding) if finding.name == name => finding.value,
        _ => None,
    });
    found.unwrap_or_else(|| panic!("no {name} in {records:#?}"))
}

#[test]
fn clocks_of_different_cost_keep_a_pair_in_step() {
    let clocks = SimulatedLimits {
        straggler: None,
        clock_costs: vec![10.0, 300.0],
        ..SimulatedLimits::default()
    };
    for name in ["latency.write", "latency.send", "latency.inline"] {
        let records = collect(name, 2, small(), clocks.clone());
        assert!(
            records
                .iter()
                .any(|record| matches!(record, Record::Point(_))),
            "{name}"
        );
        for record in &records {
            assert!(!matches!(record, Record::Failure(_)), "{record:?}");
        }
    }
}

fn first_point(records: Vec<Record>) -> Box<Point> {
    let first = records.into_iter().find_map(|record| match record {
        Record::Point(point) => Some(point),
        _ => None,
    });
    first.expect("a point")
}

/// Measurements do not depend on the processors' state: `bandwidth.send` includes the adapter's
/// threads, which look like a neighbour's load.
#[test]
fn no_sample_is_discarded_when_cpus_are_shared() {
    let point = |name, pace: Option<f64>| {
        let paces = pace.map(Paces::constant).unwrap_or_default();
        let options = Options { paces, ..small() };
        first_point(collect(name, 2, options, even()))
    };
    for name in ["latency.write", "bandwidth.write", "bandwidth.send"] {
        // In virtual time the computation takes no time; nothing is faster.
        let always = point(name, Some(-1.0));
        let share = Warning::Disturbed { share: 1.0 };
        assert!(always.warnings.contains(&share), "{always:?}");
        assert_eq!(always.conduct.disturbed, Some(1.0));
        let never = point(name, Some(1.0));
        assert!(!never.warnings.contains(&share));
        assert_eq!(never.conduct.disturbed, Some(0.0));
        let unwatched = point(name, None);
        assert_eq!(unwatched.conduct.disturbed, None);
        for other in [never, unwatched] {
            assert_eq!(always.metrics, other.metrics, "{name}");
        }
    }
}

/// Slow exchanges: each lengthens the permitted wait by more than the pause after it.
struct SlowExchange {
    /// Number of exchanges until the wait counts as endless.
    left: u32,
}

impl Timing for SlowExchange {
    fn cost(&mut self, posted: &Posted) -> Cost {
        NoTime.cost(posted)
    }

    fn exchange(&mut self) {
        self.left = self.left.checked_sub(1).expect("the wait has no end");
        std::thread::sleep(Duration::from_millis(25));
    }
}

/// On a loaded machine an exchange among the processes takes tens of milliseconds.
#[test]
fn wait_for_undisturbed_cpus_ends_where_exchanges_are_slow() {
    let options = Options {
        paces: Paces::constant(-1.0),
        sizes: Some(vec![8]),
        transports: Some(vec!["rc".to_owned()]),
        ..Options::default()
    };
    let outcomes = run_job(2, SlowExchange { left: 200 }, async |process| {
        let context = Context {
            fabric: &process,
            benchmark: "latency.write",
            launch: 0,
            options: &options,
            budget: Budget::virtual_time(),
            waiting_budget: &WaitingBudget::default(),
            interfaces: None,
            sink: &|_| {},
        };
        run(&context).await
    });
    assert_eq!(outcomes, [Ok(()), Ok(())]);
}

/// A process whose machine has fewer processors than there are active processes makes no checks,
/// but takes part in the others' wait.
#[test]
fn processes_of_machines_with_few_and_many_cpus_wait_together() {
    let outcomes = run_job(2, NoTime, async |process| {
        let options = Options {
            paces: Paces::constant(1.0),
            cores: Some(1 + process.group().rank()),
            ..small()
        };
        let points = RefCell::new(0);
        let sink = |record| *points.borrow_mut() += i32::from(matches!(record, Record::Point(_)));
        let context = Context {
            fabric: &process,
            benchmark: "latency.write",
            launch: 0,
            options: &options,
            budget: Budget::virtual_time(),
            waiting_budget: &WaitingBudget::default(),
            interfaces: None,
            sink: &sink,
        };
        let outcome = run(&context).await;
        (outcome, points.into_inner())
    });
    // Two sizes by two transports.
    assert_eq!(outcomes, [(Ok(()), 4), (Ok(()), 0)]);
}

#[test]
fn a_refused_cpu_pinning_is_reported() {
    let refused = SimulatedLimits {
        processors_refused: true,
        ..even()
    };
    for name in ["latency.write", "bandwidth.write", "patterns.ring"] {
        let point = |limits| first_point(collect(name, 4, small(), limits));
        let refused = point(refused.clone());
        assert!(refused.warnings.contains(&Warning::Unpinned), "{refused:?}");
        assert!(!point(even()).warnings.contains(&Warning::Unpinned));
    }
}

/// An operation in which the process was preempted is no warm-up, and does not show the duration of
/// an operation.
#[test]
fn one_preempted_operation_does_not_end_the_warm_up() {
    let samples = |stall: Option<(u64, u64)>| {
        let stalled = SimulatedLimits { stall, ..even() };
        let point = first_point(collect("latency.read", 2, small(), stalled));
        let summary = point.metrics[0].summary.as_ref().expect("a distribution");
        (point.conduct.warmup, summary.n)
    };
    let undisturbed = samples(None);
    for request in 0..8 {
        assert_eq!(samples(Some((request, 10_000_000))), undisturbed);
    }
}

/// Every distribution consists of single operations, even if the median comes from batches.
#[test]
fn an_expensive_clock_changes_only_the_median() {
    let dear = SimulatedLimits {
        clock_costs: vec![500.0],
        ..even()
    };
    let dear = first_point(collect("latency.write", 2, small(), dear));
    assert!(dear.conduct.batch > 1);
    let cheap = first_point(collect("latency.write", 2, small(), even()));
    let summary = |point: &Point| point.metrics[0].summary.clone().expect("a distribution");
    let (dear, cheap) = (summary(&dear), summary(&cheap));
    assert_eq!(dear.n, cheap.n);
    assert_eq!(dear.max, cheap.max);
}

#[test]
fn the_planted_context_cache_is_found() {
    let records = collect(
        "internals.contexts",
        2,
        Options::default(),
        SimulatedLimits::default(),
    );
    let knee = finding(&records, "context-knee");
    assert!((knee / 37.0 - 1.0).abs() < 0.1, "{knee}");
}

#[test]
fn the_planted_translation_cache_is_found() {
    let records = collect(
        "internals.translation",
        2,
        Options::default(),
        SimulatedLimits::default(),
    );
    let knee = finding(&records, "translation-knee");
    assert!((knee / 300.0 - 1.0).abs() < 0.1, "{knee}");
}

#[test]
fn an_unlimited_cache_has_no_knee() {
    let endless = SimulatedLimits {
        context_entries: 1 << 20,
        translation_entries: 1 << 20,
        ..SimulatedLimits::default()
    };
    for (name, finding) in [
        ("internals.contexts", "context-knee"),
        ("internals.translation", "translation-knee"),
    ] {
        let records = collect(name, 2, Options::default(), endless.clone());
        let value = records.iter().find_map(|record| match record {
            Record::Finding(found) if found.name == finding => Some(found.value),
            _ => None,
        });
        assert_eq!(value, Some(None), "{name}");
    }
}

#[test]
fn the_planted_straggler_is_named() {
    let options = Options {
        sizes: Some(vec![8]),
        pairs: Some(vec![4]),
        mode: Some(verbena_workloads::Mode::Free),
        ..Options::default()
    };
    for name in [
        "multi-pair.write-latency",
        "multi-pair.read-latency",
        "multi-pair.write-bandwidth",
    ] {
        let limits = SimulatedLimits {
            straggler: Some((2, 3)),
            ..SimulatedLimits::default()
        };
        let records = collect(name, 8, options.clone(), limits);
        let named = records.iter().any(|record| match record {
            Record::Point(point) => point
                .warnings
                .iter()
                .any(|w| matches!(w, Warning::Straggler { pair: 2, ratio } if *ratio > 2.0)),
            _ => false,
        });
        assert!(named, "{name}: {records:#?}");
    }
}

#[test]
fn memory_per_connection_is_recovered() {
    let records = collect(
        "internals.footprint",
        2,
        Options::default(),
        SimulatedLimits::default(),
    );
    let bytes = finding(&records, "memory-per-connection");
    assert!((bytes / (24.0 * 1024.0) - 1.0).abs() < 0.01, "{bytes}");
}

#[test]
fn the_same_seed_gives_the_same_records() {
    let once = || {
        collect(
            "multi-pair.read-latency",
            4,
            small(),
            SimulatedLimits::default(),
        )
    };
    assert_eq!(once(), once());
}

#[test]
fn an_unknown_benchmark_and_too_few_processes_are_refused() {
    for (name, size) in [("no.such", 2), ("patterns.halo", 2)] {
        let outcomes = run_job(size, NoTime, async |process| {
            let context = Context {
                fabric: &process,
                benchmark: name,
                launch: 0,
                options: &Options::default(),
                budget: Budget::virtual_time(),
                waiting_budget: &WaitingBudget::default(),
                interfaces: None,
                sink: &|_| {},
            };
            run(&context).await
        });
        assert!(outcomes.iter().all(Result::is_err), "{name}");
    }
}

fn metric(point: &Point, name: &str) -> f64 {
    let found = point.metrics.iter().find(|metric| metric.name == name);
    found
        .unwrap_or_else(|| panic!("no {name} in {point:?}"))
        .value
}

/// Buffers used in turn need more translations than the simulated cache holds; one reused buffer
/// does not.
#[test]
fn bandwidth_alternates_buffers_and_the_cached_one_is_labelled() {
    for (name, reader) in [
        ("bandwidth.write", "nobody"),
        ("bandwidth.write-both", "nobody"),
        ("bandwidth.write-immediate", "receiver"),
        ("bandwidth.read", "initiator"),
        ("bandwidth.send", "receiver"),
    ] {
        let sizes = Options {
            sizes: Some(vec![4096]),
            ..Options::default()
        };
        let point = first_point(collect(name, 2, sizes, even()));
        assert_eq!(point.metrics[0].name, "bandwidth", "{name}");
        let (used, cached) = (
            metric(&point, "bandwidth"),
            metric(&point, "cached-bandwidth"),
        );
        assert!(
            cached > 1.05 * used,
            "{name}: {cached} cached, {used} as used"
        );
        assert!(
            point.conduct.footprint >= Some(64 << 20),
            "{:?}",
            point.conduct
        );
        assert_eq!(point.conduct.reader.as_deref(), Some(reader), "{name}");
    }
}
