//! Nodes and links, collected from statements about ports.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::rate::Rate;
use crate::{Error, MOST_NODES, MOST_STATEMENTS};

/// Kind of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeKind {
    /// A switch.
    Switch,
    /// A channel adapter of a host, or a host where the file names no adapters.
    Adapter,
    /// The part of a switch that computes collectives (SHARP): an adapter without a host.
    Aggregation,
    /// A router between subnets.
    Router,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Kind.
    pub kind: NodeKind,
    /// Name in the file: a GUID with a letter, as `S-0008f10400410015`, or an invented name.
    pub id: String,
    /// Description that an administrator or the firmware chose; may be empty.
    pub description: String,
    /// Number of ports, if it is stated.
    pub ports: Option<u32>,
    /// Whether the file has an entry for it; otherwise it is known as a peer only.
    pub is_listed: bool,
    /// Its identity as hardware, as far as the file states it.
    pub hardware: Hardware,
}

/// Identity of a node as hardware, as far as a file states it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hardware {
    /// Vendor.
    pub vendor: Option<u32>,
    /// Device.
    pub device: Option<u16>,
    /// GUID of the system that the node is a part of.
    pub system_guid: Option<u64>,
    /// GUID of the node.
    pub node_guid: Option<u64>,
    /// LID mask control of its ports.
    pub lmc: Option<u8>,
    /// Whether port 0 of a switch is a whole port.
    pub is_enhanced: bool,
}

impl Node {
    /// Returns the description, or the id where there is none.
    pub fn name(&self) -> &str {
        match self.description.is_empty() {
            true => &self.id,
            false => &self.description,
        }
    }

    /// Returns the host of an adapter: the first word of a description of two words, of which
    /// the second names the device (`node7 mlx5_0`, `node7 HCA-1`). For other descriptions it is
    /// the id, since firmware chose them and several hosts share one.
    pub fn host(&self) -> &str {
        match self.description.split_once(' ') {
            Some((host, device)) if !device.contains(' ') && !host.is_empty() => host,
            _ => &self.id,
        }
    }
}

/// One end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkEnd {
    /// Index of the node in [`Topology::nodes`].
    pub node: usize,
    /// Number of the port; from 1, if the file has numbers.
    pub port: u32,
}

/// A link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Both ends; the one that the file names first is first.
    pub ends: [LinkEnd; 2],
    /// Active width and speed, if the file states them.
    pub rate: Option<Rate>,
    /// The same as each end states it; they may contradict.
    pub stated: [Option<Rate>; 2],
}

/// Addresses of a port, as far as the file states them. A switch has one for all its ports, with
/// the port number 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// The port.
    pub end: LinkEnd,
    /// Base LID.
    pub lid: Option<u32>,
    /// GUID of the port.
    pub guid: Option<u64>,
}

/// Something in a file that does not fit the rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Description, in the plural.
    pub text: &'static str,
    /// Number of occurrences.
    pub count: u64,
    /// The first of them, at most three.
    pub examples: Vec<String>,
}

/// A fabric's nodes and links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// Nodes, in the order of their first mention.
    pub nodes: Vec<Node>,
    /// Links, in the order of their first mention.
    pub links: Vec<Link>,
    /// Addresses of ports, by node and port.
    pub addresses: Vec<Address>,
    /// Contradictions and omissions in the file.
    pub remarks: Vec<Remark>,
    /// GUID of the port from which the fabric was discovered, if the file states it.
    pub origin: Option<u64>,
    /// Codes of the virtual lanes that ports have (VLCap), as far as the file states them.
    pub lanes: BTreeMap<LinkEnd, u8>,
}

/// Number of examples of a remark.
const EXAMPLES: usize = 3;
/// Description of the adapter for collectives inside a switch.
const AGGREGATION: &str = "Aggregation Node";

#[derive(Debug, Clone, Copy)]
struct Statement {
    to: LinkEnd,
    rate: Option<Rate>,
    /// Whether it is made about both ends.
    is_mutual: bool,
}

