//! The switches that connect the nodes and the paths through them, as numbers of egress ports and
//! of partitions (`place`).
//!
//! Egress ports are numbered: first those of adapters, then those from switches to adapters, then
//! those between switches. Partitions are numbered: first nodes, then switches.

pub(super) mod outlook;
mod tree;

use super::port::Port;
use crate::kernel::Draws;
use crate::profile::Rate;
use crate::topology::{Built, BuiltLink, Leg, NextHop, Routing, Wiring};
use outlook::{Choice, Outlook};
use std::sync::Arc;
use tree::Route;
pub(super) use tree::Tree;

#[derive(Debug, Clone)]
pub(super) enum Topology {
    /// Back to back, one switch, or a fat tree of as many switches as needed.
    Tree(Tree),
    /// Wired as in a profile.
    Wired {
        wiring: Arc<Wiring>,
        nodes: usize,
        ports: usize,
        /// By switch, if routing draws intermediate groups at random.
        draws: Vec<Draws>,
    },
}

/// Links that share their load: one, or where switches choose, those of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Share {
    /// The link of an egress port.
    One(usize),
    /// All links from a switch to others.
    From(usize),
    /// All links from others to a switch.
    To(usize),
}

/// Position of a load on its path, after its own adapter's port.
#[derive(Debug, Clone, Copy)]
pub(super) struct PathPosition {
    to: Port,
    stage: Stage,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// On a known route, of which a number of ports have been passed.
    Along(Route, u8),
    /// Before an egress port of the packet's first switch.
    First(usize),
    /// Before an egress port of a later switch, on that leg of its path.
    At(usize, Leg),
    There,
}

impl PathPosition {
    /// Returns the node at the end of the path.
    pub fn destination(&self) -> usize {
        self.to.node
    }
}

impl Topology {
    /// Creates the tree of `nodes` adapters with `ports` ports each and, if any, switches of
    /// `switch` ports.
    pub fn tree(nodes: usize, ports: usize, switch: Option<usize>) -> Topology {
        Topology::Tree(Tree::new(nodes, ports, switch))
    }

    /// Attaches `nodes` adapters of `ports` ports as `wiring` defines.
    ///
    /// # Panics
    ///
    /// If the wiring has fewer nodes.
    pub fn wired(wiring: &Arc<Wiring>, nodes: usize, ports: usize) -> Topology {
        let most = wiring.nodes();
        assert!(
            nodes <= most,
            "the topology joins {most} nodes, not {nodes}"
        );
        let drawing = match wiring.routing().goes_around() {
            true => wiring.switches(),
            false => 0,
        };
        Topology::Wired {
            wiring: wiring.clone(),
            nodes,
            ports,
            draws: (0..drawing).map(Draws::new).collect(),
        }
    }

    pub fn ports(&self) -> usize {
        match self {
            Topology::Tree(tree) => tree.ports(),
            Topology::Wired { ports, .. } => *ports,
        }
    }

    pub fn egresses(&self) -> usize {
        match self {
            Topology::Tree(tree) => tree.egresses(),
            Topology::Wired {
                wiring,
                nodes,
                ports,
                ..
            } => 2 * nodes * ports + wiring.links(),
        }
    }

    /// Returns the egress port of an adapter's port.
    pub fn own(&self, port: Port) -> usize {
        port.node * self.ports() + port.port
    }

    /// Returns whether an egress port's link leads to an adapter, with or without switches.
    pub fn leads_to_adapter(&self, egress: usize) -> bool {
        let (adapters, switched) = match self {
            Topology::Tree(tree) => (tree.adapter_ports(), tree.is_switched()),
            Topology::Wired { nodes, ports, .. } => (nodes * ports, true),
        };
        match switched {
            true => (adapters..2 * adapters).contains(&egress),
            false => true,
        }
    }

    /// Returns the egress port through which a load arrives at an adapter's port; the adapter's
    /// own, if there are no switches.
    pub fn last(&self, port: Port) -> usize {
        let own = self.own(port);
        match self {
            Topology::Tree(tree) if !tree.is_switched() => own,
            Topology::Tree(tree) => tree.adapter_ports() + own,
            Topology::Wired { nodes, ports, .. } => nodes * ports + own,
        }
    }

    /// Returns the rate of an egress port's link, if it is stated.
    pub fn rate(&self, egress: usize, built: &Built) -> Option<Rate> {
        self.built(egress, built).and_then(|(link, _)| link.rate)
    }

