//! The paths that forwarding tables give between the adapters of a network.

use std::collections::{HashMap, VecDeque};

use crate::build::Topology;
use crate::network::Network;
use crate::routes::Routes;

/// By switch and adapter of a network: where packets for that adapter go.
#[derive(Debug, Clone, PartialEq)]
pub struct Forwarding {
    /// By switch, then by adapter.
    pub tables: Vec<Vec<Onward>>,
}

/// Where a switch sends packets for an adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Onward {
    /// Over this cable of the network.
    Cable(usize),
    /// To the adapter, which is attached to the switch.
    Here,
    /// To a port behind which the network has neither a cable nor this adapter.
    Elsewhere(u32),
    /// Nowhere: the table has no way to it.
    Nowhere,
}

/// Forwarding tables that do not belong to a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoutesError {
    /// The topology does not state the addresses by which tables name destinations.
    #[error(
        "the topology states neither LID nor GUID of the port of {0}, so that its routes cannot be \
         found: use the output of ibnetdiscover, opensm-subnet.lst or ibdiagnet2.db_csv"
    )]
    NoAddress(String),
    /// A switch has no table.
    #[error("the routes have no table of switch {0} ({1})")]
    NoTable(String, String),
}

/// A survey of the paths.
#[derive(Debug, Clone, PartialEq)]
pub struct PathSurvey {
    /// Number of ordered pairs of adapters.
    pub pairs: usize,
    /// Number of pairs by the number of cables between switches on their path.
    pub lengths: Vec<usize>,
    /// Number of pairs whose path has more cables than the shortest.
    pub longer: usize,
    /// Number of pairs without a path.
    pub broken: usize,
    /// The first of them, at most `EXAMPLES`: from, to, and why.
    pub examples: Vec<(usize, usize, Broken)>,
    /// By cable and direction (twice the cable's number, plus one against its order of ends): the
    /// number of pairs whose path it carries.
    pub load: Vec<usize>,
}

/// Why a path does not reach its adapter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// It comes back to a switch: the switches of the cycle.
    Cycle(Vec<usize>),
    /// This switch has no way.
    End(usize),
    /// This switch sends it to a port with another peer.
    Elsewhere(usize, u32),
}

/// Maximum number of broken paths that are described.
pub const EXAMPLES: usize = 10;

impl Forwarding {
    /// Finds the entries of the tables for a network's adapters: by GUID of the port, or, where a
    /// table states none, by LID.
    ///
    /// # Errors
    ///
    /// Returns [`RoutesError`] if an adapter has no known address, or a switch no table.
    pub fn of(
        topology: &Topology,
        network: &Network,
        routes: &Routes,
    ) -> Result<Forwarding, RoutesError> {
        let by_end: HashMap<_, _> = topology
            .addresses
            .iter()
            .map(|address| (address.end, address))
            .collect();
        let mut by_guid = HashMap::new();
        let mut by_lid = HashMap::new();
        for (number, end) in network.adapter_ports.iter().enumerate() {
            let Some(address) = by_end.get(end) else {
                return Err(RoutesError::NoAddress(network.names[number].clone()));
            };
            if let Some(guid) = address.guid {
                by_guid.insert(guid, number);
            }
            if let Some(lid) = address.lid {
                by_lid.insert(lid, number);
            }
        }
        let mut ports = HashMap::new();
        for (cable, (&(one, other), &(at_one, at_other))) in
            network.cables.iter().zip(&network.cable_ports).enumerate()
        {
            ports.insert((one, at_one), cable);
            ports.insert((other, at_other), cable);
        }
        let home = |adapter: usize| (network.attached[adapter], network.attached_ports[adapter]);
        let tables: HashMap<u64, _> = routes.tables.iter().map(|t| (t.guid, t)).collect();
        let mut forwarding = Vec::with_capacity(network.switches.len());
        for (switch, &node) in network.switches.iter().enumerate() {
            let node = &topology.nodes[node];
            let guid = node.id.split_once('-').map_or("", |(_, digits)| digits);
            let table = u64::from_str_radix(guid, 16).ok();
            let Some(table) = table.and_then(|guid| tables.get(&guid)) else {
                let (name, id) = (node.name().to_owned(), node.id.clone());
                return Err(RoutesError::NoTable(name, id));
            };
            let mut row = vec![Onward::Nowhere; network.adapters.len()];
            let mut lids = vec![None; network.adapters.len()];
            for entry in &table.entries {
                let known = entry.guid.and_then(|guid| by_guid.get(&guid));
                let known = match (entry.guid, known) {
                    // A stated GUID of none of the adapters: the LID may be another's by now.
                    (Some(_), None) if !by_guid.is_empty() => None,
                    (_, Some(known)) => Some(known),
                    _ => by_lid.get(&entry.lid),
                };
                let Some(&to) = known else {
                    continue;
                };
                // With several LIDs of a port, programs send to the lowest.
                let rank = (entry.guid.is_none(), entry.lid);
                if lids[to].is_some_and(|earlier| earlier <= rank) {
                    continue;
                }
                lids[to] = Some(rank);
                row[to] = match entry.port.map(|port| (port, ports.get(&(switch, port)))) {
                    None => Onward::Nowhere,
                    Some((_, Some(&cable))) => Onward::Cable(cable),
                    Some((port, None)) if (switch, port) == home(to) => Onward::Here,
                    Some((port, None)) => Onward::Elsewhere(port),
                };
            }
            forwarding.push(row);
        }
        Ok(Forwarding { tables: forwarding })
    }