/// Collects statements.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    nodes: Vec<Node>,
    by_key: HashMap<String, usize>,
    statements: HashMap<LinkEnd, Statement>,
    /// The ends of the statements, in the order of the file.
    order: Vec<LinkEnd>,
    /// The last port of nodes whose ports the file does not number.
    numbered: HashMap<usize, u32>,
    addresses: BTreeMap<LinkEnd, Address>,
    remarks: BTreeMap<&'static str, Remark>,
    origin: Option<u64>,
    lanes: BTreeMap<LinkEnd, u8>,
}

impl Builder {
    /// Returns the node of this id, made if it is new.
    ///
    /// # Errors
    ///
    /// Fails if there are too many nodes.
    pub fn node(&mut self, id: &str, kind: NodeKind) -> Result<usize, Error> {
        let id = canonical(id);
        self.node_by_key(id.clone(), id, kind)
    }

    /// Like [`Builder::node`], with the description of the node: it distinguishes nodes whose GUIDs
    /// were redacted (`H-946d<redacted>`).
    ///
    /// # Errors
    ///
    /// As [`Builder::node`].
    pub fn node_described(
        &mut self,
        id: &str,
        description: &str,
        kind: NodeKind,
    ) -> Result<usize, Error> {
        let id = canonical(id);
        let key = match is_redacted(&id) {
            true => format!("{id} {description}"),
            false => id.clone(),
        };
        self.node_by_key(key, id, kind)
    }

    /// Like [`Builder::node`], for files that identify nodes by something else than their id.
    ///
    /// # Errors
    ///
    /// As [`Builder::node`].
    pub fn node_by_key(&mut self, key: String, id: String, kind: NodeKind) -> Result<usize, Error> {
        if let Some(&known) = self.by_key.get(&key) {
            return Ok(known);
        }
        if self.nodes.len() >= MOST_NODES {
            return Err(Error::TooLarge(format!("more than {MOST_NODES} nodes")));
        }
        self.by_key.insert(key, self.nodes.len());
        self.nodes.push(Node {
            kind,
            id,
            description: String::new(),
            ports: None,
            is_listed: false,
            hardware: Hardware::default(),
        });
        Ok(self.nodes.len() - 1)
    }

    /// Records that the file has an entry for a node. Its kind counts, not that of a mention.
    pub fn list(&mut self, node: usize, kind: NodeKind, ports: Option<u32>) {
        if self.nodes[node].kind != NodeKind::Aggregation {
            self.nodes[node].kind = kind;
        }
        if std::mem::replace(&mut self.nodes[node].is_listed, true) {
            let id = self.nodes[node].id.clone();
            self.remark("nodes have several entries", || id);
        }
        self.nodes[node].ports = ports.or(self.nodes[node].ports);
    }

    /// Returns the kind of a node.
    pub fn kind(&self, node: usize) -> NodeKind {
        self.nodes[node].kind
    }

    /// Records the identity of a node as hardware.
    pub fn identify(&mut self, node: usize, hardware: Hardware) {
        self.nodes[node].hardware = hardware;
    }

    /// Records that port 0 of a switch is a whole port.
    pub fn enhance(&mut self, node: usize) {
        self.nodes[node].hardware.is_enhanced = true;
    }

    /// Records the LID mask control of a node's ports; the first statement counts.
    pub fn mask(&mut self, node: usize, lmc: Option<u8>) {
        let known = &mut self.nodes[node].hardware.lmc;
        *known = known.or(lmc);
    }

    /// Records the code of the virtual lanes that a port has.
    pub fn lanes(&mut self, end: LinkEnd, code: Option<u8>) {
        self.lanes.extend(code.map(|code| (end, code)));
    }

    /// Records the port from which the fabric was discovered.
    pub fn originate(&mut self, port_guid: u64) {
        self.origin = Some(port_guid);
    }