    /// Returns the name of an egress port, and that of the port at the far end of its link.
    pub fn port_names<'a>(&self, egress: usize, built: &'a Built) -> Option<[&'a str; 2]> {
        let (link, is_reversed) = self.built(egress, built)?;
        let [one, other] = &link.ports;
        Some(match is_reversed {
            true => [other, one],
            false => [one, other],
        })
    }

    /// Returns the link of an egress port, and whether the port is its second end.
    fn built<'a>(&self, egress: usize, built: &'a Built) -> Option<(&'a BuiltLink, bool)> {
        let Topology::Wired { nodes, ports, .. } = self else {
            return None;
        };
        Some(match egress.checked_sub(2 * nodes * ports) {
            Some(link) => (&built.cables[link / 2], link % 2 == 1),
            None => {
                let port = egress / ports;
                (&built.nodes[port % nodes], port >= *nodes)
            }
        })
    }

    /// Returns the switches at the ends of an egress port's link, if it joins two of a wiring.
    fn ends(&self, egress: usize) -> Option<(usize, usize)> {
        let (wiring, first) = match self {
            Topology::Tree(_) => return None,
            Topology::Wired {
                wiring,
                nodes,
                ports,
                ..
            } => (wiring, 2 * nodes * ports),
        };
        Some(wiring.ends(egress.checked_sub(first)?))
    }

    /// Returns the links that share the load of an egress port's link.
    pub fn shares(&self, egress: usize) -> Vec<Share> {
        match self.ends(egress).filter(|_| self.is_adaptive()) {
            Some((from, to)) => vec![Share::From(from), Share::To(to)],
            None => vec![Share::One(egress)],
        }
    }

    /// Returns the name of links that share their load.
    pub fn name(&self, share: Share) -> String {
        let egress = match share {
            Share::One(egress) => egress,
            Share::From(switch) => return format!("the links from switch {switch}"),
            Share::To(switch) => return format!("the links to switch {switch}"),
        };
        let adapters = match self {
            Topology::Tree(tree) => tree.adapter_ports(),
            Topology::Wired { nodes, ports, .. } => nodes * ports,
        };
        let node = egress % adapters.max(1) / self.ports().max(1);
        match egress / adapters.max(1) {
            0 => format!("the link from node {node}"),
            1 => format!("the link to node {node}"),
            _ => match (self, self.ends(egress)) {
                (_, Some((from, to))) => format!("the link from switch {from} to switch {to}"),
                (Topology::Tree(tree), _) => tree.name(egress),
                _ => format!("egress port {egress}"),
            },
        }
    }

    /// Returns the number of virtual lane classes that routing distinguishes.
    pub fn classes(&self) -> usize {
        match self {
            Topology::Tree(_) => 1,
            Topology::Wired { wiring, .. } => wiring.classes(),
        }
    }

    /// Returns whether switches choose the path, so that loads may overtake each other.
    pub fn is_adaptive(&self) -> bool {
        match self {
            Topology::Tree(_) => false,
            Topology::Wired { wiring, .. } => wiring.is_adaptive(),
        }
    }

    /// Returns the path from a node to a port.
    pub fn way(&self, from: usize, to: Port) -> PathPosition {
        let stage = match self {
            Topology::Tree(tree) => Stage::Along(tree.route(from, to), 0),
            Topology::Wired { wiring, .. } => Stage::First(wiring.switch_of(from)),
        };
        PathPosition { to, stage }
    }

    /// Returns the number of partitions.
    pub fn places(&self) -> usize {
        match self {
            Topology::Tree(tree) => tree.places(),
            Topology::Wired { wiring, nodes, .. } => nodes + wiring.switches(),
        }
    }

    /// Returns a node near a partition.
    pub fn home(&self, place: usize) -> usize {
        match self {
            Topology::Tree(tree) => tree.home(place),
            Topology::Wired { wiring, nodes, .. } => match place.checked_sub(*nodes) {
                None => place,
                Some(switch) => switch * nodes / wiring.switches().max(1),
            },
        }
    }

    /// Returns the partition in which a load queues for its next egress port: the switch, or, for
    /// the last port, which serves it alone, the receiving node. Returns `None` if no port is left.
    pub fn place(&self, way: &PathPosition) -> Option<usize> {
        match (&way.stage, self) {
            (Stage::Along(route, passed), _) => {
                let passed = usize::from(*passed);
                (passed < route.length()).then(|| route.hop(passed).place())
            }
            (
                Stage::First(switch) | Stage::At(switch, _),
                Topology::Wired { wiring, nodes, .. },
            ) => Some(match wiring.switch_of(way.to.node) == *switch {
                true => way.to.node,
                false => nodes + switch,
            }),
            _ => None,
        }
    }

    /// Returns the next egress port of a known route.
    pub fn next_on_route(&self, way: &PathPosition) -> Option<usize> {
        match &way.stage {
            Stage::Along(route, passed) => {
                let passed = usize::from(*passed);
                (passed < route.length()).then(|| route.hop(passed).egress())
            }
            _ => None,
        }
    }

    /// Passes the next egress port and returns it: among alternatives the one with the shortest
    /// queue, on a tie the first in the order that begins with the destination's own.
    pub fn pass(&self, way: &mut PathPosition, outlook: &impl Outlook) -> Choice {
        if let Stage::Along(route, passed) = &mut way.stage {
            let egress = route.hop(usize::from(*passed)).egress();
            *passed += 1;
            return Choice { egress, class: 0 };
        }
        let (stage, choice) = match (way.stage, self) {
            (Stage::First(switch), Topology::Wired { wiring, .. }) => {
                let leg = match wiring.routing().goes_around() {
                    true => self.first_leg(switch, way.to, outlook),
                    false => Leg::Direct,
                };
                self.pass_switch((switch, leg), way.to, outlook)
            }
            (Stage::At(switch, leg), Topology::Wired { .. }) => {
                self.pass_switch((switch, leg), way.to, outlook)
            }
            _ => unreachable!("a load passes ports until it is there"),
        };
        way.stage = stage;
        choice
    }

    fn pass_switch(
        &self,
        (switch, leg): (usize, Leg),
        to: Port,
        outlook: &impl Outlook,
    ) -> (Stage, Choice) {
        let (wiring, nodes, ports) = self.joined();
        if wiring.switch_of(to.node) == switch {
            let egress = (nodes + to.node) * ports + to.port;
            return (Stage::There, Choice { egress, class: 0 });
        }
        let (link, choice) = self.least(leg, (switch, to), outlook);
        let next = wiring.ends(link).1;
        (Stage::At(next, wiring.leg_at(leg, next)), choice)
    }

    fn joined(&self) -> (&Wiring, usize, usize) {
        match self {
            Topology::Wired {
                wiring,
                nodes,
                ports,
                ..
            } => (wiring, *nodes, *ports),
            Topology::Tree(_) => unreachable!("a tree knows its routes"),
        }
    }

    /// Returns the link taken at a switch on that leg, and its port.
    fn least(
        &self,
        leg: Leg,
        (switch, to): (usize, Port),
        outlook: &impl Outlook,
    ) -> (usize, Choice) {
        let (wiring, nodes, ports) = self.joined();
        let choice_of = |way: NextHop| Choice {
            egress: 2 * nodes * ports + way.link,
            class: way.class,
        };
        let mut best = (leg == Leg::Direct).then(|| {
            let usual = wiring.way(switch, to.node);
            (usual.link, choice_of(usual))
        });
        if wiring.is_adaptive() {
            let mut least = best.map(|(_, choice)| outlook.crowd(choice));
            wiring.ways_of(leg, switch, to.node, |way| {
                let crowd = outlook.crowd(choice_of(way));
                if least.is_none_or(|least| crowd < least) {
                    (best, least) = (Some((way.link, choice_of(way))), Some(crowd));
                }
            });
        }
        best.expect("every switch knows a way to every node")
    }

    /// Chooses a packet's first leg: to its destination or through an intermediate group.
    fn first_leg(&self, switch: usize, to: Port, outlook: &impl Outlook) -> Leg {
        let Topology::Wired { wiring, draws, .. } = self else {
            return Leg::Direct;
        };
        let groups = wiring.arounds(switch, to.node);
        if groups == 0 {
            return Leg::Direct;
        }
        let around = wiring.around(switch, to.node, draws[switch].below(groups));
        if wiring.routing() == Routing::Valiant {
            return around;
        }
        let [(_, direct_port), (_, around_port)] =
            [Leg::Direct, around].map(|leg| self.least(leg, (switch, to), outlook));
        let [direct_links, around_links] =
            [Leg::Direct, around].map(|leg| wiring.length(leg, switch, to.node) as u64);
        // If both use the same port, only their lanes differ.
        let queued = |choice: Choice| match direct_port.egress == around_port.egress {
            true => outlook.queued_in_lane(choice),
            false => outlook.queued(choice.egress),
        };
        // Traffic that flows without waiting is on the link as well.
        let waiting = queued(direct_port).saturating_sub(outlook.in_passing());
        match waiting * direct_links <= queued(around_port) * around_links {
            true => Leg::Direct,
            false => around,
        }
    }
}
