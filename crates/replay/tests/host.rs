//! Recorded programs on one host: with a processor each, ranks end at the time that messages and
//! computing give; on shared processors, no work is lost and none is done twice.

use proptest::prelude::*;
use std::collections::HashMap;
use verbena_model::kernel::Time;
use verbena_replay::host::{Costs, HostRun, Machine, TimeCurve, run};
use verbena_replay::{Act, Endless, Program, Step};

fn nanos(nanos: f64) -> Time {
    Time::from_nanos(nanos)
}

/// Messages of 1 us at any size, up to 4 KiB without waiting; larger ones 10 us.
fn costs() -> Costs {
    let flat =
        |nanos: f64| TimeCurve::of(vec![(0, nanos), (1 << 20, nanos)]).expect("it is a time");
    Costs {
        one_way: flat(1000.0),
        after_computing: flat(1000.0),
        shortly_after: flat(1000.0),
        in_a_row: TimeCurve::of(vec![(4096, 1.0), (4097, 10_000.0), (1 << 20, 10_000.0)])
            .expect("they are times"),
        eager: 4096,
    }
}

fn machine(processors: usize) -> Machine {
    Machine {
        processors,
        turn: nanos(4e6),
        look: nanos(30e3),
        give_way: nanos(2e3),
    }
}

fn compute(nanos: u64) -> Vec<Step> {
    vec![Step::Compute(nanos)]
}

fn send(to: usize, bytes: u64, mark: u32) -> Vec<Step> {
    blocking(Act::Send {
        to,
        bytes,
        mark,
        blocking: true,
    })
}

fn receive(from: usize, mark: u32) -> Vec<Step> {
    let bytes = 0;
    blocking(Act::Receive { from, bytes, mark })
}

fn blocking(act: Act) -> Vec<Step> {
    let (slot, call) = (0, 0);
    vec![Step::Begin { slot, act }, Step::Wait { slot, call }]
}

fn program(parts: &[Vec<Step>]) -> Program {
    Program {
        steps: parts.concat(),
    }
}

fn on(processors: usize, programs: Vec<Program>) -> HostRun {
    run(&machine(processors), &costs(), programs, 1.0).expect("all of them come to their end")
}

fn ends(outcome: &HostRun) -> Vec<Time> {
    outcome.ranks.iter().map(|rank| rank.end).collect()
}

#[test]
fn a_round_trip_takes_overheads_and_latencies() {
    let there = program(&[send(1, 8, 0), receive(1, 0)]);
    let back = program(&[receive(0, 0), send(0, 8, 0)]);
    let outcome = on(2, vec![there, back]);
    assert_eq!(outcome.last(), nanos(2000.0));
    let [one, other] = outcome.ranks[..] else {
        panic!("two ranks");
    };
    assert_eq!((one.overhead, one.waiting), (nanos(1000.0), nanos(1000.0)));
    assert_eq!(other.computing, Time::ZERO);
}

#[test]
fn a_long_send_waits_for_the_receiver() {
    let sends = |bytes| {
        let programs = vec![
            program(&[send(1, bytes, 0)]),
            program(&[compute(50_000), receive(0, 0)]),
        ];
        ends(&on(2, programs))
    };
    assert_eq!(sends(4096), [nanos(500.0), nanos(50_500.0)]);
    assert_eq!(sends(4097), [nanos(60_000.0), nanos(60_000.0)]);
}

#[test]
fn an_access_takes_the_time_of_its_bytes() {
    let (peer, out, back, mark) = (1, 4096, 1, 0);
    let access = blocking(Act::Access {
        peer,
        out,
        back,
        mark,
    });
    let outcome = on(2, vec![program(&[access]), program(&[compute(50)])]);
    assert_eq!(ends(&outcome), [nanos(10_000.0), nanos(50.0)]);
}

#[test]
fn two_ranks_computing_on_one_cpu_take_twice_as_long() {
    let outcome = on(1, vec![program(&[compute(20_000_000)]); 2]);
    let last = outcome.last();
    assert!(
        last >= nanos(40e6) && last < nanos(40.5e6),
        "{last}: 40 ms and some looks"
    );
    let first = outcome.ranks[0].end;
    assert!(first > nanos(32e6), "{first}: they take turns of 4 ms");
}

/// Rank 0 waits beside rank 2, which computes; rank 1 has sent long before the time slice is over.
#[test]
fn a_rank_sharing_its_cpu_sees_messages_only_in_its_time_slice() {
    let waits = program(&[receive(1, 0)]);
    let sends = program(&[compute(100_000), send(0, 8, 0)]);
    let computes = program(&[compute(20_000_000)]);
    let outcome = on(2, vec![waits, sends, computes]);
    let seen = outcome.ranks[0].end;
    assert!(seen > nanos(3.9e6) && seen < nanos(4.2e6), "{seen}");
    let alone = on(3, ends_programs());
    assert!(alone.ranks[0].end < nanos(102e3));
}

