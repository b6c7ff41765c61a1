//! The subnet manager inside the fabric: LIDs, forwarding tables, multicast tables, port states. It
//! changes the state directly instead of by datagrams, so that a fabric is up at once. It routes by
//! shortest paths, which are free of loops, but not of deadlocks on every topology.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use crate::attribute::port_info::{self, capability, state};
use crate::attribute::{sm_info, switch_info};
use crate::fabric::{End, Fabric, Kind, UNICAST_LIDS};
use crate::mad::{Mad, class, method, status};
use crate::multicast;
use crate::partitions::{self, Partition};
use crate::route::Packet;
use crate::sa::{Administration, Event, Notice};

/// Reports that wait at the same time, of all events of a change; further ones are lost.
const MOST_REPORTS: usize = 1 << 17;

/// The subnet manager, with subnet administration.
#[derive(Debug, Clone)]
pub struct Manager {
    /// The port at which it is reached.
    pub at: End,
    /// Number of actions.
    activity: u32,
    administration: Administration,
    /// Partitions; without any, the keys of ports stay as they are.
    partitions: Vec<Partition>,
    /// The ports that the last sweep reached, by their GUIDs.
    in_service: BTreeMap<u64, End>,
    /// Reports that are to be sent.
    reports: Vec<Packet>,
}

impl Manager {
    /// Starts a manager at a port, and configures the fabric; without partitions all ports are
    /// full members of the default one.
    pub fn start(at: End, fabric: &mut Fabric, partitions: Vec<Partition>) -> Manager {
        if let Some(port) = fabric.port_mut(at) {
            let capabilities = port_info::CAPABILITIES.get(&port.info) | capability::IS_SM;
            port_info::CAPABILITIES.set(&mut port.info, capabilities);
        }
        let mut manager = Manager {
            at,
            activity: 0,
            administration: Administration::new(&partitions),
            partitions,
            in_service: BTreeMap::new(),
            reports: Vec::new(),
        };
        manager.sweep(fabric);
        manager
    }

    /// Returns the port at which a manager for a fabric is best placed: port 0 of the first switch,
    /// else the first port that has a link.
    pub fn place(fabric: &Fabric) -> Option<End> {
        let linked = |end: &End| fabric.port(*end).is_some_and(|port| port.peer.is_some());
        let switch = fabric
            .nodes
            .iter()
            .position(|node| node.kind == Kind::Switch);
        match switch {
            Some(node) => Some(End {
                node: node as u32,
                port: 0,
            }),
            None => {
                let first = fabric.ends().find(linked);
                first.or_else(|| fabric.ends().next())
            }
        }
    }

    /// Configures everything that is connected with the manager's port.
    pub fn sweep(&mut self, fabric: &mut Fabric) {
        self.activity = self.activity.wrapping_add(1);
        fabric.version += 1;
        let nodes = connected(fabric, self.at);
        assign_lids(fabric, &nodes);
        let sm_lid = fabric.port(self.at).map_or(0, |port| port.lid());
        for &node in &nodes {
            activate(fabric, node, sm_lid);
        }
        if !self.partitions.is_empty() {
            let ends = nodes.iter().flat_map(|&node| {
                let ports = addressed(fabric, node).into_iter();
                ports.map(move |port| End { node, port })
            });
            let ends: Vec<End> = ends.collect();
            partitions::set(&self.partitions, fabric, self.at, &ends);
        }
        forward(fabric, &nodes);
        self.compare_ports(fabric, &nodes);
        let nodes = nodes.into_iter().collect();
        for lid in self.administration.groups() {
            self.set_group(fabric, &nodes, lid);
        }
    }

    /// Reports the ports that came into service, or went out of it, since the last sweep.
    fn compare_ports(&mut self, fabric: &Fabric, nodes: &[u32]) {
        let mut now = BTreeMap::new();
        for &node in nodes {
            let ends = addressed(fabric, node).into_iter();
            for end in ends.map(|port| End { node, port }) {
                let guid = fabric.port(end).map_or(0, |port| port.guid);
                now.insert(guid, end);
            }
        }
        let before = std::mem::take(&mut self.in_service);
        let missing = |from: &BTreeMap<u64, End>, other: &BTreeMap<u64, End>| {
            let lost = from.iter().filter(|(guid, _)| !other.contains_key(guid));
            lost.map(|(guid, end)| (*guid, *end)).collect::<Vec<_>>()
        };
        for (guid, end) in missing(&before, &now) {
            self.administration.end_subscriptions(guid);
            self.report(
                fabric,
                &Notice::of_event(fabric, self.at, Event::OutOfService(end)),
            );
        }
        for (_, end) in missing(&now, &before) {
            self.report(
                fabric,
                &Notice::of_event(fabric, self.at, Event::InService(end)),
            );
        }
        self.in_service = now;
    }

    /// Ends the subscriptions of queue pairs of a node.
    pub fn end_subscriptions(&mut self, fabric: &Fabric, node: u32, queue_pairs: &BTreeSet<u32>) {
        let administration = &mut self.administration;
        administration.end_subscriptions_of(fabric, node, queue_pairs);
    }

