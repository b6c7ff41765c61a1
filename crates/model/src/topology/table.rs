//! Cables one by one, with forwarding tables or without: then the shortest ways are taken.

use super::Way;
use std::collections::VecDeque;

/// Where nodes are attached, which switches are joined, and how to go on.
#[derive(Debug, Clone)]
pub struct Table {
    switches: usize,
    attached: Vec<usize>,
    cables: Vec<(usize, usize)>,
    /// Links that leave each switch, with the switch at their end.
    leaving: Vec<Vec<(usize, usize)>>,
    onwards: Onwards,
}

#[derive(Debug, Clone)]
enum Onwards {
    /// By switch and node: the link that is taken.
    Given(Vec<Option<usize>>),
    /// By switch and switch: cables between them.
    Shortest(Vec<usize>),
}

impl Table {
    /// `attached`: the switch of each node; `cables`: the switches at their ends. An error says what is wrong with them.
    pub fn new(
        switches: usize,
        attached: Vec<usize>,
        cables: Vec<(usize, usize)>,
    ) -> Result<Table, String> {
        if let Some(node) = attached.iter().position(|&switch| switch >= switches) {
            return Err(format!(
                "node {node} is attached to switch {}, and there are switches 0 to {}",
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

    /// The same with forwarding tables: by switch and node the number of the cable that is taken; for nodes of its own, and for
    /// those that never come there, -1. An error says what is wrong with them.
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
                        "the forwarding table of switch {switch} sends what is for node {node} over cable {cable}, which it has not"
                    ));
                }
                given.push(link);
            }
        }
        self.onwards = Onwards::Given(given);
        self.every_way_ends()?;
        Ok(self)
    }

    /// From every switch with nodes, every node is reached.
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
                            "the forwarding table of switch {at} says nothing of node {to}, for which packets come there from switch {source}"
                        ));
                    };
                    let again = way.contains(&next);
                    way.push(next);
                    if again {
                        let way: Vec<_> = way.iter().map(usize::to_string).collect();
                        let way = way.join(" -> ");
                        return Err(format!("what is for node {to} goes round: switch {way}"));
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

    /// As they were given.
    pub fn cables(&self) -> &[(usize, usize)] {
        &self.cables
    }

    /// How many.
    pub fn switches(&self) -> usize {
        self.switches
    }

    /// How many.
    pub fn nodes(&self) -> usize {
        self.attached.len()
    }

    /// As it was given.
    pub fn switch_of(&self, node: usize) -> usize {
        self.attached[node]
    }

    /// The link of the forwarding table, or all that bring a packet nearer.
    pub fn ways(&self, at: usize, to: usize, each: &mut impl FnMut(Way)) {
        match &self.onwards {
            Onwards::Given(links) => {
                if let Some(link) = links[at * self.nodes() + to] {
                    each(Way { link, class: 0 });
                }
            }
            Onwards::Shortest(distances) => {
                let left = |switch: usize| distances[self.attached[to] * self.switches + switch];
                for &(link, end) in &self.leaving[at] {
                    if left(end) < left(at) {
                        each(Way { link, class: 0 });
                    }
                }
            }
        }
    }
}

/// Cables from a switch to each; the largest number where none lead.
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
