//! Message-passing libraries are profiles, and their settings take effect.

use verbena_model::adapter::Fidelity;
use verbena_model::profile::{Library, Overrides, System};
use verbena_reproduce::mpi_benchmarks::{ALL, Measure, crews, find, point, points};

/// Returns a system with a user's library beside the shipped ones.
fn with_library(library: &str) -> System {
    let system = "kind = \"system\"\nbase = \"connectx-qdr\"\nmpi = \"mine\"\n";
    Library::shipped(&Overrides::none())
        .and_then(|shipped| shipped.and([("mpi/mine.toml", library), ("system/mine.toml", system)]))
        .and_then(|library| library.system("mine"))
        .expect("sound profiles")
}

const HEAD: &str = "kind = \"mpi\"\nbase = \"mvapich-0.9.9\"\nabout = \"Mine\"\n";
const GOOD: &str = "tag = \"assumed\", source = \"mine\"";

fn latency(system: &System, bytes: u64) -> f64 {
    Measure::Latency.figure(system, bytes, 2)
}

#[test]
fn registration_costs_both_sides_unless_cached() {
    let registration = format!("registration = {{ value = 10, unit = \"us\", {GOOD} }}\n");
    let cache = format!("registration_cache = {{ value = 4, unit = \"1\", {GOOD} }}\n");
    let (plain, anew, cached) = (
        with_library(HEAD),
        with_library(&format!("{HEAD}{registration}")),
        with_library(&format!("{HEAD}{registration}{cache}")),
    );
    let large = 256 << 10;
    let more = latency(&anew, large) - latency(&plain, large);
    assert!((19.0..21.0).contains(&more), "{more} us for two buffers");
    assert_eq!(latency(&cached, large), latency(&plain, large));
    // Data copied into the library's own buffers are not registered.
    assert_eq!(latency(&anew, 1024), latency(&plain, 1024));
}

#[test]
fn registration_costs_grow_with_pages() {
    let page = format!("registration_page = {{ value = 100, unit = \"ns\", {GOOD} }}\n");
    let (plain, paged) = (with_library(HEAD), with_library(&format!("{HEAD}{page}")));
    let more = latency(&paged, 1 << 20) - latency(&plain, 1 << 20);
    // Twice 256 pages.
    assert!((50.0..53.0).contains(&more), "{more} us");
}

#[test]
fn rendezvous_by_read_saves_a_message() {
    let (write, read) = (
        with_library(HEAD),
        with_library(&format!("{HEAD}rendezvous = \"read\"\n")),
    );
    let large = 64 << 10;
    let (by_write, by_read) = (latency(&write, large), latency(&read, large));
    // The sender needs no destination address; the data take as long.
    assert!(
        by_read < by_write,
        "{by_read} us by reads, {by_write} by writes"
    );
    assert!(
        by_read > 0.8 * by_write,
        "{by_read} us by reads, {by_write} by writes"
    );
    // Below the eager limit there is no difference.
    assert_eq!(latency(&read, 1024), latency(&write, 1024));
    let bandwidth = |system| Measure::BothWays.figure(system, 1 << 20, 2);
    let ratio = bandwidth(&read) / bandwidth(&write);
    assert!((0.9..1.1).contains(&ratio), "{ratio}");
}

#[test]
fn every_benchmark_gives_a_figure() {
    let system = with_library(HEAD);
    for entry in ALL {
        let crews = crews(entry, None, None);
        let computed = || {
            let points = points(entry, &[8, 65_536], &crews);
            let point = |at| point(entry, (&system, Fidelity::Packet), at);
            points.into_iter().map(point).collect::<Vec<_>>()
        };
        let found = computed();
        assert!(!found.is_empty());
        for point in &found {
            assert!(point.metrics[0].value > 0.0, "{point:?}");
        }
        assert_eq!(found, computed());
    }
    assert!(find("mpi.latency").is_some() && find("latency.write").is_none());
}

#[test]
fn one_pair_has_the_pair_latency_and_many_share_the_link() {
    let system = with_library(HEAD);
    let figure = |measure: Measure, pairs: usize| measure.figure(&system, 4096, 2 * pairs);
    let alone = Measure::Latency.figure(&system, 4096, 2);
    let one = figure(Measure::PairsLatency, 1);
    assert!(
        (one / alone - 1.0).abs() < 0.05,
        "{one} us beside {alone} us"
    );
    assert!(figure(Measure::PairsLatency, 8) > 1.1 * one);
    // Pairs together cannot exceed the link's rate; one pair alone does not fill it with small
    // messages.
    let together = [1, 2, 8].map(|pairs| figure(Measure::PairsBandwidth, pairs));
    assert!(
        together[1] > 0.99 * together[0] && together[2] > 0.95 * together[1],
        "{together:?}"
    );
    let small = |pairs: usize| Measure::PairsBandwidth.figure(&system, 8, 2 * pairs);
    assert!(small(4) > 1.5 * small(1));
}

#[test]
fn collectives_take_longer_with_more_ranks_and_more_bytes() {
    let system = with_library(HEAD);
    for measure in [
        Measure::Broadcast,
        Measure::AllReduce,
        Measure::AllGather,
        Measure::AllToAll,
    ] {
        let figure = |bytes, ranks| measure.figure(&system, bytes, ranks);
        assert!(figure(8, 4) > figure(8, 2), "{measure:?}");
        assert!(figure(65_536, 4) > 2.0 * figure(8, 4), "{measure:?}");
    }
    let barrier = |ranks| Measure::Barrier.figure(&system, 0, ranks);
    assert!(barrier(16) > barrier(4) && barrier(4) > barrier(2));
}

