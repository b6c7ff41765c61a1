//! Recorded programs on models take the time of their GOAL export and of independent computations;
//! inconsistent traces are reported.

use std::fs;
use std::path::PathBuf;
use verbena_model::adapter::Fidelity;
use verbena_model::kernel::Time;
use verbena_model::profile::{Library, Overrides, Rate, System};
use verbena_mpi_trace::{Collective, Messages, Part, Synchronization, Trace, Writer};
use verbena_replay::goal::{Ends, Schedule, run as run_schedule};
use verbena_replay::recorded::{Failure, Link, Replay, Replayed, goal, programs, run};
use verbena_replay::{Endless, run_on_ranks};

fn system() -> System {
    Library::shipped(&Overrides::none())
        .and_then(|library| library.system("connectx-qdr"))
        .expect("shipped profiles are sound")
}

fn with_library(name: &str) -> System {
    let text = format!("kind = \"system\"\nbase = \"connectx-qdr\"\nmpi = \"{name}\"\n");
    Library::shipped(&Overrides::none())
        .and_then(|shipped| shipped.and([("mine.toml", text.as_str())]))
        .and_then(|library| library.system("mine"))
        .expect("sound profiles")
}

/// A trace on disk, removed on drop.
struct Recorded {
    directory: PathBuf,
}

