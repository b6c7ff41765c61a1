//! Folding for group sizes that are no power of two: some members hand their data to a neighbour,
//! stand aside, and receive the result.

use super::Member;
use super::step::Step;

/// Role of a member while others stand aside.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fold {
    /// Member of the remaining power of two, with the place of the member that stands aside for it,
    /// if any.
    Inside(Member, Option<usize>),
    /// Stands aside; its data are with the given place.
    Aside(usize),
}

impl Member {
    /// Pairs members until their number is a power of two. The first of each pair stays, so place 0
    /// always does.
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

    /// Returns the place of a remaining member.
    pub(super) fn unfolded(self, inside: usize) -> usize {
        let pairs = self.size - (1 << self.size.ilog2());
        match inside < pairs {
            true => 2 * inside,
            false => inside + pairs,
        }
    }

    /// Returns the parts of a remaining member and of the one that stands aside for it, if each
    /// member has one part, numbered by place.
    pub(super) fn parts_inside(self, inside: usize) -> Vec<usize> {
        let first = self.unfolded(inside);
        let pairs = self.size - (1 << self.size.ilog2());
        match inside < pairs {
            true => vec![first, first + 1],
            false => vec![first],
        }
    }

    /// Wraps an operation for a power of two: members aside hand over the parts `before` and
    /// receive the parts `after(place)`.
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
