//! Scatter and gather: one member has a part for each, or gets one from each. Parts are numbered by
//! the distance from the root.

use super::step::Step;
use super::tree::Branch;
use super::{Member, Round};
use crate::profile::{Choice, Mpi, Rooted};

impl Member {
    /// Sends a part of `bytes` from `root` to each member, by the library's choice; by default down
    /// a tree.
    pub fn scatter_of(self, root: usize, bytes: u64, library: &Mpi) -> Vec<Round> {
        match library.collectives.scatter.of(bytes, self.size) {
            Some(choice) => Step::rounds(&self.rooted_steps(root, choice), |_| bytes),
            None => self.scatter(root, bytes),
        }
    }

    /// Sends a part of `bytes` from each member to `root`, by the library's choice; by default up a
    /// tree.
    pub fn gather_of(self, root: usize, bytes: u64, library: &Mpi) -> Vec<Round> {
        match library.collectives.gather.of(bytes, self.size) {
            Some(choice) => {
                let steps = Step::backwards(self.rooted_steps(root, choice));
                Step::rounds(&steps, |_| bytes)
            }
            None => self.gather(root, bytes),
        }
    }

    /// Returns the steps of a scatter; a gather runs them backwards.
    pub(super) fn rooted_steps(self, root: usize, choice: &Choice<Rooted>) -> Vec<Step> {
        match choice.algorithm {
            Rooted::Binomial => self.scatter_steps(root),
            Rooted::Linear => {
                let part = |place: usize| (place + self.size - root) % self.size;
                if self.place != root {
                    return vec![Step::receive(root, vec![part(self.place)])];
                }
                let below = self.branch(root, Branch::star).below.into_iter();
                let place = |behind: usize| (behind + root) % self.size;
                let sends = below.map(|behind| Step::send(place(behind), vec![behind]));
                Step::in_batches(sends.collect(), choice.at_once(self.size))
            }
        }
    }

    /// Sends a part of `bytes` from `root` to each member down a tree: each gets the parts of its
    /// subtree.
    pub fn scatter(self, root: usize, bytes: u64) -> Vec<Round> {
        self.down_a_tree(root, |members| members as u64 * bytes)
    }

    /// Sends a part of `bytes` from each member to `root`: a scatter backwards.
    pub fn gather(self, root: usize, bytes: u64) -> Vec<Round> {
        self.up_a_tree(root, |members| members as u64 * bytes)
    }

    /// Sends each member its part directly from `root`, one after another; this member's part has
    /// `own` bytes.
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

    /// Sends each member's part directly to `root`: a scatter backwards.
    pub fn gather_directly(
        self,
        root: usize,
        bytes_of: impl Fn(usize) -> u64,
        own: u64,
    ) -> Vec<Round> {
        let scattered = self.scatter_directly(root, bytes_of, own);
        scattered.into_iter().map(Round::backwards).collect()
    }
}
