//! A wiring as the text of a fabric that exists: in the format of `ibnetdiscover`.

use std::fmt::Write as _;

use super::wiring::Wiring;

/// GUIDs of switches and of adapters, whose upper part is that of no vendor; each node has 256.
const SWITCHES: u64 = 0x0200_0001_0000_0000;
const ADAPTERS: u64 = 0x0200_0002_0000_0000;
/// Vendor and devices.
const VENDOR: &str = "vendid=0x2c9";
const SWITCH: &str = "devid=0xd2f0";
const ADAPTER: &str = "devid=0x101b";
/// Width and speed of every link.
const RATE: &str = "4xHDR";

/// The far end of a port.
#[derive(Debug, Clone, Copy)]
enum Peer {
    /// A node.
    Node(usize),
    /// A port of a switch.
    Switch(usize, usize),
}

fn switch_guid(switch: usize) -> u64 {
    SWITCHES + ((switch as u64) << 8)
}

fn node_guid(node: usize) -> u64 {
    ADAPTERS + ((node as u64) << 8)
}

/// Returns the wiring as `ibnetdiscover` prints it, with nodes `host1`, `host2` and so on. Ports of
/// a switch lead to its nodes first, then to the cables. Links run at 4xHDR, and no port has a LID.
pub fn described(wiring: &Wiring) -> String {
    let mut ports: Vec<Vec<Peer>> = vec![Vec::new(); wiring.switches()];
    // The switch of each node, and its port there, from 1.
    let mut attached = Vec::new();
    for node in 0..wiring.nodes() {
        let switch = wiring.switch_of(node);
        ports[switch].push(Peer::Node(node));
        attached.push((switch, ports[switch].len()));
    }
    for cable in 0..wiring.links() / 2 {
        let (one, other) = wiring.ends(2 * cable);
        // A cable between two ports of one switch takes both.
        let at_one = ports[one].len() + 1;
        let at_other = ports[other].len() + 1 + usize::from(one == other);
        ports[one].push(Peer::Switch(other, at_other));
        ports[other].push(Peer::Switch(one, at_one));
    }
    let mut text = format!("# {}\n", wiring.about());
    for (switch, ports) in ports.iter().enumerate() {
        let (guid, count) = (switch_guid(switch), ports.len());
        let name = wiring.switch_name(switch);
        let _ = write!(
            text,
            "\n{VENDOR}\n{SWITCH}\nsysimgguid={guid:#x}\nswitchguid={guid:#x}({guid:x})\n\
             Switch\t{count} \"S-{guid:016x}\"\t\t# \"{name}\" enhanced port 0 lid 0 lmc 0\n"
        );
        for (peer, number) in ports.iter().zip(1..) {
            let _ = match *peer {
                Peer::Node(node) => {
                    let (guid, host) = (node_guid(node), node + 1);
                    writeln!(
                        text,
                        "[{number}]\t\"H-{guid:016x}\"[1]({:x}) \t\t# \"host{host} mlx5_0\" \
                         lid 0 {RATE}",
                        guid + 1
                    )
                }
                Peer::Switch(other, port) => {
                    let (guid, name) = (switch_guid(other), wiring.switch_name(other));
                    writeln!(
                        text,
                        "[{number}]\t\"S-{guid:016x}\"[{port}]\t\t# \"{name}\" lid 0 {RATE}"
                    )
                }
            };
        }
    }
    for (node, (switch, port)) in attached.iter().enumerate() {
        let (guid, host) = (node_guid(node), node + 1);
        let (peer, name) = (switch_guid(*switch), wiring.switch_name(*switch));
        let _ = write!(
            text,
            "\n{VENDOR}\n{ADAPTER}\nsysimgguid={guid:#x}\ncaguid={guid:#x}\n\
             Ca\t1 \"H-{guid:016x}\"\t\t# \"host{host} mlx5_0\"\n\
             [1]({:x}) \t\"S-{peer:016x}\"[{port}]\t\t# lid 0 lmc 0 \"{name}\" lid 0 {RATE}\n",
            guid + 1
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{FatTree, Routing, Shape};
    use proptest::prelude::*;

    fn shapes() -> impl Strategy<Value = Shape> {
        let tree = (1..5usize, 1..4usize, 1..4usize, 1..3usize).prop_map(
            |(leaves, nodes, spines, parallel)| {
                Shape::fat_tree(FatTree {
                    leaves,
                    nodes,
                    spines,
                    parallel,
                })
            },
        );
        let torus = ([1..5usize, 1..4usize, 1..3usize], 1..3usize)
            .prop_map(|(sizes, nodes)| Shape::torus(sizes, nodes));
        let dragonfly = (1..5usize, 1..4usize, 1..3usize, 1..4usize).prop_map(
            |(groups, switches, nodes, global)| Shape::dragonfly(groups, switches, nodes, global),
        );
        let shapes = prop_oneof![tree, torus, dragonfly];
        let shapes = shapes.prop_filter_map("too few cables", Result::ok);
        // A network has two nodes.
        let nodes = |shape: &Shape| Wiring::new(shape.clone(), Routing::Deterministic).nodes();
        shapes.prop_filter("one node", move |shape| nodes(shape) > 1)
    }

    proptest! {
        #[test]
        fn the_text_is_read_as_the_same_wiring(shape in shapes()) {
            let wiring = Wiring::new(shape, Routing::Deterministic);
            let topology = verbena_topology::read(described(&wiring).as_bytes()).unwrap();
            prop_assert_eq!(&topology.remarks, &[]);
            prop_assert_eq!(topology.nodes.len(), wiring.switches() + wiring.nodes());
            let network = verbena_topology::Network::of(&topology, None).unwrap();
            prop_assert_eq!(network.switches.len(), wiring.switches());
            // A file numbers switches by their first mention.
            let number = |switch: usize| {
                let guid = &topology.nodes[network.switches[switch]].id[2..];
                ((u64::from_str_radix(guid, 16).unwrap() - SWITCHES) >> 8) as usize
            };
            let found: Vec<usize> = network.attached.iter().map(|switch| number(*switch)).collect();
            let known = (0..wiring.nodes()).map(|node| wiring.switch_of(node));
            let known: Vec<usize> = known.collect();
            prop_assert_eq!(found, known);
            let ordered = |(one, other): (usize, usize)| (one.min(other), one.max(other));
            let cables = network.cables.iter();
            let cables = cables.map(|(one, other)| (number(*one), number(*other)));
            let mut found: Vec<_> = cables.map(ordered).collect();
            let mut known: Vec<_> =
                (0..wiring.links() / 2).map(|cable| ordered(wiring.ends(2 * cable))).collect();
            found.sort_unstable();
            known.sort_unstable();
            prop_assert_eq!(found, known);
        }
    }

    #[test]
    fn switches_have_names_by_their_place() {
        let name = |shape: Result<Shape, String>, switch| {
            Wiring::new(shape.unwrap(), Routing::Deterministic).switch_name(switch)
        };
        let tree = FatTree {
            leaves: 2,
            nodes: 1,
            spines: 1,
            parallel: 1,
        };
        assert_eq!(name(Shape::fat_tree(tree), 1), "leaf-2");
        assert_eq!(name(Shape::fat_tree(tree), 2), "spine-1");
        assert_eq!(name(Shape::torus([4, 4, 2], 1), 17), "switch-2-1-2");
        assert_eq!(name(Shape::dragonfly(3, 2, 1, 1), 5), "group-3-switch-2");
    }
}
