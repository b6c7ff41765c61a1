//! Topologies from files: for any shape all messages arrive and nothing is overloaded, paths are as
//! short as the rule states, possible deadlocks are rejected, and errors are reported with file,
//! line and key.

mod joined;

use joined::{count, run, shape, system};
use proptest::prelude::*;
use std::cell::Cell;
use std::rc::Rc;
use verbena_model::adapter::{Fidelity, Kind, Placement, Request, Transport};
use verbena_model::cluster::Cluster;
use verbena_model::kernel::Time;
use verbena_model::profile::{Library, Overrides, System};
use verbena_model::topology::Wiring;

fn table(switches: usize, rest: &str) -> String {
    format!(
        "kind = \"topology\"\nabout = \"a test's\"\n[table]\nswitches = {}\n{rest}",
        count(switches)
    )
}

fn wiring(system: &System) -> &Wiring {
    &system.topology.as_ref().expect("has a topology").wiring
}

fn shapes() -> impl Strategy<Value = String> {
    let routing = || prop::sample::select(vec!["deterministic", "adaptive"]);
    let by_groups = || prop::sample::select(vec!["deterministic", "adaptive", "valiant", "ugal"]);
    prop_oneof![
        (1usize..5, 2usize..5, 1usize..4, 1usize..3, routing()).prop_map(
            |(l, n, s, p, routing)| {
                let values = [("leaves", l), ("nodes", n), ("spines", s), ("parallel", p)];
                shape("fat_tree", &values, routing)
            }
        ),
        (1usize..6, 1usize..5, 1usize..4, 2usize..4, routing()).prop_map(
            |(x, y, z, n, routing)| {
                let values = [("x", x), ("y", y), ("z", z), ("nodes", n)];
                shape("torus", &values, routing)
            }
        ),
        (1usize..6, 1usize..4, 2usize..4, 2usize..4, by_groups()).prop_map(
            |(g, s, n, h, routing)| {
                let values = [
                    ("groups", g.min(s * h + 1)),
                    ("switches", s),
                    ("nodes", n),
                    ("global", h),
                ];
                shape("dragonfly", &values, routing)
            }
        ),
        // A tree of any form: every switch has a cable to one with a smaller number.
        prop::collection::vec((any::<prop::sample::Index>(), 1usize..3), 1..8).prop_map(|above| {
            let cables: Vec<_> = above
                .iter()
                .enumerate()
                .flat_map(|(below, (above, cables))| {
                    let above = above.index(below + 1);
                    std::iter::repeat_n(format!("[{}, {above}]", below + 1), *cables)
                })
                .collect();
            let nodes: Vec<_> = (0..2 * above.len())
                .map(|n| (n % (above.len() + 1)).to_string())
                .collect();
            let rest = format!(
                "nodes = [{}]\ncables = [{}]\n",
                nodes.join(", "),
                cables.join(", ")
            );
            table(above.len() + 1, &rest)
        }),
    ]
}

