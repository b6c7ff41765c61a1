//! Barrier.

use super::step::Step;
use super::tree::Branch;
use super::{Member, Round};
use crate::profile::{Barrier, Mpi};

impl Member {
    /// Waits for all members, by the library's choice; by default with dissemination.
    pub fn barrier_of(self, library: &Mpi) -> Vec<Round> {
        let choice = library.collectives.barrier.of(0, self.size);
        choice.map_or_else(
            || self.barrier(),
            |choice| self.barrier_by(choice.algorithm),
        )
    }

    /// Waits for all members with dissemination.
    pub fn barrier(self) -> Vec<Round> {
        self.dissemination(0)
    }

    pub(super) fn barrier_by(self, algorithm: Barrier) -> Vec<Round> {
        if self.size == 1 {
            return Vec::new();
        }
        match algorithm {
            Barrier::Dissemination => self.barrier(),
            Barrier::RecursiveDoubling => Step::rounds(&self.doubling_steps(), |_| 0),
            Barrier::Tree => {
                let mut rounds = self.up_a_tree(0, |_| 0);
                rounds.extend(self.down_a_tree(0, |_| 0));
                rounds
            }
            Barrier::Linear => {
                let branch = self.branch(0, Branch::star);
                let down = self.down(0, &branch, &[0]);
                let mut steps = Step::backwards(down.clone());
                steps.extend(down);
                Step::rounds(&steps, |_| 0)
            }
        }
    }

    pub(super) fn dissemination(self, bytes: u64) -> Vec<Round> {
        let round = |distance| self.handed_on(distance, bytes);
        self.doublings().map(round).collect()
    }
}
