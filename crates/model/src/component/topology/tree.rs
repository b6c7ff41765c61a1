//! Fat trees of two or three levels for more nodes than a switch has ports, routed by destination
//! (D-mod-k), the default of subnet managers. Partitions of switches are numbered leaves, spines,
//! cores.

use crate::component::port::Port;

/// An egress port on a path, and the partition in which loads queue for it: its switch, or, for the
/// last port, which serves it alone, the receiving node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Hop {
    egress: u32,
    place: u32,
}

impl Hop {
    pub fn egress(self) -> usize {
        self.egress as usize
    }

    pub fn place(self) -> usize {
        self.place as usize
    }
}

/// Most switches on a path.
const LONGEST: usize = 5;

/// The egress ports after the adapter's own.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Route {
    hops: [Hop; LONGEST],
    length: u8,
}

impl Route {
    fn push(&mut self, egress: usize, place: usize) {
        self.hops[self.length()] = Hop {
            egress: egress as u32,
            place: place as u32,
        };
        self.length += 1;
    }

    pub fn length(&self) -> usize {
        usize::from(self.length)
    }

    pub fn hop(&self, number: usize) -> Hop {
        self.hops[number]
    }
}

/// A fat tree; for few nodes a single switch or none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tree {
    nodes: usize,
    ports: usize,
    levels: usize,
    /// Ports on one side of a switch; 0 without switches.
    half: usize,
    leaves: usize,
    pods: usize,
}

impl Tree {
    /// Creates the tree of `nodes` adapters with `ports` ports each and, if any, switches of
    /// `switch` ports.
    pub fn new(nodes: usize, ports: usize, switch: Option<usize>) -> Tree {
        let half = switch.map_or(0, |ports| ports / 2);
        let levels = match switch {
            None => 0,
            Some(ports) if nodes <= ports => 1,
            Some(ports) if nodes <= ports * half => 2,
            Some(_) => 3,
        };
        let leaves = match levels {
            2 | 3 => nodes.div_ceil(half),
            _ => 0,
        };
        let pods = match levels {
            3 => leaves.div_ceil(half),
            _ => levels.min(1),
        };
        Tree {
            nodes,
            ports,
            levels,
            half,
            leaves,
            pods,
        }
    }

    /// Describes its switches, of a profile `name` and with `switch` ports.
    pub fn about(&self, name: &str, switch: usize) -> String {
        let half = self.half;
        let upper = match self.levels {
            0 => return "no switch".to_owned(),
            1 => return format!("one {name} switch of {switch} ports"),
            2 => format!("{half} spines"),
            _ => format!("{} spines, {} cores", self.pods * half, half * half),
        };
        format!(
            "fat tree of {name} switches ({switch} ports): {} levels, {} leaves, {upper}, 1:1",
            self.levels, self.leaves
        )
    }

    pub fn ports(&self) -> usize {
        self.ports
    }

    /// Returns the number of ports of all adapters.
    pub fn adapter_ports(&self) -> usize {
        self.nodes * self.ports
    }

    pub fn is_switched(&self) -> bool {
        self.levels > 0
    }

    pub fn egresses(&self) -> usize {
        self.cores_down() + self.core_links()
    }

    fn core_links(&self) -> usize {
        match self.levels {
            3 => self.pods * self.half * self.half,
            _ => 0,
        }
    }

    /// First numbers of the ports from a leaf up, from a spine down, from a spine up, and from a
    /// core down.
    fn leaves_up(&self) -> usize {
        2 * self.nodes * self.ports
    }

    fn spines_down(&self) -> usize {
        self.leaves_up() + self.leaves * self.half
    }

    fn spines_up(&self) -> usize {
        self.spines_down() + self.leaves * self.half
    }

    fn cores_down(&self) -> usize {
        self.spines_up() + self.core_links()
    }

