//! A fabric as state: nodes, ports and links.

use std::collections::{BTreeMap, HashMap};

use crate::attribute::port_info::{self, capability, physical, state};
use crate::attribute::switch_info;
use crate::counters::Counters;
use crate::notice;
use crate::partitions;

/// Size of a node's description in bytes.
pub const DESCRIPTION: usize = 64;
/// Number of LIDs for unicast, LID 0 included.
pub const UNICAST_LIDS: usize = 0xc000;
/// The first LID for multicast.
pub const FIRST_MULTICAST: u16 = UNICAST_LIDS as u16;
/// Port number that tables have for no port.
pub const NO_PORT: u8 = 255;
/// Partition key of every port: full membership of the default partition.
pub const DEFAULT_P_KEY: u16 = 0xffff;

/// Kind of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A channel adapter.
    Adapter,
    /// A switch.
    Switch,
    /// A router.
    Router,
}

impl Kind {
    /// Returns the code of NodeInfo.
    pub fn code(self) -> u8 {
        match self {
            Kind::Adapter => 1,
            Kind::Switch => 2,
            Kind::Router => 3,
        }
    }
}

/// A port: index of its node, and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct End {
    /// Index of the node in [`Fabric::nodes`].
    pub node: u32,
    /// Number of the port: 0 is a switch's own.
    pub port: u8,
}

/// Tables of a port that differ from the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tables {
    /// Partition keys; empty means the default one.
    pub p_keys: Vec<u16>,
    /// GUIDs behind the first, which is the port's.
    pub guids: Vec<u64>,
    /// Virtual lanes by service level, by the port of entry.
    pub sl_to_vl: BTreeMap<u8, [u8; 8]>,
    /// Arbitration, by block.
    pub arbitration: BTreeMap<u8, [u8; 64]>,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// GUID; of a switch's external ports that of the switch.
    pub guid: u64,
    /// The port of the peer.
    pub peer: Option<End>,
    /// PortInfo.
    pub info: [u8; port_info::SIZE],
    /// Whether the cable is cut, so that the link stays down.
    pub is_cut: bool,
    /// Whether the link runs at FDR10, which PortInfo cannot say.
    pub is_fdr10: bool,
    /// Counters.
    pub counters: Counters,
    /// Tables, once they were set.
    pub tables: Option<Box<Tables>>,
    /// Number of Sets of PortInfo that asked programs to register again.
    pub reregistrations: u32,
}

impl Port {
    /// Returns the base LID.
    pub fn lid(&self) -> u16 {
        port_info::LID.get(&self.info) as u16
    }

    /// Returns the LID mask control.
    pub fn lmc(&self) -> u8 {
        port_info::LMC.get(&self.info) as u8
    }

    /// Returns whether a LID is one of the port's.
    pub fn has_lid(&self, lid: u16) -> bool {
        let base = self.lid();
        base != 0 && lid >> self.lmc() == base >> self.lmc()
    }

    /// Returns the state: 1 down to 4 active.
    pub fn state(&self) -> u64 {
        port_info::STATE.get(&self.info)
    }

    /// Returns the physical state.
    pub fn physical(&self) -> u64 {
        port_info::PHYSICAL_STATE.get(&self.info)
    }

    /// Returns whether the link is up, so that management packets of lane 15 pass.
    pub fn is_linked(&self) -> bool {
        self.physical() == physical::LINK_UP
    }

    /// Returns the partition key of requests to the subnet manager: that of the default partition,
    /// or without it the first.
    pub fn default_p_key(&self) -> u16 {
        let keys = self.p_keys();
        let of_default = keys.iter().find(|key| **key | 0x8000 == DEFAULT_P_KEY);
        of_default.copied().unwrap_or_else(|| self.p_key(0))
    }

    /// Returns the partition key at an index.
    pub fn p_key(&self, index: u16) -> u16 {
        let set = self.tables.as_ref().map(|tables| &tables.p_keys);
        match set {
            Some(keys) if !keys.is_empty() => keys.get(usize::from(index)).copied().unwrap_or(0),
            _ if index == 0 => DEFAULT_P_KEY,
            _ => 0,
        }
    }

