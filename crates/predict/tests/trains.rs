//! Messages that go in trains of packets take the time that their packets take, within 5 %: those of more than 64 packets.
//! What is left out is in docs/models.md: pairs that run freely, and writes both ways over PCI-X.

use verbena_model::adapter::{Fidelity, Kind, Placement};
use verbena_model::profile::{Library, Overrides, System};
use verbena_predict::bench::{Bandwidth, Latency, Operation, bandwidth, latency};

/// 128 packets, two to a train.
const BYTES: u64 = 262_144;
/// How far the two may be apart.
const APART: f64 = 0.05;

fn operation(kind: Kind) -> Operation {
    Operation::new(kind, BYTES, Placement::Reference)
}

/// Four pairs in step, microseconds.
fn in_step(system: &System, kind: Kind, fidelity: Fidelity) -> f64 {
    let bench = Latency {
        rounds: 4,
        fidelity,
        ..Latency::of(operation(kind)).pairs(4)
    };
    latency(system, bench)
}

/// A stream, bytes a second.
fn stream(system: &System, kind: Kind, fidelity: Fidelity) -> f64 {
    let bench = Bandwidth {
        messages: 60,
        fidelity,
        ..Bandwidth::of(operation(kind))
    };
    bandwidth(system, bench).received
}

/// The same both ways at once.
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
        // Were they the same code, this would compare nothing.
        assert_ne!(packets, trains, "{name}, {kind:?} {what}");
    }
}

#[test]
fn trains_over_pci_express_take_what_their_packets_take() {
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
fn trains_over_pci_x_take_what_their_packets_take() {
    check(
        "infinihost-pcix",
        &[
            ("in step", in_step, Kind::Write),
            ("one way", stream, Kind::Write),
            ("both ways", both_ways, Kind::Send),
        ],
    );
}
