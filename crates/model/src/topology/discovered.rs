//! The wiring of a fabric that exists, read from the output of its tools.

use super::routing::Routing;
use super::table::Table;
use super::wiring::{Shape, Wiring};
use crate::profile::Rate;
use verbena_topology::{Forwarding, Network, Onward};

/// Names and links of a fabric that exists.
#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    /// Name of each switch.
    pub switches: Vec<String>,
    /// By node: the link between its adapter and its switch, whose ports are in this order.
    pub nodes: Vec<BuiltLink>,
    /// By cable between switches.
    pub cables: Vec<BuiltLink>,
}

/// A link of a fabric that exists.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltLink {
    /// Names of the ports at its ends.
    pub ports: [String; 2],
    /// Its rate; `None` if it is unknown, and so that of the system's link profile.
    pub rate: Option<Rate>,
}

/// Returns the wiring of a network, with its switches' forwarding tables or, without them, with
/// shortest paths among which the destination's number chooses; and its names and links.
///
/// # Errors
///
/// Returns an error if an adapter cannot be reached, or the tables do not lead to it.
pub fn discovered(
    network: &Network,
    forwarding: Option<&Forwarding>,
) -> Result<(Wiring, Built), String> {
    let switches = network.switches.len();
    let table = Table::new(switches, network.attached.clone(), network.cables.clone())?;
    let table = match forwarding {
        Some(forwarding) => table.forwarding(&numbers(forwarding))?,
        None => table,
    };
    let link = |ports, rate: Option<verbena_topology::Rate>| BuiltLink {
        ports,
        rate: rate.map(|rate| Rate(rate.gigabits() * 1e9 / 8.0)),
    };
    let nodes = network.adapter_rates.iter().enumerate();
    let cables = network.cable_rates.iter().enumerate();
    let built = Built {
        switches: network.switch_names.clone(),
        nodes: nodes
            .map(|(node, rate)| link(network.adapter_link(node), *rate))
            .collect(),
        cables: cables
            .map(|(cable, rate)| link(network.cable_link(cable), *rate))
            .collect(),
    };
    let wiring = Wiring::new(Shape::Table(table), Routing::Deterministic);
    Ok((wiring, built))
}

