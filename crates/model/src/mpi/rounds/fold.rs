//! Numbers of members that are no powers of two: some hand what they have to a neighbor, stand aside, and are told the result.

use super::Member;
use super::step::Step;

/// What a member is while others stand aside.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fold {
    /// One of a power of two, with that member behind it, if it has one.
    Inside(Member, Option<usize>),
    /// It has left what it had to this one.
    Aside(usize),
}

impl Member {
    /// Members in twos until the others are a power of two. The first of two stays, so place 0 always does.
    pub(super) fn folded(self) -> Fold {
        let size = 1 << self.size.ilog2();
        let pairs = self.size - size;
        match (self.place < 2 * pairs, self.place % 2) {
            (true, 0) => {
                let place = self.place / 2;
                Fold::Inside(Member { place, size }, Some(self.place + 1))
            }
            (true, _) => Fold::Aside(self.place - 1),
            (false, _) => {
                let place = self.place - pairs;
                Fold::Inside(Member { place, size }, None)
            }
        }
    }

    /// The place of one of those that are inside.
    pub(super) fn unfolded(self, inside: usize) -> usize {
        let pairs = self.size - (1 << self.size.ilog2());
        match inside < pairs {
            true => 2 * inside,
            false => inside + pairs,
        }
    }

    /// The parts that are for one of those inside and who stands aside for it, when each member has a part by its place.
    pub(super) fn parts_inside(self, inside: usize) -> Vec<usize> {
        let first = self.unfolded(inside);
        let pairs = self.size - (1 << self.size.ilog2());
        match inside < pairs {
            true => vec![first, first + 1],
            false => vec![first],
        }
    }

    /// An operation of a power of two, with those aside: they hand over `before` and get what `after` says of their place.
    pub(super) fn with_those_aside(
        self,
        before: &[usize],
        after: impl Fn(usize) -> Vec<usize>,
        inside: impl FnOnce(Member) -> Vec<Step>,
    ) -> Vec<Step> {
        match self.folded() {
            Fold::Aside(keeper) => {
                let mut steps = vec![Step::send(keeper, before.to_vec())];
                let back = after(self.place);
                if !back.is_empty() {
                    steps.push(Step::receive(keeper, back));
                }
                steps
            }
            Fold::Inside(member, behind) => {
                let mut steps = Vec::new();
                if let Some(behind) = behind {
                    steps.push(Step::receive(behind, before.to_vec()));
                }
                steps.extend(inside(member));
                let back = behind.map(|behind| (behind, after(behind)));
                if let Some((behind, back)) = back.filter(|(_, back)| !back.is_empty()) {
                    steps.push(Step::send(behind, back));
                }
                steps
            }
        }
    }
}
