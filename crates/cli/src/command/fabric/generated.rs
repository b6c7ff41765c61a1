//! Topologies by the sizes of a shape: `fat-tree:8`, `torus:4x4x2`, `dragonfly:9,4,2,2`.

use verbena_model::topology::{FatTree, Routing, Shape, Wiring, described};
use verbena_subnet::{BuildError, UNICAST_LIDS};

/// The forms, for messages.
const FORMS: &str = "fat-tree:PORTS, fat-tree:LEAVES,SPINES,HOSTS[,CABLES], torus:XxYxZ[,HOSTS] or \
                     dragonfly:GROUPS,SWITCHES,HOSTS,CABLES";
/// Most ports of a switch (PortNum of the subnet management packets has 8 bits, and 255 is none).
const MOST_PORTS: usize = 254;
/// The largest number.
const MOST: usize = 1 << 20;

/// Returns the text of the topology that a word describes, in the format of ibnetdiscover; `None`
/// if the word has the name of no shape.
///
/// # Errors
///
/// Fails with a message if the sizes are invalid.
pub fn text(word: &str) -> Option<Result<String, String>> {
    let (name, sizes) = word.split_once(':')?;
    let shape = match name {
        "fat-tree" => fat_tree(sizes),
        "torus" => torus(sizes),
        "dragonfly" => dragonfly(sizes),
        _ => return None,
    };
    let wiring = shape.map(|shape| Wiring::new(shape, Routing::Deterministic));
    let text = wiring.and_then(|wiring| match wiring.switches() + wiring.nodes() {
        lids if lids >= UNICAST_LIDS => Err(BuildError::Size(lids).to_string()),
        _ => match wiring.ports_taken(1).into_iter().max() {
            Some(ports) if ports > MOST_PORTS => Err(format!(
                "a switch would have {ports} ports, more than {MOST_PORTS}"
            )),
            _ => Ok(described(&wiring)),
        },
    });
    Some(text.map_err(|reason| format!("{word}: {reason}")))
}

fn fat_tree(sizes: &str) -> Result<Shape, String> {
    let tree = |leaves, spines, nodes, parallel| {
        Shape::fat_tree(FatTree {
            leaves,
            nodes,
            spines,
            parallel,
        })
    };
    match numbers(sizes, ',')?[..] {
        [ports] if ports % 2 == 0 => tree(ports, ports / 2, ports / 2, 1),
        [ports] => Err(format!(
            "half of the {ports} ports of a leaf lead up, so their number is even"
        )),
        [leaves, spines, nodes] => tree(leaves, spines, nodes, 1),
        [leaves, spines, nodes, cables] => tree(leaves, spines, nodes, cables),
        _ => Err(format!("expected {FORMS}")),
    }
}

fn torus(sizes: &str) -> Result<Shape, String> {
    let (switches, nodes) = match sizes.split_once(',') {
        Some((switches, nodes)) => (switches, numbers(nodes, ',')?),
        None => (sizes, vec![1]),
    };
    match (&numbers(switches, 'x')?[..], &nodes[..]) {
        (&[x], &[nodes]) => Shape::torus([x, 1, 1], nodes),
        (&[x, y], &[nodes]) => Shape::torus([x, y, 1], nodes),
        (&[x, y, z], &[nodes]) => Shape::torus([x, y, z], nodes),
        _ => Err(format!("expected {FORMS}")),
    }
}

fn dragonfly(sizes: &str) -> Result<Shape, String> {
    match numbers(sizes, ',')?[..] {
        [groups, switches, nodes, global] => Shape::dragonfly(groups, switches, nodes, global),
        _ => Err(format!("expected {FORMS}")),
    }
}

