//! Tests each algorithm by name on any number of members: every member ends up with the promised
//! result, and sends as many bytes as the published formulas state.

use super::super::step::Step;
use super::super::{Member, Round, shares};
use super::oracle::{Meets, Parts, played};
use crate::profile::{
    AllGather, AllReduce, AllToAll, Barrier, Broadcast, Bytes, Choice, Count, Reduce,
    ReduceScatter, Rooted, When,
};
use proptest::prelude::*;

fn choice<A>(algorithm: A, segment: Option<u64>, number: u64) -> Choice<A> {
    Choice {
        when: When::default(),
        algorithm,
        segment: segment.map(Bytes),
        radix: Some(Count(number)),
        at_once: Some(Count(number)),
    }
}

fn members(size: usize) -> impl Iterator<Item = Member> {
    (0..size).map(move |place| Member { place, size })
}

fn all(size: usize) -> Vec<u32> {
    (0..size as u32).collect()
}

/// Returns each member's initial parts: `tokens(member, part)`.
fn each(size: usize, parts: usize, tokens: impl Fn(usize, usize) -> Vec<u32>) -> Vec<Parts> {
    let of = |own| (0..parts).map(|part| (part, tokens(own, part))).collect();
    (0..size).map(of).collect()
}

fn sent(steps: &[Step], bytes_of: impl Fn(usize) -> u64) -> u64 {
    let rounds = Step::rounds(steps, bytes_of);
    let sends = rounds.iter().filter_map(|round| round.send);
    sends.map(|(_, bytes)| bytes).sum()
}

/// Group sizes: all small ones, and those next to powers of two.
fn group() -> impl Strategy<Value = usize> {
    prop_oneof![
        1..20usize,
        Just(31),
        Just(32),
        Just(33),
        Just(64),
        Just(100)
    ]
}

