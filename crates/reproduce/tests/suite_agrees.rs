//! The benchmark suite over the fabric interface and a bare driver of the model measure the same:
//! the interface charges exactly the model's costs.

use verbena_model::adapter::{Kind, Placement};
use verbena_model::profile::{Library, Overrides, System};
use verbena_reproduce::bench::{Bandwidth, Latency, Operation, bandwidth, latency};
use verbena_reproduce::suite::Suite;

fn system(name: &str) -> System {
    Library::shipped(&Overrides::none())
        .and_then(|library| library.system(name))
        .expect("shipped profiles are sound")
}

fn same(what: &str, bare: f64, suite: f64, most: f64) {
    let apart = (suite / bare - 1.0).abs();
    assert!(apart <= most, "{what}: {bare} bare, {suite} by the suite");
}

#[test]
fn the_suite_gives_the_same_multi_pair_latencies() {
    for name in ["connectx-ddr", "infinihost3-ddr"] {
        let system = system(name);
        for (pairs, bytes) in [(1, 1), (8, 64), (8, 256)] {
            let bench = Latency::of(Operation::inline_write(bytes)).pairs(pairs);
            let suite = Suite::new(&system, "multi-pair.write-latency");
            let figure = suite.pairs(pairs).size(bytes).figure();
            same(
                &format!("{name} write {bytes} B, {pairs} pairs"),
                latency(&system, bench),
                figure,
                0.001,
            );
            let operation = Operation::new(Kind::Read, bytes, Placement::Reference);
            let suite = Suite::new(&system, "multi-pair.read-latency");
            let figure = suite.pairs(pairs).size(bytes).figure();
            let bare = latency(&system, Latency::of(operation).pairs(pairs));
            same(
                &format!("{name} read {bytes} B, {pairs} pairs"),
                bare,
                figure,
                0.001,
            );
        }
    }
}

#[test]
fn the_suite_gives_the_same_message_figures_on_every_bus() {
    for name in ["connectx-qdr", "infinihost3-mem-sdr", "infinihost-pcix"] {
        let system = system(name);
        for bytes in [1, 7500, 65_536] {
            let operation = Operation::new(Kind::Send, bytes, Placement::Reference);
            let suite = Suite::new(&system, "latency.send").transport("rc");
            let figure = suite.size(bytes).inline(0).figure();
            let bare = latency(&system, Latency::of(operation));
            same(&format!("{name} send {bytes} B"), bare, figure, 0.001);
        }
        // The suite requests a completion for every sixteenth message only.
        let operation = Operation::new(Kind::Send, 65_536, Placement::Reference);
        let figure = Suite::new(&system, "bandwidth.send").size(65_536).figure();
        let bare = bandwidth(&system, Bandwidth::of(operation)).received;
        same(&format!("{name} stream of sends"), bare, figure, 0.01);
    }
}
