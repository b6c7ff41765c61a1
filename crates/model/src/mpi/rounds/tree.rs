//! Trees of a group, and the messages down and up them. Places are relative to the root.

use super::step::Step;
use super::{Member, Round};

/// A member's neighbours in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Branch {
    pub above: Option<usize>,
    pub below: Vec<usize>,
}

impl Branch {
    /// All members directly below the root.
    pub fn star(place: usize, size: usize) -> Branch {
        match place {
            0 => Branch {
                above: None,
                below: (1..size).collect(),
            },
            _ => Branch {
                above: Some(0),
                below: Vec::new(),
            },
        }
    }

    /// Each member below the previous.
    pub fn chain(place: usize, size: usize) -> Branch {
        Branch {
            above: place.checked_sub(1),
            below: (place + 1..size).take(1).collect(),
        }
    }

    /// Two children each, level by level; the subtree of place 1 has the odd places, that of place
    /// 2 the even ones.
    pub fn binary(place: usize, size: usize) -> Branch {
        let level = (place + 1).ilog2();
        let width = 1 << level;
        let below = [place + width, place + 2 * width];
        let above = (place > 0).then(|| {
            let (first, above) = (width - 1, width / 2);
            above - 1 + (place - first) % above
        });
        Branch {
            above,
            below: below.into_iter().filter(|&place| place < size).collect(),
        }
    }

    /// A member's parent lacks its last non-zero digit to the base `radix`; 2 gives a binomial
    /// tree. The largest branches come first.
    pub fn knomial(place: usize, size: usize, radix: usize) -> Branch {
        let radix = radix.max(2);
        let (mut width, mut widths, mut above) = (1, Vec::new(), None);
        while width < size {
            if !place.is_multiple_of(width * radix) {
                above = Some(place - place % (width * radix));
                break;
            }
            widths.push(width);
            width *= radix;
        }
        let digits = |width: usize| (1..radix).map(move |digit| place + digit * width);
        let below = widths.into_iter().rev().flat_map(digits);
        Branch {
            above,
            below: below.filter(|&place| place < size).collect(),
        }
    }
}

impl Member {
    /// Sends pieces down a tree, one after another: each is passed on while the next arrives.
    pub(super) fn down(self, root: usize, branch: &Branch, pieces: &[usize]) -> Vec<Step> {
        let place = |behind: usize| (behind + root) % self.size;
        let above = branch.above.map(place);
        let mut steps = Vec::new();
        if let (Some(above), Some(&first)) = (above, pieces.first()) {
            steps.push(Step::receive(above, vec![first]));
        }
        for (number, &piece) in pieces.iter().enumerate() {
            let next = above.zip(pieces.get(number + 1));
            let comes = next.map(|(above, &next)| Step::receive(above, vec![next]));
            let below = branch.below.iter();
            let goes = below.map(|&below| Step::send(place(below), vec![piece]));
            steps.extend(Step::at_once(comes.into_iter().chain(goes).collect()));
        }
        steps
    }

    /// Returns this member's branch of a tree rooted at `root`.
    pub(super) fn branch(self, root: usize, tree: impl Fn(usize, usize) -> Branch) -> Branch {
        tree(self.before(root), self.size)
    }

    /// Sends down a binomial tree, to the children one after another; `bytes_for` returns the
    /// message size by the number of members in the branch.
    pub(super) fn down_a_tree(self, root: usize, bytes_for: impl Fn(usize) -> u64) -> Vec<Round> {
        let steps = self.scatter_steps(root);
        let of = |parts: &Option<(usize, Vec<usize>)>| {
            let parts = parts.as_ref();
            parts.map(|(peer, parts)| (*peer, bytes_for(parts.len())))
        };
        let round = |step: &Step| Round {
            send: of(&step.send),
            receive: of(&step.receive),
            beside: step.beside,
        };
        steps.iter().map(round).collect()
    }

    pub(super) fn up_a_tree(self, root: usize, bytes_for: impl Fn(usize) -> u64) -> Vec<Round> {
        let down = self.down_a_tree(root, bytes_for);
        down.into_iter().rev().map(Round::backwards).collect()
    }

    /// Sends each branch of a binomial tree the parts of its members, numbered by distance from the
    /// root.
    pub(super) fn scatter_steps(self, root: usize) -> Vec<Step> {
        let own = self.before(root);
        let place = |behind: usize| (behind + root) % self.size;
        // A branch that begins here has as many members as its distance from its parent, or as
        // remain.
        let parts = |begin: usize, width: usize| (begin..(begin + width).min(self.size)).collect();
        let above = self.doublings().find(|width| own & width != 0);
        let mut steps = Vec::new();
        if let Some(width) = above {
            steps.push(Step::receive(place(own - width), parts(own, width)));
        }
        let below = |width: &usize| above.is_none_or(|above| *width < above);
        for width in self.doublings().rev().filter(below) {
            let begin = own + width;
            if begin < self.size {
                steps.push(Step::send(place(begin), parts(begin, width)));
            }
        }
        steps
    }
}