    /// Returns the partition keys of the table, those that are none included.
    pub fn p_keys(&self) -> &[u16] {
        let set = self.tables.as_ref().map(|tables| &tables.p_keys[..]);
        set.filter(|keys| !keys.is_empty())
            .unwrap_or(&[DEFAULT_P_KEY])
    }

    /// Returns whether the port is a member of a partition, full or limited.
    pub fn has_partition(&self, p_key: u16) -> bool {
        let base = p_key & partitions::DEFAULT;
        let mut bases = self.p_keys().iter().map(|key| key & partitions::DEFAULT);
        base != 0 && bases.any(|key| key == base)
    }

    /// Returns the port's key of the first partition in which it reaches a port, or of this
    /// partition: of two members one must be a full one (10.9.1.2).
    pub fn common_p_key(&self, other: &Port, wanted: Option<u16>) -> Option<u16> {
        let mut own = self.p_keys().iter().copied();
        own.find(|key| {
            let is_same = |other: &u16| {
                (key ^ other) & partitions::DEFAULT == 0 && (key | other) & partitions::FULL != 0
            };
            key & partitions::DEFAULT != 0
                && wanted.is_none_or(|wanted| (wanted ^ key) & partitions::DEFAULT == 0)
                && other.p_keys().iter().any(is_same)
        })
    }

    /// Returns the port's key that matches that of a packet: of the same partition, one of both a
    /// full member's (10.9.3).
    pub fn matching_p_key(&self, p_key: u16) -> Option<u16> {
        let mut own = self.p_keys().iter().copied();
        own.find(|key| {
            key & partitions::DEFAULT != 0
                && (key ^ p_key) & partitions::DEFAULT == 0
                && (key | p_key) & partitions::FULL != 0
        })
    }

    /// Returns the index of a partition key in the table; 0 if it is not there.
    pub fn index_of_p_key(&self, p_key: u16) -> u16 {
        let at = self.p_keys().iter().position(|key| *key == p_key);
        at.unwrap_or(0) as u16
    }

    /// Returns the GUID at an index.
    pub fn guid_at(&self, index: usize) -> u64 {
        match index {
            0 => self.guid,
            _ => {
                let set = self.tables.as_ref();
                set.and_then(|tables| tables.guids.get(index - 1).copied())
                    .unwrap_or(0)
            }
        }
    }

    /// Returns the tables, to be changed.
    pub fn tables_mut(&mut self) -> &mut Tables {
        self.tables.get_or_insert_with(Box::default)
    }
}

/// The forwarding part of a switch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forwarding {
    /// SwitchInfo.
    pub info: [u8; switch_info::SIZE],
    /// Port by LID, as far as it was set.
    pub linear: Vec<u8>,
    /// Ports by block of 32 multicast LIDs and by group of 16 ports.
    pub multicast: BTreeMap<(u16, u8), [u8; 64]>,
}

impl Forwarding {
    /// Returns the port for a LID, unless the table has none.
    pub fn port(&self, lid: u16) -> Option<u8> {
        let is_within = u64::from(lid) <= switch_info::LINEAR_TOP.get(&self.info);
        let port = self.linear.get(usize::from(lid)).copied();
        port.filter(|port| is_within && *port != NO_PORT)
    }

    /// Sets the port for a LID.
    pub fn set_port(&mut self, lid: u16, port: u8) {
        let lid = usize::from(lid);
        if self.linear.len() <= lid {
            self.linear.resize(lid + 1, NO_PORT);
        }
        self.linear[lid] = port;
    }
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Kind.
    pub kind: Kind,
    /// GUID.
    pub guid: u64,
    /// GUID of the system that it is a part of.
    pub system_guid: u64,
    /// Vendor.
    pub vendor: u32,
    /// Device.
    pub device: u16,
    /// Description.
    pub description: [u8; DESCRIPTION],
    /// Ports: from 0 of a switch, from 1 of others.
    pub ports: Vec<Port>,
    /// The forwarding part of a switch.
    pub forwarding: Option<Box<Forwarding>>,
}

impl Node {
    /// Returns the number of the first port.
    pub fn first_port(&self) -> u8 {
        u8::from(self.kind != Kind::Switch)
    }

    /// Returns the number of ports, without a switch's port 0.
    pub fn port_count(&self) -> u8 {
        (self.ports.len() - usize::from(self.kind == Kind::Switch)) as u8
    }

