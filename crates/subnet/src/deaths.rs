//! Random fabrics whose links and switches die and come back: after each change, the manager's
//! tables lead from each host to each other that links connect with it.

use proptest::prelude::*;

use crate::attribute::port_info::physical;
use crate::{End, Fabric, Kind, Load, Manager, Subnet, build};

/// Ports of each switch.
const PORTS: usize = 12;

/// Returns the text of a fabric in ibsim's format: switches with a host each, and links between
/// two of them.
fn text(switches: usize, links: &[(usize, usize)]) -> String {
    let mut lines: Vec<Vec<String>> = (0..switches)
        .map(|at| vec![format!("[1] \"host{at}\"[1]")])
        .collect();
    for &(one, other) in links {
        let (one, other) = (one % switches, other % switches);
        let (first, second) = (lines[one].len() + 1, lines[other].len() + 1);
        if one != other && first <= PORTS && second <= PORTS {
            lines[one].push(format!("[{first}] \"switch{other}\"[{second}]"));
            lines[other].push(format!("[{second}] \"switch{one}\"[{first}]"));
        }
    }
    let mut text = String::new();
    for (at, ports) in lines.iter().enumerate() {
        text += &format!("Switch {PORTS} \"switch{at}\"\n{}\n\n", ports.join("\n"));
    }
    for at in 0..switches {
        text += &format!("Hca 1 \"host{at}\"\n[1] \"switch{at}\"[1]\n\n");
    }
    text
}

/// Returns the hosts that links connect with the manager.
fn hosts(fabric: &Fabric, manager: End) -> Vec<End> {
    let lost = fabric.unreached(manager);
    let is_host = |end: &End| {
        fabric.nodes[end.node as usize].kind == Kind::Adapter && !lost.contains(&end.node)
    };
    fabric.ends().filter(is_host).collect()
}

/// Follows the tables between all hosts that the manager reaches.
fn check(subnet: &mut Subnet, manager: End) {
    let fabric = &mut subnet.fabric;
    let hosts = hosts(fabric, manager);
    for &from in &hosts {
        for &to in &hosts {
            let lid = fabric.port(to).unwrap().lid();
            let reached = fabric.carry_data(from, lid, Load::default());
            assert_eq!(reached, Some(to), "from {from:?} to {to:?}");
        }
    }
    // An address that no port has leads nowhere.
    for &from in &hosts {
        assert_eq!(fabric.carry_data(from, 0xbfff, Load::default()), None);
    }
}

/// Cuts the cable of a port or mends it.
fn toggle(subnet: &mut Subnet, end: End) {
    let is_up = subnet.fabric.port(end).is_some_and(|port| port.is_linked());
    let wanted = match is_up {
        true => physical::DISABLED,
        false => physical::POLLING,
    };
    subnet.change_link(end, wanted);
}

fn run(switches: usize, links: &[(usize, usize)], changes: &[(bool, usize)]) {
    let topology = verbena_topology::read(text(switches, links).as_bytes()).unwrap();
    let mut fabric = build(&topology).unwrap();
    let place = Manager::place(&fabric).unwrap();
    let manager = Manager::start(place, &mut fabric, Vec::new());
    let mut subnet = Subnet::new(fabric, Some(manager));
    check(&mut subnet, place);
    let ends: Vec<End> = subnet
        .fabric
        .ends()
        .filter(|end| end.port != 0 && subnet.fabric.port(*end).unwrap().peer.is_some())
        .collect();
    for &(is_switch, at) in changes {
        let end = ends[at % ends.len()];
        match is_switch {
            false => toggle(&mut subnet, end),
            // A switch loses power, or has it again.
            true => {
                for &port in ends.iter().filter(|other| other.node == end.node) {
                    toggle(&mut subnet, port);
                }
            }
        }
        check(&mut subnet, place);
    }
    // All links come up.
    for &end in &ends {
        if !subnet.fabric.port(end).unwrap().is_linked() {
            subnet.change_link(end, physical::POLLING);
        }
    }
    check(&mut subnet, place);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn tables_reach_every_connected_host(
        switches in 1usize..9,
        links in proptest::collection::vec((any::<usize>(), any::<usize>()), 0..24),
        changes in proptest::collection::vec((any::<bool>(), any::<usize>()), 0..12),
    ) {
        run(switches, &links, &changes);
    }
}

#[test]
#[ignore = "seconds: larger fabrics and more deaths, by night"]
fn tables_of_large_fabrics_reach_every_connected_host() {
    let strategy = (
        20usize..120,
        proptest::collection::vec((any::<usize>(), any::<usize>()), 100..500),
        proptest::collection::vec((any::<bool>(), any::<usize>()), 30..60),
    );
    let config = ProptestConfig::with_cases(20);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let done = runner.run(&strategy, |(switches, links, changes)| {
        run(switches, &links, &changes);
        Ok(())
    });
    done.unwrap();
}
