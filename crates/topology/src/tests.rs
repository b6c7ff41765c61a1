//! Formats are read, and topologies surveyed.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

/// Node and port at both ends of a link.
type Cable = ((usize, u32), (usize, u32), Rate);

/// A fabric to write in each format: switches, adapters with their descriptions, and links.
#[derive(Debug, Clone)]
struct Sample {
    switches: u64,
    adapters: Vec<String>,
    /// Ends as (node, port); the switches come first.
    links: Vec<Cable>,
}

const PORTS: u32 = 32;

impl Sample {
    fn is_switch(&self, node: usize) -> bool {
        (node as u64) < self.switches
    }

    fn guid(&self, node: usize) -> u64 {
        0x1000 * (node as u64 + 1)
    }

    fn id(&self, node: usize) -> String {
        let letter = if self.is_switch(node) { 'S' } else { 'H' };
        format!("{letter}-{:016x}", self.guid(node))
    }

    fn name(&self, node: usize) -> String {
        match self.is_switch(node) {
            true => format!("MF0;leaf {node}:MQM9700/U1"),
            false => self.adapters[node - self.switches as usize].clone(),
        }
    }

    fn nodes(&self) -> usize {
        self.switches as usize + self.adapters.len()
    }

    /// Ends of links, from both sides, with the peer.
    fn sides(&self) -> Vec<Cable> {
        let there = self.links.iter().copied();
        let back = self
            .links
            .iter()
            .map(|&(one, other, rate)| (other, one, rate));
        there.chain(back).collect()
    }

    fn blocks(&self) -> String {
        let mut text = "#\n# Topology file: generated on Fri Nov 27\n#\n".to_owned();
        for node in 0..self.nodes() {
            let (word, after) = match self.is_switch(node) {
                true => ("Switch", " base port 0 lid 1 lmc 0"),
                false => ("Ca", ""),
            };
            let id = self.id(node);
            let name = self.name(node);
            let _ = write!(
                text,
                "\nvendid=0x2c9\ndevid=0x1\n{word}\t{PORTS} \"{id}\"\t\t# \"{name}\"{after}\n"
            );
            for (from, to, rate) in self.sides() {
                if from.0 != node {
                    continue;
                }
                let guid = if self.is_switch(node) {
                    String::new()
                } else {
                    format!("({:x})", self.guid(node))
                };
                let peer = if self.is_switch(to.0) {
                    String::new()
                } else {
                    format!("({:x}) ", self.guid(to.0))
                };
                let lid = if self.is_switch(node) {
                    ""
                } else {
                    "lid 4 lmc 1 "
                };
                let _ = writeln!(
                    text,
                    "[{}]{guid}\t\"{}\"[{}]{peer}\t\t# {lid}\"{}\" lid 3 {rate} s=4 w=2",
                    from.1,
                    self.id(to.0),
                    to.1,
                    self.name(to.0)
                );
            }
        }
        text
    }

    fn ports(&self) -> String {
        let mut text = String::new();
        let one = |end: (usize, u32)| {
            let kind = if self.is_switch(end.0) { "SW" } else { "CA" };
            let own = if self.is_switch(end.0) {
                0
            } else {
                u64::from(end.1)
            };
            format!(
                "{kind} {:5} {:2} 0x{:016x}",
                end.0,
                end.1,
                self.guid(end.0) + own
            )
        };
        for node in 0..self.nodes() {
            let _ = writeln!(
                text,
                "{} 4x SDR {:36}'{}'",
                one((node, PORTS)),
                "",
                self.name(node)
            );
        }
        for (from, to, rate) in self.sides() {
            let _ = writeln!(
                text,
                "{} {}x {} - {} ( '{}' - '{}' )",
                one(from),
                rate.width,
                rate.speed,
                one(to),
                self.name(from.0),
                self.name(to.0)
            );
        }
        text
    }

    fn subnet_list(&self) -> String {
        let one = |end: (usize, u32)| {
            let kind = if self.is_switch(end.0) { "SW" } else { "CA-SM" };
            let guid = self.guid(end.0);
            format!(
                "{{ {kind} Ports:{PORTS:02x} SystemGUID:{guid:016x} NodeGUID:{guid:016x} \
                 PortGUID:{guid:016x} VenID:0002C9 DevID:0001 Rev:000000A1 {{{}}} LID:0001 \
                 PN:{:02X} }}",
                self.name(end.0),
                end.1
            )
        };
        let mut text = String::new();
        for (from, to, rate) in self.sides() {
            let speed = match rate.speed {
                Speed::Sdr => "2.5",
                Speed::Qdr => "10",
                Speed::Fdr10 => "FDR10",
                Speed::Edr => "25",
                other => panic!("{other} is not generated"),
            };
            let _ = writeln!(
                text,
                "{} {} PHY={}x LOG=ACT SPD={speed}",
                one(from),
                one(to),
                rate.width
            );
        }
        text
    }

