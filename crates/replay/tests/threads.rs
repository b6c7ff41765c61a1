//! Programs of ranks, repeated operations, recorded programs and schedules end at the same times on
//! any number of threads.

use std::sync::Mutex;
use verbena_model::adapter::Fidelity;
use verbena_model::kernel::Time;
use verbena_model::mpi::Rank;
use verbena_model::profile::{Library, Overrides, System};
use verbena_model::threads::limit_threads;
use verbena_replay::goal::{self, Schedule};
use verbena_replay::recorded::{Replay, run};
use verbena_replay::{Act, Program, Step, cyclic, run_on_ranks, run_rounds};

/// Nodes of each job: enough for three threads.
const NODES: usize = 48;

fn system() -> System {
    let library = Library::shipped(&Overrides::none()).expect("shipped profiles are sound");
    library.system("connectx-ddr").expect("a shipped system")
}

/// The limit belongs to the process: one test at a time.
static LIMIT: Mutex<()> = Mutex::new(());

/// Computes with one thread and with as many as the processors allow.
fn both<T: PartialEq + std::fmt::Debug>(compute: impl Fn() -> T) -> T {
    let _limit = LIMIT
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    limit_threads(1);
    let one = compute();
    limit_threads(3);
    assert_eq!(one, compute());
    limit_threads(1);
    one
}

async fn shift(rank: &Rank, distance: usize, bytes: u64) {
    let ranks = rank.size();
    let to = (rank.number + distance) % ranks;
    rank.exchange(to, bytes, (rank.number + ranks - distance) % ranks)
        .await;
}

#[test]
fn programs_of_ranks_end_at_the_same_time() {
    let run = both(|| {
        run_on_ranks(
            &system(),
            cyclic(96, NODES),
            Fidelity::Message,
            |rank| async move {
                for distance in [1, 7, 40] {
                    shift(&rank, distance, 20_000).await;
                }
                rank.barrier().await;
            },
        )
    });
    assert!(run.end.micros() > 10.0, "{run:?}");
}

#[test]
fn repeated_operations_end_at_the_same_time() {
    let (rounds, _) = both(|| {
        let barrier = async |rank: &Rank| rank.barrier().await;
        run_rounds(
            &system(),
            cyclic(NODES, NODES),
            Fidelity::Message,
            5,
            barrier,
        )
    });
    assert!(rounds.last.micros() > 10.0, "{rounds:?}");
}

/// Rounds that take all ranks the same time repeat from the third on.
#[test]
fn repeated_operations_stop_after_the_same_round() {
    let (rounds, _) = both(|| {
        let work = async |rank: &Rank| rank.compute(Time::from_nanos(700.0)).await;
        run_rounds(&system(), cyclic(NODES, NODES), Fidelity::Message, 40, work)
    });
    assert_eq!(rounds.simulated, 3);
    assert_eq!(rounds.last, Time::from_nanos(40.0 * 700.0));
}

/// A ring in which each rank calculates, sends to the next one and receives from the one before.
fn ring(untaken: bool) -> String {
    let ranks = (0..NODES).map(|rank| {
        let (next, before) = ((rank + 1) % NODES, (rank + NODES - 1) % NODES);
        let tag = usize::from(untaken && rank == 40);
        format!(
            "rank {rank} {{\n a: calc {}\n b: send 4096b to {next} tag {tag}\n c: recv 4096b from \
             {before} tag 0\n d: calc 500\n b requires a\n d requires c\n}}\n",
            1000 + rank * 10
        )
    });
    format!("num_ranks {NODES}\n{}", ranks.collect::<String>())
}

#[test]
fn schedules_end_at_the_same_time_and_name_the_same_error() {
    let run = |text: &str| {
        let schedule = Schedule::read(text).expect("the schedule is sound");
        goal::run(&system(), &schedule, NODES, Fidelity::Message)
    };
    let ends = both(|| run(&ring(false))).expect("all operations end");
    assert_eq!(ends.ends.len(), NODES);
    assert!(ends.computing.micros() > 1.0, "{ends:?}");
    let error = both(|| run(&ring(true))).expect_err("a message has another tag");
    assert!(error.to_string().contains("rank 41"), "{error}");
}

/// A recorded program: each rank computes, exchanges messages with ranks on both sides and reads
/// another one's memory.
fn recorded(rank: usize) -> Program {
    let (right, left) = ((rank + 11) % NODES, (rank + NODES - 11) % NODES);
    let begin = |slot, act| Step::Begin { slot, act };
    let steps = (0..3).flat_map(|round| {
        let (bytes, mark) = ([100, 9000, 100_000][round as usize], round);
        [
            Step::Compute(500 * (rank as u64 + 1)),
            begin(
                0,
                Act::Receive {
                    from: left,
                    bytes,
                    mark,
                },
            ),
            begin(
                0,
                Act::Send {
                    to: right,
                    bytes,
                    mark,
                    blocking: false,
                },
            ),
            begin(
                0,
                Act::Access {
                    peer: right,
                    out: 0,
                    back: 3000,
                    mark: 10 + round,
                },
            ),
            Step::Wait {
                slot: 0,
                call: round as usize,
            },
        ]
    });
    Program {
        steps: steps.collect(),
    }
}

#[test]
fn recorded_programs_have_the_same_timelines_and_chain() {
    let system = system();
    let replayed = both(|| {
        let replay = Replay {
            system: &system,
            fidelity: Fidelity::Message,
            nodes: cyclic(NODES, NODES),
            compute_scale: 1.0,
            memory_traffic: None,
        };
        run(&replay, (0..NODES).map(recorded).collect())
    });
    let replayed = replayed.expect("all ranks end");
    assert_eq!(replayed.timelines.len(), NODES);
    assert!(replayed.chain.crossings() > 0, "{:?}", replayed.chain);
    assert!(replayed.bottleneck.is_some());
}