    /// Follows the path of every ordered pair of adapters.
    pub fn survey(&self, network: &Network) -> PathSurvey {
        let mut survey = PathSurvey {
            pairs: 0,
            lengths: Vec::new(),
            longer: 0,
            broken: 0,
            examples: Vec::new(),
            load: vec![0; 2 * network.cables.len()],
        };
        let mut attached = vec![Vec::new(); network.switches.len()];
        for (adapter, &switch) in network.attached.iter().enumerate() {
            attached[switch].push(adapter);
        }
        let neighbours = neighbours(network);
        for to in 0..network.adapters.len() {
            let shortest = distances(&neighbours, network.attached[to]);
            for (source, from) in attached.iter().enumerate() {
                let pairs = from.iter().filter(|from| **from != to).count();
                if pairs == 0 {
                    continue;
                }
                survey.pairs += pairs;
                match self.path(network, source, to) {
                    Ok(path) => {
                        if survey.lengths.len() <= path.len() {
                            survey.lengths.resize(path.len() + 1, 0);
                        }
                        survey.lengths[path.len()] += pairs;
                        if path.len() > shortest[source] {
                            survey.longer += pairs;
                        }
                        path.iter().for_each(|link| survey.load[*link] += pairs);
                    }
                    Err(broken) => {
                        survey.broken += pairs;
                        if survey.examples.len() < EXAMPLES {
                            survey.examples.push((from[0], to, broken));
                        }
                    }
                }
            }
        }
        survey
    }

    /// Returns the links (cable and direction) from a switch to an adapter.
    fn path(&self, network: &Network, from: usize, to: usize) -> Result<Vec<usize>, Broken> {
        let mut at = from;
        let (mut passed, mut links) = (vec![from], Vec::new());
        loop {
            let cable = match self.tables[at][to] {
                Onward::Here => return Ok(links),
                Onward::Cable(cable) => cable,
                Onward::Elsewhere(port) => return Err(Broken::Elsewhere(at, port)),
                Onward::Nowhere => return Err(Broken::End(at)),
            };
            let (one, other) = network.cables[cable];
            let against = at != one;
            at = if against { one } else { other };
            links.push(2 * cable + usize::from(against));
            if let Some(first) = passed.iter().position(|switch| *switch == at) {
                return Err(Broken::Cycle(passed.split_off(first)));
            }
            passed.push(at);
        }
    }
}

fn neighbours(network: &Network) -> Vec<Vec<usize>> {
    let mut neighbours = vec![Vec::new(); network.switches.len()];
    for &(one, other) in &network.cables {
        neighbours[one].push(other);
        neighbours[other].push(one);
    }
    neighbours
}

fn distances(neighbours: &[Vec<usize>], from: usize) -> Vec<usize> {
    let mut distances = vec![usize::MAX; neighbours.len()];
    distances[from] = 0;
    let mut open = VecDeque::from([from]);
    while let Some(at) = open.pop_front() {
        for &next in &neighbours[at] {
            if distances[next] == usize::MAX {
                distances[next] = distances[at] + 1;
                open.push_back(next);
            }
        }
    }
    distances
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{read, read_routes};

    const TOPOLOGY: &str = r#"
Switch 4 "S-1" # "one" base port 0 lid 1 lmc 0
[1] "H-10"[1](10) # "a" lid 10 4xHDR
[2] "H-11"[1](11) # "b" lid 12 4xHDR
[3] "S-2"[3] # "two" lid 2 4xHDR

Switch 4 "S-2" # "two" base port 0 lid 2 lmc 0
[1] "H-12"[1](12) # "c" lid 14 4xHDR
[3] "S-1"[3] # "one" lid 1 4xHDR
"#;
    const ONE: &str = "Unicast lids [0-20] of switch Lid 1 guid 0x1 ('one'):\n";
    const TWO: &str = "Unicast lids [0-20] of switch Lid 2 guid 0x2 ('two'):\n0x000a 003\n\
                       0x000c 003\n0x000e 001\n3 lids dumped\n";

    /// Surveys the fabric with entries of the first switch.
    fn survey(entries: &str) -> PathSurvey {
        let topology = read(TOPOLOGY.as_bytes()).unwrap();
        let network = Network::of(&topology, None).unwrap();
        let text = format!("{ONE}{entries}9 lids dumped\n{TWO}");
        let routes = read_routes(text.as_bytes()).unwrap();
        let forwarding = Forwarding::of(&topology, &network, &routes).unwrap();
        forwarding.survey(&network)
    }

    #[test]
    fn every_pair_has_a_path() {
        let survey = survey("0x000a 001\n0x000c 002\n0x000e 003\n");
        assert_eq!((survey.pairs, survey.broken), (6, 0));
        assert_eq!((survey.lengths, survey.load), (vec![2, 4], vec![2, 2]));
    }

    #[test]
    fn a_switch_that_sends_its_adapters_packets_elsewhere_breaks_the_paths() {
        // To the port of another adapter, over a cable, and nowhere.
        for (port, why) in [
            ("002", Broken::Elsewhere(0, 2)),
            ("003", Broken::Cycle(vec![0, 1])),
            ("255", Broken::End(0)),
        ] {
            let survey = survey(&format!("0x000a {port}\n0x000c 002\n0x000e 003\n"));
            assert_eq!(survey.broken, 2, "{port}");
            assert_eq!(survey.examples[0].2, why);
        }
    }

    #[test]
    fn the_lowest_lid_of_a_port_counts() {
        let entries = |lowest: &str| {
            format!(
                "0x000b 002 : (Channel Adapter portguid 0x10: 'a')\n\
                 0x000a {lowest} : (Channel Adapter portguid 0x10: 'a')\n\
                 0x000c 002\n0x000e 003\n"
            )
        };
        assert_eq!(survey(&entries("001")).broken, 0);
        assert_eq!(survey(&entries("255")).broken, 2);
    }
}
