//! A survey of a topology: levels, oversubscription, bisection, links that are out of the ordinary.

mod cut;
mod odd;

use std::collections::{BTreeMap, VecDeque};

use crate::build::{Link, Node, NodeKind, Topology};
use crate::rate::Rate;

pub use odd::OddLink;

/// A survey. Capacities are data rates in Gbit/s and direction, or numbers of links if the rate of
/// a link is unknown ([`Survey::unknown_rates`]).
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    /// Number of adapters, those inside switches not counted.
    pub adapters: usize,
    /// Number of hosts: adapters of one host share the first word of their descriptions
    /// ([`crate::Node::host`]); of adapters with one description each is another host's.
    pub hosts: usize,
    /// Descriptions that several adapters have, with their number, the most frequent first.
    pub shared: Vec<(String, usize)>,
    /// Number of switches.
    pub switches: usize,
    /// Number of links of each rate, the most frequent first; `None` for an unknown rate.
    pub rates: Vec<(Option<Rate>, usize)>,
    /// Number of links of unknown rate between hosts and switches. If it is not 0, all capacities
    /// count links.
    pub unknown_rates: usize,
    /// Number of parts that are not connected with each other; 1 for a whole fabric.
    pub parts: usize,
    /// The switches by level, from those that adapters are connected to.
    pub levels: Vec<Level>,
    /// Bisection: the capacity between two halves of the adapters.
    pub bisection: Option<Bisection>,
    /// Links that differ from the others like them.
    pub odd: Vec<OddLink>,
}

/// Capacity between two halves of the adapters, along the worst of the halvings that were tried:
/// an upper bound of the bisection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bisection {
    /// Capacity of the links between the halves.
    pub capacity: f64,
    /// Capacity of the links of the smaller half's adapters.
    pub needed: f64,
}

/// The switches of a level.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// Number of links to the nearest adapter.
    pub level: usize,
    /// Number of switches.
    pub switches: usize,
    /// Capacity of their links downwards.
    pub down: f64,
    /// Capacity of their links upwards.
    pub up: f64,
    /// Capacity of links within the level.
    pub across: f64,
    /// Down over up; `None` where no switch has links upwards.
    pub oversubscription: Option<Oversubscription>,
}

/// Capacity downwards over capacity upwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Oversubscription {
    /// Of the level: the sum downwards over the sum upwards.
    pub overall: f64,
    /// Of the switch with the lowest value.
    pub least: f64,
    /// Of the switch with the highest value.
    pub most: f64,
    /// Number of switches without links upwards; their links downwards count in `overall` alone.
    pub without: usize,
}

/// A topology with the distances and capacities that all parts of a survey use.
struct Ground<'a> {
    topology: &'a Topology,
    unknown_rates: usize,
    /// Peers and capacities by node.
    neighbours: Vec<Vec<(usize, f64)>>,
    /// Level by node: 0 for adapters, the distance to the nearest for switches, `None` where no
    /// adapter can be reached.
    levels: Vec<Option<usize>>,
}

impl Survey {
    /// Surveys a topology.
    pub fn of(topology: &Topology) -> Survey {
        let ground = Ground::of(topology);
        let nodes = topology.nodes.iter();
        let adapters: Vec<&Node> = nodes
            .filter(|node| node.kind == NodeKind::Adapter)
            .collect();
        let (hosts, shared) = hosts(&adapters);
        let switches = topology
            .nodes
            .iter()
            .filter(|node| node.kind == NodeKind::Switch)
            .count();
        Survey {
            adapters: adapters.len(),
            hosts,
            shared,
            switches,
            rates: rates(topology),
            unknown_rates: ground.unknown_rates,
            parts: ground.parts(),
            levels: ground.by_level(),
            bisection: cut::bisection(&ground),
            odd: odd::find(&ground),
        }
    }
}

/// Returns the number of hosts and the descriptions that several adapters have.
fn hosts(adapters: &[&Node]) -> (usize, Vec<(String, usize)>) {
    let mut descriptions: BTreeMap<&str, (&Node, usize)> = BTreeMap::new();
    for node in adapters {
        descriptions.entry(node.name()).or_insert((node, 0)).1 += 1;
    }
    // A host has one adapter of a description, so a name has as many hosts as its most frequent
    // description has adapters.
    let mut hosts: BTreeMap<&str, usize> = BTreeMap::new();
    for &(node, count) in descriptions.values() {
        let known = hosts.entry(node.host()).or_default();
        *known = count.max(*known);
    }
    let shared = descriptions
        .into_iter()
        .filter(|(_, (_, count))| *count > 1);
    let mut shared: Vec<_> = shared
        .map(|(description, (_, count))| (description.to_owned(), count))
        .collect();
    shared.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    (hosts.into_values().sum(), shared)
}

