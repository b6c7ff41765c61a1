//! On models, blocks of rates that cannot overlap enough are not lengthened in vain: the figures
//! stay within 0.1 %.

use verbena_fabric::model::Fidelity;
use verbena_measure::result::Point;
use verbena_model::profile::{Library, Overrides};
use verbena_workloads::modelled::Modelled;
use verbena_workloads::{Budget, Options, RateBudget, Record, find};

/// Returns the point of a pattern of `processes` processes with messages of `size` bytes.
fn point(system: &str, benchmark: &str, (processes, size): (usize, usize), whole: bool) -> Point {
    let library = Library::shipped(&Overrides::none()).unwrap();
    let system = library.system(system).unwrap();
    let budget = Budget::virtual_time();
    let modelled = Modelled {
        fidelity: Fidelity::Message,
        options: Options {
            sizes: Some(vec![size]),
            ..Options::default()
        },
        budget: Budget {
            rates: RateBudget {
                extrapolates: !whole,
                ..budget.rates
            },
            ..budget
        },
        processes: Some(processes),
        ..Modelled::new(&system, find(benchmark).unwrap())
    };
    let records = modelled.run().unwrap().records.into_iter();
    let mut points = records.filter_map(|record| match record {
        Record::Point(point) => Some(*point),
        _ => None,
    });
    points.next().expect("a point")
}

#[test]
fn figures_of_shorter_blocks_are_within_a_thousandth() {
    for (system, benchmark, job) in [
        ("connectx6-hdr", "patterns.fan-in", (64, 65_536)),
        ("connectx6-hdr", "patterns.fan-in", (64, 64)),
        ("connectx5-100gbe-dcqcn", "patterns.fan-in", (32, 64)),
        ("connectx5-100gbe-dcqcn", "patterns.fan-in", (32, 65_536)),
        ("connectx6-hdr", "patterns.bisection", (64, 1 << 20)),
    ] {
        let short = point(system, benchmark, job, false);
        let long = point(system, benchmark, job, true);
        assert_eq!(short.metrics.len(), long.metrics.len());
        for (short, long) in short.metrics.iter().zip(&long.metrics) {
            let off = short.value / long.value - 1.0;
            let (name, value) = (&short.name, long.value);
            assert!(
                off.abs() < 1e-3,
                "{benchmark} on {system}, {name}: {off:.5} of {value}"
            );
            println!("{benchmark} on {system}, {name}: {off:.5} of {value}");
        }
    }
}
