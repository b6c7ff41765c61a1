//! One has a part for each, or gets one from each. Parts are numbered from the root on.

use super::step::Step;
use super::tree::Branch;
use super::{Member, Round};
use crate::profile::{Choice, Mpi, Rooted};

impl Member {
    /// `root` sends a part of `bytes` to each, as the library chooses; if it does not, down a tree.
    pub fn scatter_of(self, root: usize, bytes: u64, library: &Mpi) -> Vec<Round> {
        match library.collectives.scatter.of(bytes, self.size) {
            Some(choice) => Step::rounds(&self.rooted_steps(root, choice), |_| bytes),
            None => self.scatter(root, bytes),
        }
    }

    /// `root` gets a part of `bytes` of each, as the library chooses; if it does not, up a tree.
    pub fn gather_of(self, root: usize, bytes: u64, library: &Mpi) -> Vec<Round> {
        match library.collectives.gather.of(bytes, self.size) {
            Some(choice) => {
                let steps = Step::backwards(self.rooted_steps(root, choice));
                Step::rounds(&steps, |_| bytes)
            }
            None => self.gather(root, bytes),
        }
    }

    /// What a scatter does; a gather does it backwards.
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

    /// `root` sends a part of `bytes` to each: down a tree, to each what it and those below it get.
    pub fn scatter(self, root: usize, bytes: u64) -> Vec<Round> {
        self.down_a_tree(root, |members| members as u64 * bytes)
    }

    /// `root` gets a part of `bytes` of each: a scatter backwards.
    pub fn gather(self, root: usize, bytes: u64) -> Vec<Round> {
        self.up_a_tree(root, |members| members as u64 * bytes)
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
}
