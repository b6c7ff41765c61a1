//! Several threads that simulate a system together have the results of one.

#[expect(dead_code, reason = "traffic of other tests")]
mod joined;

use joined::shape;
use proptest::prelude::*;
use proptest::sample::select;
use std::cell::RefCell;
use std::rc::Rc;
use verbena_model::audit::Audit;
use verbena_model::cluster::Cluster;
use verbena_model::kernel::Time;
use verbena_model::mpi::{Rank, World};
use verbena_model::profile::{Library, Overrides, System};
use verbena_model::threads::{Report, Thread, on_threads};
use verbena_model::traffic::Traffic;

/// An operation of all ranks.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// Sends to the rank at this distance, while the same comes from the other side.
    Exchange { shift: usize, bytes: u64 },
    /// Begins receives and sends with ranks on both sides, then waits for all.
    Begun { shift: usize, bytes: u64 },
    /// Reads memory of the rank at this distance, and writes to it.
    Access { shift: usize, bytes: u64 },
    /// Waits for all ranks.
    Barrier,
}

fn act() -> impl Strategy<Value = Act> {
    let bytes = select(vec![0u64, 8, 1024, 9000, 70_000, 300_000]);
    (0..4, 1usize..60, bytes).prop_map(|(kind, shift, bytes)| match kind {
        0 => Act::Exchange { shift, bytes },
        1 => Act::Begun { shift, bytes },
        2 => Act::Access { shift, bytes },
        _ => Act::Barrier,
    })
}

/// Returns a system by the name of its profile, or one with switches wired in a shape.
fn system(name: &str) -> System {
    let shape = match name {
        "torus" => shape(
            "torus",
            &[("x", 4), ("y", 4), ("z", 2), ("nodes", 2)],
            "adaptive",
        ),
        "dragonfly" => {
            let values = [("groups", 5), ("switches", 4), ("nodes", 4), ("global", 2)];
            shape("dragonfly", &values, "valiant")
        }
        _ => return shipped(name),
    };
    joined::system(&shape, 60, 8.0).expect("the shape is sound")
}

fn shipped(name: &str) -> System {
    let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
    let mut system = library.system(name).expect("a shipped system");
    if system.mpi.is_none() {
        system.mpi = library
            .system("connectx-ddr")
            .expect("a shipped system")
            .mpi;
    }
    system
}

async fn perform(rank: &Rank, acts: &[Act]) {
    let ranks = rank.size();
    for act in acts {
        match *act {
            Act::Exchange { shift, bytes } => {
                let to = (rank.number + shift) % ranks;
                let from = (rank.number + ranks - shift % ranks) % ranks;
                rank.exchange(to, bytes, from).await;
            }
            Act::Begun { shift, bytes } => {
                let to = (rank.number + shift) % ranks;
                let from = (rank.number + ranks - shift % ranks) % ranks;
                let back = rank.begin_receive(to);
                let receive = rank.begin_receive(from);
                let send = rank.begin_send(to, bytes);
                rank.send(from, bytes / 2).await;
                receive.await;
                back.await;
                send.await;
            }
            Act::Access { shift, bytes } => {
                let peer = (rank.number + shift) % ranks;
                rank.read_from(peer, bytes).await;
                rank.write_to(peer, bytes).await;
            }
            Act::Barrier => rank.barrier().await,
        }
    }
}

/// Result of a simulation.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// Ends of the ranks.
    ends: Vec<(usize, Time)>,
    traffic: Traffic,
    /// Bytes sent and placed, bytes left in buffers, messages that were completed too early.
    sums: [u64; 4],
    /// Reports of all ranks, as all threads saw them.
    reports: Vec<Report>,
    latest: Time,
    events: u64,
}

