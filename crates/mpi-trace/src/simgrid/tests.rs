//! Traces become calls; contradictory, unclear and invalid ones are refused with their lines.

use super::reader::{LONGEST, NO_FINALIZE};
use super::*;
use crate::{Messages, Part, RankTrace, Summary, Trace};
use proptest::prelude::*;

/// A trace that SimGrid 3.32 wrote of `tests/record/simgrid.c` on four ranks.
const REAL: &str = include_str!("../../tests/simgrid/smpi-3.32.txt");

fn imported(text: &str) -> Result<Imported, Error> {
    let mut reader = Reader::new(Some(1e9));
    reader.read("ti", text.as_bytes())?;
    reader.finish()
}

fn refused(text: &str) -> String {
    imported(text).expect_err("it is wrong").to_string()
}

fn read(imported: &Imported) -> Trace {
    let ranks = imported.ranks.iter();
    Trace {
        path: "nowhere".into(),
        ranks: ranks
            .map(|file| RankTrace::read(file).expect("it is written whole"))
            .collect(),
    }
}

fn parts(trace: &Trace, rank: usize) -> Vec<Part> {
    let rank = &trace.ranks[rank];
    let records = rank.records.iter().skip(1);
    records
        .flat_map(|record| rank.parts(record).to_vec())
        .collect()
}

#[test]
fn a_real_trace_has_the_messages_of_its_program() {
    let imported = imported(REAL).expect("SimGrid wrote it");
    let trace = read(&imported);
    let summary = Summary::of(&trace);
    let calls = |name: &str| summary.by_name[name].calls;
    assert_eq!(summary.ranks, 4);
    // Of each rank: isend three times, issend, sendrecv, send with tag 8. Then one with tag 7, one
    // with tag 6, three to the first rank, and six to neighbors in the line.
    assert_eq!(summary.all.messages, 4 * 6 - 4 + 4 + 1 + 1 + 3 + 6 - 4);
    let ring = 4 * (50 * 4 + 40000 * 4 + 6 * 2 + 9 + 2 * 4);
    assert_eq!(
        summary.all.bytes,
        ring + 100 * 8 + 3 * 8 + 4 * (1 + 2 + 3) + 6 * 80
    );
    assert_eq!(calls("MPI_Waitany"), 8);
    assert_eq!(calls("MPI_Test"), 1);
    assert_eq!(calls("MPI_Iallreduce"), 4);
    assert_eq!(imported.found, 3 + 4);
    assert_eq!(imported.left_out["message to or from MPI_PROC_NULL"], 2 * 2);
    assert!(Messages::of(&trace).unwrap().imbalances().is_empty());
    assert_eq!(trace.unfinished().count(), 0);
}

#[test]
fn computing_takes_time_by_the_rate() {
    let text = "0 init\n0 compute 1500\n0 sleep 1e-6\n0 allreduce 1 500 0\n0 finalize\n";
    let trace = read(&imported(text).unwrap());
    let computing = |at: usize| trace.ranks[0].records[at].computing;
    assert_eq!(computing(1), 1500 + 1000);
    assert_eq!(computing(2), 500);
    let mut reader = Reader::new(None);
    reader.read("ti", text.as_bytes()).unwrap();
    let refusal = reader.finish().unwrap_err().to_string();
    assert!(refusal.contains("smpi/host-speed"), "{refusal}");
}

#[test]
fn receives_get_the_message_that_was_sent() {
    let text = "0 init\n1 init\n0 recv -333 -444 9 0\n0 irecv 1 5 9 0\n0 wait 1 0 5\n\
                1 send 0 4 3 1\n\
                1 send 0 5 2 2\n0 finalize\n1 finalize";
    let trace = read(&imported(text).unwrap());
    let expected = [
        Part::Receive {
            comm: 0,
            peer: 1,
            tag: 4,
            bytes: 12,
        },
        Part::BeginReceive {
            slot: 0,
            comm: 0,
            peer: Some(1),
            tag: Some(5),
            bytes: 72,
        },
        Part::Received {
            slot: 0,
            peer: 1,
            tag: 5,
            bytes: 2,
        },
        Part::Finalized,
    ];
    assert_eq!(parts(&trace, 0), expected);
}