const BROADCASTS: [Broadcast; 8] = [
    Broadcast::Linear,
    Broadcast::Chain,
    Broadcast::Binary,
    Broadcast::SplitBinary,
    Broadcast::Binomial,
    Broadcast::Knomial,
    Broadcast::ScatterDoubling,
    Broadcast::ScatterRing,
];
const REDUCES: [Reduce; 6] = [
    Reduce::Linear,
    Reduce::Chain,
    Reduce::Binary,
    Reduce::Binomial,
    Reduce::Knomial,
    Reduce::Rabenseifner,
];
const ALL_REDUCES: [AllReduce; 4] = [
    AllReduce::RecursiveDoubling,
    AllReduce::Rabenseifner,
    AllReduce::Ring,
    AllReduce::SegmentedRing,
];
const ALL_GATHERS: [AllGather; 4] = [
    AllGather::RecursiveDoubling,
    AllGather::Bruck,
    AllGather::Ring,
    AllGather::NeighborExchange,
];
const REDUCE_SCATTERS: [ReduceScatter; 3] = [
    ReduceScatter::RecursiveHalving,
    ReduceScatter::Pairwise,
    ReduceScatter::Ring,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_broadcast_delivers_every_part_to_all_ranks(
        size in group(), root in 0..100usize, bytes in 0..5000u64,
        segment in prop::option::of(64..3000u64), number in 1..6u64,
    ) {
        let root = root % size;
        for algorithm in BROADCASTS {
            let choice = choice(algorithm, segment, number);
            let done: Vec<_> = members(size).map(|one| one.broadcast_steps(root, bytes, &choice))
                .collect();
            let parts = done[0].1;
            prop_assert!(done.iter().all(|(_, other)| *other == parts));
            let steps: Vec<_> = done.into_iter().map(|(steps, _)| steps).collect();
            let whole = each(size, parts,
                |own, part| if own == root { vec![part as u32] } else { vec![] });
            for have in played(&steps, whole, Meets::Replaces) {
                for part in 0..parts {
                    prop_assert_eq!(&have[&part], &vec![part as u32], "{:?} among {}", algorithm,
                        size);
                }
            }
            // No member receives anything twice.
            let all: u64 = steps.iter().map(|steps| sent(steps, shares(bytes, parts))).sum();
            let gathered = matches!(algorithm, Broadcast::ScatterDoubling | Broadcast::ScatterRing);
            let once = bytes * (size as u64 - 1);
            match gathered {
                false => prop_assert_eq!(all, once, "{:?} among {}", algorithm, size),
                true => prop_assert!(all >= once),
            }
        }
    }

    #[test]
    fn a_reduce_delivers_each_contribution_once_to_the_root(
        size in group(), root in 0..100usize, bytes in 0..5000u64,
        segment in prop::option::of(64..3000u64), number in 1..6u64,
    ) {
        let root = root % size;
        for algorithm in REDUCES {
            let choice = choice(algorithm, segment, number);
            let done: Vec<_> = members(size).map(|one| one.reduce_steps(root, bytes, &choice))
                .collect();
            let parts = done[0].1;
            let steps: Vec<_> = done.into_iter().map(|(steps, _)| steps).collect();
            let own = each(size, parts, |own, _| vec![own as u32]);
            let have = &played(&steps, own, Meets::Combines)[root];
            for part in 0..parts {
                prop_assert_eq!(&have[&part], &all(size), "{:?} among {}", algorithm, size);
            }
        }
    }

    #[test]
    fn an_all_reduce_delivers_each_contribution_once(
        size in group(), bytes in 0..5000u64, segment in prop::option::of(8..300u64),
    ) {
        for algorithm in ALL_REDUCES {
            let choice = choice(algorithm, segment, 1);
            let done: Vec<_> = members(size).map(|one| one.all_reduce_steps(bytes, &choice))
                .collect();
            let parts = done[0].1;
            let steps: Vec<_> = done.into_iter().map(|(steps, _)| steps).collect();
            let own = each(size, parts, |own, _| vec![own as u32]);
            for have in played(&steps, own, Meets::Combines) {
                for part in 0..parts {
                    prop_assert_eq!(&have[&part], &all(size), "{:?} among {}", algorithm, size);
                }
            }
        }
    }

    #[test]
    fn an_all_gather_delivers_every_part(size in group()) {
        for algorithm in ALL_GATHERS {
            let steps: Vec<_> = members(size).map(|one| one.all_gather_steps(algorithm)).collect();
            let own = each(size, size,
                |own, part| if own == part { vec![own as u32] } else { vec![] });
            for have in played(&steps, own, Meets::Replaces) {
                for part in 0..size {
                    prop_assert_eq!(&have[&part], &vec![part as u32], "{:?} among {}", algorithm,
                        size);
                }
            }
            for steps in &steps {
                prop_assert_eq!(sent(steps, |_| 10), 10 * (size as u64 - 1), "{:?} among {}",
                    algorithm, size);
            }
        }
    }

    #[test]
    fn an_all_to_all_delivers_each_part_to_its_rank(size in group(), number in 1..40u64) {
        for algorithm in [AllToAll::Bruck, AllToAll::Pairwise, AllToAll::Linear] {
            let choice = choice(algorithm, None, number);
            let steps: Vec<_> = members(size).map(|one| one.all_to_all_steps(&choice)).collect();
            // Part d of a member is for the one d places further: its token names both.
            let mark = |from: usize, to: usize| (from * size + to) as u32;
            let own = each(size, size, |own, distance| vec![mark(own, (own + distance) % size)]);
            for (own, have) in played(&steps, own, Meets::Replaces).iter().enumerate() {
                for distance in 1..size {
                    let from = (own + size - distance) % size;
                    prop_assert_eq!(&have[&distance], &vec![mark(from, own)], "{:?} among {}",
                        algorithm, size);
                }
            }
            let bits = |distance: usize| u64::from(distance.count_ones());
            let published = match algorithm {
                AllToAll::Bruck => (1..size).map(bits).sum::<u64>(),
                _ => size as u64 - 1,
            };
            for steps in &steps {
                prop_assert_eq!(sent(steps, |_| 1), published);
            }
        }
    }

    #[test]
    fn a_reduce_scatter_delivers_each_rank_its_part(size in group()) {
        for algorithm in REDUCE_SCATTERS {
            let steps: Vec<_> = members(size).map(|one| one.reduce_scatter_steps(algorithm))
                .collect();
            let own = each(size, size, |own, _| vec![own as u32]);
            for (own, have) in played(&steps, own, Meets::Combines).iter().enumerate() {
                prop_assert_eq!(&have[&own], &all(size), "{:?} among {}", algorithm, size);
            }
        }
    }

    #[test]
    fn scatter_and_gather_connect_the_root_with_every_rank(
        size in group(), root in 0..100usize, number in 1..6u64) {
        let root = root % size;
        for algorithm in [Rooted::Binomial, Rooted::Linear] {
            let choice = choice(algorithm, None, number);
            let down: Vec<_> = members(size).map(|one| one.rooted_steps(root, &choice)).collect();
            let behind = |own: usize| (own + size - root) % size;
            let whole = each(size, size,
                |own, part| if own == root { vec![part as u32] } else { vec![] });
            for (own, have) in played(&down, whole, Meets::Replaces).iter().enumerate() {
                prop_assert_eq!(&have[&behind(own)], &vec![behind(own) as u32], "{:?} among {}",
                    algorithm, size);
            }
            let up: Vec<_> = down.into_iter().map(Step::backwards).collect();
            let own = each(size, size,
                |own, part| if behind(own) == part { vec![part as u32] } else { vec![] });
            let have = &played(&up, own, Meets::Replaces)[root];
            for part in 0..size {
                prop_assert_eq!(&have[&part], &vec![part as u32], "{:?} among {}", algorithm, size);
            }
        }
    }

    #[test]
    fn a_barrier_releases_after_all_ranks_arrived(size in group()) {
        for algorithm in [Barrier::Dissemination, Barrier::RecursiveDoubling, Barrier::Tree,
            Barrier::Linear] {
            let steps: Vec<_> = members(size).map(|one| as_steps(&one.barrier_by(algorithm)))
                .collect();
            let own = each(size, 1, |own, _| vec![own as u32]);
            for have in played(&steps, own, Meets::Adds) {
                prop_assert_eq!(&have[&0], &all(size), "{:?} among {}", algorithm, size);
            }
        }
    }
}

