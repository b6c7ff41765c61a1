//! Written files are read back; truncated or damaged ones are read up to the damage, which is
//! reported.

use proptest::collection::vec;
use proptest::prelude::*;
use std::path::PathBuf;
use verbena_mpi_trace::{
    Collective, End, Part, RankTrace, RecordedOn, Synchronization, Trace, Writer,
};

fn part() -> impl Strategy<Value = Part> {
    let small = 0usize..6;
    let rank = 0usize..9;
    let tag = 0u32..3;
    let bytes = prop_oneof![0u64..100, any::<u64>()];
    prop_oneof![
        (small.clone(), rank.clone(), tag.clone(), bytes.clone()).prop_map(
            |(comm, peer, tag, bytes)| Part::Send {
                comm,
                peer,
                tag,
                bytes
            }
        ),
        (small.clone(), rank.clone(), any::<u32>(), bytes.clone()).prop_map(
            |(comm, peer, tag, bytes)| Part::Receive {
                comm,
                peer,
                tag,
                bytes
            }
        ),
        (
            small.clone(),
            small.clone(),
            rank.clone(),
            tag.clone(),
            bytes.clone()
        )
            .prop_map(|(slot, comm, peer, tag, bytes)| Part::BeginSend {
                slot,
                comm,
                peer,
                tag,
                bytes
            }),
        (
            small.clone(),
            small.clone(),
            proptest::option::of(rank.clone()),
            proptest::option::of(tag.clone()),
            bytes.clone()
        )
            .prop_map(|(slot, comm, peer, tag, bytes)| Part::BeginReceive {
                slot,
                comm,
                peer,
                tag,
                bytes
            }),
        (small.clone(), rank.clone(), tag, bytes.clone()).prop_map(|(slot, peer, tag, bytes)| {
            Part::Received {
                slot,
                peer,
                tag,
                bytes,
            }
        }),
        small.clone().prop_map(|slot| Part::Done { slot }),
        small.clone().prop_map(|slot| Part::Cancelled { slot }),
        small.clone().prop_map(|slot| Part::Freed { slot }),
        (
            small.clone(),
            proptest::option::of(rank.clone()),
            proptest::option::of(small.clone()),
            bytes.clone()
        )
            .prop_map(|(comm, root, slot, bytes)| Part::Collective {
                kind: Collective::Reduce,
                comm,
                root,
                slot,
                bytes
            }),
        (
            small.clone(),
            proptest::option::of(rank.clone()),
            vec(bytes.clone(), 0..5),
            vec(bytes.clone(), 0..5)
        )
            .prop_map(|(comm, root, out, back)| Part::Varied {
                kind: Collective::Scan,
                comm,
                root,
                slot: None,
                out,
                back
            }),
        (
            small.clone(),
            vec(any::<u32>().prop_map(|rank| rank as usize), 0..5),
            vec(rank.clone(), 0..3)
        )
            .prop_map(|(number, members, remote)| Part::Communicator {
                number,
                members,
                remote
            }),
        small
            .clone()
            .prop_map(|number| Part::CommunicatorFreed { number }),
        (small.clone(), small.clone()).prop_map(|(number, comm)| Part::Window { number, comm }),
        small
            .clone()
            .prop_map(|number| Part::WindowFreed { number }),
        (
            small.clone(),
            rank.clone(),
            bytes.clone(),
            bytes.clone(),
            proptest::option::of(small.clone())
        )
            .prop_map(|(window, target, out, back, slot)| Part::Access {
                window,
                target,
                out,
                back,
                slot
            }),
        (small.clone(), vec(rank.clone(), 0..4)).prop_map(|(window, targets)| Part::Synchronized {
            window,
            kind: Synchronization::Flush,
            targets
        }),
        (
            small,
            vec((rank.clone(), bytes.clone()), 0..4),
            vec((rank, bytes), 0..4)
        )
            .prop_map(|(comm, out, back)| Part::Neighbors {
                comm,
                slot: None,
                out,
                back
            }),
        Just(Part::Finalized),
    ]
}

type Made = (String, Vec<Part>, u64, u64);

fn call() -> impl Strategy<Value = Made> {
    // Few distinct ones, so that calls repeat.
    let time = prop_oneof![0u64..3, 0u64..1 << 50];
    ("[a-c]", vec(part(), 0..3), time.clone(), time)
}

