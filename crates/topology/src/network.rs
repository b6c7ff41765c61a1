//! The part of a topology that carries messages between hosts: switches, the cables between them,
//! and one adapter of each node.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::build::{LinkEnd, Node, NodeKind, Remark, Topology};
use crate::rate::Rate;

/// Switches, cables and adapters, numbered from 0 in each group.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// The adapters, by rank of the nodes that they make: indices in [`Topology::nodes`].
    pub adapters: Vec<usize>,
    /// Name of each adapter.
    pub names: Vec<String>,
    /// Switch of each adapter, a number in `switches`.
    pub attached: Vec<usize>,
    /// Port of that switch.
    pub attached_ports: Vec<u32>,
    /// Rate of each adapter's link, if it is stated.
    pub adapter_rates: Vec<Option<Rate>>,
    /// End of each adapter's link at the adapter.
    pub adapter_ports: Vec<LinkEnd>,
    /// The switches: indices in [`Topology::nodes`].
    pub switches: Vec<usize>,
    /// Name of each switch.
    pub switch_names: Vec<String>,
    /// The switches at the ends of each cable between switches.
    pub cables: Vec<(usize, usize)>,
    /// The ports at the ends of each cable.
    pub cable_ports: Vec<(u32, u32)>,
    /// Rate of each cable, if it is stated.
    pub cable_rates: Vec<Option<Rate>>,
    /// Omissions, with the reason.
    pub remarks: Vec<Remark>,
}

/// Why a topology has no such network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// There are fewer than two adapters with a link to a switch.
    #[error("{0} adapters have a link to a switch; at least two are needed")]
    TooFew(usize),
    /// A requested name is neither a host nor an adapter.
    #[error("no adapter and no host of the file has the name {0:?}{1}")]
    Unknown(String, String),
    /// A requested adapter has no link to a switch.
    #[error("{0} has no link to a switch")]
    Unconnected(String),
    /// An adapter is requested twice.
    #[error("{0} is named twice")]
    Twice(String),
    /// The tables of paths would need too much memory.
    #[error("{0} switches with {1} adapters are too many: at most {MOST_PAIRS} pairs are possible")]
    TooMany(usize, usize),
    /// No path joins two requested adapters.
    #[error("no path leads from {0} to {1}")]
    Apart(String, String),
}

/// Maximum number of switches times switches and adapters: paths need a table of that size. It is
/// enough for 5,000 switches with 20,000 adapters.
const MOST_PAIRS: usize = 1 << 27;