#[test]
fn the_last_test_completes_a_request_that_is_not_waited_for() {
    let tests = |end: &str| {
        let text = format!(
            "0 init\n1 init\n0 irecv 1 5 9 0\n0 test 1 0 5\n0 irecv 1 6 9 0\n0 test 1 0 5\n\
             0 {end}\n\
             1 send 0 5 9 0\n1 send 0 6 9 0\n0 finalize\n1 finalize"
        );
        let imported = imported(&text).unwrap();
        let summary = Summary::of(&read(&imported));
        summary
            .by_name
            .get("MPI_Test")
            .map_or(0, |calls| calls.calls)
    };
    assert_eq!(tests("wait 1 0 5"), 0);
    assert_eq!(tests("wait 1 0 6"), 1);
    // As the numbers of requests show.
    assert_eq!(tests("waitall 2"), 0);
    assert_eq!(tests("waitall 1"), 1);
}

#[test]
fn refusals_name_file_and_line() {
    for (text, expected) in [
        ("", "no lines"),
        ("0 init\n2 init", "no line is of rank 1"),
        ("x init", "ti, line 1, it does not begin with a rank"),
        ("99999999 init", "ti, line 1, it does not begin with a rank"),
        (
            "0 init\n0 dance",
            "ti, line 2, the action is unknown: 0 dance",
        ),
        ("0", "ti, line 1, it has no action"),
        ("0 send 0 1", "ti, line 1, too few arguments"),
        ("0 send 0 1 1 1 1", "ti, line 1, too many arguments"),
        ("0 send 1 1 1 1", "no rank 1"),
        ("0 send 0 -444 1 1", "a message is sent with any tag"),
        ("0 send 0 -3 1 1", "-3 is not a tag"),
        ("0 send 0 1 1 58", "datatype 58 is unknown"),
        ("0 bcast 10 0 -1", "its datatype is derived"),
        ("0 send 0 1 1.5 1", "1.5 is not a number of elements"),
        ("0 send 0 1 1e300 1", "is not a number of elements"),
        ("0 bcast 999999999999999999 0 0", "are too much"),
        ("0 compute -1", "-1 is not an amount"),
        ("0 compute nan", "nan is not an amount"),
        ("0 compute 1e300", "is not an amount"),
        ("0 sleep 1e17", "more than 18 years"),
        ("0 reducescatter 0 0 0 0 1", "MPI_Reduce_scatter_block"),
        ("0 testall", "does not show which requests completed"),
        ("0 Startall", "persistent requests"),
        ("0 Put 0 0 1 1", "one-sided"),
        ("0 finalize\n0 barrier", "ti, line 2, it follows finalize"),
        (
            "0 recv 0 1 1 1",
            "1 of 1 ranks wait forever (ti, line 1: 0 recv 0 1 1 1)",
        ),
        (
            "0 send 0 1 1 1",
            "ti, line 1, rank 0 never receives this message",
        ),
        (
            "0 barrier\n1 ibarrier",
            "ti, line 2, it does not agree with ti, line 1",
        ),
        ("0 bcast 1 0 1\n1 bcast 2 0 1", "several communicators"),
        ("0 bcast 1 0 1\n1 bcast 1 1 1", "several communicators"),
        (
            "0 gatherv 1 1 2 0 1 1\n1 gatherv 1 0 0 0 1 1",
            "several communicators",
        ),
        (
            "0 scatterv 1 2 1 0 1 1\n1 scatterv 0 0 1 0 1 1",
            "several communicators",
        ),
        (
            "0 allgatherv 1 1 2 1 1\n1 allgatherv 1 1 1 1 1",
            "several communicators",
        ),
        ("0 barrier\n1 init", "wait forever (ti, line 1: 0 barrier)"),
    ] {
        let refusal = refused(text);
        assert!(refusal.contains(expected), "{text:?}: {refusal}");
    }
}

#[test]
fn a_trace_without_an_end_ends_its_requests() {
    let imported = imported("0 irecv 0 1 1 1\n0 isend 0 1 1 1").unwrap();
    let trace = read(&imported);
    assert_eq!(imported.left_out[NO_FINALIZE], 1);
    assert_eq!(trace.unfinished().count(), 0);
    assert!(Messages::of(&trace).unwrap().imbalances().is_empty());
}

#[test]
fn overlong_lines_are_refused() {
    let refusal = refused(&format!("0 {}", "x".repeat(LONGEST as usize)));
    assert!(refusal.len() < 400 && refusal.contains("too long"));
}

#[test]
fn an_operation_in_place_of_another_is_found_at_its_rank() {
    let text = "0 barrier\n1 barrier\n2 barrier\n0 scan 1 0 1\n1 scan 1 0 1\n2 exscan 1 0 1";
    assert!(refused(text).contains("ti, line 6, it does not agree with ti, line 4"));
}