    /// Returns a port.
    pub fn port(&self, number: u8) -> Option<&Port> {
        let at = usize::from(number).checked_sub(usize::from(self.first_port()))?;
        self.ports.get(at)
    }

    /// Returns a port, to be changed.
    pub fn port_mut(&mut self, number: u8) -> Option<&mut Port> {
        let at = usize::from(number).checked_sub(usize::from(self.first_port()))?;
        self.ports.get_mut(at)
    }

    /// Returns the numbers and the ports.
    pub fn numbered(&self) -> impl Iterator<Item = (u8, &Port)> {
        // The ports first: there is no number behind the last one.
        let numbers = (self.first_port().into()..).map(|number: u32| number as u8);
        self.ports
            .iter()
            .zip(numbers)
            .map(|(port, number)| (number, port))
    }

    /// Returns the port that has the LID of a port: itself, or port 0 of a switch.
    pub fn addressed(&self, number: u8) -> u8 {
        match self.kind {
            Kind::Switch => 0,
            _ => number,
        }
    }

    /// Returns the description as text.
    pub fn text(&self) -> String {
        let end = self.description.iter().position(|byte| *byte == 0);
        String::from_utf8_lossy(&self.description[..end.unwrap_or(DESCRIPTION)]).into_owned()
    }
}

/// A fabric.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fabric {
    /// Nodes.
    pub nodes: Vec<Node>,
    /// Changes with every state that routes, addresses or partitions depend on.
    pub version: u64,
    /// Traps that agents want to send, by the port that sends them.
    pub(crate) traps: Vec<(End, [u8; notice::SIZE])>,
    /// Nodes by the GUIDs of node and ports.
    pub(crate) by_guid: HashMap<u64, End>,
}

impl Fabric {
    /// Returns a port.
    pub fn port(&self, end: End) -> Option<&Port> {
        self.nodes.get(end.node as usize)?.port(end.port)
    }

    /// Returns a port, to be changed.
    pub fn port_mut(&mut self, end: End) -> Option<&mut Port> {
        self.nodes.get_mut(end.node as usize)?.port_mut(end.port)
    }

    /// Returns the port that a GUID names: of a port, or the first of a node.
    pub fn end_of_guid(&self, guid: u64) -> Option<End> {
        self.by_guid.get(&guid).copied()
    }

    /// Returns the port that has a LID.
    pub(crate) fn end_of_lid(&self, lid: u16) -> Option<End> {
        let has_lid = |end: &End| {
            self.is_addressed(*end) && self.port(*end).is_some_and(|port| port.has_lid(lid))
        };
        self.ends().find(has_lid)
    }

    /// Returns whether a port has a LID and GIDs: the external ports of a switch have none.
    pub(crate) fn is_addressed(&self, end: End) -> bool {
        let node = self.nodes.get(end.node as usize);
        node.is_some_and(|node| node.addressed(end.port) == end.port)
    }

    /// Returns the GID of a port; zeros if there is no such port.
    pub(crate) fn gid(&self, end: End) -> [u8; 16] {
        let mut gid = [0; 16];
        if let Some(port) = self.port(end) {
            let prefix = port_info::GID_PREFIX.get(&port.info);
            gid[..8].copy_from_slice(&prefix.to_be_bytes());
            gid[8..].copy_from_slice(&port.guid.to_be_bytes());
        }
        gid
    }

    /// Returns all ports.
    pub fn ends(&self) -> impl Iterator<Item = End> {
        self.nodes.iter().enumerate().flat_map(|(at, node)| {
            node.numbered().map(move |(port, _)| End {
                node: at as u32,
                port,
            })
        })
    }

