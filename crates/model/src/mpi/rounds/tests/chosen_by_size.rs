//! Tests the defaults of a library without its own choices: which members' data reach which.

use super::super::{Member, Round};
use crate::profile::{Library, Mpi, Overrides};
use std::collections::VecDeque;

fn library() -> Mpi {
    let shipped = Library::shipped(&Overrides::none());
    let system = shipped.and_then(|library| library.system("connectx-qdr"));
    system
        .expect("a shipped system")
        .mpi
        .expect("it has a library")
}

/// A message: its length, and the members whose data its sender had.
type SentMessage = (u64, Vec<bool>);

/// Plays a group's rounds, each member's in order, and returns for each member whose data have
/// reached it.
fn played(all: Vec<Vec<Round>>) -> Vec<Vec<bool>> {
    let size = all.len();
    let mut left: Vec<VecDeque<Round>> = all.into_iter().map(VecDeque::from).collect();
    let mut known: Vec<Vec<bool>> = (0..size)
        .map(|own| (0..size).map(|other| own == other).collect())
        .collect();
    let mut sent = vec![false; size];
    let mut ways = vec![vec![VecDeque::<SentMessage>::new(); size]; size];
    loop {
        let mut moved = false;
        for own in 0..size {
            let Some(round) = left[own].front().copied() else {
                continue;
            };
            if let (Some((to, bytes)), false) = (round.send, sent[own]) {
                ways[own][to].push_back((bytes, known[own].clone()));
                sent[own] = true;
                moved = true;
            }
            let got = match round.receive {
                None => Some(Vec::new()),
                Some((from, expected)) => ways[from][own].pop_front().map(|(bytes, known)| {
                    assert_eq!(bytes, expected, "{own} of {size} from {from}");
                    known
                }),
            };
            if let Some(got) = got {
                for (known, got) in known[own].iter_mut().zip(got) {
                    *known |= got;
                }
                left[own].pop_front();
                sent[own] = false;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    assert!(
        left.iter().all(VecDeque::is_empty),
        "deadlock: a rank waits forever"
    );
    assert!(
        ways.iter().flatten().all(VecDeque::is_empty),
        "a message is never received"
    );
    known
}

pub(super) fn group(size: usize, rounds: impl Fn(Member) -> Vec<Round>) -> Vec<Vec<bool>> {
    played(
        (0..size)
            .map(|place| rounds(Member { place, size }))
            .collect(),
    )
}

#[test]
fn collectives_inform_all_required_ranks() {
    let library = library();
    for size in 1..=17 {
        let everybody = |known: Vec<Vec<bool>>| known.iter().flatten().all(|known| *known);
        for bytes in [0, 8, 1 << 20] {
            assert!(everybody(group(size, |one| one.barrier())));
            assert!(
                everybody(group(size, |one| one.all_reduce(bytes, &library))),
                "{size}"
            );
            assert!(everybody(group(size, |one| one.all_gather(bytes, &library))));
            assert!(everybody(group(size, |one| one.all_to_all(bytes, &library))));
            assert!(everybody(group(size, |one| one.reduce_scatter(bytes))));
            let ring = group(size, |one| one.gather_round_a_ring(|place| place as u64));
            assert!(everybody(ring));
            let own = |from: usize, to: usize| (from * 100 + to) as u64;
            let each = group(size, |one| {
                one.pairwise(|to| own(one.place, to), |from| own(from, one.place))
            });
            assert!(everybody(each));
            let scanned = group(size, |one| one.scan(bytes));
            assert!((0..size).all(|own| scanned[own][..=own].iter().all(|known| *known)));
            for root in 0..size {
                let told = group(size, |one| one.broadcast(root, bytes, &library));
                assert!(told.iter().all(|known| known[root]), "{size} from {root}");
                assert!(
                    group(size, |one| one.scatter(root, bytes))
                        .iter()
                        .all(|known| known[root])
                );
                let part = |one: Member| one.place as u64;
                let told = group(size, |one| {
                    one.scatter_directly(root, |place| place as u64, part(one))
                });
                assert!(told.iter().all(|known| known[root]));
                let got = group(size, |one| {
                    one.gather_directly(root, |place| place as u64, part(one))
                });
                assert!(got[root].iter().all(|known| *known));
                for rounds in [Member::gather, Member::reduce] {
                    let got = group(size, |one| rounds(one, root, bytes));
                    assert!(got[root].iter().all(|known| *known), "{size} to {root}");
                }
            }
        }
    }
}

/// A scatter sends, and a gather receives, every part but the root's own.
#[test]
fn trees_carry_each_part_once() {
    for size in 1..=17 {
        for root in 0..size {
            let sent = |rounds: Vec<Round>| -> u64 {
                rounds
                    .iter()
                    .filter_map(|round| round.send)
                    .map(|(_, bytes)| bytes)
                    .sum()
            };
            let from_root = sent(Member { place: root, size }.scatter(root, 10));
            assert_eq!(from_root, 10 * (size as u64 - 1));
            let all = |rounds: fn(Member, usize, u64) -> Vec<Round>| -> u64 {
                (0..size)
                    .map(|place| sent(rounds(Member { place, size }, root, 10)))
                    .sum()
            };
            assert_eq!(all(Member::scatter), all(Member::gather));
        }
    }
}
