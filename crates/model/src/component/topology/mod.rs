//! Which switches join the nodes, and the way through them, as numbers of egress ports and of places.
//!
//! Every egress port has a number: first the adapters' own, then the switches' to adapters, then those between switches. So has
//! every place: nodes come first, then switches.

mod tree;

use crate::topology::Wiring;
use std::sync::Arc;
use tree::{Route, Tree};

/// A port of an adapter: which node, which of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// Node.
    pub node: usize,
    /// Port of its adapter, from 0.
    pub port: usize,
}

/// An egress port that a load may take, and the class of virtual lanes that it is in there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    pub egress: usize,
    pub class: usize,
}

/// How nodes are joined.
#[derive(Debug, Clone)]
pub(super) enum Topology {
    /// Back to back, by one switch, or by as many as their number of ports asks for.
    Tree(Tree),
    /// As a profile says.
    Wired {
        wiring: Arc<Wiring>,
        nodes: usize,
        ports: usize,
    },
}

/// Where a load is on its way, after its own adapter's port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    to: Port,
    stage: Stage,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Along(Route, usize),
    /// Before an egress port of this switch.
    At(usize),
    There,
}

impl Topology {
    /// Of `nodes` adapters of `ports` ports, with switches of so many ports if there are any.
    pub fn tree(nodes: usize, ports: usize, switch: Option<usize>) -> Topology {
        Topology::Tree(Tree::new(nodes, ports, switch))
    }

    /// Of `nodes` adapters of `ports` ports, attached as `wiring` says.
    ///
    /// Panics if these are more than it joins: the caller asked for them.
    pub fn wired(wiring: &Arc<Wiring>, nodes: usize, ports: usize) -> Topology {
        let most = wiring.nodes();
        assert!(
            nodes <= most,
            "the topology joins {most} nodes, not {nodes}"
        );
        Topology::Wired {
            wiring: wiring.clone(),
            nodes,
            ports,
        }
    }

    /// Ports of an adapter.
    pub fn ports(&self) -> usize {
        match self {
            Topology::Tree(tree) => tree.ports(),
            Topology::Wired { ports, .. } => *ports,
        }
    }

    /// Egress ports in all.
    pub fn egresses(&self) -> usize {
        match self {
            Topology::Tree(tree) => tree.egresses(),
            Topology::Wired {
                wiring,
                nodes,
                ports,
            } => 2 * nodes * ports + wiring.links(),
        }
    }

    /// The adapter's own port.
    pub fn own(&self, port: Port) -> usize {
        port.node * self.ports() + port.port
    }

    /// Classes of virtual lanes that routing tells apart.
    pub fn classes(&self) -> usize {
        match self {
            Topology::Tree(_) => 1,
            Topology::Wired { wiring, .. } => wiring.classes(),
        }
    }

    /// Whether switches choose the way, so that loads may overtake each other.
    pub fn adaptive(&self) -> bool {
        match self {
            Topology::Tree(_) => false,
            Topology::Wired { wiring, .. } => wiring.adaptive(),
        }
    }

    /// The way from a node to a port.
    pub fn way(&self, from: usize, to: Port) -> Way {
        let stage = match self {
            Topology::Tree(tree) => Stage::Along(tree.route(from, to), 0),
            Topology::Wired { wiring, .. } => Stage::At(wiring.switch_of(from)),
        };
        Way { to, stage }
    }

    /// The place where a load queues for the next egress port: its switch, or the receiving node, for which alone the last port is;
    /// none if it has no other before it.
    pub fn place(&self, way: &Way) -> Option<usize> {
        match (way.stage, self) {
            (Stage::Along(route, passed), _) => {
                (passed < route.length()).then(|| route.hop(passed).place)
            }
            (Stage::At(switch), Topology::Wired { wiring, nodes, .. }) => {
                Some(match wiring.switch_of(way.to.node) == switch {
                    true => way.to.node,
                    false => nodes + switch,
                })
            }
            _ => None,
        }
    }

    /// Goes past that egress port: where there are several to choose from, the one for which `crowd` is least, and of these the
    /// first from the destination's own on.
    pub fn pass<C: Ord>(&self, way: &mut Way, crowd: impl Fn(Choice) -> C) -> Choice {
        let (stage, choice) = match (way.stage, self) {
            (Stage::Along(route, passed), _) => {
                let egress = route.hop(passed).egress;
                (Stage::Along(route, passed + 1), Choice { egress, class: 0 })
            }
            (Stage::At(switch), Topology::Wired { wiring, nodes, .. }) => {
                self.pass_switch((wiring, *nodes), switch, way.to, crowd)
            }
            _ => unreachable!("a load passes ports until it is there"),
        };
        way.stage = stage;
        choice
    }

    fn pass_switch<C: Ord>(
        &self,
        (wiring, nodes): (&Wiring, usize),
        switch: usize,
        to: Port,
        crowd: impl Fn(Choice) -> C,
    ) -> (Stage, Choice) {
        let ports = self.ports();
        if wiring.switch_of(to.node) == switch {
            let egress = (nodes + to.node) * ports + to.port;
            return (Stage::There, Choice { egress, class: 0 });
        }
        let choice_of = |way: crate::topology::Way| Choice {
            egress: 2 * nodes * ports + way.link,
            class: way.class,
        };
        let usual = wiring.way(switch, to.node);
        let mut best = (choice_of(usual), usual.link);
        if wiring.adaptive() {
            let mut least = crowd(best.0);
            wiring.ways(switch, to.node, |way| {
                let other = choice_of(way);
                let crowd = crowd(other);
                if crowd < least {
                    (best, least) = ((other, way.link), crowd);
                }
            });
        }
        (Stage::At(wiring.ends(best.1).1), best.0)
    }
}
