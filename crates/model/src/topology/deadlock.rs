//! Whether packets could wait for each other for ever.
//!
//! A packet in the buffer at a link's end waits for room at the next link's. If no round of buffers, each with a packet that
//! waits for the next, is possible by the routing, some packet can always go on. Source: Dally and Seitz, 1987 (channel
//! dependency graph); for links chosen adaptively this asks for more than is needed.

use super::Wiring;
use std::collections::HashSet;

/// A round of waiting, if the routing allows one when a link has `lanes` virtual lanes, in words.
pub fn round(wiring: &Wiring, lanes: usize) -> Result<(), String> {
    let classes = wiring.classes().min(lanes);
    let waits = dependencies(wiring, classes);
    let Some(round) = cycle(&waits) else {
        return Ok(());
    };
    let mut switches: Vec<_> = round
        .iter()
        .map(|channel| wiring.ends(channel / classes).0.to_string())
        .collect();
    switches.push(switches[0].clone());
    let remedy = match classes < wiring.classes() {
        true => format!(
            "this shape needs {} virtual lanes, and the link has {lanes}: set `lanes` of the link's profile",
            wiring.classes()
        ),
        false => "give forwarding tables without such a round, or cables that need none".to_owned(),
    };
    Err(format!(
        "packets could wait for each other for ever, round the switches {}; {remedy}",
        switches.join(" -> ")
    ))
}

/// By channel (a link's buffer of a class): those for which a packet in it may wait.
fn dependencies(wiring: &Wiring, classes: usize) -> Vec<Vec<u32>> {
    let mut waits = vec![Vec::new(); wiring.links() * classes];
    let mut known = HashSet::new();
    let mut sources: Vec<_> = (0..wiring.nodes()).map(|n| wiring.switch_of(n)).collect();
    sources.sort_unstable();
    sources.dedup();
    for to in 0..wiring.nodes() {
        let target = wiring.switch_of(to);
        let mut seen = vec![false; wiring.switches()];
        let mut open: Vec<_> = sources.iter().copied().filter(|s| *s != target).collect();
        open.iter().for_each(|&switch| seen[switch] = true);
        while let Some(at) = open.pop() {
            wiring.taken(at, to, |way| {
                let channel = way.link * classes + way.class % classes;
                let (_, next) = wiring.ends(way.link);
                if next == target {
                    return;
                }
                if !std::mem::replace(&mut seen[next], true) {
                    open.push(next);
                }
                wiring.taken(next, to, |way| {
                    let then = way.link * classes + way.class % classes;
                    if known.insert((channel, then)) {
                        waits[channel].push(then as u32);
                    }
                });
            });
        }
    }
    waits
}

/// A cycle of a directed graph, if it has one.
fn cycle(edges: &[Vec<u32>]) -> Option<Vec<usize>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        No,
        OnTheWay,
        Done,
    }
    let mut seen = vec![Seen::No; edges.len()];
    for start in 0..edges.len() {
        if seen[start] != Seen::No {
            continue;
        }
        seen[start] = Seen::OnTheWay;
        let mut path = vec![(start, 0)];
        while let Some((at, next)) = path.last_mut() {
            let Some(&to) = edges[*at].get(*next) else {
                seen[*at] = Seen::Done;
                path.pop();
                continue;
            };
            *next += 1;
            let to = to as usize;
            match seen[to] {
                Seen::Done => {}
                Seen::No => {
                    seen[to] = Seen::OnTheWay;
                    path.push((to, 0));
                }
                Seen::OnTheWay => {
                    let from = path.iter().position(|(at, _)| *at == to)?;
                    return Some(path[from..].iter().map(|(at, _)| *at).collect());
                }
            }
        }
    }
    None
}
