//! An adapter on a different socket than its processes: every crossing adds latency, and the socket
//! interconnect limits the rate.

use std::cell::Cell;
use std::rc::Rc;
use verbena_model::adapter::{Fidelity, Kind, Placement, Request, Transport};
use verbena_model::cluster::Cluster;
use verbena_model::kernel::Time;
use verbena_model::profile::{Library, Overrides};

/// Returns the time from posting a message on an idle system until it is in the other node's
/// memory, or answered.
fn time(system: &str, values: &[(&str, f64)], fidelity: Fidelity, message: (Kind, u64)) -> Time {
    let (kind, bytes) = message;
    let overrides = values.iter().fold(Overrides::none(), |all, (path, value)| {
        all.with(path, *value)
    });
    let library = Library::shipped(&overrides).expect("shipped profiles are sound");
    let system = library.system(system).expect("a shipped system");
    let cluster = Cluster::new(&system, 2, fidelity);
    let (one, other) = cluster.connected((0, 1), 0, Transport::Reliable);
    other.receives().post(1);
    let (process, sim) = (cluster.process(0), cluster.sim().clone());
    let took = Rc::new(Cell::new(Time::ZERO));
    // The first message brings contexts and translations into the adapters.
    for _ in 0..2 {
        let (process, one, sim, told) = (process.clone(), one.clone(), sim.clone(), took.clone());
        cluster.sim().start(async move {
            let placement = match bytes {
                0..=64 => Placement::Inline,
                _ => Placement::Reference,
            };
            let begun = sim.now();
            let mut request = Request::new(kind, bytes, placement);
            request.placed = Some(Box::new(move || told.set(sim.now() - begun)));
            process.post(&one, vec![request]).await;
        });
        cluster.sim().run();
    }
    assert_eq!(cluster.audit().breaches(), Vec::<String>::new());
    cluster.finish();
    took.get()
}

const NEAR: &str = "connectx5-edr";
const FAR: &str = "connectx5-edr-remote";

#[test]
fn a_short_write_crosses_the_sockets_once_per_node() {
    let of = |system| time(system, &[], Fidelity::Packet, (Kind::Write, 8));
    let longer = of(FAR) - of(NEAR);
    // The doorbell and the data, 29 ns each, and 72 B at 38.4 GB/s.
    let expected = Time::from_nanos(2.0 * 29.0);
    assert!(longer >= expected, "{longer}");
    assert!(longer <= expected + Time::from_nanos(2.0), "{longer}");
}

#[test]
fn reads_cross_the_sockets_in_both_directions() {
    let of = |system| time(system, &[], Fidelity::Packet, (Kind::Read, 8));
    let longer = of(FAR) - of(NEAR);
    // A doorbell with the request, and the responder's round trip to memory; the requester is
    // notified when the bus has taken the data.
    let crossings = longer.nanos() / 29.0;
    assert!((2.95..3.1).contains(&crossings), "{longer}: {crossings}");
}

#[test]
fn throughput_is_limited_by_the_socket_link() {
    let size = 4 << 20;
    for fidelity in [Fidelity::Packet, Fidelity::Message] {
        for kind in [Kind::Write, Kind::Read] {
            let rate = |value: f64| {
                let values = [("pcie3-x16-remote.numa.rate", value)];
                size as f64 / time(FAR, &values, fidelity, (kind, size)).seconds()
            };
            let near = size as f64 / time(NEAR, &[], fidelity, (kind, size)).seconds();
            let (wide, narrow) = (rate(38_400.0), rate(6_000.0));
            assert!(wide > 0.98 * near, "{kind:?}: {wide} and {near}");
            assert!(
                (0.95 * 6e9..6e9).contains(&narrow),
                "{kind:?}, {fidelity:?}: {narrow}"
            );
        }
    }
}

#[test]
fn numa_keys_are_refused_for_a_bus_without_sockets() {
    let text = "kind = \"host\"\nbase = \"lindenhurst-pcix\"\nabout = \"a test's\"\n[numa]\n";
    let library = Library::shipped(&Overrides::none()).expect("sound");
    let error = library
        .and([("mine.toml", text)])
        .expect_err("PCI-X has no sockets");
    assert_eq!(
        (error.file.as_str(), error.line, error.key.as_str()),
        ("mine.toml", 4, "numa")
    );
    let text = "kind = \"host\"\nbase = \"pcie3-x16\"\nabout = \"a test's\"\n[numa]\n";
    let error = library
        .and([("mine.toml", text)])
        .expect_err("a value is missing");
    assert_eq!((error.line, error.key.as_str()), (4, "numa.latency"));
}
