//! A section contains the activity between two collective operations of all ranks and splits
//! nothing; a bundle equals the trace.

use std::path::Path;
use verbena_mpi_trace::{
    Collective, Part, RankTrace, Section, Summary, Synchronization, Trace, Writer,
};

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

/// Returns a trace of each rank's parts: every call follows 1000 ns of computing and takes 50 ns.
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

/// A message between each two barriers: of 1, 10, 100 bytes.
fn three_messages() -> Trace {
    let all = |message: fn(u32, u64) -> Part| {
        let steps = [1, 10, 100].map(|bytes| [message(7, bytes), together()]);
        [vec![together()], steps.concat()].concat()
    };
    trace([all(send), all(receive)])
}

#[test]
fn a_section_contains_the_calls_between_its_ends() {
    let whole = three_messages();
    assert_eq!(whole.together().count(), 4);
    for (behind, through, bytes, calls) in
        [(0, 1, 1, 2), (1, 2, 10, 2), (1, 3, 110, 4), (0, 3, 111, 6)]
    {
        let section = whole.section(Section { behind, through }).unwrap();
        let summary = Summary::of(&section);
        assert_eq!(summary.all.bytes, bytes);
        // Computing before and after the section does not count.
        assert_eq!(summary.computing, 1000 * calls * RANKS as u64);
        assert!(section.unfinished().next().is_none());
    }
}

#[test]
fn communicators_created_earlier_are_kept() {
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
        "somewhere: rank 0: all ranks did 1 collective operations together, \
         so there is none of number 1"
    );
}

#[test]
fn sections_that_split_operations_are_refused() {
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

fn torn(trace: &Trace, behind: usize, through: usize) -> String {
    let section = trace.section(Section { behind, through });
    section.unwrap_err().to_string()
}

/// A message is in progress at either end: as many enter as leave, of equal length, but they are
/// different ones.
#[test]
fn split_messages_are_not_matched_within_the_section() {
    let whole = trace([
        vec![send(7, 8), together(), send(7, 8), together(), together()],
        vec![
            together(),
            receive(7, 8),
            together(),
            receive(7, 8),
            together(),
        ],
    ]);
    let expected = "somewhere: rank 0: a message is under way at collective operation 0, \
                    where the section begins or ends: from rank 0 to rank 1 with tag 7: \
                    1 messages of 8 bytes sent, 0 of 0 received";
    assert_eq!(torn(&whole, 0, 1), expected);
    assert!(torn(&whole, 1, 2).contains("under way at collective operation 1"));
    let section = Section {
        behind: 0,
        through: 2,
    };
    assert!(torn(&whole, 0, 2).contains("under way at collective operation 0"));
    let sound = trace([
        vec![together(), send(7, 8), together(), together()],
        vec![together(), receive(7, 8), together(), together()],
    ]);
    assert!(sound.section(section).is_ok());
}

/// Start and end of epochs of accesses to a window.
const EPOCHS: [(Synchronization, Synchronization); 4] = [
    (Synchronization::Post, Synchronization::Wait),
    (Synchronization::Start, Synchronization::Complete),
    (Synchronization::Lock, Synchronization::Unlock),
    (Synchronization::LockAll, Synchronization::UnlockAll),
];

fn ordered(kind: Synchronization, targets: &[usize]) -> Part {
    Part::Synchronized {
        window: 4,
        kind,
        targets: targets.to_vec(),
    }
}

fn access() -> Part {
    Part::Access {
        window: 4,
        target: 1,
        out: 8,
        back: 0,
        slot: None,
    }
}

/// Rank 0 acts on a window; rank 1 only creates it.
fn of_window(does: Vec<Part>) -> Trace {
    let window = Part::Window {
        number: 4,
        comm: WORLD,
    };
    let first = [vec![window.clone()], does].concat();
    trace([first, vec![window, together(), together(), together()]])
}

#[test]
fn sections_that_split_an_epoch_are_refused() {
    for (opens, ends) in EPOCHS {
        let targets: &[usize] = match opens {
            Synchronization::LockAll => &[],
            _ => &[1],
        };
        // A posted window is accessed by other ranks.
        let access = match opens {
            Synchronization::Post => ordered(Synchronization::Flush, &[]),
            _ => access(),
        };
        let (opens, ends) = (ordered(opens, targets), ordered(ends, targets));
        let open = of_window(vec![
            together(),
            opens.clone(),
            together(),
            access.clone(),
            ends.clone(),
            together(),
        ]);
        let refusal = "somewhere: rank 0: accesses to window 4 are under way at collective \
                       operation 1, where the section begins or ends";
        assert_eq!(torn(&open, 0, 1), refusal);
        assert_eq!(torn(&open, 1, 2), refusal);
        let within = [together(), opens, access, ends, together(), together()];
        let section = of_window(within.to_vec()).section(Section {
            behind: 0,
            through: 1,
        });
        assert!(section.is_ok(), "{section:?}");
    }
}

#[test]
fn accesses_without_a_closing_fence_are_pending() {
    let fence = || ordered(Synchronization::Fence, &[]);
    let open = of_window(vec![
        fence(),
        together(),
        access(),
        together(),
        fence(),
        together(),
    ]);
    assert!(torn(&open, 0, 1).contains("accesses to window 4 are under way"));
    assert!(torn(&open, 1, 2).contains("accesses to window 4 are under way"));
    let section = Section {
        behind: 0,
        through: 2,
    };
    assert!(open.section(section).is_ok());
}

/// One of two locks is released; the window still has the other.
#[test]
fn locks_of_several_targets_are_distinguished() {
    let open = of_window(vec![
        together(),
        ordered(Synchronization::Lock, &[0]),
        ordered(Synchronization::Lock, &[1]),
        ordered(Synchronization::Unlock, &[0]),
        together(),
        ordered(Synchronization::Unlock, &[1]),
        together(),
    ]);
    assert!(torn(&open, 0, 1).contains("accesses to window 4 are under way"));
}

#[test]
fn a_bundle_contains_everything_for_a_replay() {
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
            "a remainder of less than a tick"
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

/// With any bit flipped, a bundle is refused with its path.
#[test]
fn a_damaged_bundle_is_refused() {
    let file = three_messages().bundle();
    for bit in 0..file.len() * 8 {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let refused = Trace::of_bundle(Path::new("kept"), &damaged);
        let reason = refused.expect_err(&format!("bit {bit} is another one"));
        assert!(reason.to_string().starts_with("kept: "), "{reason}");
    }
}

/// Sums of a forged file saturate.
#[test]
fn sums_do_not_overflow() {
    let most = || Part::Collective {
        kind: Collective::Broadcast,
        comm: WORLD,
        root: Some(0),
        slot: None,
        bytes: u64::MAX,
    };
    let both = || vec![most(), most()];
    let summary = Summary::of(&trace([both(), both()]));
    assert_eq!(summary.all.collective_bytes, u64::MAX);
}
