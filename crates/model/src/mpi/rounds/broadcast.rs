//! Broadcast: one member's data go to all.

use super::step::Step;
use super::tree::Branch;
use super::{Member, Round, pieces, shares};
use crate::profile::{Broadcast, Choice, Mpi};

/// Number of ranks from which indirect algorithms are used (MPIR_BCAST_MIN_PROCS).
pub(super) const MANY: usize = 8;

impl Member {
    /// Sends `bytes` of `root` to all, by the library's choice; by default whole down a tree, or
    /// above the library's limit as a scatter and an all-gather.
    pub fn broadcast(self, root: usize, bytes: u64, library: &Mpi) -> Vec<Round> {
        if let Some(choice) = library.collectives.broadcast.of(bytes, self.size) {
            let (steps, parts) = self.broadcast_steps(root, bytes, choice);
            return Step::rounds(&steps, shares(bytes, parts));
        }
        let limit = library.broadcast_whole;
        if self.size < MANY || limit.is_none_or(|most| bytes <= most.0) {
            return self.broadcast_whole(root, bytes);
        }
        Step::rounds(&self.scatter_and_ring(root), shares(bytes, self.size))
    }

    /// Sends `bytes` down a binomial tree.
    pub fn broadcast_whole(self, root: usize, bytes: u64) -> Vec<Round> {
        self.down_a_tree(root, |_| bytes)
    }

    /// Returns the steps, and the number of parts that the data are divided into.
    pub(super) fn broadcast_steps(
        self,
        root: usize,
        bytes: u64,
        choice: &Choice<Broadcast>,
    ) -> (Vec<Step>, usize) {
        let count = pieces(bytes, choice.segment);
        let each: Vec<_> = (0..count).collect();
        let tree = |branch: Branch| (self.down(root, &branch, &each), count);
        if self.size == 1 {
            return (Vec::new(), 1);
        }
        match choice.algorithm {
            Broadcast::Linear => {
                let steps = self.down(root, &self.branch(root, Branch::star), &[0]);
                (Step::in_batches(steps, choice.at_once(self.size)), 1)
            }
            Broadcast::Chain => tree(self.branch(root, Branch::chain)),
            Broadcast::Binary => tree(self.branch(root, Branch::binary)),
            Broadcast::Knomial => {
                let radix = choice.radix();
                tree(self.branch(root, |place, size| Branch::knomial(place, size, radix)))
            }
            Broadcast::SplitBinary => self.split_binary(root, bytes, choice),
            Broadcast::Binomial => {
                let steps = self.scatter_steps(root).into_iter().map(Step::whole);
                (steps.collect(), 1)
            }
            Broadcast::ScatterDoubling if self.size.is_power_of_two() => {
                let mut steps = self.scatter_steps(root);
                let behind = Member {
                    place: self.before(root),
                    size: self.size,
                };
                let place = |behind: usize| (behind + root) % self.size;
                steps.extend(behind.doubling_gather(place));
                (steps, self.size)
            }
            Broadcast::ScatterRing | Broadcast::ScatterDoubling => {
                (self.scatter_and_ring(root), self.size)
            }
        }
    }

    fn scatter_and_ring(self, root: usize) -> Vec<Step> {
        let mut steps = self.scatter_steps(root);
        let part = |place: usize| (place + self.size - root) % self.size;
        steps.extend(self.ring_gather(|place| vec![part(place)]));
        steps
    }

    /// One half goes down each side of a binary tree; then pairs of members from both sides
    /// exchange their halves. Open MPI's source, bcast_intra_split_bintree.
    fn split_binary(
        self,
        root: usize,
        bytes: u64,
        choice: &Choice<Broadcast>,
    ) -> (Vec<Step>, usize) {
        let half = pieces(bytes.div_ceil(2), choice.segment);
        let halves = [(0..half).collect::<Vec<_>>(), (half..2 * half).collect()];
        let own = self.before(root);
        let place = |behind: usize| (behind + root) % self.size;
        let branch = self.branch(root, Branch::binary);
        // With an even number of members the last has no partner: it gets the other half from the
        // root.
        let lonely = self.size.is_multiple_of(2).then_some(self.size - 1);
        let mut steps = Vec::new();
        if own == 0 {
            for piece in 0..half {
                let to = branch.below.iter().zip(&halves);
                let sends = to.map(|(&below, half)| Step::send(place(below), vec![half[piece]]));
                steps.extend(Step::at_once(sends.collect()));
            }
            if let Some(lonely) = lonely {
                steps.push(Step::send(place(lonely), halves[1].clone()));
            }
            return (steps, 2 * half);
        }
        let [mine, lacking] = match own % 2 {
            1 => [&halves[0], &halves[1]],
            _ => [&halves[1], &halves[0]],
        };
        steps = self.down(root, &branch, mine);
        if lonely == Some(own) {
            steps.push(Step::receive(root, lacking.clone()));
        } else {
            let other = if own % 2 == 1 { own + 1 } else { own - 1 };
            let (send, receive) = (
                (place(other), mine.clone()),
                (place(other), lacking.clone()),
            );
            steps.push(Step::exchange(send, receive));
        }
        (steps, 2 * half)
    }
}