    /// Returns the name of the link of an egress port between switches. Leaves, spines and cores
    /// are counted separately.
    pub fn name(&self, egress: usize) -> String {
        let half = self.half.max(1);
        let within = |first: usize| egress.checked_sub(first);
        if let Some(link) = within(self.cores_down()) {
            let spine = link / half;
            let core = spine % half * half + link % half;
            return format!("the link from core {core} to spine {spine}");
        }
        if let Some(link) = within(self.spines_up()) {
            let spine = link / half;
            let core = spine % half * half + link % half;
            return format!("the link from spine {spine} to core {core}");
        }
        let (link, is_down) = match within(self.spines_down()) {
            Some(link) => (link, true),
            None => (egress.saturating_sub(self.leaves_up()), false),
        };
        let leaf = link / half;
        let pod = match self.levels {
            3 => leaf / half,
            _ => 0,
        };
        let spine = pod * half + link % half;
        match is_down {
            true => format!("the link from spine {spine} to leaf {leaf}"),
            false => format!("the link from leaf {leaf} to spine {spine}"),
        }
    }

    /// Returns the number of spines and cores.
    fn upper(&self) -> usize {
        match self.levels {
            0 | 1 => 0,
            2 => self.half,
            _ => (self.pods + self.half) * self.half,
        }
    }

    /// Returns the number of partitions: nodes, leaves, spines, cores.
    pub fn places(&self) -> usize {
        self.nodes + self.leaves + self.upper()
    }

    /// Returns a node near a partition: for a leaf its first; spines and cores are near to all.
    pub fn home(&self, place: usize) -> usize {
        match place.checked_sub(self.nodes) {
            None => place,
            Some(leaf) if leaf < self.leaves => leaf * self.half,
            Some(upper) => (upper - self.leaves) * self.nodes / self.upper(),
        }
    }

    /// Returns the path from a node to a port.
    pub fn route(&self, from: usize, to: Port) -> Route {
        let mut route = Route::default();
        if self.levels == 0 {
            return route;
        }
        let half = self.half;
        if self.levels > 1 && from / half != to.node / half {
            let (leaf, target) = (from / half, to.node / half);
            let pod_of = |leaf: usize| match self.levels {
                3 => leaf / half,
                _ => 0,
            };
            let (pod, target_pod) = (pod_of(leaf), pod_of(target));
            let spine = to.node % half;
            let spine_place = |pod: usize| self.nodes + self.leaves + pod * half + spine;
            route.push(self.leaves_up() + leaf * half + spine, self.nodes + leaf);
            if pod != target_pod {
                let core = to.node / half % half;
                let link = |pod: usize| (pod * half + spine) * half + core;
                let cores = self.nodes + self.leaves + self.pods * half;
                route.push(self.spines_up() + link(pod), spine_place(pod));
                route.push(
                    self.cores_down() + link(target_pod),
                    cores + spine * half + core,
                );
            }
            route.push(
                self.spines_down() + target * half + spine,
                spine_place(target_pod),
            );
        }
        route.push((self.nodes + to.node) * self.ports + to.port, to.node);
        route
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn port(node: usize) -> Port {
        Port { node, port: 0 }
    }

    #[test]
    fn routes_grow_with_distance() {
        let length = |nodes, from, to| Tree::new(nodes, 1, Some(24)).route(from, port(to)).length();
        assert_eq!(length(24, 0, 23), 1);
        assert_eq!((length(200, 0, 1), length(200, 0, 199)), (1, 3));
        assert_eq!((length(3000, 0, 2999), length(3000, 0, 13)), (5, 3));
        assert_eq!(
            Tree::new(2, 1, None).route(0, port(1)).length(),
            0,
            "back to back"
        );
    }

    #[test]
    fn every_egress_port_is_in_one_partition() {
        for nodes in [2, 24, 25, 288, 289, 700] {
            let topology = Tree::new(nodes, 2, Some(24));
            let mut places = BTreeMap::new();
            for (from, to) in (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))) {
                let last = Port { node: to, port: 1 };
                let route = topology.route(from, last);
                for number in 0..route.length() {
                    let hop = route.hop(number);
                    assert!((2 * nodes..topology.egresses()).contains(&hop.egress()));
                    let place = places.entry(hop.egress()).or_insert(hop.place());
                    assert_eq!(*place, hop.place());
                }
                assert_eq!(route.hop(route.length() - 1).place(), to);
            }
        }
    }
}
