//! A survey of a topology: levels, oversubscription, bisection, links that are out of the ordinary.

mod cut;
mod odd;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::build::{NodeKind, Topology};
use crate::rate::Rate;

pub use odd::OddLink;

/// A survey. Capacities are data rates in Gbit/s and direction; links of unknown rate count as
/// one unit each if no rate is known, and as nothing otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    /// Number of adapters, those inside switches not counted.
    pub adapters: usize,
    /// Number of hosts: adapters of one host share the first word of their descriptions.
    pub hosts: usize,
    /// Number of switches.
    pub switches: usize,
    /// Number of links of each rate, the most frequent first; `None` for an unknown rate.
    pub rates: Vec<(Option<Rate>, usize)>,
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
    /// Capacity of the links between the halves, in Gbit/s and direction.
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
    /// Down over up by switch; `None` where no switch has links upwards.
    pub oversubscription: Option<Oversubscription>,
}

/// Capacity downwards over capacity upwards, over the switches of a level that have links upwards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Oversubscription {
    /// Of the switch with the lowest value.
    pub least: f64,
    /// The median.
    pub median: f64,
    /// Of the switch with the highest value.
    pub most: f64,
    /// Number of switches without links upwards.
    pub without: usize,
}

/// A topology with the distances and capacities that all parts of a survey use.
struct Ground<'a> {
    topology: &'a Topology,
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
        let adapters = || {
            topology
                .nodes
                .iter()
                .filter(|node| node.kind == NodeKind::Adapter)
        };
        let hosts: BTreeSet<&str> = adapters().map(|node| node.host()).collect();
        let switches = topology
            .nodes
            .iter()
            .filter(|node| node.kind == NodeKind::Switch)
            .count();
        Survey {
            adapters: adapters().count(),
            hosts: hosts.len(),
            switches,
            rates: rates(topology),
            parts: ground.parts(),
            levels: ground.by_level(),
            bisection: cut::bisection(&ground),
            odd: odd::find(&ground),
        }
    }
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
        let has_rates = topology.links.iter().any(|link| link.rate.is_some());
        let mut neighbours = vec![Vec::new(); topology.nodes.len()];
        for link in &topology.links {
            let [one, other] = link.ends.map(|end| end.node);
            if one == other {
                continue;
            }
            let unknown = if has_rates { 0.0 } else { 1.0 };
            let capacity = link.rate.map_or(unknown, Rate::gigabits);
            neighbours[one].push((other, capacity));
            neighbours[other].push((one, capacity));
        }
        let mut ground = Ground {
            topology,
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
    Some(Oversubscription {
        least: *ratios.first()?,
        median: ratios[ratios.len() / 2],
        most: *ratios.last()?,
        without: switches.len() - ratios.len(),
    })
}