fn part(
    thread: &Thread,
    system: &System,
    (nodes, ranks): (usize, usize),
    acts: &[Act],
) -> (Vec<(usize, Time)>, Traffic, Audit, Vec<Report>, u64) {
    let cluster = Cluster::of_thread(system, nodes, thread);
    let world = World::new(&cluster, (0..ranks).map(|rank| rank % nodes).collect());
    let ends = Rc::new(RefCell::new(Vec::new()));
    for number in (0..ranks).filter(|rank| thread.nodes().has(rank % nodes)) {
        let (rank, acts, ends) = (world.rank(number), acts.to_vec(), ends.clone());
        let cluster = cluster.clone();
        cluster.sim().clone().start_in(number % nodes, async move {
            for (step, act) in acts.iter().enumerate() {
                perform(&rank, &[*act]).await;
                cluster.report(Report {
                    at: rank.process().now(),
                    by: number,
                    number: step,
                });
            }
            ends.borrow_mut().push((number, rank.process().now()));
        });
    }
    let mut all = Vec::new();
    cluster.run(thread, |reports| {
        all.extend_from_slice(reports);
        false
    });
    let traffic = cluster.traffic_of_all(thread);
    assert_eq!(world.open_exchanges(), 0);
    assert_eq!(cluster.messages_under_way(), 0);
    let (audit, events) = (cluster.audit(), cluster.sim().events());
    cluster.finish();
    (ends.take(), traffic, audit, all, events)
}

fn outcome(threads: usize, system: &System, size: (usize, usize), acts: &[Act]) -> Outcome {
    let parts = on_threads(threads, size.0, |thread| part(thread, system, size, acts));
    let mut ends: Vec<_> = parts
        .iter()
        .flat_map(|part| part.0.iter().copied())
        .collect();
    ends.sort_unstable();
    assert_eq!(ends.len(), size.1, "a rank waits forever");
    let mut sums = [0; 4];
    for (_, _, audit, _, _) in &parts {
        let one = [
            audit.bytes_sent,
            audit.bytes_placed,
            audit.left,
            audit.early,
        ];
        sums.iter_mut().zip(one).for_each(|(sum, one)| *sum += one);
    }
    let events = parts.iter().map(|part| part.4).sum();
    let latest = parts.iter().map(|part| part.2.now).max();
    let (_, traffic, _, reports, _) = parts.into_iter().next().expect("there is a part");
    Outcome {
        ends,
        traffic,
        sums,
        reports,
        latest: latest.unwrap_or_default(),
        events,
    }
}

/// Returns a configuration with this number of cases, or that of `PROPTEST_CASES`.
fn cases(few: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(few),
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn threads_have_the_results_of_one(
        name in select(vec!["connectx-ddr", "infinihost3-ddr", "connectx6-hdr", "infinihost-pcix",
            "infinihost3-mem-sdr-2port", "sockets-25gbe", "torus", "dragonfly"]),
        nodes in 2usize..60,
        processes in 1usize..4,
        threads in 2usize..5,
        acts in prop::collection::vec(act(), 1..5),
    ) {
        let system = system(name);
        let size = (nodes, nodes * processes);
        let one = outcome(1, &system, size, &acts);
        prop_assert_eq!(one.sums[0], one.sums[1], "bytes sent and placed");
        prop_assert_eq!(&one.sums[2..], &[0, 0]);
        let several = outcome(threads, &system, size, &acts);
        prop_assert_eq!(one, several);
    }
}

/// The first panic ends all threads, with its own message.
#[test]
fn a_panic_of_one_thread_ends_all() {
    let system = system("connectx-ddr");
    let run = || {
        on_threads(3, 48, |thread| {
            assert!(!thread.nodes().has(47), "node 47 is not simulated");
            part(thread, &system, (48, 48), &[Act::Barrier])
        })
    };
    let panic = std::panic::catch_unwind(run).map(|_| ());
    let panic = panic.expect_err("a thread has panicked");
    let text = panic.downcast_ref::<&str>().copied();
    assert_eq!(text, Some("node 47 is not simulated"));
}

/// Without a delay between nodes there are no windows, in which threads could simulate.
#[test]
fn a_system_without_delays_between_nodes_has_one_thread() {
    let mut system = system("connectx-ddr");
    (system.cable.per_metre, system.cable.transceiver) = (Time::ZERO, Time::ZERO);
    let switch = system.switch.as_mut().expect("the system has switches");
    switch.latency = Time::ZERO;
    assert!(!Cluster::may_be_shared(&system));
    let acts = [
        Act::Barrier,
        Act::Exchange {
            shift: 3,
            bytes: 9000,
        },
    ];
    let outcome = outcome(1, &system, (4, 8), &acts);
    assert_eq!(outcome.sums[0], outcome.sums[1]);
}
