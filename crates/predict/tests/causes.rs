//! Turning one cause off removes its effect and no other.

use verbena_model::adapter::{Fidelity, Kind, Placement};
use verbena_model::profile::{Library, Overrides, System};
use verbena_predict::application::halo;
use verbena_predict::bench::{Bandwidth, Latency, Operation, bandwidth, latency};

fn system(name: &str, overrides: &Overrides) -> System {
    Library::shipped(overrides)
        .and_then(|library| library.system(name))
        .expect("shipped profiles are sound")
}

fn write(system: &System, bytes: u64, pairs: usize) -> f64 {
    latency(
        system,
        Latency::of(Operation::inline_write(bytes)).pairs(pairs),
    )
}

fn read(system: &System, pairs: usize) -> f64 {
    let operation = Operation::new(Kind::Read, 1, Placement::Reference);
    latency(system, Latency::of(operation).pairs(pairs))
}

#[test]
fn without_blueflame_the_request_is_fetched_again() {
    let with = system("connectx-ddr", &Overrides::none());
    let without = system(
        "connectx-ddr",
        &Overrides::none().with("connectx.send.blueflame", 1.0),
    );
    // A fetch over the bus costs more than 0.3 us; large entries were fetched anyhow.
    assert!(write(&without, 1, 1) > write(&with, 1, 1) + 0.3);
    let (before, after) = (write(&with, 256, 1), write(&without, 256, 1));
    assert!((after / before - 1.0).abs() < 0.01, "{before} {after}");
}

#[test]
fn sixteen_parallel_reads_remove_the_jump_at_256_bytes() {
    let few = system("connectx-ddr", &Overrides::none());
    let many = system(
        "connectx-ddr",
        &Overrides::none().with("bensley.pcie.read_slots", 16.0),
    );
    let extra = |system: &System| write(system, 256, 8) - write(system, 256, 1);
    assert!(extra(&few) > 2.0, "{}", extra(&few));
    assert!(extra(&many) < 0.5 * extra(&few), "{}", extra(&many));
    // One pair alone, and small messages, never waited for a slot.
    for (bytes, pairs) in [(256, 1), (1, 1), (1, 8)] {
        let (before, after) = (write(&few, bytes, pairs), write(&many, bytes, pairs));
        assert!(
            (after / before - 1.0).abs() < 0.02,
            "{bytes} B {pairs} pairs: {before} {after}"
        );
    }
}

#[test]
fn an_endless_context_cache_removes_the_penalty_of_128_queue_pairs() {
    let ends = system("infinihost3-memfree-sdr", &Overrides::none());
    let endless = system(
        "infinihost3-memfree-sdr",
        &Overrides::none().with("infinihost3-mem.caches.queue_pairs", 1e6),
    );
    let in_turn = |system: &System, connections| {
        latency(
            system,
            Latency::of(Operation::inline_write(4)).connections(connections),
        )
    };
    let penalty = |system: &System| in_turn(system, 128) / in_turn(system, 1);
    assert!(penalty(&ends) > 1.2);
    // What remains is the serial adapter's change of queue pair.
    assert!(penalty(&endless) < penalty(&ends) - 0.1);
    assert_eq!(in_turn(&ends, 1), in_turn(&endless, 1));
}

#[test]
fn without_the_change_of_queue_pair_many_pairs_cost_less_and_one_the_same() {
    let slow = system("infinihost3-ddr", &Overrides::none());
    let free = system(
        "infinihost3-ddr",
        &Overrides::none()
            .with("infinihost3-mem.send.change", 0.0)
            .with("infinihost3-mem.receive.change", 0.0),
    );
    assert!(write(&free, 1, 8) < 0.8 * write(&slow, 1, 8));
    assert_eq!(write(&free, 1, 1), write(&slow, 1, 1));
}

#[test]
fn reads_wait_for_slots_only_beyond_two() {
    let connectx = system("connectx-ddr", &Overrides::none());
    let many = system(
        "connectx-ddr",
        &Overrides::none().with("bensley.pcie.read_slots", 16.0),
    );
    assert!(read(&connectx, 8) > 1.2 * read(&connectx, 1));
    assert!(read(&many, 8) < 1.1 * read(&many, 1));
}

#[test]
fn the_same_twice_to_the_picosecond() {
    let one = system("infinihost3-ddr", &Overrides::none());
    let run = || (write(&one, 64, 8), halo(&one, 16, 4, 2, Fidelity::Packet));
    assert_eq!(run(), run());
}

#[test]
fn the_two_fidelities_agree() {
    for name in [
        "connectx-ddr",
        "infinihost3-ddr",
        "connectx-qdr",
        "infinihost-pcix",
    ] {
        let system = system(name, &Overrides::none());
        for bytes in [64, 2048, 65_536, 1 << 20] {
            let operation = Operation::new(Kind::Write, bytes, Placement::Reference);
            let both = [Fidelity::Packet, Fidelity::Message].map(|fidelity| {
                let bench = Bandwidth {
                    fidelity,
                    ..Bandwidth::of(operation)
                };
                let rate = bandwidth(&system, bench).received;
                let bench = Latency {
                    fidelity,
                    rounds: 4,
                    ..Latency::of(operation)
                };
                (rate, latency(&system, bench))
            });
            let [packet, message] = both;
            let apart = |a: f64, b: f64| (b / a - 1.0).abs();
            assert!(
                apart(packet.0, message.0) < 0.05 && apart(packet.1, message.1) < 0.05,
                "{name}, {bytes} B: {packet:?} by packets, {message:?} by messages"
            );
        }
    }
}