const KINDS: [Kind; 5] = [
    Kind::Write,
    Kind::WriteNotify,
    Kind::Send,
    Kind::Read,
    Kind::Atomic,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn all_messages_arrive_without_overload(
        topology in shapes(),
        fidelity in prop::sample::select(vec![Fidelity::Packet, Fidelity::Message]),
        lanes in 3u64..6,
        buffer in prop::sample::select(vec![5u64 << 10, 32 << 10]),
        messages in prop::collection::vec(
            (
                any::<prop::sample::Index>(),
                any::<prop::sample::Index>(),
                prop::sample::select(KINDS.to_vec()),
                prop::sample::select(vec![0u64, 1, 2049, 30_000, 300_000]),
            ),
            1..40,
        ),
    ) {
        let mut system = system(&topology, 1, lanes as f64)
            .map_err(|e| TestCaseError::fail(e.to_string()))?;
        system.link.buffer.0 = buffer;
        let nodes = wiring(&system).nodes();
        let messages: Vec<_> = messages
            .into_iter()
            .map(|(from, to, kind, bytes)| {
                let bytes = if kind == Kind::Atomic { 8 } else { bytes };
                (from.index(nodes), to.index(nodes), kind, bytes)
            })
            .collect();
        let outcome = run(&system, nodes, fidelity, &messages);
        prop_assert_eq!((outcome.placed, outcome.completed), (messages.len(), messages.len()));
        prop_assert!(outcome.breaches.is_empty(), "{:#?}", outcome.breaches);
        prop_assert_eq!(run(&system, nodes, fidelity, &messages), outcome, "the same twice");
    }

    /// Every permitted link shortens the path by one, as compared with a breadth-first search.
    #[test]
    fn every_route_is_a_shortest_one(topology in shapes()) {
        let system = system(&topology, 1, 3.0).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let wiring = wiring(&system);
        for to in 0..wiring.nodes() {
            let target = wiring.switch_of(to);
            let left = distances(wiring, target);
            for from in (0..wiring.nodes()).map(|node| wiring.switch_of(node)) {
                // A dragonfly's minimal route uses one cable between groups; a path through a third
                // group may be equally short.
                let longest = if topology.contains("dragonfly") { 3 } else { left[from] };
                let (mut ends, mut taken) = (vec![from], 0);
                while ends.iter().any(|end| *end != target) {
                    taken += 1;
                    prop_assert!(taken <= longest,
                        "more than {longest} links from {from} to {target}: {topology}");
                    let mut next = Vec::new();
                    for at in ends.into_iter().filter(|end| *end != target) {
                        let before = next.len();
                        wiring.ways(at, to, |way| {
                            assert_eq!(wiring.ends(way.link).0, at, "a link of another switch");
                            next.push(wiring.ends(way.link).1);
                        });
                        prop_assert!(next.len() > before, "no way from {at} to node {to}");
                    }
                    next.sort_unstable();
                    next.dedup();
                    ends = next;
                }
            }
        }
    }
}

/// Returns the number of links from every switch to `target`.
fn distances(wiring: &Wiring, target: usize) -> Vec<usize> {
    let mut left = vec![usize::MAX; wiring.switches()];
    left[target] = 0;
    for round in 1..wiring.switches() {
        for link in 0..wiring.links() {
            let (one, other) = wiring.ends(link);
            if left[other] == round - 1 && left[one] == usize::MAX {
                left[one] = round;
            }
        }
    }
    left
}

/// Runs a torus of one ring in which all nodes send to the opposite one.
fn ring_under_load(lanes: u64) -> (usize, usize) {
    let torus = shape("torus", &[("x", 5), ("nodes", 2)], "deterministic");
    let mut system = system(&torus, 10, 2.0).expect("two lanes are enough");
    // Bypasses the check of the profile reader.
    system.link.lanes.0 = lanes;
    system.link.buffer.0 = 5 << 10;
    let messages: Vec<_> = (0..10)
        .map(|node| (node, (node + 4) % 10, Kind::Write, 400_000))
        .collect();
    let outcome = run(&system, 10, Fidelity::Packet, &messages);
    (outcome.completed, messages.len())
}

#[test]
fn a_ring_deadlocks_on_one_lane_and_is_refused() {
    let (done, sent) = ring_under_load(1);
    assert!(
        done < sent,
        "on one lane the ring waits for itself, {done} of {sent}"
    );
    assert_eq!(ring_under_load(2), (sent, sent));
    let torus = shape("torus", &[("x", 5), ("nodes", 2)], "deterministic");
    let error = system(&torus, 10, 1.0).expect_err("one lane is not enough");
    assert_eq!(error.key, "topology");
    assert!(
        error.reason.contains("0 -> 1 -> 2 -> 3 -> 4 -> 0"),
        "{error}"
    );
    assert!(
        error
            .reason
            .contains("needs 2 virtual lanes, and the link has 1"),
        "{error}"
    );
}