/// Calls, some of them repeated, and the calls after which blocks end.
fn calls() -> impl Strategy<Value = (Vec<Made>, Vec<bool>)> {
    let chosen = vec(any::<prop::sample::Index>(), 0..60);
    let made = (vec(call(), 1..12), chosen)
        .prop_map(|(calls, chosen)| chosen.iter().map(|one| one.get(&calls).clone()).collect());
    (made, vec(any::<bool>(), 60))
}

fn written(calls: &[Made], flushes: &[bool]) -> Vec<u8> {
    let mut writer = Writer::new(3, 5, "a library");
    for ((name, parts, computing, within), flush) in calls.iter().zip(flushes) {
        writer.call(name, parts, *computing, *within);
        if *flush {
            writer.flush();
        }
    }
    writer.finish()
}

fn made(trace: &RankTrace) -> Vec<Made> {
    let made = trace.records.iter().map(|record| {
        let parts = trace.parts(record).to_vec();
        (
            trace.name(record).to_owned(),
            parts,
            record.computing,
            record.within,
        )
    });
    made.collect()
}

/// Returns a trace of ranks on these hosts with so many processors.
fn recorded_on(hosts: &[(u64, u64)]) -> Trace {
    let ranks = hosts.iter().enumerate().map(|(rank, &(host, processors))| {
        let mut writer = Writer::new(rank, hosts.len(), "a library");
        writer.recorded_on(RecordedOn { host, processors });
        RankTrace::read(&writer.finish()).expect("it was written well")
    });
    Trace {
        path: PathBuf::from("trace"),
        ranks: ranks.collect(),
    }
}

#[test]
fn ranks_that_shared_processors_are_known() {
    let trace = recorded_on(&[(7, 2), (7, 2), (7, 2), (9, 1), (9, 1)]);
    assert_eq!(trace.crowded(), Some((2, 1)));
    let kept = Trace::of_bundle(&trace.path, &trace.bundle()).expect("it was written well");
    assert_eq!(kept.crowded(), Some((2, 1)));
    assert_eq!(recorded_on(&[(7, 2), (7, 2), (9, 1)]).crowded(), None);
    // A file of an earlier version does not tell.
    let old = RankTrace::read(&Writer::new(0, 1, "a library").finish()).expect("is read");
    assert_eq!(old.recorded_on, None);
    let mut none = Writer::new(0, 1, "a library");
    none.recorded_on(RecordedOn {
        host: 7,
        processors: 0,
    });
    let refused = RankTrace::read(&none.finish()).expect_err("no processors");
    assert!(refused.reason.contains("0 processors"), "{refused}");
}

proptest! {
    #[test]
    fn traces_round_trip((calls, flushes) in calls()) {
        let trace = RankTrace::read(&written(&calls, &flushes)).expect("it was written well");
        prop_assert_eq!((trace.rank, trace.size, trace.library.as_str()), (3, 5, "a library"));
        let finalized = calls.iter().any(|(_, parts, ..)| parts.contains(&Part::Finalized));
        prop_assert_eq!(&trace.end, if finalized { &End::Finalized } else { &End::Open });
        prop_assert_eq!(made(&trace), calls);
    }

    /// A killed rank's file ends anywhere: the contents of its complete blocks are read, and no
    /// others.
    #[test]
    fn a_truncated_trace_is_read_up_to_its_last_block(
        (calls, flushes) in calls(), cut: prop::sample::Index) {
        let file = written(&calls, &flushes);
        let length = cut.index(file.len() + 1);
        if let Ok(trace) = RankTrace::read(&file[..length]) {
            let got = made(&trace);
            prop_assert!(calls.starts_with(&got));
            if length < file.len() && !got.is_empty() {
                // A file cut between blocks is not damaged, but then its last call ends a block.
                let whole = flushes[got.len() - 1];
                prop_assert!(matches!(trace.end, End::Broken(_)) || whole, "{:?}", trace.end);
            }
        } else {
            // Not even the first block is complete.
            prop_assert!(length < written(&[], &[]).len());
        }
    }

    /// Any flipped bit is detected: only written calls are read.
    #[test]
    fn a_flipped_bit_is_detected(
        (calls, flushes) in calls(), place: prop::sample::Index, bit in 0u32..8) {
        let mut file = written(&calls, &flushes);
        let place = place.index(file.len());
        file[place] ^= 1u8 << bit;
        if let Ok(trace) = RankTrace::read(&file) {
            prop_assert!(matches!(trace.end, End::Broken(_)), "byte {place}");
            prop_assert!(calls.starts_with(&made(&trace)));
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = RankTrace::read(&bytes);
        let _ = RankTrace::read(&[b"VMPITR1\n".as_slice(), &bytes].concat());
    }
}
