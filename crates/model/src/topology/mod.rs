//! How switches are joined as a profile gives it (`kind = "topology"`), and which way a packet goes.
//!
//! A [`Wiring`] has switches, cables between them and nodes attached to them. Of a packet's destination and the switch that
//! has it, and of nothing else but a third group that it goes by ([`Leg`]), it is said over which links it may go on, and in which
//! class of virtual lanes it is there: as by forwarding tables and SL-to-VL tables. Where several links lead on, the destination's
//! number chooses (destination modulo k), or the switch does ([`Routing`]). [`deadlock`] says whether packets could wait for each
//! other for ever.

pub mod deadlock;
mod dragonfly;
mod fat_tree;
mod routing;
mod table;
mod torus;

pub use dragonfly::Dragonfly;
pub use fat_tree::FatTree;
pub use routing::{Leg, Routing};
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
    routing: Routing,
}

impl Wiring {
    /// By a rule.
    ///
    /// Panics if a shape without groups is to be routed by third ones: who reads profiles refuses that.
    pub fn new(shape: Shape, routing: Routing) -> Wiring {
        let groups = matches!(shape, Shape::Dragonfly(_));
        assert!(groups || !routing.goes_around(), "a shape without groups");
        let cables = match &shape {
            Shape::FatTree(tree) => tree.cables(),
            Shape::Torus(torus) => torus.cables(),
            Shape::Dragonfly(dragonfly) => dragonfly.cables(),
            Shape::Table(table) => table.cables().to_vec(),
        };
        Wiring {
            shape,
            cables,
            routing,
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
            Shape::Dragonfly(_) if self.routing.goes_around() => 3,
            Shape::Torus(_) | Shape::Dragonfly(_) => 2,
        }
    }

    /// Groups of switches, by one of which packets may go that is neither their first nor their last; none in most shapes.
    pub fn groups(&self) -> usize {
        match &self.shape {
            Shape::Dragonfly(dragonfly) => dragonfly.groups(),
            _ => 0,
        }
    }

    /// Who chooses.
    pub fn routing(&self) -> Routing {
        self.routing
    }

    /// Whether packets to one destination may go different ways.
    pub fn is_adaptive(&self) -> bool {
        self.routing != Routing::Deterministic
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
            Shape::Dragonfly(dragonfly) => {
                let class = usize::from(self.routing.goes_around());
                dragonfly.ways(at, to, class, &mut each);
            }
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
        match self.is_adaptive() {
            true => self.ways(at, to, each),
            false => each(self.way(at, to)),
        }
    }

    /// The same of a packet on that leg of its way.
    pub fn ways_of(&self, leg: Leg, at: usize, to: usize, mut each: impl FnMut(Way)) {
        match (leg, &self.shape) {
            (Leg::Around(group), Shape::Dragonfly(dragonfly)) => {
                dragonfly.leave(at, group, 0, &mut each);
            }
            _ => self.ways(at, to, each),
        }
    }

    /// The leg on which a packet is that was on `leg` and is at switch `at` now.
    pub fn leg_at(&self, leg: Leg, at: usize) -> Leg {
        match (leg, &self.shape) {
            (Leg::Around(group), Shape::Dragonfly(dragonfly))
                if dragonfly.group_of(at) != group =>
            {
                leg
            }
            _ => Leg::Direct,
        }
    }

    /// How many groups a packet from switch `at` to node `to` may go by: none within its own.
    pub fn arounds(&self, at: usize, to: usize) -> usize {
        match &self.shape {
            Shape::Dragonfly(dragonfly) if self.routing.goes_around() => {
                let ends = [at, self.switch_of(to)].map(|switch| dragonfly.group_of(switch));
                match ends[0] == ends[1] {
                    true => 0,
                    false => dragonfly.groups() - 2,
                }
            }
            _ => 0,
        }
    }

    /// The `number`th of them.
    pub fn around(&self, at: usize, to: usize, number: usize) -> Leg {
        let Shape::Dragonfly(dragonfly) = &self.shape else {
            return Leg::Direct;
        };
        let ends = [at, self.switch_of(to)].map(|switch| dragonfly.group_of(switch));
        let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        let past_low = number + usize::from(number >= low);
        Leg::Around(past_low + usize::from(past_low >= high))
    }

    /// Links to node `to`'s switch from `at`, by the first of the ways of each leg.
    pub fn length(&self, leg: Leg, at: usize, to: usize) -> usize {
        let target = self.switch_of(to);
        let (mut leg, mut at, mut length) = (self.leg_at(leg, at), at, 0);
        while leg != Leg::Direct || at != target {
            let mut first = None;
            self.ways_of(leg, at, to, |way| {
                first.get_or_insert(way);
            });
            let Some(way) = first else { break };
            at = self.ends(way.link).1;
            leg = self.leg_at(leg, at);
            length += 1;
        }
        length
    }
}