#[test]
fn a_dragonfly_needs_two_lanes_and_three_for_nonminimal_routes() {
    let values = [("groups", 5), ("switches", 2), ("nodes", 1), ("global", 2)];
    let dragonfly = shape("dragonfly", &values, "adaptive");
    assert!(system(&dragonfly, 10, 2.0).is_ok());
    let error = system(&dragonfly, 10, 1.0).expect_err("one lane is not enough");
    assert!(error.reason.contains("needs 2 virtual lanes"), "{error}");
    for routing in ["valiant", "ugal"] {
        let dragonfly = shape("dragonfly", &values, routing);
        assert!(system(&dragonfly, 10, 3.0).is_ok());
        let error = system(&dragonfly, 10, 2.0).expect_err("a third group takes a third lane");
        assert!(error.reason.contains("needs 3 virtual lanes"), "{error}");
    }
}

/// A ring of five switches as a table: shortest paths can deadlock; forwarding tables that avoid
/// one cable cannot.
#[test]
fn custom_forwarding_tables_avoid_deadlocks() {
    let joined = "nodes = [0, 1, 2, 3, 4]\ncables = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0]]\n";
    let error = system(&table(5, joined), 5, 1.0).expect_err("a ring");
    assert!(
        error.reason.contains("forever") && error.reason.contains("forwarding tables"),
        "{error}"
    );
    // A line: cable 4 is never used.
    let row = |at: i64| {
        let entries = (0..5).map(|to: i64| match to.cmp(&at) {
            std::cmp::Ordering::Less => at - 1,
            std::cmp::Ordering::Equal => -1,
            std::cmp::Ordering::Greater => at,
        });
        format!(
            "[{}]",
            entries
                .map(|e| e.to_string())
                .collect::<Vec<_>>()
                .join(", ")
        )
    };
    let rows: Vec<_> = (0..5).map(row).collect();
    let line = table(5, &format!("{joined}forwarding = [{}]\n", rows.join(", ")));
    let system = system(&line, 5, 1.0).expect("a line has no dependencies");
    let messages: Vec<_> = (0..5)
        .map(|node| (node, (node + 2) % 5, Kind::Write, 100_000))
        .collect();
    assert_eq!(run(&system, 5, Fidelity::Packet, &messages).completed, 5);
}

/// The default fat tree equals the same tree from a file, to the picosecond.
#[test]
fn a_fat_tree_from_a_file_equals_the_default_one() {
    let values = [("leaves", 4), ("nodes", 12), ("spines", 12)];
    let given = system(&shape("fat_tree", &values, "deterministic"), 48, 1.0).expect("sound");
    let grown =
        Library::shipped(&Overrides::none()).and_then(|library| library.system("connectx-ddr"));
    let grown = grown.expect("sound");
    let messages: Vec<_> = (0..48)
        .map(|node| (node, node * 7 % 48, KINDS[node % 4], 3_000 * node as u64))
        .collect();
    for fidelity in [Fidelity::Packet, Fidelity::Message] {
        let by_file = run(&given, 48, fidelity, &messages);
        assert_eq!(by_file.placed, 48);
        assert_eq!(by_file, run(&grown, 48, fidelity, &messages));
    }
}

/// Returns the time at which four nodes of one leaf have written 1 MB each to nodes of other
/// leaves.
fn across(spines: usize, targets: [usize; 4], routing: &str) -> Time {
    let values = [("leaves", 5), ("nodes", 4), ("spines", spines)];
    let system = system(&shape("fat_tree", &values, routing), 20, 1.0).expect("sound");
    let messages: Vec<_> = (0..4)
        .map(|node| (node, targets[node], Kind::Write, 1 << 20))
        .collect();
    let outcome = run(&system, 20, Fidelity::Packet, &messages);
    assert_eq!((outcome.completed, outcome.breaches), (4, Vec::new()));
    outcome.rest
}