fn rates(topology: &Topology) -> Vec<(Option<Rate>, usize)> {
    let mut counts: BTreeMap<String, (Option<Rate>, usize)> = BTreeMap::new();
    for link in &topology.links {
        let name = link.rate.map(|rate| rate.to_string()).unwrap_or_default();
        counts.entry(name).or_insert((link.rate, 0)).1 += 1;
    }
    let mut counts: Vec<_> = counts.into_values().collect();
    counts.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    counts
}

impl Ground<'_> {
    fn of(topology: &Topology) -> Ground<'_> {
        let is_unknown = |link: &&Link| {
            let kinds = link.ends.map(|end| topology.nodes[end.node].kind);
            link.rate.is_none() && !kinds.contains(&NodeKind::Aggregation)
        };
        let unknown_rates = topology.links.iter().filter(is_unknown).count();
        let mut neighbours = vec![Vec::new(); topology.nodes.len()];
        for link in &topology.links {
            let [one, other] = link.ends.map(|end| end.node);
            if one == other {
                continue;
            }
            let capacity = match link.rate {
                Some(rate) if unknown_rates == 0 => rate.gigabits(),
                _ => 1.0,
            };
            neighbours[one].push((other, capacity));
            neighbours[other].push((one, capacity));
        }
        let mut ground = Ground {
            topology,
            unknown_rates,
            neighbours,
            levels: Vec::new(),
        };
        let adapters = ground.nodes(NodeKind::Adapter);
        ground.levels = ground.distances(adapters);
        ground
    }

    fn nodes(&self, kind: NodeKind) -> Vec<usize> {
        let all = self.topology.nodes.iter().enumerate();
        all.filter(|(_, node)| node.kind == kind)
            .map(|(number, _)| number)
            .collect()
    }

    /// Distances to the nearest of these nodes.
    fn distances(&self, from: Vec<usize>) -> Vec<Option<usize>> {
        let mut distances = vec![None; self.neighbours.len()];
        for &node in &from {
            distances[node] = Some(0);
        }
        let mut queue = VecDeque::from(from);
        while let Some(node) = queue.pop_front() {
            let next = distances[node].map(|distance| distance + 1);
            for &(peer, _) in &self.neighbours[node] {
                if distances[peer].is_none() {
                    distances[peer] = next;
                    queue.push_back(peer);
                }
            }
        }
        distances
    }

    fn parts(&self) -> usize {
        let mut is_known = vec![false; self.neighbours.len()];
        let mut parts = 0;
        for start in 0..is_known.len() {
            if std::mem::replace(&mut is_known[start], true) {
                continue;
            }
            parts += 1;
            let mut open = vec![start];
            while let Some(node) = open.pop() {
                for &(peer, _) in &self.neighbours[node] {
                    if !std::mem::replace(&mut is_known[peer], true) {
                        open.push(peer);
                    }
                }
            }
        }
        parts
    }

    /// Capacity of a switch's links to lower, equal and higher levels.
    fn capacities(&self, node: usize) -> [f64; 3] {
        let mut sums = [0.0; 3];
        for &(peer, capacity) in &self.neighbours[node] {
            // Adapters inside switches are no traffic of hosts.
            if self.topology.nodes[peer].kind == NodeKind::Aggregation {
                continue;
            }
            let way = match self.levels[peer].cmp(&self.levels[node]) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => 1,
                std::cmp::Ordering::Greater => 2,
            };
            sums[way] += capacity;
        }
        sums
    }

    fn by_level(&self) -> Vec<Level> {
        let mut by_level: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for node in self.nodes(NodeKind::Switch) {
            if let Some(level) = self.levels[node] {
                by_level.entry(level).or_default().push(node);
            }
        }
        by_level
            .into_iter()
            .map(|(level, switches)| {
                let each: Vec<[f64; 3]> =
                    switches.iter().map(|&one| self.capacities(one)).collect();
                let sum = |way: usize| each.iter().map(|sums| sums[way]).sum();
                Level {
                    level,
                    switches: switches.len(),
                    down: sum(0),
                    up: sum(2),
                    // Each link is one of both switches.
                    across: sum(1) / 2.0,
                    oversubscription: oversubscription(&each),
                }
            })
            .collect()
    }
}

fn oversubscription(switches: &[[f64; 3]]) -> Option<Oversubscription> {
    let mut ratios: Vec<f64> = switches
        .iter()
        .filter(|sums| sums[2] > 0.0)
        .map(|sums| sums[0] / sums[2])
        .collect();
    ratios.sort_by(f64::total_cmp);
    let sum = |way: usize| switches.iter().map(|sums| sums[way]).sum::<f64>();
    Some(Oversubscription {
        overall: sum(0) / sum(2),
        least: *ratios.first()?,
        most: *ratios.last()?,
        without: switches.len() - ratios.len(),
    })
}
