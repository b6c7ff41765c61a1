//! Benefits of a dragonfly's routings: traffic from each group to the next has few cables on
//! minimal paths, and uniform traffic does not profit from longer ones.

mod joined;

use joined::{Planned, run, shape, system};
use verbena_model::adapter::{Fidelity, Kind};

/// Nodes and global cables per switch, and switches per group: balanced as in Kim et al.
const HALF: usize = 2;
const SWITCHES: usize = 4;
const GROUPS: usize = SWITCHES * HALF + 1;
const NODES: usize = GROUPS * SWITCHES * HALF;
/// Bytes that each node sends.
const EACH: u64 = 256 << 10;

/// Returns the rate of each node in bytes per second, all nodes sending to the `target` of each
/// message.
fn rate(routing: &str, messages: u64, target: impl Fn(usize, u64) -> usize) -> f64 {
    let values = [
        ("groups", GROUPS),
        ("switches", SWITCHES),
        ("nodes", HALF),
        ("global", HALF),
    ];
    let system = system(&shape("dragonfly", &values, routing), NODES, 3.0).expect("sound");
    let plan: Vec<Planned> = (0..messages)
        .flat_map(|number| (0..NODES).map(move |node| (node, number)))
        .map(|(node, number)| (node, target(node, number), Kind::Write, EACH / messages))
        .collect();
    let outcome = run(&system, NODES, Fidelity::Packet, &plan);
    assert_eq!(outcome.completed, plan.len());
    assert_eq!(outcome.breaches, Vec::<String>::new());
    EACH as f64 / outcome.rest.seconds()
}

/// Returns the node with the same number in the next group.
fn next_group(node: usize, _: u64) -> usize {
    (node + SWITCHES * HALF) % NODES
}

/// Returns a different node anywhere in the system for each message.
fn anywhere(node: usize, number: u64) -> usize {
    let step = 1 + (number as usize * 29 + node * 13) % (NODES - 1);
    (node + step) % NODES
}

#[test]
fn nonminimal_routes_relieve_congested_minimal_ones() {
    let [straight, valiant, ugal] =
        ["deterministic", "valiant", "ugal"].map(|routing| rate(routing, 1, next_group));
    // Two groups share one cable of 2 GB/s, over which eight nodes send.
    let share = 2e9 / (SWITCHES * HALF) as f64;
    assert!((0.85 * share..share).contains(&straight), "{straight}");
    assert!(valiant > 2.5 * straight, "{valiant} and {straight}");
    assert!(ugal > 2.5 * straight, "{ugal} and {straight}");
}

#[test]
fn ugal_keeps_free_minimal_routes() {
    let [straight, adaptive, valiant, ugal] =
        ["deterministic", "adaptive", "valiant", "ugal"].map(|routing| rate(routing, 16, anywhere));
    assert!(
        ugal > 0.95 * straight.max(adaptive),
        "{ugal}, {adaptive} and {straight}"
    );
    assert!(valiant < 0.8 * ugal, "{valiant} and {ugal}");
}

#[test]
fn random_routes_are_the_same_on_every_thread() {
    let values = [("groups", 5), ("switches", 2), ("nodes", 3), ("global", 2)];
    for routing in ["valiant", "ugal"] {
        for fidelity in [Fidelity::Packet, Fidelity::Message] {
            let outcome = move || {
                let joined = shape("dragonfly", &values, routing);
                let system = system(&joined, 30, 3.0).expect("sound");
                let plan: Vec<Planned> = (0..30)
                    .map(|node| (node, (node + 7) % 30, Kind::Write, 300_000))
                    .collect();
                run(&system, 30, fidelity, &plan)
            };
            let alone = outcome();
            for threads in [2, 4] {
                let running: Vec<_> = (0..threads).map(|_| std::thread::spawn(outcome)).collect();
                for thread in running {
                    assert_eq!(thread.join().expect("ends"), alone, "{routing}");
                }
            }
        }
    }
}