#[test]
fn an_oversubscribed_leaf_is_limited_by_its_cables() {
    // Returns the rate of each cable in GB/s: the link's 2 GB/s, less headers.
    let carried = |spines: usize| {
        let rest = across(spines, [4, 5, 6, 7], "deterministic");
        (4 << 20) as f64 / spines as f64 / rest.seconds() / 1e9
    };
    let (half, quarter) = (carried(2), carried(1));
    assert!((1.85..2.0).contains(&half), "{half}");
    assert!((1.85..2.0).contains(&quarter), "{quarter}");
    assert!(carried(4) < 1.85, "the bus is slower than a cable");
}

#[test]
fn adaptive_switches_use_idle_cables() {
    // All destinations use the same spine.
    let targets = [4, 8, 12, 16];
    let (fixed, chosen) = (
        across(4, targets, "deterministic"),
        across(4, targets, "adaptive"),
    );
    let alone = across(4, [4, 9, 14, 19], "deterministic");
    assert!(fixed.micros() > 2.5 * alone.micros(), "{fixed} and {alone}");
    assert!(
        chosen.micros() < 1.2 * alone.micros(),
        "{chosen} and {alone}"
    );
}

/// Nodes and switches are partitions of the simulation.
#[test]
fn results_do_not_depend_on_the_partitioning() {
    let torus = [("x", 4), ("y", 3), ("nodes", 2)];
    let dragonfly = [("groups", 4), ("switches", 3), ("nodes", 2), ("global", 1)];
    for (section, values, routing) in [
        ("torus", torus.as_slice(), "deterministic"),
        ("torus", &torus, "adaptive"),
        ("dragonfly", &dragonfly, "valiant"),
        ("dragonfly", &dragonfly, "ugal"),
    ] {
        let joined = shape(section, values, routing);
        let system = system(&joined, 24, 3.0).expect("sound");
        let outcome = || {
            let cluster = Cluster::of_places(&system, 24);
            let placed = Rc::new(Cell::new((0, Time::ZERO)));
            for node in 0..24 {
                let (one, _) =
                    cluster.connected((node, (node * 5 + 3) % 24), 0, Transport::Reliable);
                let (process, placed) = (cluster.process(node), placed.clone());
                cluster.sim().start_in(node, async move {
                    for _ in 0..4 {
                        let mut request = Request::new(Kind::Write, 9000, Placement::Reference);
                        let (sim, placed) = (process.sim().clone(), placed.clone());
                        request.placed = Some(Box::new(move || {
                            let (before, last) = placed.get();
                            placed.set((before + 1, last.max(sim.now())));
                        }));
                        process.post(&one, vec![request]).await;
                    }
                });
            }
            cluster.sim().run();
            let left = cluster.audit().left;
            cluster.finish();
            (placed.get(), left)
        };
        let first = outcome();
        assert_eq!((first.0.0, first.1), (96, 0), "{routing}");
        assert_eq!(first, outcome(), "{routing}: the same twice");
    }
}