    fn csv(&self) -> String {
        let mut text = "START_NODES\nNodeDesc,NumPorts,NodeType,NodeGUID\n".to_owned();
        for node in 0..self.nodes() {
            let kind = if self.is_switch(node) { 2 } else { 1 };
            let _ = writeln!(
                text,
                "\"{}\",{PORTS},{kind},0x{:016x}",
                self.name(node),
                self.guid(node)
            );
        }
        text += "END_NODES\n\nSTART_PORTS\n\
                 PortNum,NodeGuid,LinkWidthActv,LinkSpeedActv,LinkSpeedExtActv\n";
        for (from, _, rate) in self.sides() {
            let width = match rate.width {
                1 => 1,
                2 => 16,
                4 => 2,
                8 => 4,
                _ => 8,
            };
            let (speed, extended) = match rate.speed {
                Speed::Sdr => (1, "N/A"),
                Speed::Qdr => (4, "0"),
                Speed::Fdr10 => (65536, "0"),
                _ => (4, "2"),
            };
            let _ = writeln!(
                text,
                "{},0x{:016x},{width},{speed},{extended}",
                from.1,
                self.guid(from.0)
            );
        }
        text += "END_PORTS\nSTART_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n";
        for &(one, other, _) in &self.links {
            let _ = writeln!(
                text,
                "0x{:016x},{},0x{:016x},{}",
                self.guid(one.0),
                one.1,
                self.guid(other.0),
                other.1
            );
        }
        text + "END_LINKS\n"
    }
}

/// Nodes by id with their descriptions, links by the ids and ports of their ends.
type Content = (BTreeSet<(String, NodeKind)>, BTreeSet<String>);

fn content(topology: &Topology, with_ids: bool) -> Content {
    let name = |node: usize| {
        let node = &topology.nodes[node];
        if with_ids {
            node.id.clone()
        } else {
            node.description.clone()
        }
    };
    let nodes = (0..topology.nodes.len()).map(|node| (name(node), topology.nodes[node].kind));
    let links = topology.links.iter().map(|link| {
        let mut ends = link
            .ends
            .map(|end| format!("{}[{}]", name(end.node), end.port));
        ends.sort();
        format!("{} {} {:?}", ends[0], ends[1], link.rate)
    });
    (nodes.collect(), links.collect())
}

prop_compose! {
    fn samples()(
        switches in 1_u64..5,
        adapters in prop::collection::vec("[a-z]{1,8}[0-9]{1,3} \
                                           (mlx5_[0-9]|HCA-[12]|it's \\( '\"\\{#, x)", 1..8),
        pairs in prop::collection::vec((0_usize..64, 0_usize..64, 0_usize..4, 0_usize..4), 1..24),
    ) -> Sample {
        let mut adapters = adapters;
        for (number, name) in adapters.iter_mut().enumerate() {
            name.insert_str(0, &format!("n{number}"));
        }
        let mut sample = Sample { switches, adapters, links: Vec::new() };
        let mut used = vec![0; sample.nodes()];
        for (one, other, width, speed) in pairs {
            let (one, other) = (one % sample.nodes(), other % sample.nodes());
            if one == other || (!sample.is_switch(one) && !sample.is_switch(other)) {
                continue;
            }
            used[one] += 1;
            used[other] += 1;
            let rate = Rate {
                width: [1, 2, 4, 12][width],
                speed: [Speed::Sdr, Speed::Qdr, Speed::Fdr10, Speed::Edr][speed],
            };
            sample.links.push(((one, used[one]), (other, used[other]), rate));
        }
        sample
    }
}

