//! Detects possible deadlocks between packets.
//!
//! A packet in the buffer at a link's end waits for space in the next link's buffer. If the routing
//! allows no cycle of buffers, each with a packet that waits for the next, some packet can always
//! proceed. Source: Dally and Seitz, 1987 (channel dependency graph); for adaptive routing this
//! condition is sufficient but stricter than necessary.

use super::routing::{Leg, NextHop};
use super::wiring::Wiring;
use std::collections::HashSet;

/// Checks that the routing allows no cycle of waiting packets when a link has `lanes` virtual
/// lanes; `name` returns the name of a switch.
///
/// # Errors
///
/// Returns a description of such a cycle and its remedy.
pub fn round(wiring: &Wiring, lanes: usize, name: impl Fn(usize) -> String) -> Result<(), String> {
    let classes = wiring.classes().min(lanes);
    let waits = dependencies(wiring, classes);
    let Some(round) = cycle(&waits) else {
        return Ok(());
    };
    let mut switches: Vec<_> = round
        .iter()
        .map(|channel| name(wiring.ends(channel / classes).0))
        .collect();
    switches.push(switches[0].clone());
    let remedy = match classes < wiring.classes() {
        true => format!(
            "this shape needs {} virtual lanes, and the link has {lanes}: \
             set `lanes` of the link's profile",
            wiring.classes()
        ),
        false => "give forwarding tables without such a cycle, or other cables".to_owned(),
    };
    Err(format!(
        "deadlock: packets could wait for each other forever in the cycle of switches {}; {remedy}",
        switches.join(" -> ")
    ))
}

/// Returns, by channel (a link's buffer of one class), the channels that a packet in it may wait
/// for.
fn dependencies(wiring: &Wiring, classes: usize) -> Vec<Vec<u32>> {
    let mut waits = vec![Vec::new(); wiring.links() * classes];
    let mut known = HashSet::new();
    let mut note = |one: NextHop, then: NextHop| {
        let [one, then] = [one, then].map(|way| way.link * classes + way.class % classes);
        if known.insert((one, then)) {
            waits[one].push(then as u32);
        }
    };
    direct(wiring, &mut note);
    if wiring.routing().goes_around() {
        around(wiring, &mut note);
    }
    waits
}

/// Passes to `note` each pair of links that may follow each other on a packet's path to its
/// destination.
fn direct(wiring: &Wiring, note: &mut impl FnMut(NextHop, NextHop)) {
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
                let (_, next) = wiring.ends(way.link);
                if next == target {
                    return;
                }
                if !std::mem::replace(&mut seen[next], true) {
                    open.push(next);
                }
                wiring.taken(next, to, |then| note(way, then));
            });
        }
    }
}

/// The same for packets that first go to an intermediate group, and for their continuation from
/// there. It does not check whether the group is a third one for each packet: the additional
/// dependencies do no harm.
fn around(wiring: &Wiring, note: &mut impl FnMut(NextHop, NextHop)) {
    // All switches choose adaptively, so the paths to the nodes of one switch are the same.
    let mut targets: Vec<_> = (0..wiring.nodes()).collect();
    targets.dedup_by_key(|node| wiring.switch_of(*node));
    for group in 0..wiring.groups() {
        let leg = Leg::Around(group);
        for at in (0..wiring.switches()).filter(|at| wiring.leg_at(leg, *at) == leg) {
            wiring.ways_of(leg, at, 0, |way| {
                let (_, next) = wiring.ends(way.link);
                if wiring.leg_at(leg, next) == leg {
                    wiring.ways_of(leg, next, 0, |then| note(way, then));
                    return;
                }
                for &to in targets.iter().filter(|to| wiring.switch_of(**to) != next) {
                    wiring.taken(next, to, |then| note(way, then));
                }
            });
        }
    }
}

/// Returns a cycle of a directed graph, if it has one.
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
