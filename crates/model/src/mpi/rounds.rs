//! Collective operations as rounds: what a member of a group sends and receives, one round after the other. The algorithms are those
//! that MPICH uses, chosen as its libraries choose: by the size of the message and the number of ranks. What combining costs a
//! processor is not counted.
//!
//! Thakur, Rabenseifner, Gropp: Optimization of collective communication operations in MPICH (2005).

use crate::profile::Mpi;

/// Ranks from which on other ways than the direct one are taken (MPIR_BCAST_MIN_PROCS).
const MANY: usize = 8;

/// What a member does at the same time; members are named by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// To whom it sends how many bytes.
    pub send: Option<(usize, u64)>,
    /// From whom it receives how many.
    pub receive: Option<(usize, u64)>,
}

impl Round {
    fn exchange(send: (usize, u64), receive: (usize, u64)) -> Round {
        Round {
            send: Some(send),
            receive: Some(receive),
        }
    }

    fn send(to: usize, bytes: u64) -> Round {
        Round {
            send: Some((to, bytes)),
            receive: None,
        }
    }

    fn receive(from: usize, bytes: u64) -> Round {
        Round {
            send: None,
            receive: Some((from, bytes)),
        }
    }

    fn backwards(self) -> Round {
        Round {
            send: self.receive,
            receive: self.send,
        }
    }
}

/// A member of a group, and what it does in the group's operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its place.
    pub place: usize,
    /// How many there are.
    pub size: usize,
}

impl Member {
    fn after(self, distance: usize) -> usize {
        (self.place + distance) % self.size
    }

    fn before(self, distance: usize) -> usize {
        (self.place + self.size - distance) % self.size
    }

    /// Distances 1, 2, 4 and so on within the group.
    fn doublings(self) -> impl DoubleEndedIterator<Item = usize> {
        let all = usize::BITS - (self.size - 1).leading_zeros();
        (0..all).map(|power| 1 << power)
    }

    /// Both have as much for each other.
    fn with(self, peer: usize, bytes: u64) -> Round {
        Round::exchange((peer, bytes), (peer, bytes))
    }

    /// As much goes so far on as comes from so far back.
    fn handed_on(self, distance: usize, bytes: u64) -> Round {
        Round::exchange(
            (self.after(distance), bytes),
            (self.before(distance), bytes),
        )
    }

    /// Waits for all: dissemination.
    pub fn barrier(self) -> Vec<Round> {
        self.dissemination(0)
    }

    fn dissemination(self, bytes: u64) -> Vec<Round> {
        let round = |distance| self.handed_on(distance, bytes);
        self.doublings().map(round).collect()
    }

    /// Combines `bytes` of all: for powers of two recursive doubling or, above the library's limit, Rabenseifner's way; else as long as
    /// dissemination takes.
    pub fn all_reduce(self, bytes: u64, library: &Mpi) -> Vec<Round> {
        if !self.size.is_power_of_two() {
            return self.dissemination(bytes);
        }
        let limit = library.all_reduce_doubling;
        if limit.is_some_and(|most| bytes > most.0) {
            return self.all_reduce_by_parts(bytes);
        }
        let round = |distance| self.with(self.place ^ distance, bytes);
        self.doublings().map(round).collect()
    }

    /// Each combines a part, recursively halved, and the parts are gathered by recursive doubling.
    fn all_reduce_by_parts(self, bytes: u64) -> Vec<Round> {
        let mut rounds = self.reduce_scatter_halving(bytes);
        let last = rounds.last().and_then(|last| last.send);
        let mut part = last.map_or(bytes, |(_, part)| part);
        for distance in self.doublings() {
            rounds.push(self.with(self.place ^ distance, part));
            part *= 2;
        }
        rounds
    }

    fn reduce_scatter_halving(self, bytes: u64) -> Vec<Round> {
        let mut part = bytes;
        let round = |distance: usize| {
            part = part.div_ceil(2);
            self.with(self.place ^ distance, part)
        };
        self.doublings().rev().map(round).collect()
    }