impl Recorded {
    /// Writes the calls of each rank: parts, and the preceding computing time.
    fn of(name: &str, ranks: &[Vec<(Vec<Part>, u64)>]) -> Recorded {
        let directory =
            std::env::temp_dir().join(format!("verbena-recorded-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory for the trace");
        for (rank, calls) in ranks.iter().enumerate() {
            let mut writer = Writer::new(rank, ranks.len(), "a library");
            let world = Part::Communicator {
                number: 0,
                members: (0..ranks.len()).collect(),
                remote: vec![],
            };
            writer.call("MPI_Init", &[world], 0, 0);
            for (parts, computing) in calls {
                writer.call("MPI_Call", parts, *computing, 0);
            }
            writer.call("MPI_Finalize", &[Part::Finalized], 0, 0);
            fs::write(
                directory.join(format!("rank-{rank}.trace")),
                writer.finish(),
            )
            .expect("a file of the trace");
        }
        Recorded { directory }
    }

    fn trace(&self) -> Trace {
        Trace::open(&self.directory).expect("the trace is sound")
    }

    /// Replays with one rank per node.
    fn replay(&self, compute_scale: f64) -> Result<Replayed, Failure> {
        self.replay_as(compute_scale, |rank| rank)
    }

    /// Replays with each rank on its given node.
    fn replay_placed(&self, node: impl Fn(usize) -> usize) -> Result<Replayed, Failure> {
        self.replay_as(1.0, node)
    }

    fn replay_as(
        &self,
        compute_scale: f64,
        node: impl Fn(usize) -> usize,
    ) -> Result<Replayed, Failure> {
        self.replay_on(&system(), compute_scale, node)
    }

    fn replay_on(
        &self,
        system: &System,
        compute_scale: f64,
        node: impl Fn(usize) -> usize,
    ) -> Result<Replayed, Failure> {
        let trace = self.trace();
        let library = system.mpi.as_ref().expect("the system has a library");
        let programs = programs(&trace, library).expect("the trace makes sense");
        let replay = Replay {
            system,
            fidelity: Fidelity::Packet,
            nodes: (0..programs.len()).map(node).collect(),
            compute_scale,
            memory_traffic: None,
        };
        run(&replay, programs)
    }

    /// Replays with memory traffic of computing in bytes a second.
    fn replay_over(&self, traffic: f64, node: impl Fn(usize) -> usize) -> Replayed {
        self.try_over(traffic, node).expect("it comes to its end")
    }

    fn try_over(&self, traffic: f64, node: impl Fn(usize) -> usize) -> Result<Replayed, Failure> {
        let system = system();
        let library = system.mpi.as_ref().expect("the system has a library");
        let programs = programs(&self.trace(), library).expect("the trace makes sense");
        let replay = Replay {
            system: &system,
            fidelity: Fidelity::Packet,
            nodes: (0..programs.len()).map(node).collect(),
            compute_scale: 1.0,
            memory_traffic: Some(Rate(traffic)),
        };
        run(&replay, programs)
    }

    /// Runs the exported schedule.
    fn by_schedule(&self, system: &System) -> Ends {
        let library = system.mpi.as_ref().expect("the system has a library");
        let programs = programs(&self.trace(), library).expect("the trace makes sense");
        let mut text = String::new();
        goal(&programs, 1.0, &mut text).expect("writing to a string succeeds");
        let schedule = Schedule::read(&text).unwrap_or_else(|fault| panic!("{fault}\n{text}"));
        let ran = run_schedule(system, &schedule, schedule.ranks, Fidelity::Packet);
        ran.unwrap_or_else(|fault| panic!("{fault}\n{text}"))
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn send(peer: usize, tag: u32, bytes: u64) -> Part {
    Part::Send {
        comm: 0,
        peer,
        tag,
        bytes,
    }
}

fn receive(peer: usize, tag: u32, bytes: u64) -> Part {
    Part::Receive {
        comm: 0,
        peer,
        tag,
        bytes,
    }
}

fn ends(outcome: &Replayed) -> Vec<Time> {
    outcome.ranks.iter().map(|rank| rank.end).collect()
}

/// A ring of nonblocking messages, wildcards and all collective operations, over `ranks` ranks.
fn program(ranks: usize, rank: usize) -> Vec<(Vec<Part>, u64)> {
    let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    let mut calls = Vec::new();
    for round in 0..4u64 {
        let bytes = 10u64.pow(round as u32 + 2);
        let begun = [
            Part::BeginReceive {
                slot: 0,
                comm: 0,
                peer: None,
                tag: None,
                bytes,
            },
            Part::BeginSend {
                slot: 1,
                comm: 0,
                peer: next,
                tag: 3,
                bytes,
            },
        ];
        calls.extend(begun.map(|part| (vec![part], 500 * (rank as u64 + 1))));
        let ended = vec![
            Part::Received {
                slot: 0,
                peer: before,
                tag: 3,
                bytes,
            },
            Part::Done { slot: 1 },
        ];
        calls.push((ended, 20_000));
        calls.push((
            vec![send(next, 4, bytes / 2), receive(before, 4, bytes / 2)],
            100,
        ));
        for kind in [
            Collective::Barrier,
            Collective::Broadcast,
            Collective::Reduce,
            Collective::AllReduce,
            Collective::Gather,
            Collective::Scatter,
            Collective::AllGather,
            Collective::AllToAll,
            Collective::ReduceScatter,
            Collective::Scan,
        ] {
            let root = Some(round as usize % ranks);
            let operation = Part::Collective {
                kind,
                comm: 0,
                root,
                slot: None,
                bytes: bytes / 10,
            };
            calls.push((vec![operation], 300));
        }
        let begun = Part::Collective {
            kind: Collective::AllReduce,
            comm: 0,
            root: None,
            slot: Some(7),
            bytes,
        };
        calls.push((vec![begun], 0));
        calls.push((vec![Part::Done { slot: 7 }], 30_000));
    }
    calls
}

fn recorded(name: &str, ranks: usize) -> Recorded {
    let all: Vec<_> = (0..ranks).map(|rank| program(ranks, rank)).collect();
    Recorded::of(name, &all)
}

/// Both critical paths have the same computing, within 3 % of the whole time: of ranks that wait
/// for each other, the path may follow either.
fn assert_same_computing(outcome: &Replayed, by_schedule: &Ends) {
    let (own, scheduled) = (outcome.chain.shares()[0], by_schedule.computing);
    let difference = (own.nanos() - scheduled.nanos()).abs();
    assert!(
        difference < 0.03 * outcome.last().nanos(),
        "{own} and {scheduled} of {}",
        outcome.last()
    );
}

#[test]
fn a_replay_takes_the_time_of_its_schedule() {
    for ranks in [1, 2, 3, 5, 8] {
        let recorded = recorded(&format!("schedule-{ranks}"), ranks);
        let outcome = recorded.replay(1.0).expect("it comes to its end");
        let by_schedule = recorded.by_schedule(&system());
        assert_same_computing(&outcome, &by_schedule);
        for (own, scheduled) in ends(&outcome).iter().zip(by_schedule.ends) {
            let ratio = own.nanos() / scheduled.nanos();
            assert!(
                (0.99..1.01).contains(&ratio),
                "{ranks} ranks: {own} and {scheduled}"
            );
        }
    }
}

/// Any choice of algorithms by a library replays.
#[test]
fn replays_match_schedules_for_every_library() {
    for library in ["openmpi-1.8", "openmpi-1.8-pipeline", "openmpi-5", "mpich"] {
        let system = with_library(library);
        for ranks in [2, 5, 8, 13] {
            let recorded = recorded(&format!("{library}-{ranks}"), ranks);
            let replayed = recorded.replay_on(&system, 1.0, |rank| rank);
            let outcome = replayed.expect("it comes to its end");
            let last = outcome.last().nanos();
            let by_schedule = recorded.by_schedule(&system);
            assert_same_computing(&outcome, &by_schedule);
            let scheduled = by_schedule.last().nanos();
            assert!(
                (0.97..1.03).contains(&(last / scheduled)),
                "{library}, {ranks} ranks: {last} ns and {scheduled}"
            );
        }
    }
}

#[test]
fn sent_and_received_bytes_balance() {
    let recorded = recorded("balance", 3);
    let messages = Messages::of(&recorded.trace()).expect("the trace makes sense");
    assert_eq!(messages.imbalances(), []);
    let each: u64 = (2..6).map(|power| 10u64.pow(power) * 3 / 2).sum();
    assert_eq!(messages.sent(), (3 * 4 * 2, 3 * each));
}

#[test]
fn a_replayed_ping_pong_takes_the_time_of_its_messages() {
    const ROUNDS: usize = 50;
    let bytes = 4096;
    let ping = (0..ROUNDS).flat_map(|_| {
        [
            (vec![send(1, 0, bytes)], 0),
            (vec![receive(1, 0, bytes)], 0),
        ]
    });
    let pong = (0..ROUNDS).flat_map(|_| {
        [
            (vec![receive(0, 0, bytes)], 0),
            (vec![send(0, 0, bytes)], 0),
        ]
    });
    let recorded = Recorded::of("ping-pong", &[ping.collect(), pong.collect()]);
    let took = recorded.replay(1.0).expect("it comes to its end").last();
    let exchanges = run_on_ranks(&system(), vec![0, 1], Fidelity::Packet, |rank| async move {
        let other = 1 - rank.number;
        for _ in 0..ROUNDS {
            if rank.number == 0 {
                rank.send(other, bytes).await;
            }
            rank.receive(other).await;
            if rank.number == 1 {
                rank.send(other, bytes).await;
            }
        }
    });
    assert_eq!(took, exchanges.end);
}

#[test]
fn the_parts_of_a_ranks_time_add_up() {
    let outcome = recorded("parts", 4)
        .replay(1.0)
        .expect("it comes to its end");
    let twice = recorded("twice", 4)
        .replay(2.0)
        .expect("it comes to its end");
    for (rank, (one, two)) in outcome.ranks.iter().zip(&twice.ranks).enumerate() {
        assert_eq!(one.computing + one.overhead + one.waiting, one.end);
        let computing: u64 = program(4, rank)
            .iter()
            .map(|(_, computing)| computing)
            .sum();
        assert_eq!(one.computing, Time(computing * 1000));
        assert_eq!(two.computing, Time(computing * 2000));
        assert!(one.end < two.end);
    }
}

/// One rank writes and reads while its target only computes, for a millisecond.
#[test]
fn rma_access_needs_no_action_of_the_target() {
    let window = Part::Window { number: 0, comm: 0 };
    let ordered = |kind| Part::Synchronized {
        window: 0,
        kind,
        targets: vec![1],
    };
    let access = |out, back| Part::Access {
        window: 0,
        target: 1,
        out,
        back,
        slot: None,
    };
    let origin = vec![
        (vec![window.clone()], 0),
        (vec![ordered(Synchronization::Lock)], 0),
        (vec![access(4096, 0)], 0),
        (vec![access(0, 100_000)], 0),
        (vec![ordered(Synchronization::Unlock)], 0),
        (vec![Part::WindowFreed { number: 0 }], 0),
    ];
    let target = vec![
        (vec![window], 0),
        (vec![Part::WindowFreed { number: 0 }], 1_000_000),
    ];
    let recorded = Recorded::of("access", &[origin, target]);
    let outcome = recorded.replay(1.0).expect("it comes to its end");
    assert_eq!(outcome.ranks[1].end, Time(1_000_000_000));
    let origin = outcome.ranks[0].end.micros();
    // 100 KB at no more than 4 GB/s, and before the target makes a call.
    assert!((25.0..200.0).contains(&origin), "{origin} us");
    assert!(recorded.by_schedule(&system()).ends[0] < Time(1_000_000_000));
}

#[test]
fn synchronized_rma_accesses_complete() {
    let window = Part::Window { number: 3, comm: 0 };
    let ordered = |kind, targets: &[usize]| Part::Synchronized {
        window: 3,
        kind,
        targets: targets.to_vec(),
    };
    let put = |target| Part::Access {
        window: 3,
        target,
        out: 1000,
        back: 8,
        slot: None,
    };
    let rank = |own: usize| {
        let (next, before) = ((own + 1) % 3, (own + 2) % 3);
        vec![
            (vec![window.clone()], 10),
            (vec![ordered(Synchronization::Fence, &[])], 10),
            (vec![put(next)], 10),
            (vec![ordered(Synchronization::Fence, &[])], 10),
            (vec![ordered(Synchronization::Post, &[before])], 10),
            (vec![ordered(Synchronization::Start, &[next])], 10),
            (vec![put(next)], 10),
            (vec![ordered(Synchronization::Complete, &[])], 10),
            (vec![ordered(Synchronization::Wait, &[])], 10),
        ]
    };
    let recorded = Recorded::of("ordered", &[rank(0), rank(1), rank(2)]);
    recorded.replay(1.0).expect("it comes to its end");
    recorded.by_schedule(&system());
}

#[test]
fn inconsistent_traces_are_refused_with_a_reason() {
    let told = |name: &str, ranks: &[Vec<(Vec<Part>, u64)>]| {
        let recorded = Recorded::of(name, ranks);
        let system = system();
        let library = system.mpi.as_ref().expect("the system has a library");
        let refused = programs(&recorded.trace(), library);
        refused.expect_err("it makes no sense").to_string()
    };
    let lost = told("lost", &[vec![(vec![send(1, 9, 8)], 0)], vec![]]);
    assert_eq!(
        lost,
        "1 messages with tag 9 were sent from rank 0 to rank 1, but 0 were received"
    );
    let nobody = told("nobody", &[vec![(vec![send(2, 9, 8)], 0)], vec![]]);
    assert!(
        nobody.contains("rank-0.trace: the communicator has 2 ranks, and no rank 2"),
        "{nobody}"
    );
    let ended = told("ended", &[vec![(vec![Part::Done { slot: 4 }], 0)]]);
    assert!(
        ended.contains("request 4 ends without having begun"),
        "{ended}"
    );
    let window = told(
        "window",
        &[vec![(vec![Part::WindowFreed { number: 1 }], 0)]],
    );
    assert!(window.contains("window 1 does not exist"), "{window}");
    let endless = told("endless", &[vec![(vec![], 1 << 59)]]);
    assert!(endless.contains("ns of computing exceed"), "{endless}");
}

/// Both ranks send first, more than the modelled library sends without a receive.
#[test]
fn programs_relying_on_send_buffers_are_refused_with_a_reason() {
    let long = 10 << 20;
    let rank = |peer| {
        vec![
            (vec![send(peer, 0, long)], 0),
            (vec![receive(peer, 0, long)], 0),
        ]
    };
    let failure = Recorded::of("buffers", &[rank(1), rank(0)]).replay(1.0);
    let failure = failure.expect_err("no rank receives");
    assert_eq!(failure, Failure::Endless(Endless { rank: 0, call: 1 }));
}

/// Rank 1 computes for a millisecond and then sends; rank 0 waits from the start, rank 2 a
/// millisecond after the send.
#[test]
fn waiting_is_attributed_to_the_late_rank() {
    let late = vec![(vec![send(0, 0, 8)], 1_000_000), (vec![send(2, 0, 8)], 0)];
    let waits = vec![(vec![receive(1, 0, 8)], 0)];
    let comes_later = vec![(vec![receive(1, 0, 8)], 2_000_000)];
    let recorded = Recorded::of("late", &[waits, late, comes_later]);
    let outcome = recorded.replay(1.0).expect("it comes to its end");
    let waited = &outcome.waited;
    let for_sender = waited[0].others.get(&1).copied().unwrap_or_default();
    assert_eq!(waited[0].others.len(), 1);
    assert!(
        (1000.0..1001.0).contains(&for_sender.micros()),
        "{for_sender}"
    );
    assert!(
        (0.5..5.0).contains(&waited[0].wire.micros()),
        "{}",
        waited[0].wire
    );
    assert!(waited[2].others.is_empty() && waited[2].wire == Time::ZERO);
    // The last to end is rank 2, which waited for no rank.
    let chain = &outcome.chain;
    assert!(chain.stretches.iter().all(|stretch| stretch.rank == 2));
    assert_eq!(chain.shares()[0], Time(2_000_000_000));
}

/// A message goes round a ring: the critical path follows it.
#[test]
fn the_critical_path_follows_a_message_around_a_ring() {
    let ranks = 5;
    let rank = |own: usize| match own {
        0 => vec![
            (vec![send(1, 0, 8)], 7_000),
            (vec![receive(ranks - 1, 0, 8)], 0),
        ],
        _ => vec![
            (vec![receive(own - 1, 0, 8)], 0),
            (vec![send((own + 1) % ranks, 0, 8)], 1_000 * own as u64),
        ],
    };
    let all: Vec<_> = (0..ranks).map(rank).collect();
    let outcome = Recorded::of("word", &all).replay(1.0);
    let chain = outcome.expect("it comes to its end").chain;
    let ways = chain
        .stretches
        .iter()
        .filter_map(|stretch| match stretch.link {
            Link::Wire { from } if from != stretch.rank => Some((from, stretch.rank)),
            _ => None,
        });
    assert_eq!(
        ways.collect::<Vec<_>>(),
        [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]
    );
    // All of the computing is on it: 7 us, and 1 to 4 us.
    assert_eq!(chain.shares()[0], Time(17_000_000));
}

/// Random programs: the critical path covers all of the time once, and all of a rank's waiting is
/// for ranks or the wire.
#[test]
fn the_critical_path_covers_the_whole_run() {
    let mut seed = 3u64;
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for round in 0..60 {
        let ranks = 2 + next(5) as usize;
        let mut all: Vec<Vec<(Vec<Part>, u64)>> = vec![Vec::new(); ranks];
        for _ in 0..1 + next(20) {
            match next(4) {
                0 => {
                    let kinds = [
                        Collective::Barrier,
                        Collective::AllReduce,
                        Collective::AllToAll,
                    ];
                    let kind = kinds[next(3) as usize];
                    let bytes = 1 << next(18);
                    for own in &mut all {
                        let operation = Part::Collective {
                            kind,
                            comm: 0,
                            root: None,
                            slot: None,
                            bytes,
                        };
                        own.push((vec![operation], next(20_000)));
                    }
                }
                _ => {
                    let from = next(ranks as u64) as usize;
                    let to = (from + 1 + next(ranks as u64 - 1) as usize) % ranks;
                    let bytes = 1 << next(20);
                    all[from].push((vec![send(to, 0, bytes)], next(50_000)));
                    all[to].push((vec![receive(from, 0, bytes)], next(50_000)));
                }
            }
        }
        let recorded = Recorded::of(&format!("random-{round}"), &all);
        for together in [1, 2] {
            let outcome = recorded
                .replay_placed(|rank| rank / together)
                .expect("it comes to its end");
            let stretches = &outcome.chain.stretches;
            let mut now = Time::ZERO;
            for stretch in stretches {
                assert!(stretch.start == now && stretch.end > now, "{stretches:?}");
                now = stretch.end;
            }
            assert_eq!(now, outcome.last());
            let [computing, overhead, wire] = outcome.chain.shares();
            assert_eq!(computing + overhead + wire, now);
            for (parts, waited) in outcome.ranks.iter().zip(&outcome.waited) {
                let others = waited
                    .others
                    .values()
                    .fold(waited.wire, |sum, one| sum + *one);
                assert_eq!(others, parts.waiting);
            }
        }
    }
}

/// Returns the memory bandwidth of a node in bytes a second.
fn memory() -> f64 {
    system().host.memory.bandwidth.0
}

/// Ranks that only compute, for a millisecond.
fn computing(name: &str, ranks: usize) -> Recorded {
    Recorded::of(name, &vec![vec![(vec![], 1_000_000)]; ranks])
}

#[test]
fn uncontended_memory_takes_no_extra_time() {
    let alone = computing("alone", 2);
    let without = alone.replay(1.0).expect("it comes to its end");
    let with = alone.replay_over(0.9 * memory(), |rank| rank);
    assert_eq!(ends(&with), ends(&without));
    assert_eq!(with.ranks, without.ranks);
    // Messages use the node's memory, too.
    let ring = recorded("ring-over-memory", 4);
    let without = ring.replay(1.0).expect("it comes to its end").last();
    let with = ring.replay_over(0.1 * memory(), |rank| rank).last();
    let ratio = with.nanos() / without.nanos();
    assert!((0.999..1.02).contains(&ratio), "{with} and {without}");
}

#[test]
fn ranks_of_a_node_are_limited_by_its_memory() {
    for (name, together) in [("two", 2), ("three", 3)] {
        let outcome = computing(name, together).replay_over(0.8 * memory(), |_| 0);
        let expected = 1e6 * 0.8 * together as f64;
        for rank in &outcome.ranks {
            let over = rank.end.nanos() / expected;
            assert!((0.999..1.001).contains(&over), "{}", rank.end);
            assert_eq!(rank.computing, rank.end);
        }
    }
    // Below the memory's total rate, they do not slow each other down.
    let outcome = computing("below", 2).replay_over(0.4 * memory(), |_| 0);
    for rank in &outcome.ranks {
        let over = rank.end.nanos() / 1e6;
        assert!((1.0..1.001).contains(&over), "{}", rank.end);
    }
}

#[test]
fn the_parts_of_time_add_up_with_shared_memory_bandwidth() {
    let recorded = recorded("parts-over-memory", 4);
    let apart = recorded.replay_over(0.7 * memory(), |rank| rank);
    let together = recorded.replay_over(0.7 * memory(), |rank| rank / 2);
    for outcome in [&apart, &together] {
        for rank in &outcome.ranks {
            assert_eq!(rank.computing + rank.overhead + rank.waiting, rank.end);
        }
        let shares = outcome.chain.shares();
        assert_eq!(
            shares.into_iter().fold(Time::ZERO, |all, one| all + one),
            outcome.last()
        );
    }
    for (one, two) in apart.ranks.iter().zip(&together.ranks) {
        assert!(one.computing < two.computing);
    }
}

#[test]
fn excessive_memory_traffic_is_refused() {
    let long = Recorded::of("long", &[vec![(vec![], 1_000_000_000_000)]]);
    let refused = long.try_over(1e12, |rank| rank);
    assert!(
        matches!(refused, Err(Failure::System(reason)) if reason.contains("more than the limit"))
    );
}