/// Collects remarks.
#[derive(Default)]
struct Remarks(BTreeMap<&'static str, Remark>);

impl Remarks {
    fn add(&mut self, text: &'static str, example: &str) {
        let remark = self.0.entry(text).or_insert_with(|| Remark {
            text,
            count: 0,
            examples: Vec::new(),
        });
        remark.count += 1;
        if remark.examples.len() < 3 {
            remark.examples.push(example.to_owned());
        }
    }
}

impl Network {
    /// Returns the network of a topology. Without `hosts` every adapter with a link to a switch of
    /// the largest connected part is a node, ordered by name, numbers by value (`n2` before `n10`).
    /// `hosts` names adapters or hosts in the wanted order; a host stands for all its adapters.
    ///
    /// # Errors
    ///
    /// Returns [`NetworkError`] if fewer than two adapters remain, or a name of `hosts` is unknown,
    /// repeated or not connected to the others.
    pub fn of(topology: &Topology, hosts: Option<&[String]>) -> Result<Network, NetworkError> {
        let mut remarks = Remarks::default();
        let links = Links::of(topology, &mut remarks);
        let parts = parts(links.switches.len(), &links.cables);
        let chosen = match hosts {
            Some(hosts) => requested(topology, &links, &parts, hosts)?,
            None => all(topology, &links, &parts, &mut remarks),
        };
        if chosen.len() < 2 {
            return Err(NetworkError::TooFew(chosen.len()));
        }
        let switches = links.switches.len();
        let pairs = switches.checked_mul(switches + chosen.len());
        if pairs.is_none_or(|pairs| pairs > MOST_PAIRS) {
            return Err(NetworkError::TooMany(switches, chosen.len()));
        }
        let uplink = |adapter: &usize| links.uplinks[adapter];
        Ok(Network {
            names: name_each(topology, &chosen),
            attached: chosen.iter().map(|a| uplink(a).switch).collect(),
            attached_ports: chosen.iter().map(|a| uplink(a).port).collect(),
            adapter_rates: chosen.iter().map(|a| uplink(a).rate).collect(),
            adapter_ports: chosen.iter().map(|a| uplink(a).own).collect(),
            adapters: chosen,
            switch_names: name_each(topology, &links.switches),
            switches: links.switches,
            cables: links.cables,
            cable_ports: links.cable_ports,
            cable_rates: links.cable_rates,
            remarks: remarks.0.into_values().collect(),
        })
    }

    /// Returns the names of the ports at the ends of an adapter's link, the adapter's first.
    pub fn adapter_link(&self, adapter: usize) -> [String; 2] {
        let switch = &self.switch_names[self.attached[adapter]];
        [
            named(&self.names[adapter], self.adapter_ports[adapter].port),
            named(switch, self.attached_ports[adapter]),
        ]
    }

    /// Returns the names of the ports at the ends of a cable.
    pub fn cable_link(&self, cable: usize) -> [String; 2] {
        let ((one, other), (at_one, at_other)) = (self.cables[cable], self.cable_ports[cable]);
        [(one, at_one), (other, at_other)]
            .map(|(switch, port)| named(&self.switch_names[switch], port))
    }
}

/// Returns the name of a port.
fn named(node: &str, port: u32) -> String {
    format!("{node} port {port}")
}

/// The link of an adapter.
#[derive(Clone, Copy)]
struct Uplink {
    switch: usize,
    /// Port of the switch.
    port: u32,
    own: LinkEnd,
    rate: Option<Rate>,
}

struct Links {
    switches: Vec<usize>,
    cables: Vec<(usize, usize)>,
    cable_ports: Vec<(u32, u32)>,
    cable_rates: Vec<Option<Rate>>,
    /// By adapter: its link with the lowest port.
    uplinks: HashMap<usize, Uplink>,
}

impl Links {
    fn of(topology: &Topology, remarks: &mut Remarks) -> Links {
        let kind = |node: usize| topology.nodes[node].kind;
        let is_switch = |node: &usize| kind(*node) == NodeKind::Switch;
        let switches: Vec<usize> = (0..topology.nodes.len()).filter(is_switch).collect();
        let number: HashMap<usize, usize> = switches.iter().copied().zip(0..).collect();
        let mut links = Links {
            switches,
            cables: Vec::new(),
            cable_ports: Vec::new(),
            cable_rates: Vec::new(),
            uplinks: HashMap::new(),
        };
        for link in &topology.links {
            let [one, other] = link.ends;
            let name = |end: LinkEnd| topology.nodes[end.node].name();
            match (number.get(&one.node), number.get(&other.node)) {
                (Some(a), Some(b)) if a == b => {
                    remarks.add("cables join a switch with itself", name(one));
                }
                (Some(&a), Some(&b)) => {
                    links.cables.push((a, b));
                    links.cable_ports.push((one.port, other.port));
                    links.cable_rates.push(link.rate);
                }
                (None, None) => remarks.add("links do not touch a switch", name(one)),
                (Some(&switch), None) => {
                    let link = Uplink {
                        switch,
                        port: one.port,
                        own: other,
                        rate: link.rate,
                    };
                    links.attach(link, topology, remarks);
                }
                (None, Some(&switch)) => {
                    let link = Uplink {
                        switch,
                        port: other.port,
                        own: one,
                        rate: link.rate,
                    };
                    links.attach(link, topology, remarks);
                }
            }
        }
        links
    }

    fn attach(&mut self, link: Uplink, topology: &Topology, remarks: &mut Remarks) {
        let own = link.own;
        let node = &topology.nodes[own.node];
        match node.kind {
            NodeKind::Adapter => {}
            NodeKind::Router => return remarks.add("links lead to routers", node.name()),
            _ => return,
        }
        let known = self.uplinks.entry(own.node).or_insert(link);
        if known.own.port != own.port {
            let text = "adapters have several links; that of the lowest port is used";
            remarks.add(text, node.name());
        }
        if own.port < known.own.port {
            *known = link;
        }
    }
}

/// Returns the number of the connected part of each switch.
fn parts(switches: usize, cables: &[(usize, usize)]) -> Vec<usize> {
    let mut neighbours = vec![Vec::new(); switches];
    for &(one, other) in cables {
        neighbours[one].push(other);
        neighbours[other].push(one);
    }
    let mut part = vec![usize::MAX; switches];
    for first in 0..switches {
        if part[first] != usize::MAX {
            continue;
        }
        part[first] = first;
        let mut open = VecDeque::from([first]);
        while let Some(at) = open.pop_front() {
            for &next in &neighbours[at] {
                if part[next] == usize::MAX {
                    part[next] = first;
                    open.push_back(next);
                }
            }
        }
    }
    part
}

fn all(topology: &Topology, links: &Links, parts: &[usize], remarks: &mut Remarks) -> Vec<usize> {
    let mut sizes: BTreeMap<usize, usize> = BTreeMap::new();
    for uplink in links.uplinks.values() {
        *sizes.entry(parts[uplink.switch]).or_default() += 1;
    }
    let largest = sizes.iter().max_by_key(|(_, size)| **size);
    let largest = largest.map(|(part, _)| *part);
    let mut chosen = Vec::new();
    for (number, node) in topology.nodes.iter().enumerate() {
        if node.kind != NodeKind::Adapter {
            continue;
        }
        match links.uplinks.get(&number) {
            Some(uplink) if Some(parts[uplink.switch]) == largest => chosen.push(number),
            Some(_) => remarks.add("adapters are outside the largest part", node.name()),
            None => remarks.add("adapters have no link to a switch", node.name()),
        }
    }
    chosen.sort_by(|&one, &other| {
        let [one, other] = [one, other].map(|number| &topology.nodes[number]);
        natural(one.name(), other.name()).then_with(|| one.id.cmp(&other.id))
    });
    chosen
}

fn requested(
    topology: &Topology,
    links: &Links,
    parts: &[usize],
    hosts: &[String],
) -> Result<Vec<usize>, NetworkError> {
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, node) in topology.nodes.iter().enumerate() {
        if node.kind == NodeKind::Adapter {
            let mut names = vec![node.name(), node.id.as_str(), node.host()];
            names.dedup();
            names.sort_unstable();
            names.dedup();
            for name in names {
                by_name.entry(name).or_default().push(number);
            }
        }
    }
    let mut chosen: Vec<usize> = Vec::new();
    let mut taken = std::collections::HashSet::new();
    for host in hosts {
        let Some(found) = by_name.get(host.as_str()) else {
            let some: Vec<&str> = topology
                .nodes
                .iter()
                .filter(|node| node.kind == NodeKind::Adapter)
                .take(3)
                .map(Node::name)
                .collect();
            let hint = match some.is_empty() {
                true => String::new(),
                false => format!("; there are {}, ...", some.join(", ")),
            };
            return Err(NetworkError::Unknown(host.clone(), hint));
        };
        let mut own: Vec<usize> = found.clone();
        own.sort_by(|&one, &other| {
            natural(topology.nodes[one].name(), topology.nodes[other].name())
        });
        for adapter in own {
            let name = topology.nodes[adapter].name().to_owned();
            let Some(uplink) = links.uplinks.get(&adapter) else {
                return Err(NetworkError::Unconnected(name));
            };
            if !taken.insert(adapter) {
                return Err(NetworkError::Twice(name));
            }
            if let Some(&first) = chosen.first()
                && parts[links.uplinks[&first].switch] != parts[uplink.switch]
            {
                let first = topology.nodes[first].name().to_owned();
                return Err(NetworkError::Apart(first, name));
            }
            chosen.push(adapter);
        }
    }
    Ok(chosen)
}

