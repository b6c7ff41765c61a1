//! Leaves with nodes, spines above them, the same number of cables between each two: a folded Clos network, and an
//! oversubscribed one where a leaf has more nodes than cables upwards.

use super::Way;

/// Two levels of switches. Switches are numbered leaves first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FatTree {
    /// Leaves.
    pub leaves: usize,
    /// Nodes of a leaf.
    pub nodes: usize,
    /// Spines.
    pub spines: usize,
    /// Cables between a leaf and a spine.
    pub parallel: usize,
}

impl FatTree {
    /// One for each pair of a leaf and a spine, and `parallel` of them.
    pub fn cables(&self) -> Vec<(usize, usize)> {
        let pairs = (0..self.leaves).flat_map(|leaf| (0..self.spines).map(move |s| (leaf, s)));
        pairs
            .flat_map(|(leaf, spine)| {
                std::iter::repeat_n((leaf, self.leaves + spine), self.parallel)
            })
            .collect()
    }

    /// Leaves and spines.
    pub fn switches(&self) -> usize {
        self.leaves + self.spines
    }

    /// Of all leaves.
    pub fn nodes(&self) -> usize {
        self.leaves * self.nodes
    }

    /// Its leaf.
    pub fn switch_of(&self, node: usize) -> usize {
        node / self.nodes
    }

    /// Up over any cable, down over any to the leaf.
    pub fn ways(&self, at: usize, to: usize, each: &mut impl FnMut(Way)) {
        let first = |leaf: usize, spine: usize| (leaf * self.spines + spine) * self.parallel;
        let (cables, direction) = match at.checked_sub(self.leaves) {
            None => (first(at, 0)..first(at + 1, 0), 0),
            Some(spine) => {
                let leaf = self.switch_of(to);
                (first(leaf, spine)..first(leaf, spine) + self.parallel, 1)
            }
        };
        cables.for_each(|cable| {
            each(Way {
                link: 2 * cable + direction,
                class: 0,
            });
        });
    }
}