    /// Each gets a part of so many bytes of what all have: recursive halving for powers of two, else pairwise.
    pub fn reduce_scatter(self, part: u64) -> Vec<Round> {
        match self.size.is_power_of_two() {
            true => self.reduce_scatter_halving(part * self.size as u64),
            false => self.pairwise(|_| part, |_| part),
        }
    }

    /// Every one sends `bytes` to every one: pairwise exchange, or by way of others up to the library's limit.
    pub fn all_to_all(self, bytes: u64, library: &Mpi) -> Vec<Round> {
        let limit = library.all_to_all_forwarding;
        match self.size >= MANY && limit.is_some_and(|most| bytes <= most.0) {
            true => self.all_to_all_forwarded(bytes),
            false => self.pairwise(|_| bytes, |_| bytes),
        }
    }

    /// Sends to each what is for it, and gets from each what it has for this one.
    pub fn pairwise(
        self,
        bytes_for: impl Fn(usize) -> u64,
        bytes_of: impl Fn(usize) -> u64,
    ) -> Vec<Round> {
        let round = |step| {
            let (to, from) = (self.after(step), self.before(step));
            Round::exchange((to, bytes_for(to)), (from, bytes_of(from)))
        };
        (1..self.size).map(round).collect()
    }

    /// Bruck's way: in step k go all blocks whose distance has bit k, to the one that is 2^k further.
    fn all_to_all_forwarded(self, bytes: u64) -> Vec<Round> {
        let round = |step: usize| {
            let blocks = (1..self.size).filter(|distance| distance & step != 0);
            self.handed_on(step, blocks.count() as u64 * bytes)
        };
        self.doublings().map(round).collect()
    }

    /// `root` sends `bytes` to all: whole down a tree, or above the library's limit in parts that all then gather.
    pub fn broadcast(self, root: usize, bytes: u64, library: &Mpi) -> Vec<Round> {
        let limit = library.broadcast_whole;
        if self.size < MANY || limit.is_none_or(|most| bytes <= most.0) {
            return self.broadcast_whole(root, bytes);
        }
        let part = bytes.div_ceil(self.size as u64);
        let mut rounds = self.scatter(root, part);
        rounds.extend(self.gather_round_a_ring(|_| part));
        rounds
    }

    /// Down a binomial tree.
    pub fn broadcast_whole(self, root: usize, bytes: u64) -> Vec<Round> {
        self.down_a_tree(root, |_| bytes)
    }

    /// `root` sends a part of `bytes` to each: down a tree, to each what it and those below it get.
    pub fn scatter(self, root: usize, bytes: u64) -> Vec<Round> {
        self.down_a_tree(root, |members| members as u64 * bytes)
    }

    /// `root` gets a part of `bytes` of each: a scatter backwards.
    pub fn gather(self, root: usize, bytes: u64) -> Vec<Round> {
        self.up_a_tree(root, |members| members as u64 * bytes)
    }

    /// `root` gets the combination of `bytes` of all: a broadcast backwards.
    pub fn reduce(self, root: usize, bytes: u64) -> Vec<Round> {
        self.up_a_tree(root, |_| bytes)
    }

    /// Down a binomial tree goes to each branch what is for so many members.
    fn down_a_tree(self, root: usize, bytes_for: impl Fn(usize) -> u64) -> Vec<Round> {
        let relative = self.before(root);
        let place = |relative: usize| (relative + root) % self.size;
        // A branch that begins here has as many members as its distance from above, or as there are.
        let branch = |begin: usize, mask: usize| bytes_for(mask.min(self.size - begin));
        let above = self.doublings().find(|mask| relative & mask != 0);
        let mut rounds = Vec::new();
        if let Some(mask) = above {
            rounds.push(Round::receive(
                place(relative - mask),
                branch(relative, mask),
            ));
        }
        let below = |mask: &usize| above.is_none_or(|above| *mask < above);
        for mask in self.doublings().rev().filter(below) {
            let begin = relative + mask;
            if begin < self.size {
                rounds.push(Round::send(place(begin), branch(begin, mask)));
            }
        }
        rounds
    }

