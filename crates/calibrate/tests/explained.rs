//! Explanations of operations add up and attribute time to the right cause.

use verbena_calibrate::anchor::{anchored, parse};
use verbena_calibrate::explain::{Explained, explain};
use verbena_fabric::model::Fidelity;
use verbena_model::profile::{Library, Overrides};
use verbena_model::stage;
use verbena_workloads::{Options, find};

fn explained(system: &str, overrides: &Overrides, benchmark: &str) -> Explained {
    let library = Library::shipped(overrides).expect("shipped profiles are sound");
    let system = library.system(system).expect("a shipped system");
    let options = Options {
        sizes: Some(vec![8]),
        transports: Some(vec!["rc".to_owned()]),
        ..Options::default()
    };
    let benchmark = find(benchmark).expect("a benchmark");
    let mut all = explain(&system, benchmark, options, Fidelity::Packet).expect("it ends");
    all.remove(0)
}

fn time_of(explained: &Explained, stage: &str) -> u64 {
    let shares = explained.shares.iter();
    shares.filter(|s| s.stage == stage).map(|s| s.time.0).sum()
}

#[test]
fn shares_add_up_to_the_operation() {
    for benchmark in [
        "latency.write",
        "latency.read",
        "latency.send",
        "latency.fetch-add",
    ] {
        for system in ["connectx-ddr", "infinihost3-ddr", "infinihost-pcix"] {
            let one = explained(system, &Overrides::none(), benchmark);
            let sum: u64 = one.shares.iter().map(|share| share.time.0).sum();
            assert_eq!(sum, one.took.0, "{benchmark} on {system}");
            for stage in [stage::POST, stage::DOORBELL, stage::WIRE, stage::SWITCH] {
                assert!(
                    time_of(&one, stage) > 0,
                    "{benchmark} on {system}: no {stage}"
                );
            }
        }
    }
}

#[test]
fn without_blueflame_the_work_request_fetch_is_shown() {
    let with = explained("connectx-ddr", &Overrides::none(), "latency.write");
    let off = Overrides::none().with("connectx.send.blueflame", 1.0);
    let without = explained("connectx-ddr", &off, "latency.write");
    assert_eq!(time_of(&with, stage::REQUEST), 0);
    let fetched = time_of(&without, stage::REQUEST);
    assert!(fetched > 300_000, "{fetched} ps");
    // The difference is that fetch, in both directions, minus the saving of the smaller doorbell.
    let more = without.took.0 - with.took.0;
    assert!(fetched.abs_diff(more) < more / 4, "{fetched} of {more} ps");
}

#[test]
fn write_and_send_latencies_are_half_a_round_trip() {
    for (benchmark, ways) in [
        ("latency.write", 2),
        ("latency.send", 2),
        ("latency.read", 1),
    ] {
        let one = explained("connectx-ddr", &Overrides::none(), benchmark);
        let one_way = one.one_way.map(|time| one.took.0 / time.0);
        assert_eq!(one_way, (ways == 2).then_some(2), "{benchmark}");
    }
}

#[test]
fn an_anchor_is_a_stage() {
    let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
    let anchor = parse("latency.write:8=1.88us").expect("an anchor");
    let model = anchored(&library, "connectx6-hdr", &[anchor]).expect("anchored");
    let options = Options {
        sizes: Some(vec![8]),
        transports: Some(vec!["rc".to_owned()]),
        ..Options::default()
    };
    let benchmark = find("latency.write").expect("a benchmark");
    let all = explain(&model.system, benchmark, options, Fidelity::Packet).expect("it ends");
    let held = time_of(&all[0], stage::ANCHOR) as f64 / 1e3;
    let offset = model.fits[0].offset;
    assert!((held - 2.0 * offset).abs() < 0.01, "{held} {offset}");
    let one_way = all[0].one_way.expect("a ping-pong").micros();
    assert!((one_way / 1.88 - 1.0).abs() < 1e-3, "{one_way}");
}
