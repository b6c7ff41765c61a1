//! A profile fitted to some benchmarks predicts the others, if the model matches the adapter;
//! unknown values are reported.

use verbena_calibrate::software::{
    Closed, Effort, Observed, Open, SoftwareTask, close, fitted_profile, machine, predicted, rule,
    text,
};
use verbena_fabric::model::Machine;
use verbena_measure::result::Value;
use verbena_model::profile::{Library, Overrides};
use verbena_workloads::{Benchmark, find};

fn library(overrides: &Overrides) -> Library {
    Library::shipped(overrides).expect("shipped profiles are sound")
}

/// The planted values: an adapter on a slower host than the shipped profile's.
const PLANTED: [(&str, f64); 5] = [
    ("software.cores.line", 110.0),
    ("software.request.post", 210.0),
    ("software.request.atomic", 75.0),
    ("software.message.serve", 260.0),
    ("software.cache.near_rate", 14.0),
];

fn planted() -> Machine {
    let overrides = PLANTED
        .iter()
        .fold(Overrides::none(), |all, (path, value)| {
            all.with(path, *value)
        });
    machine(&library(&overrides), "software").expect("is shipped")
}

fn blank(benchmark: &str, metric: &str, parameters: &[(&str, Value)]) -> Observed {
    let benchmark: &'static Benchmark = find(benchmark).expect("is of the suite");
    let parameters = parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()));
    Observed {
        benchmark,
        parameters: parameters.collect(),
        metric: metric.to_owned(),
        unit: "ns".to_owned(),
        figure: 1.0,
    }
}

/// Relative noise of 2 %, from a fixed sequence for reproducible tests.
fn noise(number: u64) -> f64 {
    let mut state = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut sum = 0.0;
    for _ in 0..12 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        sum += (state >> 11) as f64 / (1u64 << 53) as f64;
    }
    1.0 + 0.02 * (sum - 6.0)
}

/// Figures of the planted adapter: some for fitting, some for judging, one that the model refuses.
fn measured() -> Vec<Observed> {
    let one_way = "one-way-latency";
    let complete = "completion-latency";
    let rc = || ("transport", Value::from("rc"));
    let own = || ("receive-queue", Value::from("own"));
    let mut all = Vec::new();
    for size in [8usize, 512, 4096] {
        let size = || ("size", Value::from(size));
        all.push(blank("latency.write", one_way, &[size(), rc(), own()]));
        all.push(blank("latency.send", one_way, &[size(), rc(), own()]));
        all.push(blank("latency.read", complete, &[size(), rc()]));
        all.push(blank("latency.write-completion", complete, &[size(), rc()]));
        all.push(blank(
            "latency.write-immediate",
            one_way,
            &[size(), rc(), own()],
        ));
    }
    let eight = || ("size", Value::from(8usize));
    all.push(blank("latency.fetch-add", complete, &[eight(), rc()]));
    all.push(blank("latency.compare-swap", complete, &[eight(), rc()]));
    for number in [1usize, 8] {
        let number = ("queue-pairs", Value::from(number));
        all.push(blank(
            "internals.scatter",
            "scatter-time",
            &[number, eight(), rc()],
        ));
    }
    let answers = predicted(&planted(), &all, Effort::Verdict);
    for (number, (one, answer)) in all.iter_mut().zip(answers).enumerate() {
        let answer = answer.unwrap_or_else(|| panic!("no answer: {one:?}"));
        one.figure = answer * noise(number as u64);
    }
    let event = ("wait", Value::from("event"));
    all.push(blank("latency.events", one_way, &[eight(), rc(), event]));
    all
}

fn run(free: &[&str], observed: &[Observed]) -> Result<Closed, Open> {
    let free: Vec<String> = free.iter().map(|&path| path.to_owned()).collect();
    close(&SoftwareTask {
        library: &library(&Overrides::none()),
        profile: "software",
        free: &free,
        observed,
        noise: 0.02,
        steps: 12,
        threads: 2,
    })
}

#[test]
fn planted_values_are_found_and_held_out_figures_predicted() {
    let paths = PLANTED.map(|(path, _)| path);
    let closed = run(&paths, &measured()).expect("a sound task");
    for ((path, truth), value) in PLANTED.iter().zip(&closed.fit.values) {
        let off = (value / truth - 1.0).abs();
        // The atomic's share of the cost of a request is small, and so is the copy's.
        assert!(off < 0.15, "{path}: planted {truth}, found {value}");
    }
    let judged: Vec<&str> = closed.judged.iter().map(|curve| curve.benchmark).collect();
    assert!(
        judged.iter().all(|name| !rule::is_fitted(name)),
        "{judged:?}"
    );
    assert_eq!(judged.len(), 4, "{judged:?}");
    let error = closed.error().expect("something judges");
    assert!(error < 0.04, "{}", text(&closed));
    assert_eq!(closed.unanswered.len(), 1, "{:?}", closed.unanswered);

    // Without a fit, the judging benchmarks have the error of the initial profile.
    let without = run(&["software.cache.memory_rate"], &measured()).expect("a sound task");
    assert!(
        without.error().expect("something judges") > 0.2,
        "{}",
        text(&without)
    );

    let profile = fitted_profile("software", &closed, "a \"test\"");
    let library = library(&Overrides::none())
        .and([("fitted.toml", profile.as_str())])
        .unwrap_or_else(|error| panic!("{error}: {profile}"));
    let fitted = machine(&library, "fitted").expect("was written");
    for curve in &closed.judged {
        let all: Vec<Observed> = curve
            .figures
            .iter()
            .map(|one| one.observed.clone())
            .collect();
        for (one, answer) in curve
            .figures
            .iter()
            .zip(predicted(&fitted, &all, Effort::Verdict))
        {
            assert_eq!(answer, Some(one.predicted), "{}", one.observed.label());
        }
    }
}

#[test]
fn held_out_figures_do_not_influence_the_fit() {
    let mut observed = measured();
    let path = ["software.request.post"];
    let honest = run(&path, &observed).expect("a sound task");
    for one in observed
        .iter_mut()
        .filter(|one| !rule::is_fitted(one.benchmark.name))
    {
        one.figure *= 3.0;
    }
    let other = run(&path, &observed).expect("a sound task");
    assert_eq!(honest.fit, other.fit);
    assert!(other.error() > honest.error());
}

#[test]
fn impossible_tasks_are_refused() {
    let observed = measured();
    let refused = |path: &str, observed: &[Observed]| {
        let error = run(&[path], observed).expect_err("cannot be closed");
        error.to_string()
    };
    let text = refused("software.cache.near", &observed);
    assert!(text.contains("cannot be fitted"), "{text}");
    let judges: Vec<Observed> = observed
        .into_iter()
        .filter(|one| !rule::is_fitted(one.benchmark.name))
        .collect();
    let text = refused("software.request.post", &judges);
    assert!(text.contains("0 figures"), "{text}");
}
