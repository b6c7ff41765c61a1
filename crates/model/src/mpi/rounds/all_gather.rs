//! All get what each has. Parts are numbered by the place of whom they are from.

use super::step::Step;
use super::{Member, Round};
use crate::profile::{AllGather, Mpi};

impl Member {
    /// All get the `bytes` of each, as the library chooses; if it does not, Bruck's way, or above its limit, which is of the result, round a
    /// ring.
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

    /// Each hands on what it got from its neighbor before, until all have what each had.
    pub fn gather_round_a_ring(self, bytes_of: impl Fn(usize) -> u64) -> Vec<Round> {
        Step::rounds(&self.ring_gather(|place| vec![place]), bytes_of)
    }

    /// The same; what each has is `parts_of` its place.
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

    /// Each step doubles what a member has, but the last one: there it lacks less than that.
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

    /// Powers of two: what groups of 1, 2, 4 have together goes to the group beside. `place_of` a number is where to send.
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

    /// Even numbers: with the neighbor of one side and then of the other, two parts at a time. Chen and others (2005), as in Open MPI's
    /// source, allgather_intra_neighborexchange.
    fn neighbor_gather(self) -> Vec<Step> {
        let even = self.place.is_multiple_of(2);
        let neighbors = match even {
            true => [self.after(1), self.before(1)],
            false => [self.before(1), self.after(1)],
        };
        // The pair whose parts come next from either neighbor, and how much further away the one after that is.
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
