//! Fuzzes the readers of result files: Verbena's own records, which are then plotted, compared and
//! searched for step changes, and other tools' output.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::path::Path;
use verbena_report::comparison::{Thresholds, between};
use verbena_report::html::{Beside, Described, page};
use verbena_report::import::{Hints, parse as import};
use verbena_report::run_directory::{Loaded, parse};

fuzz_target!(|input: &str| {
    if let Ok(run) = parse(Path::new("results.jsonl"), input) {
        show(run);
    }
    if let Ok((points, _)) = import(input, &Hints::default()) {
        show(Loaded {
            points,
            ..Loaded::default()
        });
    }
});

/// Renders a report of any records, and checks that a run does not differ from itself.
fn show(run: Loaded) {
    let described = |benchmark: &str, axis: &str| Described {
        name: benchmark.to_owned(),
        group: "group".to_owned(),
        answers: String::new(),
        source: String::new(),
        axis: axis.to_owned(),
    };
    let mut described: Vec<Described> = ["size", "pairs", "connections"]
        .iter()
        .zip(&run.points)
        .map(|(axis, point)| described(&point.benchmark, axis))
        .collect();
    described.dedup_by(|a, b| a.name == b.name);
    let runs = [run.clone(), run];
    assert!(page(&runs, &described, &Beside::default()).ends_with("</html>\n"));
    let compared = between(&runs[0], &runs[1], &Thresholds::default());
    let mut all = compared.curves.iter().chain(&compared.changes);
    assert!(all.all(|change| change.a == change.b || change.ratio.is_nan()));
}
