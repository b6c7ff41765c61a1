//! Two-level fat tree: leaves with nodes, spines above them, and the same number of cables between
//! every leaf and spine (a folded Clos network; oversubscribed if a leaf has more nodes than
//! uplinks).

use super::routing::NextHop;

/// Two levels of switches, numbered leaves first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FatTree {
    /// Leaves.
    pub leaves: usize,
    /// Nodes per leaf.
    pub nodes: usize,
    /// Spines.
    pub spines: usize,
    /// Cables between a leaf and a spine.
    pub parallel: usize,
}

impl FatTree {
    /// Describes its sizes, and the nodes of a leaf for each of its cables upwards.
    pub fn about(&self) -> String {
        let ratio = self.nodes as f64 / (self.spines * self.parallel) as f64;
        format!(
            "fat tree of {} leaves with {} nodes each, {} spines, {}:1",
            self.leaves,
            self.nodes,
            self.spines,
            (ratio * 100.0).round() / 100.0
        )
    }

    /// Returns the cables: `parallel` for each pair of a leaf and a spine.
    pub fn cables(&self) -> Vec<(usize, usize)> {
        let pairs = (0..self.leaves).flat_map(|leaf| (0..self.spines).map(move |s| (leaf, s)));
        pairs
            .flat_map(|(leaf, spine)| {
                std::iter::repeat_n((leaf, self.leaves + spine), self.parallel)
            })
            .collect()
    }

    /// Returns the number of leaves and spines.
    pub fn switches(&self) -> usize {
        self.leaves + self.spines
    }

    /// Returns the number of nodes of all leaves.
    pub fn nodes(&self) -> usize {
        self.leaves * self.nodes
    }

    /// Returns the leaf of a node.
    pub fn switch_of(&self, node: usize) -> usize {
        node / self.nodes
    }

    /// Calls `each` with the links from `at` towards node `to`: up over any cable, down over any
    /// cable to the leaf.
    pub fn ways(&self, at: usize, to: usize, each: &mut impl FnMut(NextHop)) {
        let first = |leaf: usize, spine: usize| (leaf * self.spines + spine) * self.parallel;
        let (cables, direction) = match at.checked_sub(self.leaves) {
            None => (first(at, 0)..first(at + 1, 0), 0),
            Some(spine) => {
                let leaf = self.switch_of(to);
                (first(leaf, spine)..first(leaf, spine) + self.parallel, 1)
            }
        };
        cables.for_each(|cable| {
            each(NextHop {
                link: 2 * cable + direction,
                class: 0,
            });
        });
    }
}
