//! Messages of more than 64 packets, sent in batches of packets ("trains"), take the time of their
//! packets, within 5 %. docs/models-parts.md has the exceptions: free-running pairs, and writes
//! in both directions over PCI-X.

use verbena_model::adapter::{Fidelity, Kind, Placement};
use verbena_model::profile::{Library, Overrides, System};
use verbena_reproduce::bench::{Bandwidth, Latency, Operation, bandwidth, latency};

/// 128 packets, two per batch.
const BYTES: u64 = 262_144;
const APART: f64 = 0.05;

fn operation(kind: Kind) -> Operation {
    Operation::new(kind, BYTES, Placement::Reference)
}

/// Returns the latency of four pairs in lockstep in microseconds.
fn in_step(system: &System, kind: Kind, fidelity: Fidelity) -> f64 {
    let bench = Latency {
        rounds: 4,
        fidelity,
        ..Latency::of(operation(kind)).pairs(4)
    };
    latency(system, bench)
}

/// Returns the rate of a stream in bytes a second.
fn stream(system: &System, kind: Kind, fidelity: Fidelity) -> f64 {
    let bench = Bandwidth {
        messages: 60,
        fidelity,
        ..Bandwidth::of(operation(kind))
    };
    bandwidth(system, bench).received
}

/// Like [`stream`], in both directions at the same time.
fn both_ways(system: &System, kind: Kind, fidelity: Fidelity) -> f64 {
    let bench = Bandwidth {
        messages: 60,
        fidelity,
        ..Bandwidth::of(operation(kind)).both_ways()
    };
    bandwidth(system, bench).received
}

type Figure = fn(&System, Kind, Fidelity) -> f64;

fn check(name: &str, figures: &[(&str, Figure, Kind)]) {
    let system = Library::shipped(&Overrides::none())
        .and_then(|library| library.system(name))
        .expect("shipped profiles are sound");
    for (what, figure, kind) in figures {
        let packets = figure(&system, *kind, Fidelity::Packet);
        let trains = figure(&system, *kind, Fidelity::Message);
        assert!(
            (trains / packets - 1.0).abs() <= APART,
            "{name}, {kind:?} {what}: {packets} by packets, {trains} by trains"
        );
        // If both used the same code, this would compare nothing.
        assert_ne!(packets, trains, "{name}, {kind:?} {what}");
    }
}

#[test]
fn packet_trains_equal_single_packets_over_pci_express() {
    for name in ["connectx-ddr", "infinihost3-ddr"] {
        check(
            name,
            &[
                ("in step", in_step, Kind::Write),
                ("in step", in_step, Kind::Read),
                ("both ways", both_ways, Kind::Write),
                ("both ways", both_ways, Kind::Send),
            ],
        );
    }
}

#[test]
fn packet_trains_equal_single_packets_over_pci_x() {
    check(
        "infinihost-pcix",
        &[
            ("in step", in_step, Kind::Write),
            ("one way", stream, Kind::Write),
            ("both ways", both_ways, Kind::Send),
        ],
    );
}

/// The batches of one message follow each other as its packets do, at any rate of the link.
#[test]
fn streams_of_longer_messages_keep_their_rate_on_fast_links() {
    const FAST_APART: f64 = 0.07;
    let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
    for name in [
        "connectx4-edr",
        "connectx6-hdr",
        "connectx6dx-100gbe",
        "connectx7-ndr",
    ] {
        let system = library.system(name).expect("a shipped system");
        for bytes in [132 << 10, 192 << 10, 256 << 10, 384 << 10, 1 << 20] {
            let rate = |fidelity| {
                let operation = Operation::new(Kind::Write, bytes, Placement::Reference);
                let bench = Bandwidth {
                    messages: 60,
                    fidelity,
                    ..Bandwidth::of(operation)
                };
                bandwidth(&system, bench).received
            };
            let (packets, trains) = (rate(Fidelity::Packet), rate(Fidelity::Message));
            assert!(
                (trains / packets - 1.0).abs() <= FAST_APART,
                "{name}, {bytes} B: {packets} by packets, {trains} by trains"
            );
        }
    }
}