proptest! {
    #[test]
    fn each_format_gives_the_same_topology(sample in samples()) {
        let read = |text: String| read(text.as_bytes());
        let blocks = read(sample.blocks()).unwrap();
        prop_assert_eq!(&blocks.remarks, &[]);
        prop_assert_eq!(blocks.nodes.len(), sample.nodes());
        prop_assert_eq!(blocks.links.len(), sample.links.len());
        let csv = read(sample.csv()).unwrap();
        prop_assert_eq!(content(&blocks, true), content(&csv, true));
        let ports = read(sample.ports()).unwrap();
        prop_assert_eq!(content(&blocks, false), content(&ports, false));
        if !sample.links.is_empty() {
            let list = read(sample.subnet_list()).unwrap();
            prop_assert_eq!(content(&blocks, true).1, content(&list, true).1);
        }
    }

    #[test]
    fn arbitrary_files_are_read_or_refused(
        begin in prop::sample::select(vec![
            "Switch 3 \"S-1\"\n", "CA 1 1 0x01\n", "{ SW PN:\n", "START_LINKS\n",
            "SwitchName=a Nodes=b\n", "",
        ]),
        lines in prop::collection::vec(
            "(\\[[0-9]{1,12}\\]|\"[SH]-[0-9a-f]{0,18}\"|[{}()\\[\\]=,\
             '\"#]|Switch|Ca|SW|START_NODES|PN:|[ -~\\n]){0,12}", 0..12),
    ) {
        let text = begin.to_owned() + &lines.join("\n");
        if let Ok(topology) = read(text.as_bytes()) {
            let _ = Survey::of(&topology);
        }
    }
}

/// A tree of two levels: `leaves` switches with `hosts` adapters each and `up` links to each of
/// two spines.
fn tree(leaves: usize, hosts: usize, up: u32) -> Sample {
    let rate = Rate {
        width: 4,
        speed: Speed::Edr,
    };
    let mut sample = Sample {
        switches: leaves as u64 + 2,
        adapters: (0..leaves * hosts)
            .map(|host| format!("h{} mlx5_{}", host / 2, host % 2))
            .collect(),
        links: Vec::new(),
    };
    for leaf in 0..leaves {
        for host in 0..hosts {
            let node = leaves + 2 + leaf * hosts + host;
            sample
                .links
                .push(((leaf, host as u32 + 1), (node, 1), rate));
        }
        for spine in 0..2 {
            for link in 0..up {
                let own = hosts as u32 + 1 + spine as u32 * up + link;
                let port = leaf as u32 * up + link + 1;
                sample
                    .links
                    .push(((leaf, own), (leaves + spine, port), rate));
            }
        }
    }
    sample
}

fn survey(sample: &Sample) -> Survey {
    Survey::of(&read(sample.blocks().as_bytes()).unwrap())
}

#[test]
fn a_tree_is_surveyed() {
    let survey = survey(&tree(4, 8, 2));
    assert_eq!(
        (survey.adapters, survey.hosts, survey.switches, survey.parts),
        (32, 16, 6, 1)
    );
    assert_eq!(survey.levels.len(), 2);
    let leaf = &survey.levels[0];
    assert_eq!((leaf.switches, leaf.down, leaf.up), (4, 3200.0, 1600.0));
    let ratio = leaf.oversubscription.unwrap();
    assert_eq!(
        (ratio.overall, ratio.least, ratio.most, ratio.without),
        (2.0, 2.0, 2.0, 0)
    );
    assert_eq!(survey.levels[1].oversubscription, None);
    let bisection = survey.bisection.unwrap();
    assert!((bisection.capacity - 800.0).abs() < 1e-6, "{bisection:?}");
    assert!((bisection.needed - 1600.0).abs() < 1e-6, "{bisection:?}");
    assert_eq!(survey.odd, []);
}

#[test]
fn slow_links_and_missing_uplinks_are_found() {
    let mut sample = tree(4, 8, 2);
    // One link of a host is slow; leaf 3 lost an uplink.
    sample.links[1].2 = Rate {
        width: 1,
        speed: Speed::Edr,
    };
    sample.links.pop();
    // The computing parts of three leaves are no links upwards.
    for leaf in 0..3 {
        let node = sample.switches as usize + sample.adapters.len();
        sample
            .adapters
            .push("Mellanox Technologies Aggregation Node".into());
        let rate = sample.links[0].2;
        sample.links.push(((leaf, PORTS), (node, 1), rate));
    }
    let topology = read(sample.blocks().as_bytes()).unwrap();
    assert_eq!(Survey::of(&topology).adapters, 32);
    let odd = Survey::of(&topology).odd;
    let [slow, few] = odd.as_slice() else {
        panic!("{odd:?}");
    };
    assert!(
        matches!(slow, OddLink::Slow { rate, .. } if rate.width == 1),
        "{slow:?}"
    );
    let switch = topology
        .nodes
        .iter()
        .position(|node| node.id == sample.id(3));
    let expected = OddLink::FewUplinks {
        switch: switch.unwrap(),
        links: 3,
        usual: 4,
    };
    assert_eq!(*few, expected);
}