/// A step of a random program.
#[derive(Debug, Clone)]
enum Round {
    /// A message.
    Message {
        from: usize,
        to: usize,
        tag: u32,
        count: u64,
        /// Blocking, nonblocking, or from any.
        kind: u8,
    },
    /// An operation of all ranks on so many integers.
    AllReduce {
        count: u64,
        is_blocking: bool,
    },
    Gather {
        root: usize,
        count: u64,
    },
}

const RANKS: usize = 4;

fn round() -> impl Strategy<Value = Round> {
    let rank = 0..RANKS;
    prop_oneof![
        4 => (rank.clone(), rank.clone(), 0u32..3, 0u64..100, 0u8..4).prop_map(
            |(from, to, tag, count, kind)| Round::Message { from, to, tag, count, kind }
        ),
        1 => (0u64..100, any::<bool>())
            .prop_map(|(count, is_blocking)| Round::AllReduce { count, is_blocking }),
        1 => (rank, 0u64..100).prop_map(|(root, count)| Round::Gather { root, count }),
    ]
}

/// Returns the lines of a program that is free of races: a barrier follows each receive from any.
fn text(rounds: &[Round]) -> String {
    let mut lines: Vec<String> = (0..RANKS).map(|rank| format!("{rank} init\n")).collect();
    for round in rounds {
        match *round {
            Round::Message {
                from,
                to,
                tag,
                count,
                kind,
            } => {
                lines[from] += &match kind {
                    0 => format!("{from} send {to} {tag} {count} 1\n"),
                    _ => format!(
                        "{from} isend {to} {tag} {count} 1\n{from} compute 5\n\
                         {from} wait {from} {to} {tag}\n"
                    ),
                };
                lines[to] += &match kind {
                    0 => format!("{to} recv {from} {tag} {count} 1\n"),
                    1 => {
                        format!("{to} irecv {from} {tag} {count} 1\n{to} wait {from} {to} {tag}\n")
                    }
                    2 => format!("{to} irecv {from} {tag} {count} 1\n{to} waitall 1\n"),
                    _ => format!("{to} recv -333 -444 {count} 1\n"),
                };
                if kind == 3 {
                    for (rank, lines) in lines.iter_mut().enumerate() {
                        *lines += &format!("{rank} barrier\n");
                    }
                }
            }
            Round::AllReduce { count, is_blocking } => {
                for (rank, lines) in lines.iter_mut().enumerate() {
                    *lines += &match is_blocking {
                        true => format!("{rank} allreduce {count} 3 1\n"),
                        false => format!(
                            "{rank} iallreduce {count} 3 1\n{rank} wait {rank} {rank} -4446\n"
                        ),
                    };
                }
            }
            Round::Gather { root, count } => {
                for (rank, lines) in lines.iter_mut().enumerate() {
                    *lines += &format!("{rank} gather {count} {count} {root} 1 1\n");
                }
            }
        }
    }
    for (rank, lines) in lines.iter_mut().enumerate() {
        *lines += &format!("{rank} finalize\n");
    }
    lines.concat()
}

proptest! {
    #[test]
    fn random_programs_keep_their_messages_and_operations(
        rounds in proptest::collection::vec(round(), 0..40)
    ) {
        let imported = imported(&text(&rounds)).unwrap();
        let trace = read(&imported);
        let (mut messages, mut bytes, mut collective, mut any) = (0, 0, 0, 0);
        for round in &rounds {
            match *round {
                Round::Message { count, kind, .. } => {
                    messages += 1;
                    bytes += 4 * count;
                    any += u64::from(kind == 3);
                }
                Round::AllReduce { count, .. } | Round::Gather { count, .. } => {
                    collective += RANKS as u64 * 4 * count;
                }
            }
        }
        let all = Summary::of(&trace).all;
        prop_assert_eq!((all.messages, all.bytes), (messages, bytes));
        prop_assert_eq!(all.collective_bytes, collective);
        prop_assert_eq!(imported.found, any);
        prop_assert!(Messages::of(&trace).unwrap().imbalances().is_empty());
        prop_assert!(imported.left_out.is_empty());
    }

    #[test]
    fn damaged_traces_are_refused_or_imported(
        at in 0..REAL.len(), byte: u8, length in 0..REAL.len()
    ) {
        let mut text = REAL.as_bytes().to_vec();
        text[at] = byte;
        text.truncate(length.max(1));
        let mut reader = Reader::new(Some(1e9));
        if reader.read("ti", text.as_slice()).is_ok() && let Ok(imported) = reader.finish() {
            let messages = Messages::of(&read(&imported)).expect("it is consistent");
            prop_assert!(messages.imbalances().is_empty());
        }
    }
}