/// Reads numbers from 1 on.
fn numbers(text: &str, separator: char) -> Result<Vec<usize>, String> {
    let number = |word: &str| {
        let number = word.parse().ok();
        let number = number.filter(|number| (1..=MOST).contains(number));
        number.ok_or_else(|| format!("{word:?} is no number from 1 to {MOST}; expected {FORMS}"))
    };
    text.split(separator).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use verbena_subnet::{Fabric, Kind, Load, Manager, build};

    /// Returns the fabric of a word, configured by the fabric's manager.
    fn configured(word: &str) -> Fabric {
        let text = text(word).unwrap().unwrap();
        let topology = verbena_topology::read(text.as_bytes()).unwrap();
        let mut fabric = build(&topology).unwrap();
        Manager::start(Manager::place(&fabric).unwrap(), &mut fabric, Vec::new());
        fabric
    }

    /// Follows the tables between all hosts, and returns the number of pairs.
    fn follow(mut fabric: Fabric) -> usize {
        let ends: Vec<_> = fabric.ends().collect();
        let is_host =
            |end: &&verbena_subnet::End| fabric.nodes[end.node as usize].kind == Kind::Adapter;
        let hosts: Vec<_> = ends.iter().filter(is_host).copied().collect();
        for from in &hosts {
            for to in &hosts {
                let lid = fabric.port(*to).unwrap().lid();
                let reached = fabric.carry_data(*from, lid, Load::default());
                assert_eq!(reached, Some(*to), "from {from:?} to {to:?}");
            }
        }
        hosts.len() * hosts.len()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_tables_lead_from_each_host_to_each_other(
            sizes in [1..5usize, 1..5usize, 1..4usize, 1..3usize], shape in 0..3u8,
        ) {
            let [a, b, c, d] = sizes;
            let word = match shape {
                0 => format!("fat-tree:{a},{b},{c},{d}"),
                1 => format!("torus:{a}x{b}x{c},{d}"),
                // So many cables connect all groups.
                _ => format!("dragonfly:{a},{b},{c},{a}"),
            };
            follow(configured(&word));
        }

        #[test]
        fn any_word_is_read_or_refused(
            word in "(fat-tree|torus|dragonfly):[0-9x,-]{0,12}|[a-z:0-9]{0,8}",
        ) {
            // Those that are read may be large.
            if !word.contains(|digit: char| digit.is_ascii_digit()) {
                prop_assert!(text(&word).is_none_or(|read| read.is_err()));
            }
            let _ = numbers(&word, ',');
        }
    }

    #[test]
    fn sizes_are_those_of_the_word() {
        let counts = |word| {
            let fabric = configured(word);
            let count = |kind| fabric.nodes.iter().filter(|node| node.kind == kind).count();
            (count(Kind::Switch), count(Kind::Adapter))
        };
        assert_eq!(counts("fat-tree:4"), (6, 8));
        assert_eq!(counts("fat-tree:3,2,5"), (5, 15));
        assert_eq!(counts("torus:4x4x2"), (32, 32));
        assert_eq!(counts("torus:3,2"), (3, 6));
        assert_eq!(counts("dragonfly:9,4,2,2"), (36, 72));
        assert_eq!(follow(configured("dragonfly:9,4,2,2")), 72 * 72);
    }

    #[test]
    fn wrong_sizes_are_refused_by_name() {
        for (word, reason) in [
            ("fat-tree:", "\"\" is no number"),
            ("fat-tree:5", "is even"),
            ("fat-tree:1,2,3,4,5", "expected fat-tree:PORTS"),
            ("fat-tree:1048576,1048576,1", "more than"),
            ("fat-tree:1,1048576,1", "a subnet has at most"),
            ("fat-tree:1000,1000,1", "a switch would have 1001 ports"),
            ("fat-tree:1,1,1,1048576", "a switch would have"),
            ("fat-tree:0,1,1", "\"0\" is no number"),
            ("torus:4x4x4x4", "expected"),
            ("torus:4x4,1,2", "expected"),
            ("torus:99999999999999999999", "is no number"),
            ("dragonfly:4", "expected"),
            ("dragonfly:9,1,1,1", "does not reach"),
            ("dragonfly:1048576,2,2,2", "more than"),
        ] {
            let error = text(word).unwrap().unwrap_err();
            assert!(error.starts_with(word) && error.contains(reason), "{error}");
        }
        for none in ["fabric.topo", "tree:4", "-", "C:/fabric", ""] {
            assert!(text(none).is_none(), "{none}");
        }
    }
}
