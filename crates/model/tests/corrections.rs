//! Corrections by measurements: their effects at both fidelities.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use verbena_model::adapter::{Fidelity, Kind, Placement, Plan, Request, Transport};
use verbena_model::cluster::Cluster;
use verbena_model::correction::{Correction, Offset, Operation};
use verbena_model::kernel::Time;
use verbena_model::mpi::{self, World};
use verbena_model::profile::{Library, Overrides, System};

const FIDELITIES: [Fidelity; 2] = [Fidelity::Packet, Fidelity::Message];
const VERBS: [(Operation, Kind, Transport); 4] = [
    (Operation::Write, Kind::Write, Transport::Reliable),
    (Operation::Send, Kind::Send, Transport::Reliable),
    (Operation::Read, Kind::Read, Transport::Reliable),
    (Operation::Datagram, Kind::Send, Transport::Datagram),
];

fn system(name: &str) -> System {
    Library::shipped(&Overrides::none())
        .and_then(|library| library.system(name))
        .expect("shipped profiles are sound")
}

fn with(system: &System, operation: Operation, latency: f64, occupancy: f64) -> System {
    let mut system = system.clone();
    let correction = Correction {
        latency: Offset::from_nanos(latency),
        occupancy: Offset::from_nanos(occupancy),
    };
    system.corrections.set(operation, correction);
    system
}

/// Returns when each of `count` messages, posted one after another, has taken effect.
fn effects(
    system: &System,
    fidelity: Fidelity,
    (kind, transport): (Kind, Transport),
    count: usize,
) -> Vec<Time> {
    let cluster = Cluster::new(system, 2, fidelity);
    let (one, other) = cluster.connected((0, 1), 0, transport);
    other.receives().post(1000);
    let ended: Rc<RefCell<Vec<Time>>> = Rc::default();
    let requests: Vec<Request> = (0..count)
        .map(|_| {
            let mut request = Request::new(kind, 8, Placement::Inline);
            let (sim, ended) = (cluster.sim().clone(), ended.clone());
            let told = Box::new(move || ended.borrow_mut().push(sim.now()));
            match kind.is_answered() {
                true => request.completed = Some(told),
                false => request.placed = Some(told),
            }
            request.to = (transport == Transport::Datagram).then(|| other.clone());
            request
        })
        .collect();
    let process = cluster.process(0);
    cluster.sim().start(async move {
        for request in requests {
            process.post(&one, vec![request]).await;
        }
    });
    cluster.sim().run();
    assert_eq!(cluster.audit().breaches(), Vec::<String>::new());
    cluster.finish();
    let ended = ended.borrow().clone();
    assert_eq!(ended.len(), count);
    ended
}

/// Returns the latency of a single message, and the interval of a stream, in nanoseconds.
fn times(system: &System, fidelity: Fidelity, what: (Kind, Transport)) -> (f64, f64) {
    let alone = effects(system, fidelity, what, 1)[0].nanos();
    let stream = effects(system, fidelity, what, 40);
    let span = stream[39] - stream[20];
    (alone, span.nanos() / 19.0)
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() < 0.01
}

#[test]
fn a_latency_delays_each_message_and_no_stream() {
    let base = system("connectx6-hdr");
    for (operation, kind, transport) in VERBS {
        for fidelity in FIDELITIES {
            let (latency, interval) = times(&base, fidelity, (kind, transport));
            for offset in [700.0, 0.5, -60.0] {
                let corrected = with(&base, operation, offset, 0.0);
                let (later, same) = times(&corrected, fidelity, (kind, transport));
                let what = format!("{operation:?} {fidelity:?} {offset}");
                assert!(near(later - latency, offset), "{what}: {latency} {later}");
                assert!(near(same, interval), "{what}: {interval} {same}");
            }
        }
    }
}

#[test]
fn a_negative_latency_ends_at_the_fixed_delays() {
    for name in ["connectx6-hdr", "connectx5-edr-remote", "infinihost-pcix"] {
        let base = system(name);
        for (operation, kind, transport) in VERBS {
            let corrected = with(&base, operation, -1e6, 0.0);
            let plan = Plan::of(&corrected, operation);
            let taken = 1e6 - plan.unmet.nanos();
            assert!(taken > 100.0 && plan.unmet > Time::ZERO, "{name}: {plan:?}");
            for fidelity in FIDELITIES {
                let (before, _) = times(&base, fidelity, (kind, transport));
                let (after, _) = times(&corrected, fidelity, (kind, transport));
                let what = format!("{name} {operation:?} {fidelity:?}");
                assert!(
                    near(before - after, taken),
                    "{what}: {before} {after} {taken}"
                );
            }
        }
    }
}

