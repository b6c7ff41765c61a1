//! Rings in up to three dimensions, routed one dimension after another, the shorter way around.
//!
//! In each ring a packet that has yet to cross the link between the last and the first switch is in
//! class 0, any other in class 1; so no ring of links waits for itself. Source: Dally and Seitz,
//! "Deadlock-free message routing in multiprocessor interconnection networks", IEEE Transactions on
//! Computers, 1987.

use super::routing::NextHop;

/// A torus; an unused dimension has size 1. Switches are numbered along the first dimension first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Torus {
    sizes: [usize; 3],
    nodes: usize,
    /// By switch and dimension: the links forwards and backwards, if any.
    steps: Vec<[Option<usize>; 2]>,
    cables: Vec<(usize, usize)>,
}

impl Torus {
    /// Creates rings of `sizes` switches, with `nodes` nodes per switch.
    pub fn new(sizes: [usize; 3], nodes: usize) -> Torus {
        let mut torus = Torus {
            sizes,
            nodes,
            steps: Vec::new(),
            cables: Vec::new(),
        };
        torus.steps = vec![[None; 2]; torus.switches() * 3];
        for switch in 0..torus.switches() {
            for (dimension, &size) in sizes.iter().enumerate() {
                let here = torus.coordinate(switch, dimension);
                // Two switches in a ring have one cable between them.
                if size < 2 || (size == 2 && here == 1) {
                    continue;
                }
                let next = torus.with(switch, dimension, (here + 1) % size);
                let link = 2 * torus.cables.len();
                torus.cables.push((switch, next));
                torus.steps[switch * 3 + dimension][0] = Some(link);
                torus.steps[next * 3 + dimension][1] = Some(link + 1);
            }
        }
        torus
    }

    /// Describes its sizes.
    pub fn about(&self) -> String {
        let [x, y, z] = self.sizes;
        format!(
            "torus of {x} x {y} x {z} switches with {} nodes each",
            self.nodes
        )
    }

    fn coordinate(&self, switch: usize, dimension: usize) -> usize {
        let below: usize = self.sizes[..dimension].iter().product();
        switch / below % self.sizes[dimension]
    }

    /// Returns the place of a switch in each dimension, from 0.
    pub fn coordinates(&self, switch: usize) -> [usize; 3] {
        [0, 1, 2].map(|dimension| self.coordinate(switch, dimension))
    }

    /// Returns the switch whose coordinate in `dimension` is `coordinate` instead.
    fn with(&self, switch: usize, dimension: usize, coordinate: usize) -> usize {
        let below: usize = self.sizes[..dimension].iter().product();
        switch - self.coordinate(switch, dimension) * below + coordinate * below
    }

    /// Returns the cables, one from each switch forwards in each ring.
    pub fn cables(&self) -> Vec<(usize, usize)> {
        self.cables.clone()
    }

    /// Returns the number of switches of all dimensions.
    pub fn switches(&self) -> usize {
        self.sizes.iter().product()
    }

    /// Returns the number of nodes of all switches.
    pub fn nodes(&self) -> usize {
        self.switches() * self.nodes
    }

    /// Returns the switch of a node; nodes are numbered switch by switch.
    pub fn switch_of(&self, node: usize) -> usize {
        node / self.nodes
    }

    /// Calls `each` with the links towards node `to`: in the first dimension that differs, the
    /// shorter way around, or both ways if they are equal.
    pub fn ways(&self, at: usize, to: usize, each: &mut impl FnMut(NextHop)) {
        let target = self.switch_of(to);
        for dimension in 0..3 {
            let size = self.sizes[dimension];
            let here = self.coordinate(at, dimension);
            let there = self.coordinate(target, dimension);
            if here == there {
                continue;
            }
            let onwards = (there + size - here) % size;
            let back = size - onwards;
            let [next, previous] = self.steps[at * 3 + dimension];
            if let (Some(link), true) = (next, onwards <= back) {
                let class = usize::from(here < there);
                each(NextHop { link, class });
            }
            if let (Some(link), true) = (previous, back <= onwards) {
                let class = usize::from(here > there);
                each(NextHop { link, class });
            }
            return;
        }
    }
}