#[test]
fn the_ratio_of_a_level_is_that_of_its_sums() {
    // Leaf 0 has half the cables upwards: ratios 4, 2, 2 and 2, sums 3200 and 1400 Gbit/s.
    let mut sample = tree(4, 8, 2);
    sample
        .links
        .retain(|&((from, port), _, _)| from != 0 || ![10, 12].contains(&port));
    let survey = survey(&sample);
    let leaf = &survey.levels[0];
    let ratio = leaf.oversubscription.unwrap();
    assert_eq!((leaf.down, leaf.up), (3200.0, 1400.0));
    assert_eq!(
        (ratio.overall, ratio.least, ratio.most),
        (3200.0 / 1400.0, 2.0, 4.0)
    );
}

#[test]
fn without_the_rate_of_a_link_all_links_count_alike() {
    let mut sample = tree(4, 8, 2);
    sample.links[0].2.width = 1;
    let text = sample.blocks().replace(" 1xEDR s=4 w=2", "");
    let topology = read(text.as_bytes()).unwrap();
    let survey = Survey::of(&topology);
    assert_eq!(survey.unknown_rates, 1);
    assert_eq!((survey.levels[0].down, survey.levels[0].up), (32.0, 16.0));
    assert_eq!(survey.bisection.unwrap().capacity, 8.0);
    let sections = Description::of(&topology, None).sections();
    let text: Vec<String> = sections
        .into_iter()
        .flat_map(|section| [section.heading, section.lines.join("\n")])
        .collect();
    let text = text.join("\n");
    assert!(text.contains("1 of 48 links have no rate"), "{text}");
    assert!(text.contains("down links"), "{text}");
    assert!(!text.contains("Gbit/s"), "{text}");
}

#[test]
fn adapters_of_one_description_are_of_different_hosts() {
    let mut sample = tree(2, 4, 1);
    let firmware = "MT4129 ConnectX7 Mellanox Technologies";
    let names = [
        firmware,
        firmware,
        firmware,
        "ubuntu mlx5_0",
        "ubuntu mlx5_0",
        "ubuntu mlx5_1",
        "n1 mlx5_0",
        "n1 mlx5_1",
    ];
    sample.adapters = names.map(str::to_owned).to_vec();
    let topology = read(sample.blocks().as_bytes()).unwrap();
    let survey = Survey::of(&topology);
    assert_eq!(survey.hosts, 3 + 2 + 1);
    let shared = [(firmware.to_owned(), 3), ("ubuntu mlx5_0".to_owned(), 2)];
    assert_eq!(survey.shared, shared);
    let line = &Description::of(&topology, None).sections()[0].lines[1];
    assert!(
        line.ends_with(
            "each: 3 are \"MT4129 ConnectX7 Mellanox Technologies\"; 2 are \"ubuntu mlx5_0\"."
        ),
        "{line}"
    );
}

#[test]
fn files_of_ibsim_and_slurm_are_read() {
    let ibsim = "# Net\nSwitch\t8 \"Switch1\"\n[1]\t\"Hca1\"[1] w=2 s=4\n[3]\t\"Other\"[5]\n\n\
                 Switch 8 \"Other\"\n[5]\t\"Switch1\"[3]\n\
                 \nHca\t2 \"Hca1\"\n[1]\t\"Switch1\"[1]\n";
    let topology = read(ibsim.as_bytes()).unwrap();
    assert_eq!(topology.remarks, []);
    let kinds: Vec<NodeKind> = topology.nodes.iter().map(|node| node.kind).collect();
    assert_eq!(
        kinds,
        [NodeKind::Switch, NodeKind::Adapter, NodeKind::Switch]
    );
    assert_eq!(
        topology.links[0].rate,
        Some(Rate {
            width: 4,
            speed: Speed::Qdr
        })
    );
    let slurm = "# tree\nSwitchName=s0 Nodes=n[0-3]\nswitchname=s1 nodes=n[4-7],login\n\
                 SwitchName=top \\\n Switches=s[0-1]\n";
    let topology = read(slurm.as_bytes()).unwrap();
    let survey = Survey::of(&topology);
    assert_eq!(
        (survey.adapters, survey.switches, survey.levels.len()),
        (9, 3, 2)
    );
    assert_eq!(survey.levels[0].oversubscription.unwrap().most, 5.0);
}