    /// Records that the file describes a node, for formats that do so wherever they name it.
    pub fn seen(&mut self, node: usize) {
        self.nodes[node].is_listed = true;
    }

    /// Records that a node has a port, for formats that do not state the number of ports.
    pub fn has_port(&mut self, node: usize, port: u32) {
        let known = self.nodes[node].ports.unwrap_or(0);
        self.nodes[node].ports = Some(known.max(port));
    }

    /// Sets a node's number of ports, if it is stated.
    pub fn ports(&mut self, node: usize, ports: Option<u32>) {
        self.nodes[node].ports = ports.or(self.nodes[node].ports);
    }

    /// Sets a node's description, unless it has one.
    pub fn describe(&mut self, node: usize, description: &str) {
        let node = &mut self.nodes[node];
        if !node.description.is_empty() || description.is_empty() {
            return;
        }
        node.description = description.to_owned();
        if node.kind == NodeKind::Adapter && description.ends_with(AGGREGATION) {
            node.kind = NodeKind::Aggregation;
        }
    }

    /// Records addresses of a port; the first statement of each counts.
    pub fn address(&mut self, end: LinkEnd, lid: Option<u32>, guid: Option<u64>) {
        // LID 0 is none.
        let (lid, guid) = (lid.filter(|lid| *lid != 0), guid.filter(|guid| *guid != 0));
        if lid.is_none() && guid.is_none() {
            return;
        }
        let known = self
            .addresses
            .entry(end)
            .or_insert(Address { end, lid, guid });
        known.lid = known.lid.or(lid);
        known.guid = known.guid.or(guid);
    }

    /// Records a link as the file states it at one end.
    ///
    /// # Errors
    ///
    /// Fails if there are too many links.
    pub fn link(&mut self, from: LinkEnd, to: LinkEnd, rate: Option<Rate>) -> Result<(), Error> {
        self.state(from, to, rate, false)
    }

    /// Records a link that the file states for both ends.
    ///
    /// # Errors
    ///
    /// Fails if there are too many links.
    pub fn link_both(
        &mut self,
        from: LinkEnd,
        to: LinkEnd,
        rate: Option<Rate>,
    ) -> Result<(), Error> {
        self.state(from, to, rate, true)
    }

    /// Records a link of which each end states a rate.
    ///
    /// # Errors
    ///
    /// Fails if there are too many links.
    pub fn link_stated(
        &mut self,
        from: LinkEnd,
        to: LinkEnd,
        stated: [Option<Rate>; 2],
    ) -> Result<(), Error> {
        let [one, other] = stated;
        match one.is_none() || other.is_none() || one == other {
            true => self.link_both(from, to, one.or(other)),
            false => {
                self.link(from, to, one)?;
                self.link(to, from, other)
            }
        }
    }

    fn state(
        &mut self,
        from: LinkEnd,
        to: LinkEnd,
        rate: Option<Rate>,
        is_mutual: bool,
    ) -> Result<(), Error> {
        if let Some(earlier) = self.statements.get(&from) {
            if earlier.to != to {
                let name = self.end(from);
                self.remark("ports have several peers; the first counts", || name);
            }
            return Ok(());
        }
        if self.order.len() >= MOST_STATEMENTS {
            let text = format!("more than {MOST_STATEMENTS} ends of links");
            return Err(Error::TooLarge(text));
        }
        let statement = Statement {
            to,
            rate,
            is_mutual,
        };
        self.statements.insert(from, statement);
        self.order.push(from);
        Ok(())
    }

    /// Returns the next unused port number of a node, for files without numbers.
    pub fn next_port(&mut self, node: usize) -> LinkEnd {
        let port = self.numbered.entry(node).or_default();
        *port += 1;
        LinkEnd { node, port: *port }
    }

    /// Records something that does not fit.
    pub fn remark(&mut self, text: &'static str, example: impl FnOnce() -> String) {
        let remark = self.remarks.entry(text).or_insert_with(|| Remark {
            text,
            count: 0,
            examples: Vec::new(),
        });
        remark.count += 1;
        if remark.examples.len() < EXAMPLES {
            remark.examples.push(example());
        }
    }