#[test]
fn errors_name_file_line_and_key() {
    let told = |topology: &str, line: usize, key: &str, reason: &str| {
        let error = system(topology, 1, 2.0).expect_err("the profile is wrong");
        assert!(error.reason.contains(reason), "{error}");
        assert_eq!(
            (error.file.as_str(), error.line, error.key.as_str()),
            ("joined.toml", line, key),
            "{error}"
        );
    };
    let head = "kind = \"topology\"\nabout = \"a test's\"\n";
    told(
        head,
        1,
        "fat_tree",
        "exactly one of the sections fat_tree, torus, dragonfly, table",
    );
    let two = format!("{}[torus]\n", table(1, "nodes = [0]\ncables = []\n"));
    told(&two, 1, "fat_tree", "exactly one");
    let many = [("groups", 9), ("switches", 2), ("nodes", 1), ("global", 2)];
    told(
        &shape("dragonfly", &many, "adaptive"),
        4,
        "dragonfly",
        "does not reach 8 of them",
    );
    told(
        &shape("torus", &[("x", 5)], "adaptive"),
        4,
        "torus.nodes",
        "is missing",
    );
    told(
        &shape("torus", &[("x", 5), ("nodes", 1)], "any"),
        3,
        "routing",
        "deterministic, adaptive",
    );
    for routing in ["valiant", "ugal"] {
        told(
            &shape("torus", &[("x", 5), ("nodes", 1)], routing),
            3,
            "routing",
            "a torus has none",
        );
    }
    let vast = [("x", 1 << 30), ("y", 1 << 30), ("z", 1 << 30), ("nodes", 1)];
    told(
        &shape("torus", &vast, "adaptive"),
        4,
        "torus",
        "the models' limit",
    );
    told(
        &table(2, "nodes = [0, 2]\ncables = [[0, 1]]\n"),
        3,
        "table",
        "node 1 is attached to switch 2",
    );
    told(
        &table(2, "nodes = [0, -1]\ncables = [[0, 1]]\n"),
        3,
        "table",
        "node 1 is attached to",
    );
    told(
        &table(2, "nodes = [0, 1]\ncables = [[0, 0]]\n"),
        3,
        "table",
        "cable 0 joins switches 0 and 0",
    );
    told(
        &table(2, "nodes = [0, 1]\ncables = [[0, 1, 1]]\n"),
        6,
        "table.cables",
        "two switches of each cable",
    );
    told(
        &table(2, "nodes = [0, 1]\ncables = [0, 1]\n"),
        6,
        "table.cables",
        "array of arrays",
    );
    told(
        &table(2, "nodes = [0, 1]\ncables = []\n"),
        3,
        "table",
        "no cables lead from switch 0 to switch 1",
    );
    told(
        &table(2, "nodes = []\ncables = []\n"),
        5,
        "table.nodes",
        "found none",
    );
    let line = |tables: &str| {
        table(
            3,
            &format!("nodes = [0, 1, 2]\ncables = [[0, 1], [1, 2]]\nforwarding = {tables}\n"),
        )
    };
    told(
        &line("[[-1, 0, 0], [0, -1, 1]]"),
        7,
        "table.forwarding",
        "2 forwarding tables for 3 switches",
    );
    told(
        &line("[[-1, 0], [0, -1, 1], [1, 1, -1]]"),
        7,
        "table.forwarding",
        "2 entries for 3 nodes",
    );
    told(
        &line("[[-1, 0, 1], [0, -1, 1], [1, 1, -1]]"),
        7,
        "table.forwarding",
        "over cable 1, which it does not have",
    );
    told(
        &line("[[-1, 0, 0], [0, -1, -1], [1, 1, -1]]"),
        7,
        "table.forwarding",
        "has no entry for node 2",
    );
    told(
        &line("[[-1, 0, 0], [0, -1, 0], [1, 1, -1]]"),
        7,
        "table.forwarding",
        "go in a cycle: switch 0 -> 1 -> 0",
    );
}

#[test]
fn contradictions_are_reported_for_the_system() {
    let tree = shape(
        "fat_tree",
        &[("leaves", 2), ("nodes", 12), ("spines", 200)],
        "deterministic",
    );
    let error = system(&tree, 25, 1.0).expect_err("24 nodes are all");
    assert!(
        error
            .reason
            .contains("joins 24 nodes, but the system has 25"),
        "{error}"
    );
    let own =
        "kind = \"system\"\nbase = \"connectx-ddr\"\nabout = \"a test's\"\ntopology = \"joined\"\n";
    let library = Library::shipped(&Overrides::none()).expect("sound");
    let library = library
        .and([("mine.toml", own), ("joined.toml", tree.as_str())])
        .expect("sound");
    let error = library.system("mine").expect_err("24 ports are too few");
    assert!(error.reason.contains("switch 1 needs 212 ports"), "{error}");
    assert!(error.reason.contains("infiniscale3 has 24"), "{error}");
    // A topology's values can be overridden like any other.
    let smaller = Overrides::none().with("joined.fat_tree.spines", 12.0);
    let system = library
        .with(&smaller)
        .and_then(|library| library.system("mine"));
    assert_eq!(system.expect("fits").joins(), 24);
}
