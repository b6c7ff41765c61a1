//! Switches, cables and nodes, for any shape.

use super::dragonfly::Dragonfly;
use super::fat_tree::FatTree;
use super::routing::{Leg, NextHop, Routing};
use super::table::Table;
use super::torus::Torus;

/// The rule that connects the switches.
#[derive(Debug, Clone)]
pub enum Shape {
    /// Leaves and spines.
    FatTree(FatTree),
    /// Rings in one to three dimensions.
    Torus(Torus),
    /// Groups with all-to-all cables within and between groups.
    Dragonfly(Dragonfly),
    /// An explicit list of cables.
    Table(Table),
}

/// Switches, cables, nodes. A cable is two links: number 2n from its first end, 2n + 1 from its
/// second.
#[derive(Debug, Clone)]
pub struct Wiring {
    shape: Shape,
    cables: Vec<(usize, usize)>,
    routing: Routing,
}

impl Wiring {
    /// Creates the wiring of a shape.
    ///
    /// # Panics
    ///
    /// If the routing uses intermediate groups and the shape has none; the profile reader rejects
    /// that.
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

    /// Describes the shape and its sizes.
    pub fn about(&self) -> String {
        match &self.shape {
            Shape::FatTree(tree) => tree.about(),
            Shape::Torus(torus) => torus.about(),
            Shape::Dragonfly(dragonfly) => dragonfly.about(),
            Shape::Table(table) => format!(
                "{} switches, {} cables between them",
                table.switches(),
                self.cables.len()
            ),
        }
    }

    /// Returns the number of switches.
    pub fn switches(&self) -> usize {
        match &self.shape {
            Shape::FatTree(tree) => tree.switches(),
            Shape::Torus(torus) => torus.switches(),
            Shape::Dragonfly(dragonfly) => dragonfly.switches(),
            Shape::Table(table) => table.switches(),
        }
    }

    /// Returns the name of a switch, by its place in the shape; numbers begin at 1.
    pub fn switch_name(&self, switch: usize) -> String {
        match &self.shape {
            Shape::FatTree(tree) => match switch.checked_sub(tree.leaves) {
                None => format!("leaf-{}", switch + 1),
                Some(spine) => format!("spine-{}", spine + 1),
            },
            Shape::Torus(torus) => {
                let [x, y, z] = torus.coordinates(switch);
                format!("switch-{}-{}-{}", x + 1, y + 1, z + 1)
            }
            Shape::Dragonfly(dragonfly) => {
                let group = dragonfly.group_of(switch);
                let first = group * (dragonfly.switches() / dragonfly.groups());
                format!("group-{}-switch-{}", group + 1, switch - first + 1)
            }
            Shape::Table(_) => format!("switch-{}", switch + 1),
        }
    }

    /// Returns the number of nodes that it connects.
    pub fn nodes(&self) -> usize {
        match &self.shape {
            Shape::FatTree(tree) => tree.nodes(),
            Shape::Torus(torus) => torus.nodes(),
            Shape::Dragonfly(dragonfly) => dragonfly.nodes(),
            Shape::Table(table) => table.nodes(),
        }
    }

    /// Returns the switch that a node is attached to.
    pub fn switch_of(&self, node: usize) -> usize {
        match &self.shape {
            Shape::FatTree(tree) => tree.switch_of(node),
            Shape::Torus(torus) => torus.switch_of(node),
            Shape::Dragonfly(dragonfly) => dragonfly.switch_of(node),
            Shape::Table(table) => table.switch_of(node),
        }
    }

    /// Returns the number of virtual lane classes that its routing distinguishes.
    pub fn classes(&self) -> usize {
        match &self.shape {
            Shape::FatTree(_) | Shape::Table(_) => 1,
            Shape::Dragonfly(_) if self.routing.goes_around() => 3,
            Shape::Torus(_) | Shape::Dragonfly(_) => 2,
        }
    }

    /// Returns the number of groups of switches usable as intermediate groups; 0 for most shapes.
    pub fn groups(&self) -> usize {
        match &self.shape {
            Shape::Dragonfly(dragonfly) => dragonfly.groups(),
            _ => 0,
        }
    }

    /// Returns the routing.
    pub fn routing(&self) -> Routing {
        self.routing
    }

    /// Returns whether packets to one destination may take different paths.
    pub fn is_adaptive(&self) -> bool {
        self.routing != Routing::Deterministic
    }

    /// Returns the number of links, two per cable.
    pub fn links(&self) -> usize {
        2 * self.cables.len()
    }

    /// Returns the switches that a link leads from and to.
    pub fn ends(&self, link: usize) -> (usize, usize) {
        let (one, other) = self.cables[link / 2];
        match link % 2 {
            0 => (one, other),
            _ => (other, one),
        }
    }

    /// Returns the number of ports that each switch needs for its cables and for nodes whose
    /// adapters use `ports` each.
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

    /// Calls `each` with every link over which switch `at` may send a packet for node `to`, at
    /// least one. `to` must not be attached to `at`.
    pub fn ways(&self, at: usize, to: usize, mut each: impl FnMut(NextHop)) {
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

    /// Returns the link chosen by the destination's number.
    ///
    /// # Panics
    ///
    /// No link of switch `at` leads to node `to`; a valid topology connects all nodes.
    pub fn way(&self, at: usize, to: usize) -> NextHop {
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

    /// Calls `each` with the links that a packet may take: the one chosen by the destination's
    /// number, or all if the switch chooses.
    pub fn taken(&self, at: usize, to: usize, mut each: impl FnMut(NextHop)) {
        match self.is_adaptive() {
            true => self.ways(at, to, each),
            false => each(self.way(at, to)),
        }
    }

    /// Like [`Wiring::ways`], for a packet on leg `leg` of its path.
    pub fn ways_of(&self, leg: Leg, at: usize, to: usize, mut each: impl FnMut(NextHop)) {
        match (leg, &self.shape) {
            (Leg::Around(group), Shape::Dragonfly(dragonfly)) => {
                dragonfly.leave(at, group, 0, &mut each);
            }
            _ => self.ways(at, to, each),
        }
    }

    /// Returns the leg of a packet that was on `leg` and is now at switch `at`.
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

    /// Returns the number of intermediate groups available from switch `at` to node `to`: 0 within
    /// a group.
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

    /// Returns the `number`th of these groups.
    pub fn around(&self, at: usize, to: usize, number: usize) -> Leg {
        let Shape::Dragonfly(dragonfly) = &self.shape else {
            return Leg::Direct;
        };
        let ends = [at, self.switch_of(to)].map(|switch| dragonfly.group_of(switch));
        let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
        let past_low = number + usize::from(number >= low);
        Leg::Around(past_low + usize::from(past_low >= high))
    }

    /// Returns the number of links from `at` to node `to`'s switch, along the first link of each
    /// step.
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
