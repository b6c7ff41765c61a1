//! Explicit list of cables, with forwarding tables or, without them, shortest paths.

use super::routing::NextHop;
use std::collections::VecDeque;

/// Switches with their nodes and cables, and the routes between them.
#[derive(Debug, Clone)]
pub struct Table {
    switches: usize,
    attached: Vec<usize>,
    cables: Vec<(usize, usize)>,
    /// Links that leave each switch, with the switch at their far end.
    leaving: Vec<Vec<(usize, usize)>>,
    onwards: Onwards,
}

#[derive(Debug, Clone)]
enum Onwards {
    /// By switch and node: the link to take.
    Given(Vec<Option<usize>>),
    /// By switch and switch: the number of cables between them.
    Shortest(Vec<usize>),
}

impl Table {
    /// Creates a table. `attached` is the switch of each node, `cables` the switches at the ends of
    /// each.
    ///
    /// # Errors
    ///
    /// Returns an error if a node or cable refers to a switch that does not exist, a cable connects
    /// a switch with itself, or a node cannot be reached.
    pub fn new(
        switches: usize,
        attached: Vec<usize>,
        cables: Vec<(usize, usize)>,
    ) -> Result<Table, String> {
        if let Some(node) = attached.iter().position(|&switch| switch >= switches) {
            return Err(format!(
                "node {node} is attached to switch {}, but there are only switches 0 to {}",
                attached[node],
                switches - 1
            ));
        }
        for (number, &(one, other)) in cables.iter().enumerate() {
            if one >= switches || other >= switches || one == other {
                return Err(format!(
                    "cable {number} joins switches {one} and {other}; expected two of 0 to {}",
                    switches - 1
                ));
            }
        }
        let mut leaving = vec![Vec::new(); switches];
        for (number, &(one, other)) in cables.iter().enumerate() {
            leaving[one].push((2 * number, other));
            leaving[other].push((2 * number + 1, one));
        }
        let mut distances = Vec::with_capacity(switches * switches);
        for switch in 0..switches {
            distances.extend(distances_from(switch, &leaving));
        }
        for (one, other) in attached.iter().zip(attached.iter().skip(1)) {
            if distances[one * switches + other] == usize::MAX {
                return Err(format!(
                    "no cables lead from switch {one} to switch {other}"
                ));
            }
        }
        Ok(Table {
            switches,
            attached,
            cables,
            leaving,
            onwards: Onwards::Shortest(distances),
        })
    }

    /// Adds forwarding tables: by switch and node the number of the cable to take, or -1 for the
    /// switch's own nodes and for those whose packets never come there.
    ///
    /// # Errors
    ///
    /// Returns an error if the tables have the wrong size, name a cable that the switch does not
    /// have, or leave a node unreachable.
    pub fn forwarding(mut self, tables: &[Vec<i64>]) -> Result<Table, String> {
        if tables.len() != self.switches {
            return Err(format!(
                "there are {} forwarding tables for {} switches",
                tables.len(),
                self.switches
            ));
        }
        let mut given = Vec::with_capacity(self.switches * self.nodes());
        for (switch, table) in tables.iter().enumerate() {
            if table.len() != self.nodes() {
                return Err(format!(
                    "the forwarding table of switch {switch} has {} entries for {} nodes",
                    table.len(),
                    self.nodes()
                ));
            }
            for (node, &cable) in table.iter().enumerate() {
                let links = usize::try_from(cable)
                    .ok()
                    .map(|cable| [2 * cable, 2 * cable + 1]);
                let leaves = |links: [usize; 2]| {
                    let mut own = self.leaving[switch].iter().map(|(link, _)| *link);
                    own.find(|link| links.contains(link))
                };
                let link = links.and_then(leaves);
                if link.is_none() && cable != -1 {
                    return Err(format!(
                        "the forwarding table of switch {switch} sends packets for node {node} \
                         over cable {cable}, which it does not have"
                    ));
                }
                given.push(link);
            }
        }
        self.onwards = Onwards::Given(given);
        self.every_way_ends()?;
        Ok(self)
    }

    /// Checks that every node is reached from every switch with nodes.
    fn every_way_ends(&self) -> Result<(), String> {
        let mut sources = self.attached.clone();
        sources.sort_unstable();
        sources.dedup();
        for to in 0..self.nodes() {
            for &source in &sources {
                let mut way = vec![source];
                while let Some(&at) = way.last().filter(|at| **at != self.attached[to]) {
                    let mut next = None;
                    self.ways(at, to, &mut |way| next = Some(self.end(way.link)));
                    let Some(next) = next else {
                        return Err(format!(
                            "the forwarding table of switch {at} has no entry for node {to}, for \
                             which packets arrive from switch {source}"
                        ));
                    };
                    let again = way.contains(&next);
                    way.push(next);
                    if again {
                        let way: Vec<_> = way.iter().map(usize::to_string).collect();
                        let way = way.join(" -> ");
                        return Err(format!("packets for node {to} go in a cycle: switch {way}"));
                    }
                }
            }
        }
        Ok(())
    }

    fn end(&self, link: usize) -> usize {
        let (one, other) = self.cables[link / 2];
        if link.is_multiple_of(2) { other } else { one }
    }

    /// Returns the cables.
    pub fn cables(&self) -> &[(usize, usize)] {
        &self.cables
    }

    /// Returns the number of switches.
    pub fn switches(&self) -> usize {
        self.switches
    }

    /// Returns the number of nodes.
    pub fn nodes(&self) -> usize {
        self.attached.len()
    }

    /// Returns the switch of a node.
    pub fn switch_of(&self, node: usize) -> usize {
        self.attached[node]
    }

    /// Calls `each` with the link of the forwarding table, or with all links that lead closer to
    /// the node.
    pub fn ways(&self, at: usize, to: usize, each: &mut impl FnMut(NextHop)) {
        match &self.onwards {
            Onwards::Given(links) => {
                if let Some(link) = links[at * self.nodes() + to] {
                    each(NextHop { link, class: 0 });
                }
            }
            Onwards::Shortest(distances) => {
                let left = |switch: usize| distances[self.attached[to] * self.switches + switch];
                for &(link, end) in &self.leaving[at] {
                    if left(end) < left(at) {
                        each(NextHop { link, class: 0 });
                    }
                }
            }
        }
    }
}

/// Returns the number of cables from a switch to each switch; `usize::MAX` if unreachable.
fn distances_from(switch: usize, leaving: &[Vec<(usize, usize)>]) -> Vec<usize> {
    let mut distances = vec![usize::MAX; leaving.len()];
    distances[switch] = 0;
    let mut reached = VecDeque::from([switch]);
    while let Some(at) = reached.pop_front() {
        for &(_, next) in &leaving[at] {
            if distances[next] == usize::MAX {
                distances[next] = distances[at] + 1;
                reached.push_back(next);
            }
        }
    }
    distances
}