/// Converts rounds without data to steps with one part per message.
fn as_steps(rounds: &[Round]) -> Vec<Step> {
    let heard = |end: Option<(usize, u64)>| end.map(|(peer, _)| (peer, vec![0]));
    let step = |round: &Round| Step {
        send: heard(round.send),
        receive: heard(round.receive),
        beside: round.beside,
    };
    rounds.iter().map(step).collect()
}

/// Thakur, Rabenseifner, Gropp (2005), for p members and n bytes: doubling sends n in lg p steps;
/// by parts, and around a ring, 2n(p-1)/p.
#[test]
fn reductions_send_the_published_volume() {
    for power in 1..8 {
        let size = 1usize << power;
        let bytes = 960 * size as u64;
        let of = |algorithm| {
            let (steps, parts) = Member {
                place: size - 1,
                size,
            }
            .all_reduce_steps(bytes, &choice(algorithm, None, 1));
            (steps.len(), sent(&steps, shares(bytes, parts)))
        };
        let by_parts = 2 * (bytes - bytes / size as u64);
        assert_eq!(
            of(AllReduce::RecursiveDoubling),
            (power, power as u64 * bytes)
        );
        assert_eq!(of(AllReduce::Rabenseifner), (2 * power, by_parts));
        assert_eq!(of(AllReduce::Ring), (2 * (size - 1), by_parts));
    }
}

/// Of p members, no power of two, p - 2^k stand aside, which costs two steps with the whole data.
#[test]
fn ranks_beyond_a_power_of_two_cost_two_messages() {
    let (size, bytes) = (11, 8 * 11 * 100);
    for place in 0..size {
        let member = Member { place, size };
        let (steps, parts) =
            member.all_reduce_steps(bytes, &choice(AllReduce::Rabenseifner, None, 1));
        assert_eq!(parts, 8);
        let (aside, inside) = (bytes, 2 * (bytes - bytes / 8));
        let expected = match place {
            1 | 3 | 5 => aside,
            0 | 2 | 4 => inside + bytes,
            _ => inside,
        };
        assert_eq!(sent(&steps, shares(bytes, parts)), expected, "{place}");
    }
}

/// A chain of n pieces through p members ends after n + p - 2 steps.
#[test]
fn a_chain_broadcast_is_pipelined() {
    let chain = choice(Broadcast::Chain, Some(100), 1);
    let steps = |place| Member { place, size: 5 }.broadcast_steps(0, 1000, &chain).0;
    // The middle members receive the next piece while they send the previous one.
    let beside = steps(2).iter().filter(|step| step.beside).count();
    assert_eq!(beside, 9);
    assert_eq!(steps(0).len(), 10);
    assert_eq!(steps(4).len(), 10);
}
