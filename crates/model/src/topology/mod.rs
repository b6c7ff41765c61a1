//! How switches are joined as a profile gives it (`kind = "topology"`), and which way a packet goes.
//!
//! A [`Wiring`] has switches, cables between them and nodes attached to them. Of a packet's destination and the switch that
//! has it, and of nothing else, it is said over which links it may go on, and in which class of virtual lanes it is there:
//! as by forwarding tables and SL-to-VL tables. Where several links lead on, the destination's number chooses (destination
//! modulo k), or with adaptive routing the switch does. [`deadlock`] says whether packets could wait for each other for ever.

pub mod deadlock;
mod dragonfly;
mod fat_tree;
mod table;
mod torus;

pub use dragonfly::Dragonfly;
pub use fat_tree::FatTree;
pub use table::Table;
pub use torus::Torus;

/// A link over which a packet may go on, and the class of virtual lanes that it takes there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// Number of the link.
    pub link: usize,
    /// From 0.
    pub class: usize,
}

/// The rule by which switches are joined.
#[derive(Debug, Clone)]
pub enum Shape {
    /// Leaves and spines.
    FatTree(FatTree),
    /// Rings in one to three dimensions.
    Torus(Torus),
    /// Groups, all joined within and with each other.
    Dragonfly(Dragonfly),
    /// Cables one by one.
    Table(Table),
}

/// Switches, cables, nodes. A cable is two links: number 2n from its first end, 2n + 1 from its second.
#[derive(Debug, Clone)]
pub struct Wiring {
    shape: Shape,
    cables: Vec<(usize, usize)>,
    adaptive: bool,
}

impl Wiring {
    /// By a rule; `adaptive`: switches choose among the links that the rule allows.
    pub fn new(shape: Shape, adaptive: bool) -> Wiring {
        let cables = match &shape {
            Shape::FatTree(tree) => tree.cables(),
            Shape::Torus(torus) => torus.cables(),
            Shape::Dragonfly(dragonfly) => dragonfly.cables(),
            Shape::Table(table) => table.cables().to_vec(),
        };
        Wiring {
            shape,
            cables,
            adaptive,
        }
    }

    /// Switches.
    pub fn switches(&self) -> usize {
        match &self.shape {
            Shape::FatTree(tree) => tree.switches(),
            Shape::Torus(torus) => torus.switches(),
            Shape::Dragonfly(dragonfly) => dragonfly.switches(),
            Shape::Table(table) => table.switches(),
        }
    }

    /// Nodes that it joins.
    pub fn nodes(&self) -> usize {
        match &self.shape {
            Shape::FatTree(tree) => tree.nodes(),
            Shape::Torus(torus) => torus.nodes(),
            Shape::Dragonfly(dragonfly) => dragonfly.nodes(),
            Shape::Table(table) => table.nodes(),
        }
    }

    /// The switch that a node is attached to.
    pub fn switch_of(&self, node: usize) -> usize {
        match &self.shape {
            Shape::FatTree(tree) => tree.switch_of(node),
            Shape::Torus(torus) => torus.switch_of(node),
            Shape::Dragonfly(dragonfly) => dragonfly.switch_of(node),
            Shape::Table(table) => table.switch_of(node),
        }
    }

    /// Classes of virtual lanes that its routing tells apart.
    pub fn classes(&self) -> usize {
        match &self.shape {
            Shape::FatTree(_) | Shape::Table(_) => 1,
            Shape::Torus(_) | Shape::Dragonfly(_) => 2,
        }
    }

    /// Whether switches choose.
    pub fn adaptive(&self) -> bool {
        self.adaptive
    }

    /// Links, two a cable.
    pub fn links(&self) -> usize {
        2 * self.cables.len()
    }

    /// The switches that a link leads from and to.
    pub fn ends(&self, link: usize) -> (usize, usize) {
        let (one, other) = self.cables[link / 2];
        match link % 2 {
            0 => (one, other),
            _ => (other, one),
        }
    }

    /// Ports that each switch needs for its cables and for nodes whose adapters use `ports` each.
    pub fn ports_taken(&self, ports: usize) -> Vec<usize> {
        let mut taken = vec![0; self.switches()];
        for node in 0..self.nodes() {
            taken[self.switch_of(node)] += ports;
        }
        for &(one, other) in &self.cables {
            taken[one] += 1;
            taken[other] += 1;
        }
        taken
    }

    /// Tells `each` way on which switch `at`, to which `to` is not attached, may send what is for node `to`: one at least.
    pub fn ways(&self, at: usize, to: usize, mut each: impl FnMut(Way)) {
        match &self.shape {
            Shape::FatTree(tree) => tree.ways(at, to, &mut each),
            Shape::Torus(torus) => torus.ways(at, to, &mut each),
            Shape::Dragonfly(dragonfly) => dragonfly.ways(at, to, &mut each),
            Shape::Table(table) => table.ways(at, to, &mut each),
        }
    }

    /// The way that the destination's number chooses.
    pub fn way(&self, at: usize, to: usize) -> Way {
        let mut number = 0;
        self.ways(at, to, |_| number += 1);
        let mut left = to % number.max(1);
        let mut chosen = None;
        self.ways(at, to, |way| {
            if left == 0 && chosen.is_none() {
                chosen = Some(way);
            }
            left = left.saturating_sub(1);
        });
        chosen.expect("every switch knows a way to every node")
    }

    /// The ways that a packet may take: that of the destination's number, or all if the switch chooses.
    pub fn taken(&self, at: usize, to: usize, mut each: impl FnMut(Way)) {
        match self.adaptive {
            true => self.ways(at, to, each),
            false => each(self.way(at, to)),
        }
    }
}