    fn end(&self, end: LinkEnd) -> String {
        format!("{} port {}", self.nodes[end.node].name(), end.port)
    }

    /// Joins the statements to links.
    pub fn finish(mut self) -> Topology {
        let mut links = Vec::new();
        // Ends that only their peers state.
        let mut unstated = HashSet::new();
        for from in std::mem::take(&mut self.order) {
            let Statement {
                to,
                rate,
                is_mutual,
            } = self.statements[&from];
            let back = self.statements.get(&to).copied();
            match back {
                // The link is made where its first end is stated.
                Some(back) if back.to == from && from != to => {
                    if from < to {
                        let stated = [rate, back.rate];
                        let rate = self.slower(from, to, rate, back.rate);
                        links.push(Link {
                            ends: [from, to],
                            rate,
                            stated,
                        });
                    }
                }
                Some(back) if back.to != from => {
                    let (one, other) = (self.end(from), self.end(to));
                    self.remark("links contradict their other end and are left out", || {
                        format!("{one} to {other}")
                    });
                }
                None if !unstated.insert(to) => {
                    let (one, other) = (self.end(from), self.end(to));
                    self.remark(
                        "links end at a port that an earlier link ends at, and are left out",
                        || format!("{one} to {other}"),
                    );
                }
                _ => {
                    if !is_mutual {
                        let (one, other) = (self.end(from), self.end(to));
                        self.remark("links are stated by one end only", || {
                            format!("{one} to {other}")
                        });
                    }
                    links.push(Link {
                        ends: [from, to],
                        rate,
                        stated: [rate; 2],
                    });
                }
            }
        }
        self.unlisted();
        Topology {
            nodes: self.nodes,
            links,
            addresses: self.addresses.into_values().collect(),
            remarks: self.remarks.into_values().collect(),
            origin: self.origin,
            lanes: self.lanes,
        }
    }

    fn slower(
        &mut self,
        from: LinkEnd,
        to: LinkEnd,
        one: Option<Rate>,
        other: Option<Rate>,
    ) -> Option<Rate> {
        let (Some(a), Some(b)) = (one, other) else {
            return one.or(other);
        };
        if a != b {
            let (first, second) = (self.end(from), self.end(to));
            self.remark(
                "links have a different rate at each end; the lower counts",
                || format!("{first} ({a}) to {second} ({b})"),
            );
        }
        match a.gigabits() <= b.gigabits() {
            true => Some(a),
            false => Some(b),
        }
    }

    fn unlisted(&mut self) {
        let missing: Vec<String> = self
            .nodes
            .iter()
            .filter(|node| !node.is_listed)
            .map(|node| node.name().to_owned())
            .collect();
        for name in missing {
            self.remark("nodes are known as peers only, without an entry", || name);
        }
    }
}

/// Returns whether an id has the form of `H-` and a GUID, but the GUID is not whole: programs that
/// redact dumps leave the same beginning of several.
fn is_redacted(id: &str) -> bool {
    id.split_once('-').is_some_and(|(letter, digits)| {
        let is_digit = |byte: u8| byte.is_ascii_hexdigit();
        matches!(letter, "S" | "H" | "R")
            && digits.contains(['<', '*', '.', '[', 'x', 'X'])
            && !digits.bytes().all(is_digit)
    })
}

/// Returns one spelling for ids that name the same node: `H-0x2C9`, `H-02c9` and
/// `H-00000000000002c9` are one.
fn canonical(id: &str) -> String {
    let Some((letter, number)) = id.split_once('-') else {
        return id.to_owned();
    };
    let digits = number.strip_prefix("0x").unwrap_or(number);
    match u64::from_str_radix(digits, 16) {
        Ok(guid) if matches!(letter, "S" | "H" | "R") => format!("{letter}-{guid:016x}"),
        _ => id.to_owned(),
    }
}