/// Returns a name for each node; the id is added where several have the same description.
fn name_each(topology: &Topology, chosen: &[usize]) -> Vec<String> {
    let mut count: HashMap<&str, usize> = HashMap::new();
    for &node in chosen {
        *count.entry(topology.nodes[node].name()).or_default() += 1;
    }
    let name = |&number: &usize| {
        let node = &topology.nodes[number];
        match count[node.name()] {
            1 => node.name().to_owned(),
            _ => format!("{} ({})", node.name(), node.id),
        }
    };
    chosen.iter().map(name).collect()
}

/// Compares names; runs of digits compare by value.
fn natural(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (one, other);
    loop {
        let ([a, rest_a], [b, rest_b]) = (split_run(one), split_run(other));
        if a.is_empty() || b.is_empty() {
            return a.len().cmp(&b.len());
        }
        let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let order = match is_number(a) && is_number(b) {
            true => {
                let [x, y] = [a, b].map(|text| text.trim_start_matches('0'));
                x.len()
                    .cmp(&y.len())
                    .then_with(|| x.cmp(y))
                    .then_with(|| a.cmp(b))
            }
            false => a.cmp(b),
        };
        if order != Ordering::Equal {
            return order;
        }
        (one, other) = (rest_a, rest_b);
    }
}

