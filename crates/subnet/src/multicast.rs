//! Multicast tables: a tree of switches for each group, which leads from each member to all others.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet, VecDeque};

use crate::attribute::switch_info;
use crate::fabric::{End, FIRST_MULTICAST, Fabric, Forwarding, Kind};

/// A member of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    /// GUID of the port.
    pub guid: u64,
    /// Whether it receives packets; others only send them.
    pub receives: bool,
}

/// LIDs of a block of a table.
const BLOCK: u16 = 32;
/// Ports of a block.
const PORTS: u8 = 16;

impl Forwarding {
    /// Returns whether packets to a multicast LID leave by a port.
    pub fn has_multicast_port(&self, lid: u16, port: u8) -> bool {
        let Some((key, at, bit)) = place(lid, port) else {
            return false;
        };
        let block = self.multicast.get(&key);
        block.is_some_and(|block| u16::from_be_bytes([block[at], block[at + 1]]) & bit != 0)
    }

    /// Lets packets to a multicast LID leave by a port, too.
    fn add_multicast_port(&mut self, lid: u16, port: u8) {
        let Some((key, at, bit)) = place(lid, port) else {
            return;
        };
        let block = self.multicast.entry(key).or_insert([0; 64]);
        let ports = u16::from_be_bytes([block[at], block[at + 1]]) | bit;
        block[at..at + 2].copy_from_slice(&ports.to_be_bytes());
    }

    /// Removes all ports of a multicast LID.
    fn clear_multicast(&mut self, lid: u16) {
        let Some(((number, _), at, _)) = place(lid, 0) else {
            return;
        };
        // The blocks of this LID alone: a sweep clears each group.
        let keys = self.multicast.range((number, 0)..=(number, u8::MAX));
        let keys: Vec<(u16, u8)> = keys.map(|(key, _)| *key).collect();
        for key in keys {
            if let Entry::Occupied(mut entry) = self.multicast.entry(key) {
                entry.get_mut()[at..at + 2].fill(0);
                if entry.get().iter().all(|byte| *byte == 0) {
                    entry.remove();
                }
            }
        }
    }
}

/// Returns the block of an entry, its offset in bytes there, and the bit of the port.
fn place(lid: u16, port: u8) -> Option<((u16, u8), usize, u16)> {
    let index = lid.checked_sub(FIRST_MULTICAST)?;
    let at = 2 * usize::from(index % BLOCK);
    Some(((index / BLOCK, port / PORTS), at, 1 << (port % PORTS)))
}

/// Sets the entries of a multicast LID in all switches: those of a tree of shortest paths from the
/// switch of the first member. Members that are not connected with it are left out.
pub(crate) fn set_tree(fabric: &mut Fabric, lid: u16, members: &[Member]) {
    for node in &mut fabric.nodes {
        if let Some(forwarding) = &mut node.forwarding {
            forwarding.clear_multicast(lid);
        }
    }
    let places: Vec<(End, bool)> = members
        .iter()
        .filter_map(|member| Some((at_switch(fabric, member.guid)?, member.receives)))
        .collect();
    let Some((first, _)) = places.first() else {
        return;
    };
    let parents = parents(fabric, first.node);
    let mut add = |end: End| {
        let node = fabric.nodes.get_mut(end.node as usize);
        if let Some(forwarding) = node.and_then(|node| node.forwarding.as_mut()) {
            forwarding.add_multicast_port(lid, end.port);
            let top = switch_info::MULTICAST_TOP
                .get(&forwarding.info)
                .max(lid.into());
            switch_info::MULTICAST_TOP.set(&mut forwarding.info, top);
        }
    };
    let mut joined = HashSet::from([first.node]);
    for &(place, receives) in &places {
        let mut at = place.node;
        if at != first.node && !parents.contains_key(&at) {
            continue;
        }
        if receives {
            add(place);
        }
        while joined.insert(at)
            && let Some((down, up)) = parents.get(&at)
        {
            add(*down);
            add(*up);
            at = down.node;
        }
    }
}

/// Returns the port of a switch that leads to a member: its own port 0 if that is the member.
fn at_switch(fabric: &Fabric, guid: u64) -> Option<End> {
    let end = fabric.end_of_guid(guid)?;
    let is_switch = |node: u32| fabric.nodes[node as usize].kind == Kind::Switch;
    if is_switch(end.node) {
        return Some(End { port: 0, ..end });
    }
    let port = fabric.port(end).filter(|port| port.is_linked())?;
    port.peer.filter(|peer| is_switch(peer.node))
}