    /// Prepares the reports of a notice for its subscribers.
    fn report(&mut self, fabric: &Fabric, notice: &Notice) {
        let from = fabric.port(self.at).map_or(0, |port| port.lid());
        let reports = self.administration.reports(fabric, notice, from);
        let room = MOST_REPORTS.saturating_sub(self.reports.len());
        self.reports.extend(reports.into_iter().take(room));
    }

    /// Returns the reports that are to be sent from the manager's port.
    pub(crate) fn take_reports(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.reports)
    }

    /// Sets the multicast tables for a group.
    fn set_group(&self, fabric: &mut Fabric, nodes: &HashSet<u32>, lid: u16) {
        let mut members = self.administration.members(lid);
        members.retain(|member| {
            let end = fabric.end_of_guid(member.guid);
            end.is_some_and(|end| nodes.contains(&end.node))
        });
        multicast::set_tree(fabric, lid, &members);
    }

    /// Answers a datagram for subnet management or administration.
    pub(crate) fn answer(&mut self, fabric: &mut Fabric, packet: &Packet) -> Option<Mad> {
        let mad = &packet.mad;
        if mad.class() == class::SA {
            let sm_info = self.sm_info(fabric);
            let answer = self.administration.answer(fabric, packet, sm_info)?;
            if let Some(lid) = Administration::changed(mad, &answer) {
                let nodes = connected(fabric, self.at).into_iter().collect();
                self.set_group(fabric, &nodes, lid);
            }
            for event in self.administration.take_events() {
                self.report(fabric, &Notice::of_event(fabric, self.at, event));
            }
            return Some(answer);
        }
        match mad.method() {
            // A sweep follows each trap.
            method::TRAP => {
                if let Some(from) = fabric.end_of_lid(packet.slid) {
                    self.report(fabric, &Notice::of_trap(fabric, from, mad.data()));
                }
                let mut answer = mad.response(0);
                answer.set_method(method::TRAP_REPRESS);
                Some(answer)
            }
            method::GET => {
                let mut answer = mad.response(0);
                answer.data_mut()[..24].copy_from_slice(&self.sm_info(fabric));
                Some(answer)
            }
            // Handover and the like: this manager stays master.
            _ => Some(mad.response(status::ATTRIBUTE)),
        }
    }

    /// Returns the manager's SMInfo.
    fn sm_info(&self, fabric: &Fabric) -> [u8; 24] {
        let mut block = [0; 24];
        let guid = fabric.port(self.at).map_or(0, |port| port.guid);
        sm_info::GUID.set(&mut block, guid);
        sm_info::ACTIVITY.set(&mut block, self.activity.into());
        sm_info::STATE.set(&mut block, sm_info::MASTER);
        block
    }
}

impl Fabric {
    /// Returns the nodes that no links connect with a port.
    pub fn unreached(&self, from: End) -> Vec<u32> {
        let reached: HashSet<u32> = connected(self, from).into_iter().collect();
        let all = 0..self.nodes.len() as u32;
        all.filter(|node| !reached.contains(node)).collect()
    }
}

/// Returns the nodes that links connect with a port, in the order of their distance. Only switches
/// lead on.
fn connected(fabric: &Fabric, from: End) -> Vec<u32> {
    let mut known = vec![false; fabric.nodes.len()];
    let mut found = Vec::new();
    let mut open = VecDeque::from([from.node]);
    known[from.node as usize] = true;
    while let Some(at) = open.pop_front() {
        found.push(at);
        let node = &fabric.nodes[at as usize];
        for (number, port) in node.numbered() {
            let leads_on = node.kind == Kind::Switch || at == from.node && number == from.port;
            let Some(peer) = port.peer.filter(|_| port.is_linked() && leads_on) else {
                continue;
            };
            if !std::mem::replace(&mut known[peer.node as usize], true) {
                open.push_back(peer.node);
            }
        }
    }
    found
}

/// Returns the ports of a node that have LIDs: port 0 of a switch, the linked ones of others.
fn addressed(fabric: &Fabric, node: u32) -> Vec<u8> {
    let this = &fabric.nodes[node as usize];
    match this.kind {
        Kind::Switch => vec![0],
        _ => this
            .numbered()
            .filter(|(_, port)| port.is_linked())
            .map(|(number, _)| number)
            .collect(),
    }
}

/// Gives a LID to each port that has none, or one that another port has.
fn assign_lids(fabric: &mut Fabric, nodes: &[u32]) {
    let mut used: HashSet<u16> = HashSet::new();
    let mut without = Vec::new();
    for &node in nodes {
        for port in addressed(fabric, node) {
            let end = End { node, port };
            let Some(this) = fabric.port(end) else {
                continue;
            };
            let (lid, count) = (this.lid(), 1u32 << this.lmc());
            let range = u32::from(lid)..u32::from(lid) + count;
            let is_valid = lid != 0
                && range.end <= UNICAST_LIDS as u32
                && range.clone().all(|lid| !used.contains(&(lid as u16)));
            match is_valid {
                true => used.extend(range.map(|lid| lid as u16)),
                false => without.push(end),
            }
        }
    }
    let mut next = 1;
    for end in without {
        while used.contains(&next) {
            next += 1;
        }
        // A fabric has fewer ports than LIDs, which its builder checks.
        used.insert(next);
        if let Some(port) = fabric.port_mut(end) {
            port_info::LID.set(&mut port.info, next.into());
            port_info::LMC.set(&mut port.info, 0);
        }
    }
}