#[test]
fn contradictions_of_slurms_files_are_named() {
    let remarks = |text: &str| {
        let topology = read(text.as_bytes()).unwrap();
        let remarks = topology.remarks.into_iter();
        let remarks = remarks.map(|remark| format!("{}: {}", remark.text, remark.examples[0]));
        remarks.collect::<Vec<_>>()
    };
    let two = "SwitchName=s0 Nodes=n[0-3]\nSwitchName=s1 Nodes=n[3-4]\n";
    let top = "SwitchName=t Switches=s[0-1]\n";
    assert_eq!(
        remarks(&format!("{two}{top}")),
        ["nodes are below several switches: n3"]
    );
    assert_eq!(
        remarks("SwitchName=s0 Nodes=n0,n1,n0\nSwitchName=t Switches=s0\n"),
        ["names occur twice in a switch: n0"]
    );
    assert_eq!(
        remarks(&format!(
            "SwitchName=s0 Nodes=a\nSwitchName=s1 Nodes=b\n{top}SwitchName=u Switches=s0\n"
        )),
        ["switches are below several switches: s0"]
    );
    assert_eq!(
        remarks("SwitchName=s0 Nodes=a\nSwitchName=s0 Nodes=b\n"),
        ["nodes have several entries: s0"]
    );
    let error = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
    // A line that continues has the number of its first line.
    let text = "SwitchName=s0 \\\n Nodes=a\n\nSwitchName=s1 \\\r\n Nodes=b[\n";
    assert!(error(text).starts_with("line 4: "), "{}", error(text));
    let text = "SwitchName=s0 \\\n Nodes=a\nSwitchName=s1\n";
    assert!(error(text).starts_with("line 3: "), "{}", error(text));
    for (text, reason) in [
        (
            "SwitchName=s0 Nodes=a\nSwitchName=t Switches=s0,t\n",
            "below itself",
        ),
        (
            "SwitchName=s0 Nodes=a\nSwitchName=t Nodes=s0\n",
            "s0 is both",
        ),
        ("SwitchName=s0 Nodes=a\nSwitchName=a Nodes=b\n", "a is both"),
    ] {
        assert!(error(text).contains(reason), "{}", error(text));
    }
    let text = b"\xef\xbb\xbfSwitchName=s0 Nodes=a\n";
    assert_eq!(read(text).unwrap().nodes.len(), 2);
}

#[test]
fn loops_of_switches_are_refused_with_the_line() {
    let line = |text: &str| match read(text.as_bytes()) {
        Err(Error::Line { line, reason, .. }) if reason.contains("below itself") => Some(line),
        Err(error) => panic!("{error}"),
        Ok(_) => None,
    };
    let lines = |pairs: &[(usize, usize)]| -> String {
        let pairs = pairs.iter();
        pairs
            .map(|(upper, lower)| format!("SwitchName=s{upper} Switches=s{lower}\n"))
            .collect()
    };
    assert_eq!(line(&lines(&[(0, 1), (1, 0)])), Some(2));
    assert_eq!(line(&lines(&[(0, 1), (2, 0), (1, 2), (1, 3)])), Some(3));
    // Switches above and below the loop; a switch of the loop is also below another one.
    let pairs = [(7, 0), (0, 1), (1, 2), (2, 0), (7, 2), (2, 8), (8, 9)];
    assert_eq!(line(&lines(&pairs)), Some(4));
    // Two ways to a switch are not a loop.
    assert_eq!(line(&lines(&[(0, 1), (0, 2), (1, 3), (2, 3)])), None);
    // A long chain, from above and from below, and closed.
    let mut chain: Vec<_> = (0..100_000).map(|at| (at, at + 1)).collect();
    assert_eq!(line(&lines(&chain)), None);
    chain.reverse();
    assert_eq!(line(&lines(&chain)), None);
    chain.push((100_000, 0));
    assert_eq!(line(&lines(&chain)), Some(100_001));
}

