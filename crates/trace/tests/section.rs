//! A section has what was done between two collective operations of all ranks, and nothing that it would tear apart; a bundle is the trace.

use std::path::Path;
use verbena_trace::{Collective, Part, RankTrace, Section, Summary, Trace, Writer};

const WORLD: usize = 0;
const RANKS: usize = 2;

fn together() -> Part {
    Part::Collective {
        kind: Collective::Barrier,
        comm: WORLD,
        root: None,
        slot: None,
        bytes: 0,
    }
}

fn send(tag: u32, bytes: u64) -> Part {
    Part::Send {
        comm: WORLD,
        peer: 1,
        tag,
        bytes,
    }
}

fn receive(tag: u32, bytes: u64) -> Part {
    Part::Receive {
        comm: WORLD,
        peer: 0,
        tag,
        bytes,
    }
}

fn communicator(number: usize, members: &[usize]) -> Part {
    Part::Communicator {
        number,
        members: members.to_vec(),
        remote: Vec::new(),
    }
}

/// A trace of what each rank did: every call computes 1000 ns before it, and takes 50.
fn trace(ranks: [Vec<Part>; RANKS]) -> Trace {
    let read = |(rank, parts): (usize, &Vec<Part>)| {
        let mut writer = Writer::new(rank, RANKS, "a library");
        writer.call("MPI_Init", &[communicator(WORLD, &[0, 1])], 0, 50);
        for part in parts {
            writer.call("MPI_Call", std::slice::from_ref(part), 1000, 50);
        }
        writer.call("MPI_Finalize", &[Part::Finalized], 1000, 50);
        RankTrace::read(&writer.finish()).expect("it has just been written")
    };
    Trace {
        path: Path::new("somewhere").to_owned(),
        ranks: ranks.iter().enumerate().map(read).collect(),
    }
}

/// Between barriers a message each: of 1, 10, 100 bytes.
fn three_messages() -> Trace {
    let all = |message: fn(u32, u64) -> Part| {
        let steps = [1, 10, 100].map(|bytes| [message(7, bytes), together()]);
        [vec![together()], steps.concat()].concat()
    };
    trace([all(send), all(receive)])
}

#[test]
fn a_section_has_what_lies_between() {
    let whole = three_messages();
    assert_eq!(whole.together().count(), 4);
    for (behind, through, bytes, calls) in
        [(0, 1, 1, 2), (1, 2, 10, 2), (1, 3, 110, 4), (0, 3, 111, 6)]
    {
        let section = whole.section(Section { behind, through }).unwrap();
        let summary = Summary::of(&section);
        assert_eq!(summary.all.bytes, bytes);
        // Computing before the section, and behind it, is none of it.
        assert_eq!(summary.computing, 1000 * calls * RANKS as u64);
        assert!(section.unfinished().next().is_none());
    }
}

#[test]
fn communicators_of_before_are_there() {
    let both = |message: Part| vec![communicator(3, &[0, 1]), together(), message, together()];
    let within = |part: Part| match part {
        Part::Send {
            peer, tag, bytes, ..
        } => Part::Send {
            comm: 3,
            peer,
            tag,
            bytes,
        },
        Part::Receive {
            peer, tag, bytes, ..
        } => Part::Receive {
            comm: 3,
            peer,
            tag,
            bytes,
        },
        other => other,
    };
    let whole = trace([both(within(send(1, 5))), both(within(receive(1, 5)))]);
    let section = whole
        .section(Section {
            behind: 0,
            through: 1,
        })
        .unwrap();
    assert_eq!(Summary::of(&section).all.bytes, 5);
    assert_eq!(
        section
            .section(Section {
                behind: 0,
                through: 1
            })
            .unwrap_err()
            .to_string(),
        "somewhere: rank 0: all ranks did 1 collective operations together, so there is none of number 1"
    );
}

#[test]
fn what_a_section_would_tear_apart_is_refused() {
    let begun = Part::BeginSend {
        slot: 2,
        comm: WORLD,
        peer: 1,
        tag: 1,
        bytes: 5,
    };
    let request = trace([
        vec![together(), begun, together(), Part::Done { slot: 2 }],
        vec![together(), receive(1, 5), together()],
    ]);
    let message = trace([
        vec![together(), send(1, 5), together(), together()],
        vec![together(), together(), receive(1, 5), together()],
    ]);
    let torn = |trace: &Trace, behind, through| {
        trace
            .section(Section { behind, through })
            .unwrap_err()
            .to_string()
    };
    assert!(torn(&request, 0, 1).contains("request 2 is under way"));
    assert!(torn(&message, 0, 1).contains("a message is under way"));
    assert!(torn(&message, 1, 2).contains("a message is under way"));
    assert!(
        message
            .section(Section {
                behind: 0,
                through: 2
            })
            .is_ok()
    );
    assert!(torn(&message, 2, 2).contains("is empty"));
}

#[test]
fn a_bundle_has_all_that_a_replay_uses() {
    let whole = three_messages();
    let path = Path::new("kept");
    let file = whole.bundle();
    let read = Trace::of_bundle(path, &file).unwrap();
    for (kept, rank) in read.ranks.iter().zip(&whole.ranks) {
        let calls = |rank: &RankTrace| -> Vec<Vec<Part>> {
            rank.records
                .iter()
                .map(|record| rank.parts(record).to_vec())
                .collect()
        };
        assert_eq!(calls(kept), calls(rank));
        let computing = |rank: &RankTrace| {
            rank.records
                .iter()
                .map(|record| record.computing)
                .sum::<u64>()
        };
        assert!(
            computing(rank) - computing(kept) < 256,
            "what does not fill a tick"
        );
    }
    for end in 0..file.len() {
        assert!(
            Trace::of_bundle(path, &file[..end]).is_err(),
            "{end} of {}",
            file.len()
        );
    }
    assert!(Trace::of_bundle(path, b"VMPITR1\n").is_err());
}