/// Splits behind the first run of digits, or of other characters.
fn split_run(text: &str) -> [&str; 2] {
    let is_digit = |c: char| c.is_ascii_digit();
    let first = text.starts_with(is_digit);
    let end = text
        .find(|c: char| is_digit(c) != first)
        .unwrap_or(text.len());
    let (run, rest) = text.split_at(end);
    [run, rest]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Topology {
        crate::read(text.as_bytes()).expect("is a topology")
    }

    const TWO: &str = r#"
Switch 8 "S-1" # "left" base port 0 lid 1 lmc 0
[1] "H-10"[1](a1) # "n10 mlx5_0" lid 10 4xHDR
[2] "H-11"[1](a2) # "n2 mlx5_0" lid 11 4xHDR
[3] "H-11"[2](a3) # "n2 mlx5_0" lid 12 4xHDR
[7] "S-2"[7] # "right" lid 2 4xHDR
[8] "S-2"[8] # "right" lid 2 4xEDR

Switch 8 "S-2" # "right" base port 0 lid 2 lmc 0
[1] "H-12"[1](a4) # "n2 mlx5_1" lid 13 2xHDR
[7] "S-1"[7] # "left" lid 1 4xHDR
[8] "S-1"[8] # "left" lid 1 4xEDR

Switch 8 "S-3" # "alone" base port 0 lid 3 lmc 0
[1] "H-13"[1](a5) # "n9 mlx5_0" lid 14 4xHDR
"#;

    #[test]
    fn adapters_are_ordered_by_name_with_numbers_by_value() {
        let network = Network::of(&read(TWO), None).unwrap();
        assert_eq!(network.names, ["n2 mlx5_0", "n2 mlx5_1", "n10 mlx5_0"]);
        assert_eq!(network.attached, [0, 1, 0]);
        assert_eq!(network.cables, [(0, 1), (0, 1)]);
        assert_eq!(network.cable_ports, [(7, 7), (8, 8)]);
        let rates = network.cable_rates.iter().flatten().map(Rate::to_string);
        assert_eq!(rates.collect::<Vec<_>>(), ["4xHDR", "4xEDR"]);
        let texts: Vec<&str> = network.remarks.iter().map(|remark| remark.text).collect();
        assert_eq!(
            texts,
            [
                "adapters are outside the largest part",
                "adapters have several links; that of the lowest port is used"
            ]
        );
    }

    #[test]
    fn hosts_choose_the_adapters_and_their_order() {
        let names = |list: &[&str]| {
            let list: Vec<String> = list.iter().map(|&name| name.to_owned()).collect();
            Network::of(&read(TWO), Some(&list)).map(|network| network.names)
        };
        assert_eq!(
            names(&["n10", "n2"]).unwrap(),
            ["n10 mlx5_0", "n2 mlx5_0", "n2 mlx5_1"]
        );
        assert_eq!(
            names(&["n2 mlx5_1", "n10"]).unwrap(),
            ["n2 mlx5_1", "n10 mlx5_0"]
        );
        let error = |list: &[&str]| names(list).unwrap_err().to_string();
        assert!(error(&["n2", "n3"]).contains("\"n3\"; there are n10 mlx5_0"));
        assert_eq!(error(&["n2", "n2 mlx5_1"]), "n2 mlx5_1 is named twice");
        assert_eq!(
            error(&["n2", "n9"]),
            "no path leads from n2 mlx5_0 to n9 mlx5_0"
        );
        assert!(error(&["n10"]).starts_with("1 adapters"));
    }

    #[test]
    fn more_switches_than_paths_can_be_kept_of_are_refused() {
        let mut text = TWO.to_owned();
        for switch in 100..20_000 {
            text.push_str(&format!(
                "\nSwitch 8 \"S-{switch:x}\"\n[1] \"S-1\"[{switch}]\n"
            ));
        }
        let refused = Network::of(&read(&text), None).unwrap_err();
        assert!(matches!(refused, NetworkError::TooMany(..)), "{refused}");
    }

    #[test]
    fn names_compare_naturally() {
        let mut names = ["a10", "a9", "b1", "a09b", "a", "a9b2", "10", "9"];
        names.sort_by(|one, other| natural(one, other));
        assert_eq!(names, ["9", "10", "a", "a09b", "a9", "a9b2", "a10", "b1"]);
    }
}