proptest! {
    /// Slow, obvious rule: a loop is there if a switch reaches itself.
    #[test]
    fn loops_are_those_of_the_closure(
        pairs in prop::collection::vec((0usize..7, 0usize..7), 1..10)
    ) {
        let pairs: Vec<_> = pairs.into_iter().filter(|(upper, lower)| upper != lower).collect();
        let mut reach = [[false; 7]; 7];
        for (upper, lower) in &pairs {
            reach[*upper][*lower] = true;
        }
        for via in 0..7 {
            for from in 0..7 {
                for to in 0..7 {
                    reach[from][to] |= reach[from][via] && reach[via][to];
                }
            }
        }
        let has_loop = (0..7).any(|switch| reach[switch][switch]);
        let text: String = std::iter::once("SwitchName=top Nodes=a\n".to_owned())
            .chain(pairs.iter().map(|(upper, lower)| {
                format!("SwitchName=s{upper} Switches=s{lower}\n")
            }))
            .collect();
        match read(text.as_bytes()) {
            Err(Error::Line { line, .. }) => {
                prop_assert!(has_loop);
                let (upper, lower) = pairs[line - 2];
                prop_assert!(reach[lower][upper], "line {} is on no loop", line);
            }
            read => prop_assert_eq!(read.is_err(), has_loop),
        }
    }
}

#[test]
fn contradictions_are_named() {
    let text = "Switch 4 \"S-1\"\n[1] \"H-2\"[1](3) # \"a\" lid 1 4xQDR\n\
                [2] \"H-0x4\"[1] # \"b\" lid 1 1xSDR\n[3] \"S-redacted\"[1]\n\
                Ca 1 \"H-02\" # \"a\"\n[1](3) \"S-1\"[1] # lid 1 lmc 0 \"s\" lid 2 1xQDR\n\
                whatever\n";
    let topology = read(text.as_bytes()).unwrap();
    let told: Vec<(&str, u64)> = topology
        .remarks
        .iter()
        .map(|remark| (remark.text, remark.count))
        .collect();
    assert_eq!(
        told,
        [
            ("lines are not understood and left out", 1),
            ("links are stated by one end only", 2),
            (
                "links have a different rate at each end; the lower counts",
                1
            ),
            ("nodes are known as peers only, without an entry", 2),
        ]
    );
    assert_eq!(topology.links.len(), 3);
    assert_eq!(
        topology.links[0].rate,
        Some(Rate {
            width: 1,
            speed: Speed::Qdr
        })
    );
}

#[test]
fn a_router_has_its_lid_at_the_port_of_its_link() {
    let text = "Switch\t64 \"S-0a\"\t\t# \"one\" base port 0 lid 8 lmc 0\n\
                [64]\t\"R-0b\"[2](c) \t\t# \"one/RT\" lid 9 1xXDR\n\n\
                Rt\t8 \"R-0b\"\t\t# \"one/RT\"\n\
                [2](c) \t\"S-0a\"[64]\t\t# lid 9 lmc 0 \"one\" lid 8 1xXDR\n";
    let topology = read(text.as_bytes()).unwrap();
    assert_eq!(topology.remarks, []);
    let lids: Vec<_> = topology
        .addresses
        .iter()
        .map(|one| (one.end, one.lid))
        .collect();
    let end = |node, port| LinkEnd { node, port };
    assert_eq!(lids, [(end(0, 0), Some(8)), (end(1, 2), Some(9))]);
}

#[test]
fn speeds_of_ibdiagnet_may_be_in_one_column() {
    let rate = |code: u32| {
        let text = format!(
            "START_NODES\nNodeDesc,NumPorts,NodeType,NodeGUID\n\"one\",1,1,0x1\n\
             \"two\",65,2,0x2\nEND_NODES\nSTART_PORTS\n\
             NodeGuid,PortNum,LinkWidthActv,LinkSpeedActv\n0x1,1,2,{code}\nEND_PORTS\n\
             START_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n0x1,1,0x2,5\nEND_LINKS\n"
        );
        let rate = read(text.as_bytes()).unwrap().links[0].rate;
        rate.map(|rate| rate.to_string())
    };
    let codes = [1, 4, 256, 512, 1024, 2048, 4096, 65_536, 1 << 24];
    let wanted = [
        "4xSDR", "4xQDR", "4xFDR", "4xEDR", "4xHDR", "4xNDR", "4xXDR", "4xFDR10", "4xXDR",
    ];
    for (code, wanted) in codes.into_iter().zip(wanted) {
        assert_eq!(rate(code).as_deref(), Some(wanted), "{code}");
    }
    assert_eq!(rate(0), None);
}