/// Returns for each switch but the first the link on the shortest path from there: the port of the
/// switch before, and its own.
fn parents(fabric: &Fabric, first: u32) -> BTreeMap<u32, (End, End)> {
    let mut found = BTreeMap::new();
    let mut open = VecDeque::from([first]);
    while let Some(at) = open.pop_front() {
        for (number, port) in fabric.nodes[at as usize].numbered() {
            let Some(peer) = port.peer.filter(|_| number != 0 && port.is_linked()) else {
                continue;
            };
            let is_switch = fabric.nodes[peer.node as usize].kind == Kind::Switch;
            if is_switch && peer.node != first && !found.contains_key(&peer.node) {
                let down = End {
                    node: at,
                    port: number,
                };
                found.insert(peer.node, (down, peer));
                open.push_back(peer.node);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::fmt::Write as _;

    const LID: u16 = FIRST_MULTICAST + 40;

    /// Returns a fabric of switches with a host each and cables between them.
    fn fabric(switches: usize, cables: &[(usize, usize)]) -> Fabric {
        let mut ports: Vec<Vec<(String, usize)>> = (0..switches)
            .map(|switch| vec![(format!("host{switch}"), 1)])
            .collect();
        for &(one, other) in cables {
            let (one, other) = (one % switches, other % switches);
            if one == other {
                continue;
            }
            let at = [ports[one].len() + 1, ports[other].len() + 1];
            ports[one].push((format!("switch{other}"), at[1]));
            ports[other].push((format!("switch{one}"), at[0]));
        }
        let mut text = String::new();
        for (switch, ports) in ports.iter().enumerate() {
            let _ = writeln!(text, "Switch {} \"switch{switch}\"", ports.len());
            for (at, (peer, port)) in ports.iter().enumerate() {
                let _ = writeln!(text, "[{}] \"{peer}\"[{port}]", at + 1);
            }
            let _ = writeln!(
                text,
                "\nHca 1 \"host{switch}\"\n[1] \"switch{switch}\"[1]\n"
            );
        }
        let topology = verbena_topology::read(text.as_bytes()).unwrap();
        crate::build(&topology).unwrap()
    }

    /// Returns the ports that a packet of a sender reaches, in the order of arrival.
    fn reached(fabric: &Fabric, sender: u64) -> Vec<End> {
        let first = fabric.end_of_guid(sender).unwrap();
        let is_switch = fabric.nodes[first.node as usize].kind == Kind::Switch;
        let enters = match is_switch {
            true => End { port: 0, ..first },
            false => fabric.port(first).unwrap().peer.unwrap(),
        };
        let mut found = Vec::new();
        let mut open = VecDeque::from([enters]);
        while let Some(at) = open.pop_front() {
            let node = &fabric.nodes[at.node as usize];
            let Some(forwarding) = &node.forwarding else {
                found.push(at);
                continue;
            };
            assert!(open.len() < 1000, "a loop");
            for (number, port) in node.numbered() {
                if number == at.port || !forwarding.has_multicast_port(LID, number) {
                    continue;
                }
                match number {
                    0 => found.push(End { port: 0, ..at }),
                    _ => open.push_back(port.peer.unwrap()),
                }
            }
        }
        found
    }

    proptest! {
        #[test]
        fn each_receiver_gets_one_copy(
            switches in 1..7usize,
            cables in proptest::collection::vec((0..7usize, 0..7usize), 0..14),
            roles in proptest::collection::vec(0..3u8, 14),
        ) {
            let mut fabric = fabric(switches, &cables);
            let connected = parents(&fabric, 0);
            let is_connected = |node: u32| node == 0 || connected.contains_key(&node);
            let mut members = Vec::new();
            for (node, role) in roles.iter().enumerate().take(fabric.nodes.len()) {
                let guid = fabric.nodes[node].ports[0].guid;
                let place = at_switch(&fabric, guid).unwrap();
                if *role > 0 && is_connected(place.node) {
                    members.push(Member { guid, receives: *role == 1 });
                }
            }
            set_tree(&mut fabric, LID, &members);
            for sender in &members {
                let mut found = reached(&fabric, sender.guid);
                let mut known: Vec<_> = members
                    .iter()
                    .filter(|member| member.receives && *member != sender)
                    .map(|member| fabric.end_of_guid(member.guid).unwrap())
                    .collect();
                found.sort_unstable();
                known.sort_unstable();
                prop_assert_eq!(found, known);
            }
            set_tree(&mut fabric, LID, &[]);
            for node in &fabric.nodes {
                prop_assert!(node.forwarding.iter().all(|table| table.multicast.is_empty()));
            }
        }
    }

    #[test]
    fn groups_of_one_block_do_not_disturb_each_other() {
        let mut forwarding = Forwarding::default();
        for (lid, port) in [(LID, 3), (LID + 1, 3), (LID + 1, 200)] {
            forwarding.add_multicast_port(lid, port);
        }
        forwarding.clear_multicast(LID);
        assert!(!forwarding.has_multicast_port(LID, 3));
        assert!(forwarding.has_multicast_port(LID + 1, 3));
        assert!(forwarding.has_multicast_port(LID + 1, 200));
        assert!(!forwarding.has_multicast_port(1, 3));
    }
}
