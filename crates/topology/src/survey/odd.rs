//! Links and switches that differ from the others like them.

use std::collections::BTreeMap;

use super::Ground;
use crate::build::{Link, LinkEnd, NodeKind};
use crate::rate::Rate;

/// Share of the links of a class that makes their rate the usual one.
const USUAL: f64 = 0.5;

/// Something out of the ordinary.
#[derive(Debug, Clone, PartialEq)]
pub enum OddLink {
    /// A link that is slower than most links between nodes of these levels.
    Slow {
        /// Its ends.
        ends: [LinkEnd; 2],
        /// Its rate.
        rate: Rate,
        /// The usual rate.
        usual: Rate,
    },
    /// A switch with fewer links upwards than most of its level.
    FewUplinks {
        /// Index of the switch.
        switch: usize,
        /// Number of its links upwards.
        links: usize,
        /// The usual number.
        usual: usize,
    },
    /// A cable between two ports of one switch.
    Loop {
        /// Its ends.
        ends: [LinkEnd; 2],
    },
    /// An adapter without a link.
    Unconnected {
        /// Index of the node.
        node: usize,
    },
}

/// Finds them, in the order of the kinds above.
pub(super) fn find(ground: &Ground<'_>) -> Vec<OddLink> {
    let mut odd = slow(ground);
    odd.extend(few_uplinks(ground));
    for link in &ground.topology.links {
        if link.ends[0].node == link.ends[1].node {
            odd.push(OddLink::Loop { ends: link.ends });
        }
    }
    let nodes = ground.topology.nodes.iter().enumerate();
    odd.extend(
        nodes
            .filter(|&(node, _)| ground.neighbours[node].is_empty())
            .map(|(node, _)| OddLink::Unconnected { node }),
    );
    odd
}

/// Levels of a link's ends, the lower first: links of one class should be alike.
fn class(ground: &Ground<'_>, link: &Link) -> (Option<usize>, Option<usize>) {
    let [one, other] = link.ends.map(|end| ground.levels[end.node]);
    (one.min(other), one.max(other))
}

fn slow(ground: &Ground<'_>) -> Vec<OddLink> {
    let is_of_host = |link: &&Link| {
        link.ends
            .iter()
            .all(|end| ground.topology.nodes[end.node].kind != NodeKind::Aggregation)
    };
    let links: Vec<&Link> = ground.topology.links.iter().filter(is_of_host).collect();
    let mut classes: BTreeMap<_, BTreeMap<String, (Rate, usize)>> = BTreeMap::new();
    for link in &links {
        if let Some(rate) = link.rate {
            let counts = classes.entry(class(ground, link)).or_default();
            counts.entry(rate.to_string()).or_insert((rate, 0)).1 += 1;
        }
    }
    let usual: BTreeMap<_, Rate> = classes
        .into_iter()
        .filter_map(|(class, rates)| {
            let all: usize = rates.values().map(|&(_, count)| count).sum();
            let (rate, count) = rates.into_values().max_by_key(|&(_, count)| count)?;
            (count as f64 > USUAL * all as f64).then_some((class, rate))
        })
        .collect();
    links
        .iter()
        .filter_map(|link| {
            let (rate, usual) = (link.rate?, *usual.get(&class(ground, link))?);
            (rate.gigabits() < usual.gigabits()).then_some(OddLink::Slow {
                ends: link.ends,
                rate,
                usual,
            })
        })
        .collect()
}

fn few_uplinks(ground: &Ground<'_>) -> Vec<OddLink> {
    let mut by_level: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for switch in ground.nodes(NodeKind::Switch) {
        if let Some(level) = ground.levels[switch] {
            let up = ground.neighbours[switch]
                .iter()
                .filter(|&&(peer, _)| ground.levels[peer] > Some(level))
                // The computing part of a switch (SHARP) is no way to other switches.
                .filter(|&&(peer, _)| ground.topology.nodes[peer].kind != NodeKind::Aggregation)
                .count();
            by_level.entry(level).or_default().push((switch, up));
        }
    }
    let mut odd = Vec::new();
    for switches in by_level.values() {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for &(_, up) in switches {
            *counts.entry(up).or_default() += 1;
        }
        let Some((&usual, &count)) = counts.iter().max_by_key(|&(_, count)| count) else {
            continue;
        };
        if count as f64 <= USUAL * switches.len() as f64 {
            continue;
        }
        odd.extend(
            switches
                .iter()
                .filter(|&&(_, up)| up < usual)
                .map(|&(switch, links)| OddLink::FewUplinks {
                    switch,
                    links,
                    usual,
                }),
        );
    }
    odd
}
