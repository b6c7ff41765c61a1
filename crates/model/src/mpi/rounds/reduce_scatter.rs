//! Reduce-scatter: each member gets a part of the combination of all contributions. Parts are
//! numbered by the place of their destination.

use super::step::Step;
use super::{Member, Round, shares};
use crate::profile::{Mpi, ReduceScatter};

impl Member {
    /// Gives each member a part of `part` bytes, by the library's choice; by default with recursive
    /// halving for powers of two, else pairwise.
    pub fn reduce_scatter_of(self, part: u64, library: &Mpi) -> Vec<Round> {
        match library.collectives.reduce_scatter.of(part, self.size) {
            Some(choice) if choice.algorithm == ReduceScatter::ReduceThenScatter => {
                let mut rounds = self.reduce(0, part * self.size as u64);
                rounds.extend(self.scatter(0, part));
                rounds
            }
            Some(choice) => Step::rounds(&self.reduce_scatter_steps(choice.algorithm), |_| part),
            None => self.reduce_scatter(part),
        }
    }

    /// Gives each member a part of `part` bytes: recursive halving for powers of two, else
    /// pairwise.
    pub fn reduce_scatter(self, part: u64) -> Vec<Round> {
        match self.size.is_power_of_two() {
            true => Step::rounds(&self.halving_steps(), |_| part),
            false => self.pairwise(|_| part, |_| part),
        }
    }

    /// Combines `bytes` around a ring; each member gets a part, as equal as possible.
    pub fn reduce_scatter_round_a_ring(self, bytes: u64) -> Vec<Round> {
        let steps = self.reduce_scatter_steps(ReduceScatter::Ring);
        Step::rounds(&steps, shares(bytes, self.size))
    }

    pub(super) fn reduce_scatter_steps(self, algorithm: ReduceScatter) -> Vec<Step> {
        match algorithm {
            ReduceScatter::RecursiveHalving | ReduceScatter::ReduceThenScatter => {
                self.halving_steps()
            }
            ReduceScatter::Pairwise => {
                let step = |distance| {
                    let (to, from) = (self.after(distance), self.before(distance));
                    Step::exchange((to, vec![to]), (from, vec![self.place]))
                };
                (1..self.size).map(step).collect()
            }
            ReduceScatter::Ring => {
                let step = |step| {
                    Step::exchange(
                        (self.after(1), vec![self.before(step)]),
                        (self.before(1), vec![self.before(step + 1)]),
                    )
                };
                (1..self.size).map(step).collect()
            }
        }
    }

    /// Sends the half needed by other members to one of them, starting at the largest distance; if
    /// the size is no power of two, some members stand aside.
    fn halving_steps(self) -> Vec<Step> {
        let all: Vec<_> = (0..self.size).collect();
        self.with_those_aside(
            &all,
            |place| vec![place],
            |inside| {
                let parts = |first: usize, width: usize| -> Vec<usize> {
                    let members = first..first + width;
                    members.flat_map(|one| self.parts_inside(one)).collect()
                };
                let step = |width: usize| {
                    let peer = inside.place ^ width;
                    let half = |place: usize| parts(place / width * width, width);
                    let to = self.unfolded(peer);
                    Step::exchange((to, half(peer)), (to, half(inside.place)))
                };
                inside.doublings().rev().map(step).collect()
            },
        )
    }
}