/// Makes the linked ports of a node active.
fn activate(fabric: &mut Fabric, node: u32, sm_lid: u16) {
    let numbers: Vec<u8> = fabric.nodes[node as usize]
        .numbered()
        .map(|(number, _)| number)
        .collect();
    for port in numbers {
        let peer = fabric.port(End { node, port }).and_then(|port| port.peer);
        let of_peer = peer
            .and_then(|peer| fabric.port(peer))
            .map(|port| port.info);
        let Some(this) = fabric.port_mut(End { node, port }) else {
            continue;
        };
        let info = &mut this.info;
        port_info::SM_LID.set(info, sm_lid.into());
        if port_info::STATE.get(info) > state::DOWN {
            port_info::STATE.set(info, state::ACTIVE);
        }
        if let Some(of_peer) = of_peer {
            for (field, cap) in [
                (port_info::NEIGHBOR_MTU, port_info::MTU_CAP),
                (port_info::OPERATIONAL_VLS, port_info::VL_CAP),
            ] {
                let least = cap.get(info).min(cap.get(&of_peer));
                field.set(info, least);
            }
        }
    }
}

/// Fills the linear tables with shortest paths. Of several, the LID chooses, so that destinations
/// spread over them.
fn forward(fabric: &mut Fabric, nodes: &[u32]) {
    let is_switch = |fabric: &Fabric, node: u32| fabric.nodes[node as usize].kind == Kind::Switch;
    let switches: Vec<u32> = nodes
        .iter()
        .copied()
        .filter(|node| is_switch(fabric, *node))
        .collect();
    let mut index = vec![usize::MAX; fabric.nodes.len()];
    for (at, node) in switches.iter().enumerate() {
        index[*node as usize] = at;
    }
    // Links between switches, and the LIDs at each switch with the port that leads to them.
    let mut links: Vec<Vec<(u8, usize)>> = vec![Vec::new(); switches.len()];
    let mut lids: Vec<Vec<(u16, u8)>> = vec![Vec::new(); switches.len()];
    let range = |port: &crate::fabric::Port| port.lid()..=port.lid() + ((1 << port.lmc()) - 1);
    let mut top = 0;
    for (at, node) in switches.iter().enumerate() {
        for (number, port) in fabric.nodes[*node as usize].numbered() {
            if number == 0 {
                lids[at].extend(range(port).map(|lid| (lid, 0)));
                continue;
            }
            let Some(peer) = port.peer.filter(|_| port.is_linked()) else {
                continue;
            };
            match index[peer.node as usize] {
                usize::MAX => {
                    if let Some(port) = fabric.port(peer).filter(|port| port.lid() != 0) {
                        lids[at].extend(range(port).map(|lid| (lid, number)));
                    }
                }
                other if other != at => links[at].push((number, other)),
                _ => {}
            }
        }
        top = lids[at]
            .iter()
            .map(|(lid, _)| *lid)
            .max()
            .unwrap_or(0)
            .max(top);
    }
    for node in &switches {
        if let Some(forwarding) = &mut fabric.nodes[*node as usize].forwarding {
            forwarding.linear.clear();
            switch_info::LINEAR_TOP.set(&mut forwarding.info, top.into());
            switch_info::PORT_STATE_CHANGE.set(&mut forwarding.info, 0);
        }
    }
    let mut candidates = Vec::new();
    for (target, lids) in lids.iter().enumerate() {
        let distance = distances(&links, target);
        for (at, node) in switches.iter().enumerate() {
            let Some(forwarding) = &mut fabric.nodes[*node as usize].forwarding else {
                continue;
            };
            if at == target {
                for (lid, port) in lids {
                    forwarding.set_port(*lid, *port);
                }
                continue;
            }
            candidates.clear();
            let nearer = links[at]
                .iter()
                .filter(|(_, to)| distance[*to] != usize::MAX && distance[*to] < distance[at]);
            candidates.extend(nearer.map(|(port, _)| *port));
            if candidates.is_empty() {
                continue;
            }
            for (lid, _) in lids {
                let port = candidates[usize::from(*lid) % candidates.len()];
                forwarding.set_port(*lid, port);
            }
        }
    }
}

/// Returns the distance of each switch to one.
fn distances(links: &[Vec<(u8, usize)>], from: usize) -> Vec<usize> {
    let mut distance = vec![usize::MAX; links.len()];
    distance[from] = 0;
    let mut open = VecDeque::from([from]);
    while let Some(at) = open.pop_front() {
        for (_, next) in &links[at] {
            if distance[*next] == usize::MAX {
                distance[*next] = distance[at] + 1;
                open.push_back(*next);
            }
        }
    }
    distance
}