#[test]
fn an_occupancy_changes_the_interval_and_no_latency() {
    let base = system("connectx6-hdr");
    let (operation, what) = (Operation::Write, (Kind::Write, Transport::Reliable));
    for fidelity in FIDELITIES {
        let (latency, interval) = times(&base, fidelity, what);
        for offset in [200.0, -40.0] {
            let (same, longer) = times(&with(&base, operation, 0.0, offset), fidelity, what);
            assert!(
                near(same, latency),
                "{fidelity:?} {offset}: {latency} {same}"
            );
            let change = longer - interval;
            assert!(
                near(change, offset),
                "{fidelity:?} {offset}: {interval} {longer}"
            );
        }
        let both = times(&with(&base, operation, -90.0, -40.0), fidelity, what);
        assert!(near(both.0, latency - 90.0) && near(both.1, interval - 40.0));
    }
    let plan = Plan::of(&with(&base, operation, 0.0, -1e6), operation);
    assert!(plan.unmet_occupancy > Time::ZERO);
}

#[test]
fn other_operations_are_not_corrected() {
    let base = system("connectx6-hdr");
    let corrected = with(&base, Operation::Write, 500.0, 100.0);
    for kind in [Kind::Send, Kind::Read, Kind::Atomic, Kind::WriteNotify] {
        let what = (kind, Transport::Reliable);
        let before = times(&base, Fidelity::Packet, what);
        assert_eq!(
            before,
            times(&corrected, Fidelity::Packet, what),
            "{kind:?}"
        );
    }
}

#[test]
fn uncorrected_messages_do_not_overtake_corrected_ones() {
    let corrected = with(&system("connectx6-hdr"), Operation::Write, 2000.0, 0.0);
    for fidelity in FIDELITIES {
        let cluster = Cluster::new(&corrected, 2, fidelity);
        let (one, other) = cluster.connected((0, 1), 0, Transport::Reliable);
        other.receives().post(10);
        let order: Rc<RefCell<Vec<Kind>>> = Rc::default();
        let kinds = [Kind::Write, Kind::Send, Kind::Write, Kind::WriteNotify];
        let requests = kinds.map(|kind| {
            let mut request = Request::new(kind, 8, Placement::Inline);
            let order = order.clone();
            request.placed = Some(Box::new(move || order.borrow_mut().push(kind)));
            request
        });
        let process = cluster.process(0);
        cluster.sim().start(async move {
            for request in requests {
                process.post(&one, vec![request]).await;
            }
        });
        cluster.sim().run();
        // The second write may be visible before the send's completion is, as without corrections.
        let order = order.borrow();
        let ends = (order.first(), order.last());
        let expected = (Some(&Kind::Write), Some(&Kind::WriteNotify));
        assert_eq!(
            (order.len(), ends),
            (4, expected),
            "{fidelity:?}: {order:?}"
        );
        cluster.finish();
    }
}

/// Returns the time of a ping-pong's half, in nanoseconds.
fn ping_pong(system: &System, fidelity: Fidelity, bytes: u64) -> f64 {
    let cluster = Cluster::new(system, 2, fidelity);
    let world = World::new(&cluster, vec![0, 1]);
    let (one, other) = (world.rank(0), world.rank(1));
    cluster.sim().start(async move {
        for _ in 0..4 {
            other.receive(0).await;
            other.send(0, bytes).await;
        }
    });
    let took = Rc::new(Cell::new(0.0));
    let told = took.clone();
    cluster.sim().start(async move {
        let mut begun = Time::ZERO;
        for round in 0..4 {
            if round == 2 {
                begun = one.process().now();
            }
            one.send(1, bytes).await;
            one.receive(1).await;
        }
        told.set((one.process().now() - begun).nanos() / 4.0);
    });
    cluster.sim().run();
    cluster.finish();
    took.get()
}

#[test]
fn messages_of_a_library_have_a_correction_of_their_own() {
    let base = system("connectx6-hdr");
    let library = base.mpi.clone().expect("a library");
    for fidelity in FIDELITIES {
        for bytes in [8, 1 << 20] {
            let before = ping_pong(&base, fidelity, bytes);
            for (latency, occupancy) in [(900.0, 0.0), (0.0, -50.0), (400.0, -50.0)] {
                let corrected = with(&base, Operation::Mpi, latency, occupancy);
                let after = ping_pong(&corrected, fidelity, bytes);
                let change = after - before;
                let what = format!("{fidelity:?} {bytes} {latency} {occupancy}");
                // A rendezvous computes the overhead once more.
                let slack = if bytes > 8 { 220.0 } else { 0.01 };
                assert!((change - latency).abs() < slack, "{what}: {before} {after}");
            }
        }
        let before = ping_pong(&base, fidelity, 8);
        let corrected = with(&base, Operation::Mpi, -1e6, 0.0);
        let plan = mpi::Plan::of(corrected.corrections.of(Operation::Mpi), &library);
        assert_eq!(plan.overhead, library.overhead);
        let after = ping_pong(&corrected, fidelity, 8);
        assert_eq!(Some(plan.wakeup), library.wakeup);
        let taken = library.overhead * 2 + plan.wakeup;
        assert!(near(before - after, taken.nanos()));
        assert!(plan.unmet > Time::ZERO);
    }
}
