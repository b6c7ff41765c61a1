//! All-to-all: each member has a part for each. Parts are numbered by the distance from their
//! origin to their destination.

use super::broadcast::MANY;
use super::step::Step;
use super::{Member, Round};
use crate::profile::{AllToAll, Choice, Mpi};

impl Member {
    /// Sends `bytes` from each member to each, by the library's choice; by default pairwise, or
    /// forwarded through other members up to the library's limit.
    pub fn all_to_all(self, bytes: u64, library: &Mpi) -> Vec<Round> {
        if let Some(choice) = library.collectives.all_to_all.of(bytes, self.size) {
            return Step::rounds(&self.all_to_all_steps(choice), |_| bytes);
        }
        let limit = library.all_to_all_forwarding;
        match self.size >= MANY && limit.is_some_and(|most| bytes <= most.0) {
            true => Step::rounds(&self.forwarded(), |_| bytes),
            false => self.pairwise(|_| bytes, |_| bytes),
        }
    }

    /// Exchanges parts with one partner after another.
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

    pub(super) fn all_to_all_steps(self, choice: &Choice<AllToAll>) -> Vec<Step> {
        let direct = |distance: usize| {
            Step::exchange(
                (self.after(distance), vec![distance]),
                (self.before(distance), vec![distance]),
            )
        };
        let directly = || (1..self.size).map(direct).collect();
        match choice.algorithm {
            AllToAll::Pairwise => directly(),
            AllToAll::Linear => Step::in_batches(directly(), choice.at_once(self.size)),
            AllToAll::Bruck => self.forwarded(),
        }
    }

    /// Bruck's algorithm: step k sends all parts whose distance has bit k set to the member at
    /// distance 2^k.
    fn forwarded(self) -> Vec<Step> {
        let step = |width: usize| {
            let parts: Vec<_> = (1..self.size)
                .filter(|distance| distance & width != 0)
                .collect();
            Step::exchange(
                (self.after(width), parts.clone()),
                (self.before(width), parts),
            )
        };
        self.doublings().map(step).collect()
    }
}