/// Thakur, Rabenseifner and Gropp (2005): with p ranks a ring takes p - 1 exchanges of a part;
/// Bruck's algorithm takes one exchange per doubling of a rank's data, of p - 1 parts in all. The
/// time of an exchange is measured between two ranks.
#[test]
fn all_gather_takes_the_published_number_of_exchanges() {
    let limit = |most: u64| {
        let key = format!("all_gather_doubling = {{ value = {most}, unit = \"B\", {GOOD} }}\n");
        with_library(&format!("{HEAD}{key}"))
    };
    let (doubling, ring) = (with_library(HEAD), limit(1));
    let exchange = |bytes| Measure::PingPing.figure(&doubling, bytes, 2);
    let near = |figure: f64, formula: f64| (figure / formula - 1.0).abs() < 0.05;
    for (ranks, parts) in [
        (2, &[1][..]),
        (8, &[1, 2, 4]),
        (11, &[1, 2, 4, 3]),
        (16, &[1, 2, 4, 8]),
    ] {
        assert_eq!(parts.iter().sum::<u64>(), ranks - 1);
        for bytes in [8, 1024, 65_536] {
            let gather = |system| Measure::AllGather.figure(system, bytes, ranks as usize);
            let published = (ranks - 1) as f64 * exchange(bytes);
            let figure = gather(&ring);
            assert!(
                near(figure, published),
                "ring of {ranks}, {bytes} B: {figure} us, {published} by the formula"
            );
            let published = parts.iter().map(|n| exchange(n * bytes)).sum::<f64>();
            let figure = gather(&doubling);
            assert!(
                near(figure, published),
                "{ranks} doubling, {bytes} B: {figure} us, {published} by the formula"
            );
        }
    }
    // The limit applies to the size of the result.
    let chosen = Measure::AllGather.figure(&limit(8 * 1024), 1024, 8);
    assert_eq!(chosen, Measure::AllGather.figure(&doubling, 1024, 8));
    let above = Measure::AllGather.figure(&limit(8 * 1024 - 1), 1024, 8);
    assert_eq!(above, Measure::AllGather.figure(&ring, 1024, 8));
}

#[test]
fn size_limits_choose_the_collective_algorithm() {
    let limits = |most: u64| {
        let key = |name| format!("{name} = {{ value = {most}, unit = \"B\", {GOOD} }}\n");
        let keys = [
            "all_reduce_doubling",
            "all_to_all_forwarding",
            "broadcast_whole",
        ]
        .map(key);
        with_library(&format!("{HEAD}{}", keys.concat()))
    };
    let (plain, choosing) = (with_library(HEAD), limits(2048));
    let figures = |measure: Measure, bytes, ranks| {
        [&plain, &choosing].map(|system| measure.figure(system, bytes, ranks))
    };
    // Large messages are split into parts: each rank moves about twice the message, not once per
    // step.
    for measure in [Measure::AllReduce, Measure::Broadcast] {
        let [whole, parts] = figures(measure, 1 << 20, 16);
        assert!(
            parts < 0.75 * whole,
            "{measure:?}: {parts} us in parts, {whole} whole"
        );
        let [one, other] = figures(measure, 1024, 16);
        assert_eq!(one, other, "{measure:?} below the limit");
    }
    // Small messages are forwarded by other ranks: 4 steps instead of 15.
    let [direct, forwarded] = figures(Measure::AllToAll, 8, 16);
    assert!(
        forwarded < 0.6 * direct,
        "{forwarded} us forwarded, {direct} direct"
    );
    let [one, other] = figures(Measure::AllToAll, 4096, 16);
    assert_eq!(one, other);
    // Numbers of ranks that are not powers of two also terminate.
    for measure in [Measure::AllReduce, Measure::AllToAll, Measure::Broadcast] {
        for ranks in [9, 12, 15] {
            for bytes in [8, 1 << 16] {
                assert!(measure.figure(&choosing, bytes, ranks) > 0.0);
            }
        }
    }
}

#[test]
fn puts_and_gets_overlap_and_reach_the_wire_rate() {
    for name in ["connectx-qdr", "connectx-ddr", "infinihost3-ddr"] {
        let system = Library::shipped(&Overrides::none())
            .and_then(|library| library.system(name))
            .expect("a shipped system");
        for (one, many) in [(Measure::Put, Measure::Puts), (Measure::Get, Measure::Gets)] {
            let (mut before, mut rate) = (0.0, 0.0);
            for bytes in [1, 64, 4096, 65_536, 1 << 20] {
                let alone = one.figure(&system, bytes, 2);
                let stream = many.figure(&system, bytes, 2);
                assert!(alone > before, "{name}, {one:?} of {bytes} B: {alone} us");
                assert!(
                    stream > rate,
                    "{name}, {many:?} of {bytes} B: {stream} MB/s"
                );
                // Consecutive accesses would be the same work with gaps.
                let of_one = bytes as f64 / alone;
                assert!(stream >= of_one, "{name}, {many:?} of {bytes} B");
                (before, rate) = (alone, stream);
            }
            // Large accesses form a stream on either side; so do MVAPICH's sends by writes.
            let sends = Measure::Bandwidth.figure(&system, 1 << 20, 2);
            let ratio = rate / sends;
            assert!((0.95..1.05).contains(&ratio), "{name}, {many:?}: {ratio}");
        }
        // An answer carries the data of a read; a write's answer is empty, its data travel in the
        // other direction.
        let small = |measure: Measure| measure.figure(&system, 8, 2);
        assert!(small(Measure::Get) >= small(Measure::Put), "{name}");
        assert!(small(Measure::Puts) >= small(Measure::Gets), "{name}");
    }
}