/// Returns the numbers of the cables, -1 for none.
fn numbers(forwarding: &Forwarding) -> Vec<Vec<i64>> {
    let number = |onward: &Onward| match onward {
        Onward::Cable(cable) => *cable as i64,
        Onward::Here | Onward::Elsewhere(_) | Onward::Nowhere => -1,
    };
    let row = |row: &Vec<Onward>| row.iter().map(number).collect();
    forwarding.tables.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter::{Fidelity, Kind, Placement, Request, Transport};
    use crate::cluster::Cluster;
    use crate::kernel::Time;
    use crate::profile::{Library, Overrides, System, Topology};
    use crate::traffic::HotPort;
    use proptest::prelude::*;
    use std::fmt::Write as _;
    use std::sync::Arc;

    /// A random fabric whose forwarding tables lead over random shortest paths.
    #[derive(Debug, Clone)]
    struct Sample {
        /// Switches at the ends of each cable.
        cables: Vec<(usize, usize)>,
        /// Switch of each host.
        hosts: Vec<usize>,
        switches: usize,
        /// Choices among shortest paths, used in turn.
        choices: Vec<usize>,
        fidelity: Fidelity,
    }

    /// The peer of a port.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Peer {
        Host(usize),
        Switch(usize, usize),
    }

    fn samples() -> impl Strategy<Value = Sample> {
        // At most four switches: a path has at most as many ports as are named.
        (1..5usize).prop_flat_map(|switches| {
            let tree: Vec<_> = (1..switches).map(|one| (0..one, Just(one))).collect();
            let end = 0..switches;
            let more = prop::collection::vec((end.clone(), end.clone()), 0..5);
            let fidelity = prop_oneof![Just(Fidelity::Packet), Just(Fidelity::Message)];
            let hosts = prop::collection::vec(end, 2..6);
            let choices = prop::collection::vec(0..12usize, 1..20);
            (tree, more, hosts, choices, fidelity).prop_map(
                move |(tree, mut more, hosts, choices, fidelity)| Sample {
                    cables: {
                        more.retain(|(one, other)| one != other);
                        tree.into_iter().chain(more).collect()
                    },
                    hosts,
                    switches,
                    choices,
                    fidelity,
                },
            )
        })
    }

    impl Sample {
        /// By switch, the peers of its ports; the first is the peer of port 1.
        fn ports(&self) -> Vec<Vec<Peer>> {
            let mut ports = vec![Vec::new(); self.switches];
            let (early, late) = self.hosts.split_at(self.hosts.len() / 2);
            for (host, &switch) in early.iter().enumerate() {
                ports[switch].push(Peer::Host(host));
            }
            for &(one, other) in &self.cables {
                let numbers = (ports[one].len() + 1, ports[other].len() + 1);
                ports[one].push(Peer::Switch(other, numbers.1));
                ports[other].push(Peer::Switch(one, numbers.0));
            }
            for (host, &switch) in late.iter().enumerate() {
                ports[switch].push(Peer::Host(early.len() + host));
            }
            ports
        }

        fn lid(host: usize) -> usize {
            // Neither in the order of the names nor of the file; each host has two.
            40 - 2 * host
        }

        /// Returns the text of ibnetdiscover.
        fn topology(&self) -> String {
            let ports = self.ports();
            let mut text = String::new();
            for (switch, peers) in ports.iter().enumerate() {
                let number = peers.len();
                let _ = writeln!(
                    text,
                    "\nSwitch\t{number} \"S-{switch:016x}\"\t\t# \"s{switch}\" base port 0 lid 1 \
                     lmc 0"
                );
                for (peer, port) in peers.iter().zip(1..) {
                    let _ = match peer {
                        Peer::Host(host) => writeln!(
                            text,
                            "[{port}]\t\"H-{:016x}\"[1]({:x}) \t\t# \"h{host}\" lid {} 4xHDR",
                            0x100 + host,
                            0x100 + host,
                            Sample::lid(*host)
                        ),
                        Peer::Switch(other, far) => writeln!(
                            text,
                            "[{port}]\t\"S-{other:016x}\"[{far}]\t\t# \"s{other}\" lid 1 4xHDR"
                        ),
                    };
                }
            }
            for (host, &switch) in self.hosts.iter().enumerate() {
                let port = ports[switch]
                    .iter()
                    .position(|peer| *peer == Peer::Host(host));
                let _ = writeln!(
                    text,
                    "\nCa\t1 \"H-{guid:016x}\"\t\t# \"h{host}\"\n[1]({guid:x}) \t\
                     \"S-{switch:016x}\"[{}]\t\t# lid {} lmc 1 \"s{switch}\" lid 1 4xHDR",
                    port.unwrap() + 1,
                    Sample::lid(host),
                    guid = 0x100 + host,
                );
            }
            text
        }

        /// Returns the port for each host by switch; the second LID of a host has another port.
        fn tables(&self) -> Vec<Vec<usize>> {
            let ports = self.ports();
            let mut choices = self.choices.iter().cycle();
            let mut tables = vec![vec![0; self.hosts.len()]; self.switches];
            for host in 0..self.hosts.len() {
                let mut distance = vec![usize::MAX; self.switches];
                distance[self.hosts[host]] = 0;
                for _ in 0..self.switches {
                    for &(one, other) in &self.cables {
                        for (at, next) in [(one, other), (other, one)] {
                            distance[at] = distance[at].min(distance[next].saturating_add(1));
                        }
                    }
                }
                for (at, table) in tables.iter_mut().enumerate() {
                    let leads = |peer: &Peer| match peer {
                        Peer::Host(other) => *other == host,
                        Peer::Switch(next, _) => distance[*next] < distance[at],
                    };
                    let good = ports[at].iter().zip(1..).filter(|(peer, _)| leads(peer));
                    let good: Vec<usize> = good.map(|(_, port)| port).collect();
                    table[host] = good[choices.next().unwrap() % good.len()];
                }
            }
            tables
        }

        fn routes(&self) -> String {
            let mut text = String::new();
            for (switch, table) in self.tables().iter().enumerate() {
                let _ = writeln!(
                    text,
                    "Unicast lids [0x0-0xff] of switch Lid 1 guid {switch:#018x} (s{switch}):\n  \
                     Lid  Out   Destination\n       Port     Info"
                );
                for (host, port) in table.iter().enumerate().rev() {
                    let (lid, guid) = (Sample::lid(host), 0x100 + host);
                    let other = port % self.ports()[switch].len() + 1;
                    for (lid, port) in [(lid, *port), (lid + 1, other)] {
                        let _ = writeln!(
                            text,
                            "{lid:#06x} {port:03} : (Channel Adapter portguid {guid:#018x}: \
                             'h{host}')"
                        );
                    }
                }
                let _ = writeln!(text, "{} valid lids dumped", 2 * table.len());
            }
            text
        }

        /// Walks the tables, port by port, and returns the names of the ports that send.
        fn walked(&self, from: usize, to: usize) -> Vec<String> {
            let (ports, tables) = (self.ports(), self.tables());
            let mut passed = vec![format!("h{from} port 1")];
            let mut at = self.hosts[from];
            loop {
                let port = tables[at][to];
                passed.push(format!("s{at} port {port}"));
                match ports[at][port - 1] {
                    Peer::Host(host) => {
                        assert_eq!(host, to);
                        return passed;
                    }
                    Peer::Switch(next, _) => at = next,
                }
            }
        }
    }

    impl Sample {
        /// Returns the system of its files.
        fn system(&self, topology: &str) -> System {
            let topology = verbena_topology::read(topology.as_bytes()).unwrap();
            let network = Network::of(&topology, None).unwrap();
            let routes = verbena_topology::read_routes(self.routes().as_bytes()).unwrap();
            let forwarding = Forwarding::of(&topology, &network, &routes).unwrap();
            assert_eq!(forwarding.survey(&network).broken, 0);
            let (wiring, built) = discovered(&network, Some(&forwarding)).unwrap();
            let library = Library::shipped(&Overrides::none()).unwrap();
            let mut system = library.system("connectx6-hdr").unwrap();
            system.topology = Some(Topology {
                about: "a file".to_owned(),
                wiring: Arc::new(wiring),
                built: Some(Arc::new(built)),
            });
            system
        }

        /// Returns the hottest ports while each pair of nodes exchanges one write.
        fn written(&self, system: &System, pairs: &[(usize, usize)], bytes: u64) -> Vec<HotPort> {
            let cluster = Cluster::new(system, self.hosts.len(), self.fidelity);
            for &pair in pairs {
                let (one, _) = cluster.connected(pair, 0, Transport::Reliable);
                let process = cluster.process(pair.0);
                cluster.sim().start(async move {
                    let request = Request::new(Kind::Write, bytes, Placement::Reference);
                    process.post(&one, [request]).await;
                });
            }
            cluster.sim().run();
            let hot = cluster.hot_ports(&cluster.traffic());
            cluster.finish();
            hot
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// The ports that a message passes in the simulation are those of the tables.
        #[test]
        fn messages_take_the_ports_of_the_forwarding_tables(sample in samples()) {
            let system = sample.system(&sample.topology());
            let nodes = sample.hosts.len();
            for (from, to) in (0..nodes).flat_map(|one| (0..nodes).map(move |two| (one, two))) {
                if from == to {
                    continue;
                }
                let hot = sample.written(&system, &[(from, to)], 20_000);
                prop_assert!(hot.iter().all(|port| port.carried + port.stalled <= port.span));
                let carried = hot.iter().filter(|port| port.carried > Time::ZERO);
                let mut names: Vec<_> = carried.map(|port| port.port.clone()).collect();
                names.sort();
                let mut wanted = sample.walked(from, to);
                wanted.sort();
                prop_assert_eq!(names, wanted);
            }
        }
    }

    /// Returns the shares of the time for which a port carries packets and waits for credits.
    fn shares(hot: &[HotPort], port: &str) -> (f64, f64) {
        let found = hot.iter().find(|hot| hot.port == port);
        let found = found.unwrap_or_else(|| panic!("{port} is not in {hot:?}"));
        let share = |time: Time| time.nanos() / found.span.nanos();
        (share(found.carried), share(found.stalled))
    }

    #[test]
    fn ports_before_a_bottleneck_wait_for_credits() {
        for fidelity in [Fidelity::Packet, Fidelity::Message] {
            let sample = Sample {
                cables: vec![(0, 1)],
                hosts: vec![0, 0, 1],
                switches: 2,
                choices: vec![0],
                fidelity,
            };
            let text = sample.topology();
            // Two senders share a cable: each waits for half of the time, the cable for none.
            let both = [(0, 2), (1, 2)];
            let hot = sample.written(&sample.system(&text), &both, 8 << 20);
            let (carried, stalled) = shares(&hot, "s0 port 2");
            assert!(carried > 0.95 && stalled < 0.01, "{fidelity:?} {hot:?}");
            for sender in ["h0 port 1", "h1 port 1"] {
                let (carried, stalled) = shares(&hot, sender);
                let even = 0.45..0.55;
                assert!(
                    even.contains(&carried) && even.contains(&stalled),
                    "{fidelity:?} {hot:?}"
                );
            }
            // A receiver of a quarter of the rate: the cable waits for three quarters of the time.
            let slow = text.replace("\"h2\" lid 36 4xHDR", "\"h2\" lid 36 1xHDR");
            assert_ne!(slow, text);
            let hot = sample.written(&sample.system(&slow), &[(0, 2)], 8 << 20);
            let (carried, stalled) = shares(&hot, "s1 port 2");
            assert!(carried > 0.95 && stalled < 0.01, "{fidelity:?} {hot:?}");
            let (carried, stalled) = shares(&hot, "s0 port 2");
            assert!((0.22..0.26).contains(&carried), "{fidelity:?} {hot:?}");
            assert!((0.70..0.78).contains(&stalled), "{fidelity:?} {hot:?}");
        }
    }
}