    fn up_a_tree(self, root: usize, bytes_for: impl Fn(usize) -> u64) -> Vec<Round> {
        let down = self.down_a_tree(root, bytes_for);
        down.into_iter().rev().map(Round::backwards).collect()
    }

    /// All get the `bytes` of each: Bruck's way, or above the library's limit, which is of the result, round a ring.
    pub fn all_gather(self, bytes: u64, library: &Mpi) -> Vec<Round> {
        let limit = library.all_gather_doubling;
        if limit.is_some_and(|most| self.size as u64 * bytes > most.0) {
            return self.gather_round_a_ring(|_| bytes);
        }
        // Each step doubles what a rank has, but the last one: there it lacks less than that.
        let round = |have: usize| {
            let lacking = have.min(self.size - have) as u64 * bytes;
            Round::exchange((self.before(have), lacking), (self.after(have), lacking))
        };
        self.doublings().map(round).collect()
    }

    /// Each hands on what it got from its neighbour before, until all have what each had.
    pub fn gather_round_a_ring(self, bytes_of: impl Fn(usize) -> u64) -> Vec<Round> {
        let round = |step| {
            let (own, next) = (self.before(step - 1), self.before(step));
            Round::exchange(
                (self.after(1), bytes_of(own)),
                (self.before(1), bytes_of(next)),
            )
        };
        (1..self.size).map(round).collect()
    }

    /// `root` sends to each its own part, one after the other; this one's is `own`.
    pub fn scatter_directly(
        self,
        root: usize,
        bytes_for: impl Fn(usize) -> u64,
        own: u64,
    ) -> Vec<Round> {
        let send = |to| Round::send(to, bytes_for(to));
        match self.place == root {
            true => self.others().map(send).collect(),
            false => vec![Round::receive(root, own)],
        }
    }

    /// `root` gets the part of each: a scatter backwards.
    pub fn gather_directly(
        self,
        root: usize,
        bytes_of: impl Fn(usize) -> u64,
        own: u64,
    ) -> Vec<Round> {
        let scattered = self.scatter_directly(root, bytes_of, own);
        scattered.into_iter().map(Round::backwards).collect()
    }

    fn others(self) -> impl Iterator<Item = usize> {
        (0..self.size).filter(move |&place| place != self.place)
    }

    /// Each gets the combination of `bytes` of those before it: recursive doubling.
    pub fn scan(self, bytes: u64) -> Vec<Round> {
        let peers = self.doublings().map(|distance| self.place ^ distance);
        let present = peers.filter(|&peer| peer < self.size);
        present.map(|peer| self.with(peer, bytes)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Library, Overrides};
    use std::collections::VecDeque;

    fn library() -> Mpi {
        let shipped = Library::shipped(&Overrides::none());
        let system = shipped.and_then(|library| library.system("connectx-qdr"));
        system
            .expect("a shipped system")
            .mpi
            .expect("it has a library")
    }

    /// A message: its length, and what its sender knew.
    type Letter = (u64, Vec<bool>);

    /// Plays a group's rounds, each member's in their order, and gives what each member then knows of whom.
    fn played(all: Vec<Vec<Round>>) -> Vec<Vec<bool>> {
        let size = all.len();
        let mut left: Vec<VecDeque<Round>> = all.into_iter().map(VecDeque::from).collect();
        let mut known: Vec<Vec<bool>> = (0..size)
            .map(|own| (0..size).map(|other| own == other).collect())
            .collect();
        let mut sent = vec![false; size];
        let mut ways = vec![vec![VecDeque::<Letter>::new(); size]; size];
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
            "somebody waits for what never comes"
        );
        assert!(
            ways.iter().flatten().all(VecDeque::is_empty),
            "something is received by nobody"
        );
        known
    }

    fn group(size: usize, rounds: impl Fn(Member) -> Vec<Round>) -> Vec<Vec<bool>> {
        played(
            (0..size)
                .map(|place| rounds(Member { place, size }))
                .collect(),
        )
    }

    #[test]
    fn all_hear_of_all_that_they_should() {
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

    /// What a scatter takes out of its root, and a gather brings there, is everybody's part but the root's own.
    #[test]
    fn trees_carry_each_part_once_to_its_branch() {
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
}
