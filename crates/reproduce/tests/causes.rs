//! Disabling one cause removes its effect and no other.

use verbena_model::adapter::{Fidelity, Kind, Placement};
use verbena_model::profile::{Library, Overrides, System};
use verbena_reproduce::application::halo;
use verbena_reproduce::bench::{
    Bandwidth, Direction, Latency, Operation, Ranks, bandwidth, latency, mpi_bandwidth, mpi_latency,
};

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

fn near(one: f64, other: f64, share: f64) -> bool {
    (other / one - 1.0).abs() <= share
}

/// Returns the figures that the causes below may affect, with a benchmark for each. Each cause must
/// change its own figure only.
fn effects(overrides: &Overrides) -> [(&'static str, f64); 6] {
    let connectx = system("connectx-ddr", overrides);
    let third = system("infinihost3-ddr", overrides);
    let free = system("infinihost3-memfree-sdr", overrides);
    let in_turn = |connections| {
        let bench = Latency::of(Operation::inline_write(4)).connections(connections);
        latency(&free, bench)
    };
    let stream = Operation::new(Kind::Write, 65_536, Placement::Reference);
    [
        ("entry in the doorbell", write(&connectx, 1, 1)),
        (
            "jump at 256 B",
            write(&connectx, 256, 8) - write(&connectx, 256, 1),
        ),
        ("128 queue pairs in turn", in_turn(128)),
        ("one queue pair", in_turn(1)),
        ("many pairs on a serial adapter", write(&third, 1, 8)),
        (
            "large messages",
            bandwidth(&connectx, Bandwidth::of(stream)).received,
        ),
    ]
}

/// Disables a cause: its own effect must satisfy `gone(before, after)`, and no other may change by
/// more than 4 %: large messages also read a little faster when the chipset runs more reads.
fn only(own: &str, overrides: Overrides, gone: impl Fn(f64, f64) -> bool) {
    let (before, after) = (effects(&Overrides::none()), effects(&overrides));
    for ((name, before), (_, after)) in before.into_iter().zip(after) {
        if name == own {
            assert!(
                gone(before, after),
                "{name}: {before} before, {after} after"
            );
        } else {
            assert!(
                near(before, after, 0.04),
                "{name}: {before} before, {after} after"
            );
        }
    }
}

#[test]
fn without_blueflame_the_adapter_fetches_the_entry() {
    // A fetch takes a read over the bus, more than 0.3 us.
    only(
        "entry in the doorbell",
        Overrides::none().with("connectx.send.blueflame", 1.0),
        |before, after| after > before + 0.3,
    );
    let fetched = |blueflame: f64| {
        let overrides = Overrides::none().with("connectx.send.blueflame", blueflame);
        fetches(&system("connectx-ddr", &overrides))
    };
    assert_eq!((fetched(256.0), fetched(1.0)), (0, 1));
}

/// Returns the number of work queue entries that the adapter reads for one inline write of a byte.
fn fetches(system: &System) -> u64 {
    fetches_of(system, Placement::Inline)
}

/// Like [`fetches`], for a write with any placement of its payload.
fn fetches_of(system: &System, placement: Placement) -> u64 {
    use verbena_model::adapter::{Request, Transport};
    use verbena_model::cluster::Cluster;
    let cluster = Cluster::new(system, 2, Fidelity::Packet);
    let (one, _other) = cluster.connected((0, 1), 0, Transport::Reliable);
    let process = cluster.process(0);
    let sim = cluster.sim().clone();
    sim.start(async move {
        let request = Request::new(Kind::Write, 1, placement);
        process.post(&one, vec![request]).await;
    });
    sim.run();
    let fetched = cluster.node(0).adapter().counters().requests_fetched;
    cluster.finish();
    fetched
}

#[test]
fn the_driver_chooses_which_requests_the_doorbell_carries() {
    let both = |name| {
        let system = system(name, &Overrides::none());
        [Placement::Inline, Placement::Reference].map(|placement| fetches_of(&system, placement))
    };
    assert_eq!(both("connectx-ddr"), [0, 0], "any, on Bensley");
    assert_eq!(both("connectx-qdr"), [0, 1], "inline, with later drivers");
    assert_eq!(both("infinihost3-ddr"), [1, 1], "none");
}

#[test]
fn bandwidth_rises_with_message_size_and_stays() {
    let qdr = system("connectx-qdr", &Overrides::none());
    let mut most: f64 = 0.0;
    for bytes in [512, 2048, 8192, 32_768, 131_072, 1 << 20] {
        let operation = Operation::new(Kind::Write, bytes, Placement::Reference);
        let rate = bandwidth(&qdr, Bandwidth::of(operation)).received;
        assert!(
            rate >= 0.95 * most,
            "{rate} MB/s at {bytes} B, {most} before"
        );
        most = most.max(rate);
    }
}

#[test]
fn the_message_rate_exceeds_the_inverse_latency() {
    // A rate shows how long a message occupies the processor; a latency also includes the time in
    // flight.
    let qdr = system("connectx-qdr", &Overrides::none());
    let operation = Operation::new(Kind::Write, 8, Placement::Reference);
    let rate = bandwidth(&qdr, Bandwidth::of(operation)).received / 8.0;
    let latency = write(&qdr, 8, 1);
    assert!(rate > 4.0, "{rate} million messages a second");
    assert!((0.9..1.1).contains(&latency), "{latency} us");
}

#[test]
fn sixteen_parallel_reads_remove_the_jump_at_256_bytes() {
    // Sixteen blocks of the payload's 256 bytes.
    only(
        "jump at 256 B",
        Overrides::none().with("bensley.pcie.read_buffer", 16.0 * 256.0),
        |before, after| before > 2.0 && after < 0.3 * before,
    );
}

#[test]
fn an_unlimited_context_cache_removes_the_penalty_of_128_queue_pairs() {
    let endless = Overrides::none().with("infinihost3-mem.caches.queue_pairs", 1e6);
    only(
        "128 queue pairs in turn",
        endless.clone(),
        |before, after| after < before - 0.5,
    );
    // No context is fetched any more; the rest is the cost of a serial adapter's change of queue
    // pair.
    let free = system("infinihost3-memfree-sdr", &endless);
    let in_turn = |connections| {
        latency(
            &free,
            Latency::of(Operation::inline_write(4)).connections(connections),
        )
    };
    assert!(near(in_turn(8), in_turn(128), 0.02));
}

#[test]
fn free_queue_pair_changes_help_only_many_queue_pairs() {
    let slow = system("infinihost3-ddr", &Overrides::none());
    let free = system(
        "infinihost3-ddr",
        &Overrides::none().with("infinihost3-mem.engines.change", 0.0),
    );
    assert!(write(&free, 1, 8) < 0.8 * write(&slow, 1, 8));
    assert_eq!(write(&free, 1, 1), write(&slow, 1, 1));
}

#[test]
fn reads_wait_for_the_chipset_only_beyond_two() {
    let connectx = system("connectx-ddr", &Overrides::none());
    let many = system(
        "connectx-ddr",
        &Overrides::none().with("bensley.pcie.read_buffer", 16.0 * 256.0),
    );
    assert!(read(&connectx, 8) > 1.2 * read(&connectx, 1));
    assert!(read(&many, 8) < 1.1 * read(&many, 1));
}

#[test]
fn results_are_deterministic_to_the_picosecond() {
    let one = system("infinihost3-ddr", &Overrides::none());
    let run = || (write(&one, 64, 8), halo(&one, 16, 4, 2, Fidelity::Packet));
    assert_eq!(run(), run());
}

#[test]
fn packet_and_message_fidelity_agree() {
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

#[test]
fn engines_limit_the_message_rate() {
    // Millions of messages a second of this many processes with a queue pair each.
    let rate = |pairs, overrides: &Overrides| {
        let bench = Bandwidth {
            signal_every: 32,
            ..Bandwidth::of(Operation::inline_write(8)).pairs(pairs)
        };
        bandwidth(&system("connectx4-edr", overrides), bench).sent / 8.0
    };
    let own = Overrides::none();
    // Few processes are limited by the cost of posting, many by the adapter: published are 64 to 67
    // million.
    let (one, four, many) = (rate(1, &own), rate(4, &own), rate(24, &own));
    assert!(near(4.0 * one, four, 0.05), "{one} and {four}");
    assert!((50.0..70.0).contains(&many), "{many}");
    let twice = Overrides::none().with("connectx4.engines.number", 8.0);
    assert!(rate(24, &twice) > 1.5 * many);
    // A queue pair uses one engine at a time, regardless of the number of engines: published are 16
    // million.
    let prompt = [("pcie2.cpu.post", 1.0), ("pcie3.cpu.doorbell", 1.0)];
    let prompt = prompt
        .iter()
        .fold(own, |all, (path, value)| all.with(path, *value));
    let alone = rate(1, &prompt);
    assert!((15.0..17.0).contains(&alone), "{alone}");
}

#[test]
fn engine_occupancy_does_not_delay_its_own_request() {
    let alone = |interval| {
        let overrides = Overrides::none().with("connectx4.engines.interval", interval);
        write(&system("connectx4-edr", &overrides), 8, 1)
    };
    assert_eq!(alone(10.0), alone(62.0));
}

/// Returns datagrams of 8 bytes by reference sent per microsecond: their entries have 80 bytes.
fn datagrams(name: &str, overrides: &Overrides) -> f64 {
    use verbena_model::adapter::Transport;
    let operation = Operation::new(Kind::Send, 8, Placement::Reference);
    let bench = Bandwidth {
        transport: Transport::Datagram,
        signal_every: 32,
        ..Bandwidth::of(operation)
    };
    bandwidth(&system(name, overrides), bench).sent / 8.0
}

#[test]
fn entries_of_two_cache_lines_cost_only_when_fetched() {
    let own = Overrides::none();
    // Read in two parts, the second for one entry at a time; or in one part, if the doorbell
    // contains the length.
    let told = own.clone().with("connectx.send.first_fetch", 128.0);
    assert!(datagrams("connectx-qdr", &told) > 1.5 * datagrams("connectx-qdr", &own));
    // Inside the doorbell, each 64 bytes as slowly as the first; otherwise a few stores cost almost
    // nothing.
    let slowly = own.clone().with("pcie2.cpu.further", 94.0);
    assert!(datagrams("connectx4-edr", &own) > 1.4 * datagrams("connectx4-edr", &slowly));
}

/// Returns an MPI library's one-way stream, in 10^6 bytes per second.
fn stream(system: &System, bytes: u64) -> f64 {
    mpi_bandwidth(system, Ranks::Apart, bytes, Direction::One)
}

#[test]
fn streamed_messages_do_not_pay_for_waking() {
    let of = |overrides: &Overrides| {
        let edr = system("connectx5-edr", overrides);
        (mpi_latency(&edr, Ranks::Apart, 8), stream(&edr, 8) / 8.0)
    };
    let own = Overrides::none();
    let (latency, rate) = of(&own);
    // As many as the processor can post: a message takes 265 ns of the sender.
    assert!(
        (3.0..4.5).contains(&rate),
        "{rate} million messages a second"
    );
    let (later, same) = of(&own.clone().with("cost-2019.wakeup", 572.12));
    assert!(
        (later - latency - 0.5).abs() < 0.01,
        "{latency} and {later} us"
    );
    assert!(near(rate, same, 0.03), "{rate} and {same} million");
    let (later, slower) = of(&own.with("cost-2019.overhead", 589.55));
    assert!(
        (later - latency - 1.0).abs() < 0.01,
        "{latency} and {later} us"
    );
    assert!(slower < 0.5 * rate, "{rate} and {slower} million");
}

#[test]
fn a_core_limits_a_tcp_stream_and_a_slow_link_does_too() {
    let own = Overrides::none();
    let rate = |name| stream(&system(name, &own), 1 << 20);
    let (ten, hundred) = (rate("tcp-10gbe"), rate("tcp-100gbe"));
    assert!((1100.0..1250.0).contains(&ten), "{ten} MB/s of 1250");
    // Twice the processor time for copies, and the adapter is idle most of the time.
    assert!(
        (2000.0..7000.0).contains(&hundred),
        "{hundred} MB/s of 12500"
    );
    assert!(rate("connectx5-100gbe") > 1.7 * hundred);
    assert!(rate("sockets-100gbe") > 0.9 * hundred);
    let latency = |name| mpi_latency(&system(name, &own), Ranks::Apart, 8);
    let (tcp, roce) = (latency("tcp-100gbe"), latency("connectx5-100gbe"));
    assert!(tcp > 5.0 * roce, "{tcp} and {roce} us");
    // A faster link does not help short messages.
    assert!(near(tcp, latency("tcp-10gbe"), 0.1));
}

#[test]
fn a_25_gigabit_port_carries_its_rate() {
    let port = system("connectx4lx-25gbe", &Overrides::none());
    let operation = Operation::new(Kind::Write, 1 << 20, Placement::Reference);
    let rate = bandwidth(&port, Bandwidth::of(operation)).received;
    assert!((2700.0..3125.0).contains(&rate), "{rate} MB/s");
}
