//! The least time of a schedule on any machine with the same links.

use super::schedule::{Action, Schedule};
use crate::job::cyclic;
use crate::least::{Instant, Instants};
use std::collections::{BTreeMap, HashMap, VecDeque};
use verbena_model::kernel::Time;

/// The sends of a sender, receiver and tag that no receive has taken: instant and bytes.
type Sent = HashMap<(usize, usize, u32), VecDeque<(Instant, u64)>>;

/// Returns the least time of a schedule whose ranks are distributed round-robin over `nodes` nodes;
/// `wire` has the time of a message of so many bytes on a node's link.
///
/// Messages with the same sender, receiver and tag are matched in the order of the text; those of a
/// rank that receives from any rank or with any tag do not count.
pub fn least(schedule: &Schedule, nodes: usize, wire: impl Fn(u64) -> Time) -> Time {
    let placement = cyclic(schedule.ranks, nodes.max(1));
    let mut instants = Instants::default();
    // The instants of operations: the end of a calculation, otherwise the begin.
    let mut of: BTreeMap<usize, Vec<Instant>> = BTreeMap::new();
    let mut sent = Sent::new();
    for (&rank, operations) in &schedule.operations {
        let all: Vec<Instant> = operations.iter().map(|_| instants.add(&[])).collect();
        for (one, &at) in operations.iter().zip(&all) {
            match one.action {
                Action::Calculate { nanos } => instants.computes(at, Time(nanos * 1000)),
                Action::Send { to, bytes, tag } => {
                    let alike = sent.entry((rank, to, tag)).or_default();
                    alike.push_back((at, bytes));
                }
                Action::Receive { .. } => {}
            }
        }
        of.insert(rank, all);
    }
    for (&rank, operations) in &schedule.operations {
        let all = &of[&rank];
        // The message of each receive.
        let taken: Vec<Option<(Instant, Time)>> = operations
            .iter()
            .map(|one| match one.action {
                Action::Receive {
                    from: Some(from),
                    tag: Some(tag),
                    ..
                } => {
                    let (at, bytes) = sent.get_mut(&(from, rank, tag))?.pop_front()?;
                    let is_near = placement.get(from) == placement.get(rank);
                    let time = if is_near { Time::ZERO } else { wire(bytes) };
                    Some((at, time))
                }
                _ => None,
            })
            .collect();
        let is_any = operations.iter().any(|one| {
            let Action::Receive { from, tag, .. } = one.action else {
                return false;
            };
            from.is_none() || tag.is_none()
        });
        let arrived = |number: usize| taken[number].filter(|_| !is_any);
        let end = instants.add(all);
        for (number, one) in operations.iter().enumerate() {
            for &earlier in &one.requires {
                instants.follows(all[number], all[earlier]);
                if let Some((at, time)) = arrived(earlier) {
                    instants.arrives(all[number], at, time);
                }
            }
            for &earlier in &one.requires_begun {
                if !matches!(operations[earlier].action, Action::Calculate { .. }) {
                    instants.follows(all[number], all[earlier]);
                }
            }
            if let Some((at, time)) = arrived(number) {
                instants.arrives(end, at, time);
            }
        }
    }
    instants.last()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, nodes: usize) -> u64 {
        let schedule = Schedule::read(text).expect("is a schedule");
        least(&schedule, nodes, Time).0
    }

    #[test]
    fn computing_and_the_bytes_of_a_link_add_up() {
        // Two exchanges, each after 1 ns: 1000 ps and 500 bytes at a byte a picosecond.
        let rank = |peers: [usize; 2]| {
            let mut text = String::new();
            for step in 0..2 {
                text += &format!("c{step}: calc 1\n");
                for (way, peer) in peers.iter().enumerate() {
                    text += &format!("s{step}w{way}: send 250b to {peer} tag 0\n");
                    text += &format!("r{step}w{way}: recv 250b from {peer} tag 0\n");
                    text += &format!("s{step}w{way} requires c{step}\n");
                    if step > 0 {
                        text += &format!("c1 requires r0w{way}\n");
                    }
                }
            }
            text
        };
        let text = format!(
            "num_ranks 3\nrank 0 {{\n{}}}\nrank 1 {{\n{}}}\nrank 2 {{\n{}}}\n",
            rank([1, 2]),
            rank([0, 2]),
            rank([0, 1])
        );
        assert_eq!(of(&text, 3), 3000);
        // On one node the messages take no link.
        assert_eq!(of(&text, 1), 2000);
    }

    #[test]
    fn wildcards_do_not_count() {
        let text = |receive: &str| {
            format!("num_ranks 2\nrank 0 {{\nsend 700b to 1 tag 3\n}}\nrank 1 {{\n{receive}\n}}\n")
        };
        assert_eq!(of(&text("recv 700b from 0 tag 3"), 2), 700);
        assert_eq!(of(&text("recv 700b from -1 tag 3"), 2), 0);
    }
}