#[test]
fn other_files_are_refused() {
    assert_eq!(read(b"hello"), Err(Error::Unknown));
    assert_eq!(read(b""), Err(Error::Unknown));
    for list in ["n[0-3", "n[x]", "n[3-1]", "n]", "a,n[1,x]"] {
        let text = format!("SwitchName=s0 Nodes={list}\n");
        let refused = read(text.as_bytes()).unwrap_err();
        assert!(refused.to_string().contains("invalid list"), "{refused}");
    }
    let refused = read(b"Switch 4 \"S-1\"\n[x] \"H-2\"[1]\n").unwrap_err();
    assert!(refused.to_string().contains("line 2"), "{refused}");
}

fn remarks(topology: &Topology) -> Vec<&str> {
    topology.remarks.iter().map(|remark| remark.text).collect()
}

#[test]
fn nodes_of_redacted_guids_are_distinguished_by_their_descriptions() {
    let text = "Switch\t8 \"S-9c05<redacted>\"\t\t# \"leaf\" enhanced port 0 lid 1 lmc 0\n\
                [1]\t\"H-946d<redacted>\"[1](946d<redacted>) \t\t# \"n1 mlx5_0\" lid 2 2xNDR\n\
                [2]\t\"H-946d<redacted>\"[1](946d<redacted>) \t\t# \"n2 mlx5_0\" lid 3 2xNDR\n\n\
                Ca\t1 \"H-946d<redacted>\"\t\t# \"n1 mlx5_0\"\n\
                [1](946d<redacted>) \t\"S-9c05<redacted>\"[1]\t\t# lid 2 lmc 1 \"leaf\" lid 1 \
                2xNDR\n";
    let topology = read(text.as_bytes()).unwrap();
    assert_eq!((topology.nodes.len(), topology.links.len()), (3, 2));
    // The own LID of a port counts without a GUID, too.
    assert_eq!(topology.nodes[1].hardware.lmc, Some(1));
    let lids: Vec<_> = topology.addresses.iter().map(|one| one.lid).collect();
    assert_eq!(lids, [Some(1), Some(2), Some(3)]);
}

#[test]
fn the_first_of_two_links_to_one_port_counts() {
    let text = "Switch 4 \"S-1\"\n[1] \"H-2\"[1]\n[2] \"H-2\"[1]\n";
    let topology = read(text.as_bytes()).unwrap();
    assert_eq!(topology.links.len(), 1);
    assert_eq!(topology.links[0].ends[0].port, 1);
    let wanted = "links end at a port that an earlier link ends at, and are left out";
    assert!(remarks(&topology).contains(&wanted), "{topology:?}");
}

#[test]
fn the_output_of_scontrol_has_each_node_below_its_leaf() {
    let text = "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[0-1]\n\
                SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[2-3]\n\
                SwitchName=root Level=1 LinkSpeed=1 Nodes=n[0-3] Switches=leaf[1-2]\n";
    let topology = read(text.as_bytes()).unwrap();
    assert_eq!((topology.nodes.len(), topology.links.len()), (7, 6));
    assert_eq!(remarks(&topology), [""; 0]);
}

#[test]
fn lists_and_tables_state_the_hardware() {
    let list = "{ CA Ports:01 SystemGUID:0c42a10300000f04 NodeGUID:0c42a10300000f05 \
                PortGUID:0c42a10300000f06 VenID:000002C9 DevID:1021 Rev:00000000 {n1} LID:0002 \
                PN:01 } { SW Ports:41 SystemGUID:0c42a10300000a00 NodeGUID:0c42a10300000a01 \
                PortGUID:0c42a10300000a01 VenID:000002C9 DevID:D2F20000 Rev:000000A0 {leaf} \
                LID:0001 PN:03 } PHY=4x LOG=ACT SPD=100\n";
    let csv = "START_NODES\n\
               NodeDesc,NumPorts,NodeType,SystemImageGUID,NodeGUID,DeviceID,VendorID\n\
               \"n1\",1,1,0x0c42a10300000f04,0x0c42a10300000f05,4129,0x2c9\n\
               \"leaf\",65,2,0x0c42a10300000a00,0x0c42a10300000a01,0xd2f2,0x2c9\nEND_NODES\n\
               START_SWITCHES\nNodeGUID,LinearFDBCap,ENP0\n0x0c42a10300000a01,49152,1\n\
               END_SWITCHES\n\
               START_PORTS\nNodeGuid,PortGuid,PortNum,LID,LinkWidthActv,LinkSpeedActv,LMC,VLCap\n\
               0x0c42a10300000f05,0x0c42a10300000f06,1,2,2,2048,3,4\n\
               0x0c42a10300000a01,0x0c42a10300000a01,0,1,N/A,N/A,1,2\n\
               0x0c42a10300000a01,0x0c42a10300000a01,3,0,16,1024,0,3\nEND_PORTS\n\
               START_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n\
               0x0c42a10300000f05,1,0x0c42a10300000a01,3\nEND_LINKS\n";
    let [list, csv] = [list, csv].map(|text| read(text.as_bytes()).unwrap());
    for topology in [&list, &csv] {
        let of = |node: usize| {
            let hardware = topology.nodes[node].hardware;
            (hardware.vendor, hardware.device, hardware.system_guid)
        };
        let (one, other) = (0x0c42_a103_0000_0f04, 0x0c42_a103_0000_0a00);
        assert_eq!(of(0), (Some(0x2c9), Some(0x1021), Some(one)));
        assert_eq!(of(1), (Some(0x2c9), Some(0xd2f2), Some(other)));
    }
    let hardware = [0, 1].map(|node: usize| csv.nodes[node].hardware);
    assert_eq!(hardware.map(|one| one.lmc), [Some(3), Some(1)]);
    assert_eq!(hardware.map(|one| one.is_enhanced), [false, true]);
    assert_eq!(csv.lanes.values().copied().collect::<Vec<_>>(), [4, 3]);
    let stated = csv.links[0].stated.map(|rate| rate.unwrap().to_string());
    assert_eq!(stated, ["4xNDR", "2xHDR"]);
}

