//! All-gather: every member gets every member's part. Parts are numbered by the place of their
//! origin.

use super::step::Step;
use super::{Member, Round};
use crate::profile::{AllGather, Mpi};

impl Member {
    /// Gathers the `bytes` of each member at all, by the library's choice; by default with Bruck's
    /// algorithm, or around a ring if the result exceeds the library's limit.
    pub fn all_gather(self, bytes: u64, library: &Mpi) -> Vec<Round> {
        let limit = library.all_gather_doubling;
        let by_size = || match limit.is_some_and(|most| self.size as u64 * bytes > most.0) {
            true => AllGather::Ring,
            false => AllGather::Bruck,
        };
        let choice = library.collectives.all_gather.of(bytes, self.size);
        let algorithm = choice.map_or_else(by_size, |choice| choice.algorithm);
        Step::rounds(&self.all_gather_steps(algorithm), |_| bytes)
    }

    pub(super) fn all_gather_steps(self, algorithm: AllGather) -> Vec<Step> {
        match algorithm {
            AllGather::RecursiveDoubling if self.size.is_power_of_two() => {
                self.doubling_gather(|place| place)
            }
            AllGather::Bruck | AllGather::RecursiveDoubling => self.bruck_gather(),
            AllGather::NeighborExchange if self.size.is_multiple_of(2) => self.neighbor_gather(),
            AllGather::Ring | AllGather::NeighborExchange => self.ring_gather(|place| vec![place]),
        }
    }

    /// Passes each part around a ring until all members have all parts.
    pub fn gather_round_a_ring(self, bytes_of: impl Fn(usize) -> u64) -> Vec<Round> {
        Step::rounds(&self.ring_gather(|place| vec![place]), bytes_of)
    }

    /// The same, with the parts `parts_of(place)` as the contribution of a member.
    pub(super) fn ring_gather(self, parts_of: impl Fn(usize) -> Vec<usize>) -> Vec<Step> {
        let step = |step| {
            let (own, next) = (self.before(step - 1), self.before(step));
            Step::exchange(
                (self.after(1), parts_of(own)),
                (self.before(1), parts_of(next)),
            )
        };
        (1..self.size).map(step).collect()
    }

    /// Each step doubles the parts that a member has; the last step sends the remainder.
    fn bruck_gather(self) -> Vec<Step> {
        let parts = |first: usize, count: usize| {
            (first..first + count)
                .map(|part| part % self.size)
                .collect()
        };
        let step = |have: usize| {
            let lacking = have.min(self.size - have);
            Step::exchange(
                (self.before(have), parts(self.place, lacking)),
                (self.after(have), parts(self.after(have), lacking)),
            )
        };
        self.doublings().map(step).collect()
    }

    /// For powers of two: groups of 1, 2, 4 members exchange their parts with the neighbouring
    /// group. `place_of` maps a member's number to its place.
    pub(super) fn doubling_gather(self, place_of: impl Fn(usize) -> usize) -> Vec<Step> {
        let step = |width: usize| {
            let peer = self.place ^ width;
            let group = |place: usize| {
                let first = place / width * width;
                (first..first + width).collect()
            };
            let to = place_of(peer);
            Step::exchange((to, group(self.place)), (to, group(peer)))
        };
        self.doublings().map(step).collect()
    }

    /// For even numbers: alternates between the neighbours on both sides, two parts at a time. Chen
    /// and others (2005), as in Open MPI's source, allgather_intra_neighborexchange.
    fn neighbor_gather(self) -> Vec<Step> {
        let even = self.place.is_multiple_of(2);
        let neighbors = match even {
            true => [self.after(1), self.before(1)],
            false => [self.before(1), self.after(1)],
        };
        // By neighbour: the first of the two parts that it sends next, and the distance to the two
        // after that.
        let first = self.place - self.place % 2;
        let mut next = [first; 2];
        let further = match even {
            true => [2, self.size - 2],
            false => [self.size - 2, 2],
        };
        let pair = |first: usize| vec![first, first + 1];
        let other = neighbors[0];
        let mut steps = vec![Step::exchange(
            (other, vec![self.place]),
            (other, vec![other]),
        )];
        let mut handed_on = first;
        for step in 1..self.size / 2 {
            let side = step % 2;
            next[side] = (next[side] + further[side]) % self.size;
            let peer = neighbors[side];
            steps.push(Step::exchange(
                (peer, pair(handed_on)),
                (peer, pair(next[side])),
            ));
            handed_on = next[side];
        }
        steps
    }
}