    /// Returns the node that a user names: by its description, by a word of it, or by a GUID.
    ///
    /// # Errors
    ///
    /// Fails with a message if no node or several have the name.
    pub fn named(&self, name: &str) -> Result<u32, String> {
        let digits = name.strip_prefix("0x").unwrap_or(name);
        let digits = digits
            .strip_prefix("S-")
            .or(digits.strip_prefix("H-"))
            .unwrap_or(digits);
        if digits.len() > 4
            && let Ok(guid) = u64::from_str_radix(digits, 16)
            && let Some(end) = self.end_of_guid(guid)
        {
            return Ok(end.node);
        }
        let matching = |fits: &dyn Fn(&str) -> bool| -> Vec<u32> {
            let numbered = (0u32..).zip(&self.nodes);
            let found = numbered.filter(|(_, node)| fits(&node.text()));
            found.map(|(at, _)| at).collect()
        };
        let whole = matching(&|text| text == name);
        let found = match whole.is_empty() {
            true => matching(&|text| text.split([' ', ';', ':']).any(|word| word == name)),
            false => whole,
        };
        match found[..] {
            [node] => Ok(node),
            [] => Err(format!(
                "the fabric has no node {name:?}; `ibnetdiscover` lists its nodes"
            )),
            _ => Err(format!(
                "{} nodes of the fabric are called {name:?}; give the GUID of one of them",
                found.len()
            )),
        }
    }

    /// Takes a link down, or up again if neither end is disabled and the cable is whole. The
    /// switches at its ends record the change and trap.
    pub fn set_link(&mut self, end: End, physical: u64) {
        self.version += 1;
        let Some(peer) = self.port(end).and_then(|port| port.peer) else {
            if let Some(port) = self.port_mut(end) {
                port_info::PHYSICAL_STATE.set(&mut port.info, physical);
            }
            return;
        };
        let was_up = self.port(end).is_some_and(Port::is_linked);
        if let Some(port) = self.port_mut(end) {
            port_info::PHYSICAL_STATE.set(&mut port.info, physical);
        }
        let is_disabled = |fabric: &Fabric, end| {
            let state = fabric.port(end).map(Port::physical);
            state == Some(physical::DISABLED)
        };
        let is_cut = self.port(end).is_some_and(|port| port.is_cut);
        let comes_up = physical == physical::POLLING && !is_disabled(self, peer) && !is_cut;
        for at in [end, peer] {
            let is_disabled = is_disabled(self, at);
            let Some(port) = self.port_mut(at) else {
                continue;
            };
            let (logical, physical) = match (comes_up, is_disabled) {
                (true, _) => (state::INIT, physical::LINK_UP),
                (false, true) => (state::DOWN, physical::DISABLED),
                (false, false) => (state::DOWN, physical::POLLING),
            };
            port_info::STATE.set(&mut port.info, logical);
            port_info::PHYSICAL_STATE.set(&mut port.info, physical);
            if was_up {
                port.counters
                    .add(crate::attribute::counters::Counter::LinkDowned, 1);
            }
            self.state_changed(at.node);
        }
    }

    /// Marks a port as that of a subnet manager or not, with trap 144 if that changes it.
    pub fn mark_manager(&mut self, end: End, is_manager: bool) {
        let kind = self.nodes.get(end.node as usize).map(|node| node.kind);
        let (Some(port), Some(kind)) = (self.port_mut(end), kind) else {
            return;
        };
        let before = port_info::CAPABILITIES.get(&port.info);
        let now = match is_manager {
            true => before | capability::IS_SM,
            false => before & !capability::IS_SM,
        };
        if now == before {
            return;
        }
        port_info::CAPABILITIES.set(&mut port.info, now);
        let lid = port.lid();
        let second = port_info::CAPABILITIES_2.get(&port.info) as u16;
        let mut notice = notice::generic(notice::INFORMATION, 144, lid, kind);
        notice[12..14].copy_from_slice(&lid.to_be_bytes());
        notice[16..20].copy_from_slice(&(now as u32).to_be_bytes());
        notice[22..24].copy_from_slice(&second.to_be_bytes());
        self.traps.push((end, notice));
        self.version += 1;
    }

    /// Records in a switch that the state of a port changed, and sends trap 128.
    pub(crate) fn state_changed(&mut self, node: u32) {
        let Some(switch) = self.nodes.get_mut(node as usize) else {
            return;
        };
        let Some(forwarding) = &mut switch.forwarding else {
            return;
        };
        switch_info::PORT_STATE_CHANGE.set(&mut forwarding.info, 1);
        let own = End { node, port: 0 };
        let lid = self.port(own).map_or(0, Port::lid);
        let mut notice = notice::generic(notice::URGENT, 128, lid, Kind::Switch);
        notice[10..12].copy_from_slice(&lid.to_be_bytes());
        self.traps.push((own, notice));
    }
}
