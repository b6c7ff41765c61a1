//! Hosts since 2009: memory does not limit newer adapters, and messages inside a node pass with
//! several cache lines under way.

use verbena_model::adapter::{Kind, Placement};
use verbena_model::profile::{Library, Overrides, System};
use verbena_reproduce::bench::{
    Bandwidth, Direction, Latency, Operation, Ranks, bandwidth, latency, mpi_bandwidth, mpi_latency,
};

fn library() -> Library {
    Library::shipped(&Overrides::none()).expect("shipped profiles are sound")
}

/// Returns the shipped system `name` with another host and library.
fn with(name: &str, host: &str, mpi: &str) -> System {
    let text = format!(
        "kind = \"system\"\nbase = \"{name}\"\nabout = \"a test's\"\nhost = \"{host}\"\n\
         mpi = \"{mpi}\"\n"
    );
    let library = library().and([("mine.toml", text.as_str())]);
    let system = library.and_then(|library| library.system("mine"));
    system.expect("a sound profile")
}

#[test]
fn memory_does_not_limit_both_ways_of_later_adapters() {
    // Two directions of the link, in 10^6 bytes a second; three channels of DDR3-1066 carry 25,600.
    for (name, rate) in [
        ("connectx4-edr", 25_000.0),
        ("connectx6-hdr", 50_000.0),
        ("connectx7-ndr", 100_000.0),
    ] {
        let system = library().system(name).expect("shipped");
        let operation = Operation::new(Kind::Write, 1 << 20, Placement::Reference);
        let both = bandwidth(&system, Bandwidth::of(operation).both_ways()).received;
        assert!(both > 0.85 * rate, "{name}: {both} of {rate} MB/s");
    }
}

#[test]
fn every_host_since_2012_has_its_own_memory_and_caches() {
    let library = library();
    let hosts = [
        "pcie3-sandy-bridge",
        "pcie3",
        "pcie3-haswell",
        "pcie3-x16",
        "pcie3-x16-skylake",
        "pcie4-x16",
        "pcie4-x16-intel",
        "pcie5-x16",
        "pcie5-x16-intel",
    ];
    for host in hosts {
        for key in ["memory.bandwidth", "cpu.cores", "cpu.peak"] {
            let path = format!("{host}.{key}");
            let own = library.recorded().iter().any(|value| value.path == path);
            assert!(own, "{path} is inherited");
        }
    }
}

/// Published latencies inside a node, in microseconds: host, library, size and figure.
///
/// University of Innsbruck, LCC3: two Xeon of six Westmere cores, osu_latency 5.8, Open MPI 3.1.6,
/// two cores of a socket. libfabric, pull request 8582 (2023): Amazon c5n (Skylake-SP), Open MPI
/// over the provider sm2; the profile's `cached` is from the same source, at larger sizes.
const INSIDE: [(&str, &str, u64, f64); 8] = [
    ("pcie2", "openmpi-1.8", 8192, 1.56),
    ("pcie2", "openmpi-1.8", 16_384, 2.89),
    ("pcie2", "openmpi-1.8", 32_768, 4.71),
    ("pcie2", "openmpi-1.8", 65_536, 8.05),
    ("pcie3-x16-skylake", "openmpi-5", 8192, 1.77),
    ("pcie3-x16-skylake", "openmpi-5", 16_384, 2.31),
    ("pcie3-x16-skylake", "openmpi-5", 32_768, 3.13),
    ("pcie3-x16-skylake", "openmpi-5", 65_536, 4.91),
];

#[test]
fn messages_inside_a_node_take_the_published_time() {
    for (host, mpi, bytes, published) in INSIDE {
        let system = with("connectx-qdr", host, mpi);
        let modelled = mpi_latency(&system, Ranks::Together, bytes);
        assert!(
            (modelled / published - 1.0).abs() <= 0.25,
            "{host}, {mpi}, {bytes} B: {modelled} us, published {published}"
        );
    }
}

#[test]
fn several_lines_are_under_way_inside_a_node() {
    // A line after the other, at the 81 ns of a miss, 64 KiB took 167 us.
    for name in ["connectx-qdr", "connectx4-edr", "connectx6-hdr"] {
        let system = library().system(name).expect("shipped");
        let time = mpi_latency(&system, Ranks::Together, 65_536);
        assert!((5.0..20.0).contains(&time), "{name}: {time} us");
    }
    // The hosts of the papers keep theirs: a line at a time.
    let old = library().system("infinihost3-ddr").expect("shipped");
    assert!(mpi_latency(&old, Ranks::Together, 65_536) > 200.0);
}

#[test]
fn pieces_let_both_sides_copy_at_once() {
    let whole = with("connectx-qdr", "pcie2", "mvapich2");
    let pieces = with("connectx-qdr", "pcie2", "openmpi-1.8");
    let time = |system: &System| mpi_latency(system, Ranks::Together, 262_144);
    assert!(time(&pieces) < 0.65 * time(&whole));
    let rate = |system: &System| mpi_bandwidth(system, Ranks::Together, 65_536, Direction::One);
    assert!(rate(&pieces) > 0.9 * rate(&whole));
}

#[test]
fn cores_of_one_cache_are_nearer_than_those_of_two() {
    let text = |sharing: u64| {
        format!(
            "kind = \"host\"\nbase = \"pcie4-x16\"\nabout = \"a test's\"\n[cpu]\n\
             sharing = {{ value = {sharing}, unit = \"1\", tag = \"assumed\", \
             source = \"a test\" }}\n\
             cached = {{ value = 1e6, unit = \"MB/s\", tag = \"assumed\", source = \"a test\" }}\n"
        )
    };
    let time = |sharing: u64| {
        let host = text(sharing);
        let system = "kind = \"system\"\nbase = \"connectx6-hdr\"\nabout = \"a test's\"\n\
                      host = \"near\"\n";
        let library = library().and([("near.toml", host.as_str()), ("mine.toml", system)]);
        let system = library.and_then(|library| library.system("mine"));
        mpi_latency(&system.expect("sound"), Ranks::Together, 65_536)
    };
    assert!(time(1) > 2.0 * time(8), "{} and {}", time(1), time(8));
}

#[test]
fn fetching_entry_and_payload_takes_two_published_reads() {
    // pcie-bench, SIGCOMM 2018, Sandy Bridge, PCI Express 3.0 x8: a read of 64 B takes 560 ns.
    let system = library().system("connectx3-qdr").expect("shipped");
    let write = |placement| {
        let operation = Operation::new(Kind::Write, 64, placement);
        latency(&system, Latency::of(operation))
    };
    let step = write(Placement::Reference) - write(Placement::Inline);
    assert!((step / (2.0 * 0.56) - 1.0).abs() < 0.1, "{step} us");
}

#[test]
fn a_processor_sees_data_later_where_adapters_write_to_memory() {
    let near = |name: &str, host: &str| {
        let system = with(name, host, "mvapich-0.9.9");
        latency(&system, Latency::of(Operation::inline_write(8)))
    };
    let amd = near("connectx6-hdr", "pcie4-x16");
    let intel = near("connectx6-hdr", "pcie4-x16-intel");
    assert!((0.05..0.15).contains(&(amd - intel)), "{amd} and {intel}");
}