fn ends_programs() -> Vec<Program> {
    vec![
        program(&[receive(1, 0)]),
        program(&[compute(100_000), send(0, 8, 0)]),
        program(&[compute(20_000_000)]),
    ]
}

#[test]
fn a_message_that_is_never_sent_is_reported() {
    let lonely = vec![program(&[compute(10), receive(1, 0)]), program(&[])];
    let endless = run(&machine(2), &costs(), lonely, 1.0);
    assert_eq!(endless, Err(Endless { rank: 0, call: 0 }));
}

#[test]
fn giving_way_is_fitted_to_the_measured_barrier() {
    let crowded = machine(2);
    for measured in [40_000.0, 400_000.0] {
        let fitted = crowded.giving_way_as_in_barriers(&costs(), 4, measured);
        let more = crowded.giving_way_as_in_barriers(&costs(), 4, 2.0 * measured);
        assert!(
            more.give_way > fitted.give_way,
            "{measured}: {fitted:?} {more:?}"
        );
    }
    let least = crowded.giving_way_as_in_barriers(&costs(), 4, 1.0);
    assert_eq!(least.give_way, crowded.give_way);
    let enough = crowded.giving_way_as_in_barriers(&costs(), 2, 1e6);
    assert_eq!(enough, crowded);
}

/// An event of a program whose messages are received in the order of sending, so that it cannot
/// deadlock; events are listed with their ranks.
#[derive(Debug, Clone)]
enum Happens {
    Computing(usize, u64),
    Message(usize, usize, u64),
}

fn happenings(ranks: usize) -> impl Strategy<Value = Vec<Happens>> {
    let one = prop_oneof![
        (0..ranks, 1..200_000_u64).prop_map(|(rank, nanos)| Happens::Computing(rank, nanos)),
        (0..ranks, 1..ranks, 0..8192_u64).prop_map(move |(from, on, bytes)| Happens::Message(
            from,
            (from + on) % ranks,
            bytes
        )),
    ];
    proptest::collection::vec(one, 0..60)
}

fn programs(ranks: usize, all: &[Happens]) -> Vec<Program> {
    let mut programs = vec![Program::default(); ranks];
    for (number, happens) in all.iter().enumerate() {
        match *happens {
            Happens::Computing(rank, nanos) => programs[rank].steps.extend(compute(nanos)),
            Happens::Message(from, to, bytes) => {
                let mark = number as u32;
                programs[from].steps.extend(send(to, bytes, mark));
                programs[to].steps.extend(receive(from, mark));
            }
        }
    }
    programs
}

/// Returns the end of each rank if each has its own processor. Events are in order, so that each
/// comes after those it waits for.
fn by_hand(ranks: usize, all: &[Happens]) -> Vec<Time> {
    let mut now = vec![Time::ZERO; ranks];
    for happens in all {
        match *happens {
            Happens::Computing(rank, span) => now[rank] += nanos(span as f64),
            Happens::Message(from, to, bytes) if bytes <= 4096 => {
                now[from] += nanos(500.0);
                now[to] = now[to].max(now[from]) + nanos(500.0);
            }
            Happens::Message(from, to, _) => {
                now[to] = now[to].max(now[from] + nanos(500.0)) + nanos(10_000.0);
                now[from] = now[to];
            }
        }
    }
    now
}

proptest! {
    #[test]
    fn with_a_cpu_each_ranks_end_at_the_times_computed_by_hand(all in happenings(4)) {
        let outcome = on(4, programs(4, &all));
        prop_assert_eq!(ends(&outcome), by_hand(4, &all));
    }

    /// The amount of work does not depend on the number of processors, a processor does one thing
    /// at a time, and sharing makes no rank faster.
    #[test]
    fn sharing_cpus_loses_no_work(all in happenings(5), processors in 1..5_usize) {
        let shared = on(processors, programs(5, &all));
        let apart = on(5, programs(5, &all));
        let mut by_processor: HashMap<usize, Time> = HashMap::new();
        for (number, (one, other)) in shared.ranks.iter().zip(&apart.ranks).enumerate() {
            prop_assert_eq!(one.computing, other.computing);
            prop_assert_eq!(one.overhead, other.overhead);
            *by_processor.entry(number % processors).or_default() += one.computing + one.overhead;
        }
        let busiest = by_processor.into_values().max().unwrap_or_default();
        prop_assert!(shared.last() >= busiest);
        prop_assert!(shared.last() >= apart.last());
    }
}
