//! Bisection: the least maximum flow between two halves of the adapters, over some halvings.

use std::collections::VecDeque;

use super::{Bisection, Ground};
use crate::build::NodeKind;

/// Number of halvings besides that in order of the file.
const HALVINGS: usize = 16;
/// Above so many leaf switches fewer halvings are tried, as a flow takes seconds.
const MANY: usize = 1000;

/// A directed edge; its opposite is the next or the previous one.
struct Edge {
    to: usize,
    capacity: f64,
}

/// A flow network; each undirected link is a pair of edges with the same capacity.
#[derive(Default)]
struct Network {
    edges: Vec<Edge>,
    leaving: Vec<Vec<usize>>,
}

/// Returns the bisection; `None` with fewer than two adapters. Adapters at one leaf switch stay
/// together, since a scheduler fills leaf switches first and a split leaf switch has no
/// bottleneck.
pub(super) fn bisection(ground: &Ground<'_>) -> Option<Bisection> {
    let mut leaves = leaves(ground);
    if leaves.len() < 2 {
        return None;
    }
    let tries = if leaves.len() > MANY { 1 } else { HALVINGS };
    let mut worst: Option<Bisection> = None;
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for turn in 0..=tries {
        if turn > 0 {
            shuffle(&mut leaves, &mut random);
        }
        let found = halve(ground, &leaves);
        let share = |one: &Bisection| one.capacity / one.needed.max(f64::MIN_POSITIVE);
        if worst.is_none_or(|worst| share(&found) < share(&worst)) {
            worst = Some(found);
        }
    }
    worst
}

/// Leaf switches with the capacity of their adapters.
fn leaves(ground: &Ground<'_>) -> Vec<(usize, f64)> {
    let kinds = &ground.topology.nodes;
    ground
        .nodes(NodeKind::Switch)
        .into_iter()
        .filter_map(|switch| {
            let adapters = ground.neighbours[switch]
                .iter()
                .filter(|&&(peer, _)| kinds[peer].kind == NodeKind::Adapter);
            let mut capacities = adapters.map(|&(_, capacity)| capacity).peekable();
            capacities.peek()?;
            Some((switch, capacities.sum()))
        })
        .collect()
}

fn shuffle(leaves: &mut [(usize, f64)], random: &mut u64) {
    for last in (1..leaves.len()).rev() {
        // Xorshift; the same for each run.
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        leaves.swap(last, (*random % (last as u64 + 1)) as usize);
    }
}

/// Splits the leaf switches where half of their adapters' capacity is reached.
fn halve(ground: &Ground<'_>, leaves: &[(usize, f64)]) -> Bisection {
    let all: f64 = leaves.iter().map(|&(_, capacity)| capacity).sum();
    let mut sums = [0.0, 0.0];
    let nodes = ground.neighbours.len();
    let mut network = Network::default();
    network.leaving.resize_with(nodes + 2, Vec::new);
    let (source, sink) = (nodes, nodes + 1);
    for (number, &(leaf, capacity)) in leaves.iter().enumerate() {
        let is_last = number + 1 == leaves.len();
        let is_first = number == 0;
        let in_first = !is_last && (is_first || sums[0] + capacity <= all / 2.0);
        sums[usize::from(!in_first)] += capacity;
        match in_first {
            true => network.link(source, leaf, capacity, 0.0),
            false => network.link(leaf, sink, capacity, 0.0),
        }
    }
    for switch in ground.nodes(NodeKind::Switch) {
        for &(peer, capacity) in &ground.neighbours[switch] {
            let is_switch = ground.topology.nodes[peer].kind == NodeKind::Switch;
            if is_switch && peer > switch {
                network.link(switch, peer, capacity, capacity);
            }
        }
    }
    Bisection {
        capacity: network.flow(source, sink),
        needed: sums[0].min(sums[1]),
    }
}

impl Network {
    fn link(&mut self, from: usize, to: usize, there: f64, back: f64) {
        self.leaving[from].push(self.edges.len());
        self.edges.push(Edge {
            to,
            capacity: there,
        });
        self.leaving[to].push(self.edges.len());
        self.edges.push(Edge {
            to: from,
            capacity: back,
        });
    }

    /// Maximum flow by Dinic's algorithm; the capacities are used up.
    fn flow(&mut self, source: usize, sink: usize) -> f64 {
        let mut flow = 0.0;
        while let Some(levels) = self.levels(source, sink) {
            let mut next = vec![0; self.leaving.len()];
            loop {
                let pushed = self.push(source, sink, &levels, &mut next);
                if pushed <= 0.0 {
                    break;
                }
                flow += pushed;
            }
        }
        flow
    }

    fn levels(&self, source: usize, sink: usize) -> Option<Vec<usize>> {
        let mut levels = vec![usize::MAX; self.leaving.len()];
        levels[source] = 0;
        let mut queue = VecDeque::from([source]);
        while let Some(node) = queue.pop_front() {
            for &edge in &self.leaving[node] {
                let Edge { to, capacity } = &self.edges[edge];
                let (to, capacity) = (*to, *capacity);
                if capacity > LEAST && levels[to] == usize::MAX {
                    levels[to] = levels[node] + 1;
                    queue.push_back(to);
                }
            }
        }
        (levels[sink] != usize::MAX).then_some(levels)
    }

    /// Pushes flow along one path of rising levels; returns its amount, 0 if there is no path.
    fn push(&mut self, source: usize, sink: usize, levels: &[usize], next: &mut [usize]) -> f64 {
        let mut path: Vec<usize> = Vec::new();
        let mut node = source;
        while node != sink {
            let edge = self.leaving[node].get(next[node]).copied();
            match edge {
                Some(edge)
                    if self.edges[edge].capacity > LEAST
                        && levels[self.edges[edge].to] == levels[node] + 1 =>
                {
                    path.push(edge);
                    node = self.edges[edge].to;
                }
                Some(_) => next[node] += 1,
                None => match path.pop() {
                    Some(edge) => {
                        node = self.edges[edge ^ 1].to;
                        next[node] += 1;
                    }
                    None => return 0.0,
                },
            }
        }
        let capacities = path.iter().map(|&edge| self.edges[edge].capacity);
        let least = capacities.fold(f64::INFINITY, f64::min);
        for edge in path {
            self.edges[edge].capacity -= least;
            self.edges[edge ^ 1].capacity += least;
        }
        least
    }
}

/// Capacities below this are rounding errors.
const LEAST: f64 = 1e-9;