#[test]
fn names_in_place_of_guids_identify_nodes_of_tables() {
    let csv = "START_NODES\nNodeDesc,NumPorts,NodeType,SystemImageGUID,NodeGUID,PortGUID\n\
               \"HOST_1\",1,1,0xhost1,0xhost1,0xhost1\n\
               \"SWITCH_1\",65,2,0xswitch1,0xswitch1,0xswitch1\nEND_NODES\n\
               START_PORTS\nNodeGuid,PortGuid,PortNum,LID,LinkWidthActv,LinkSpeedActv\n\
               0xhost1,0xhost1,1,1,2,2048\n0xswitch1,0xswitch1,1,0,2,2048\nEND_PORTS\n\
               START_LINKS\nNodeGuid1,PortNum1,NodeGuid2,PortNum2\n0xhost1,1,0xswitch1,1\n\
               END_LINKS\n";
    let topology = read(csv.as_bytes()).unwrap();
    assert_eq!((topology.nodes.len(), topology.links.len()), (2, 1));
    assert_eq!(topology.links[0].rate.unwrap().to_string(), "4xNDR");
}

#[test]
fn ibsims_peers_without_a_port_have_the_first() {
    let text = "include \"other.net\"\nmodule \"m\"\nSwitch 4 \"sw\"\n[1] \"host\"\n\
                [2] \"two\" w=16 s=4\n\
                Hca 1 \"host\"\n[1] \"sw\"\n";
    let topology = read(text.as_bytes()).unwrap();
    let instructions = topology.remarks.iter().find(|one| one.count == 2).unwrap();
    assert!(instructions.text.contains("instructions to ibsim"));
    assert_eq!(topology.links.len(), 2);
    let ports = topology.links.iter().map(|link| link.ends[1].port);
    assert_eq!(ports.collect::<Vec<_>>(), [1, 1]);
    assert_eq!(topology.links[1].rate.unwrap().to_string(), "2xQDR");
    // A line that was cut is no such link.
    let cut = "Switch 4 \"S-0000000000000001\"\n[1]\t\"H-0000000000000002\"";
    let refused = read(cut.as_bytes()).unwrap_err().to_string();
    assert!(
        refused.starts_with("line 2: invalid line of a port"),
        "{refused}"
    );
}

#[test]
fn lines_of_ports_without_a_link_count_the_ports() {
    let text = "SW   479 22 0x0002c9020040f161 4x QDR                   Infiniscale-IV Mellanox\n\
                SW   479 36 0x0002c9020040f161 4x ???                   'Infiniscale-IV Mellanox'\n\
                CA     2  1 0x0002c9020040f001 4x QDR - SW   479  3 0x0002c9020040f161 \
                ( 'n1 HCA-1' - 'Infiniscale-IV Mellanox' )\n";
    let topology = read(text.as_bytes()).unwrap();
    assert_eq!(topology.nodes[0].description, "Infiniscale-IV Mellanox");
    let ports = topology.nodes.iter().map(|node| node.ports);
    assert_eq!(ports.collect::<Vec<_>>(), [Some(36), Some(1)]);
}
