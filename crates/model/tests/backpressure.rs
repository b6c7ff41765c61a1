//! Properties of random traffic on random systems: all of it arrives, nothing completes too early,
//! nothing carries more than its rate, and congestion stays on its virtual lane.

mod shipped;

use proptest::prelude::*;
use shipped::system;
use std::cell::Cell;
use std::rc::Rc;
use verbena_model::adapter::{Fidelity, Kind, Placement, Request, Transport};
use verbena_model::cluster::Cluster;
use verbena_model::kernel::Time;

/// A message.
#[derive(Debug, Clone, Copy)]
struct Planned {
    from: usize,
    to: usize,
    kind: Kind,
    bytes: u64,
}

#[derive(Debug, Clone)]
struct Plan {
    name: &'static str,
    settings: Vec<(&'static str, f64)>,
    fidelity: Fidelity,
    nodes: usize,
    lanes: u64,
    messages: Vec<Planned>,
}

prop_compose! {
    fn plans()(
        name in prop::sample::select(vec!["connectx-ddr", "infinihost3-ddr",
            "infinihost3-mem-sdr", "infinihost-pcix"]),
        fidelity in prop::sample::select(vec![Fidelity::Packet, Fidelity::Message]),
        buffer in 3u64..40,
        lanes in 1u64..3,
        nodes in 2usize..40,
        messages in prop::collection::vec(
            (
                any::<prop::sample::Index>(),
                any::<prop::sample::Index>(),
                prop::sample::select(vec![Kind::Write, Kind::WriteNotify, Kind::Send, Kind::Read,
                    Kind::Atomic]),
                prop::sample::select(vec![0u64, 1, 64, 2048, 2049, 30_000, 400_000]),
            ),
            1..40,
        ),
    ) -> Plan {
        Plan {
            name,
            settings: vec![
                ("4x-sdr.buffer", buffer as f64),
                ("4x-sdr.lanes", lanes as f64),
            ],
            fidelity,
            nodes,
            lanes,
            messages: messages
                .into_iter()
                .map(|(from, to, kind, bytes)| Planned {
                    from: from.index(nodes),
                    // Few targets, so that they are congested.
                    to: to.index(nodes.min(3)),
                    kind,
                    bytes: if kind == Kind::Atomic { 8 } else { bytes },
                })
                .collect(),
        }
    }
}

/// Runs a plan; returns the numbers of placed and completed messages, and the violated invariants.
fn run(plan: &Plan) -> (u64, u64, Vec<String>) {
    let system = system(plan.name, &plan.settings);
    let cluster = Cluster::new(&system, plan.nodes, plan.fidelity);
    let (placed, completed) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    for (number, message) in plan.messages.iter().enumerate() {
        let (one, other) = cluster.connected((message.from, message.to), 0, Transport::Reliable);
        one.use_lane(number as u64 % plan.lanes);
        other.use_lane(number as u64 % plan.lanes);
        // Receive requests are posted late: until then the receiver is not ready, which must not
        // delay other traffic.
        let (sim, receives) = (cluster.sim().clone(), other.receives().clone());
        cluster.sim().start(async move {
            sim.sleep(Time::from_nanos(20_000.0)).await;
            receives.post(2);
        });
        let process = cluster.process(message.from);
        let message = *message;
        let (placed, completed) = (placed.clone(), completed.clone());
        cluster.sim().start(async move {
            for _ in 0..2 {
                let mut request = Request::new(message.kind, message.bytes, Placement::Reference);
                let (placed, completed) = (placed.clone(), completed.clone());
                request.placed = Some(Box::new(move || placed.set(placed.get() + 1)));
                request.completed = Some(Box::new(move || completed.set(completed.get() + 1)));
                process.post(&one, vec![request]).await;
            }
        });
    }
    cluster.sim().run();
    let breaches = cluster.audit().breaches();
    cluster.finish();
    (placed.get(), completed.get(), breaches)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn all_messages_arrive_without_overload(plan in plans()) {
        let (placed, completed, breaches) = run(&plan);
        let sent = 2 * plan.messages.len() as u64;
        prop_assert_eq!((placed, completed), (sent, sent));
        prop_assert!(breaches.is_empty(), "{:#?}", breaches);
    }
}

/// Three nodes send to node 0 on lane 0, and one of them also to node 4 on `lane`; returns when the
/// last byte has arrived at node 4.
fn beside_a_crowd(lane: u64) -> Time {
    let system = system("connectx-ddr", &[("4x-sdr.lanes", 2.0)]);
    let cluster = Cluster::new(&system, 5, Fidelity::Packet);
    for from in 1..4 {
        let (one, _) = cluster.connected((from, 0), 0, Transport::Reliable);
        let process = cluster.process(from);
        cluster.sim().start(async move {
            let request = Request::new(Kind::Write, 1 << 20, Placement::Reference);
            process.post(&one, vec![request]).await;
        });
    }
    let (one, _) = cluster.connected((1, 4), 0, Transport::Reliable);
    one.use_lane(lane);
    let (process, sim) = (cluster.process(1), cluster.sim().clone());
    let there = Rc::new(Cell::new(Time::ZERO));
    let told = there.clone();
    cluster.sim().start(async move {
        // By then the traffic to node 0 fills the buffers.
        sim.sleep(Time::from_nanos(400_000.0)).await;
        let mut request = Request::new(Kind::Write, 64, Placement::Inline);
        let (sim, begun) = (sim.clone(), sim.now());
        request.placed = Some(Box::new(move || told.set(sim.now() - begun)));
        process.post(&one, vec![request]).await;
    });
    cluster.sim().run();
    cluster.finish();
    there.get()
}

#[test]
fn congestion_spreads_only_on_its_virtual_lane() {
    let (same, other) = (beside_a_crowd(0), beside_a_crowd(1));
    assert!(other < Time::from_nanos(10_000.0), "{other}");
    assert!(
        same > other * 5,
        "{same} on the crowd's lane, {other} beside it"
    );
}

/// Every other node of a fat tree writes to one of three, each node being a partition of the
/// simulation. Returns the time of the last byte, the numbers of placed and completed messages, and
/// the violated invariants.
fn crowd_of_places(buffer: f64) -> (Time, u64, u64, Vec<String>) {
    let system = system("connectx-ddr", &[("4x-sdr.buffer", buffer)]);
    let cluster = Cluster::of_places(&system, 60);
    let (placed, completed) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let last = Rc::new(Cell::new(Time::ZERO));
    for node in 3..60 {
        let (one, _) = cluster.connected((node, node % 3), 0, Transport::Reliable);
        let process = cluster.process(node);
        let (placed, completed, last) = (placed.clone(), completed.clone(), last.clone());
        cluster.sim().start_in(node, async move {
            for _ in 0..10 {
                let mut request = Request::new(Kind::Write, 9000, Placement::Reference);
                let (placed, last) = (placed.clone(), last.clone());
                let sim = process.sim().clone();
                request.placed = Some(Box::new(move || {
                    placed.set(placed.get() + 1);
                    last.set(last.get().max(sim.now()));
                }));
                let completed = completed.clone();
                request.completed = Some(Box::new(move || completed.set(completed.get() + 1)));
                process.post(&one, vec![request]).await;
            }
        });
    }
    cluster.sim().run();
    // Partitions end at different times; the audit uses the latest.
    let mut audit = cluster.audit();
    audit.now = audit.now.max(last.get());
    let breaches = audit.breaches();
    cluster.finish();
    (last.get(), placed.get(), completed.get(), breaches)
}

#[test]
fn credits_return_across_partitions() {
    let narrow = crowd_of_places(3.0);
    assert_eq!((narrow.1, narrow.2), (570, 570));
    assert!(narrow.3.is_empty(), "{:#?}", narrow.3);
    // 190 messages of 9,000 bytes each, through a slot that carries 1.83 GB/s.
    assert!(
        narrow.0 >= Time::from_nanos(190.0 * 9000.0 / 1.83),
        "{}",
        narrow.0
    );
    assert_eq!(narrow, crowd_of_places(3.0), "the same twice");
    let wide = crowd_of_places(32.0);
    assert_eq!((wide.1, wide.2), (570, 570));
    assert!(wide.3.is_empty(), "{:#?}", wide.3);
    assert!(wide.0 <= narrow.0, "{} and {}", wide.0, narrow.0);
}
