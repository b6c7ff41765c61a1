//! The fabric of a system in words: that of a profile or of a file, or the switches that
//! a number of nodes needs.

use super::topology::Tree;
use crate::profile::System;

/// Describes how a system connects `nodes` nodes.
pub fn fabric(system: &System, nodes: usize) -> String {
    let name = system.parts.switch.as_deref().unwrap_or_default();
    if let Some(file) = system.fabric_file() {
        let joined = system.topology.as_ref().map(|joined| joined.wiring.about());
        return format!("{}, from {file}", joined.unwrap_or_default());
    }
    match (&system.topology, &system.switch) {
        (Some(joined), _) => {
            let profile = system.parts.topology.as_deref().unwrap_or_default();
            let shape = joined.wiring.about();
            match name.is_empty() {
                true => format!("{shape} (topology {profile})"),
                false => format!("{shape} (topology {profile}, {name} switches)"),
            }
        }
        (None, None) => "no switch".to_owned(),
        (None, Some(switch)) => {
            let ports = switch.ports.0 as usize;
            Tree::new(nodes, system.ports as usize, Some(ports)).about(name, ports)
        }
    }
}

/// Checks that a system can connect so many nodes.
///
/// # Errors
///
/// Returns the reason if it cannot: the file, the topology or the switches that limit it.
pub fn check_joins(system: &System, nodes: usize) -> Result<(), String> {
    let (name, most) = (&system.name, system.joins());
    if nodes as u64 <= most {
        return Ok(());
    }
    let topology = system.parts.topology.as_deref();
    Err(match (system.fabric_file(), topology, &system.switch) {
        (Some(file), _, _) => format!("{file} has {most} nodes, not {nodes}"),
        (None, Some(topology), _) => {
            format!("{name} joins at most {most} nodes, not {nodes}: its topology is {topology}")
        }
        (None, None, Some(switch)) => format!(
            "{name} joins at most {most} nodes, not {nodes}: three levels of switches of {} ports",
            switch.ports.0
        ),
        (None, None, None) => {
            format!("{name} joins at most {most} nodes, not {nodes}: it has no switch")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Library, Overrides};

    #[test]
    fn a_grown_fabric_is_described() {
        let library = Library::shipped(&Overrides::none()).unwrap();
        let on = |name, nodes| fabric(&library.system(name).unwrap(), nodes);
        assert_eq!(on("connectx6-hdr", 16), "one quantum switch of 40 ports");
        assert_eq!(
            on("connectx6-hdr", 256),
            "fat tree of quantum switches (40 ports): 2 levels, 13 leaves, 20 spines, 1:1"
        );
        assert_eq!(
            on("connectx6-hdr", 1024),
            "fat tree of quantum switches (40 ports): 3 levels, 52 leaves, 60 spines, 400 cores, \
             1:1"
        );
        assert_eq!(on("connectx-qdr-back-to-back", 2), "no switch");
    }

    #[test]
    fn too_many_nodes_are_refused_with_the_cause() {
        let library = Library::shipped(&Overrides::none()).unwrap();
        let on = |name, nodes| check_joins(&library.system(name).unwrap(), nodes);
        assert_eq!(on("connectx6-hdr", 16_000), Ok(()));
        let reason = "connectx6-hdr joins at most 16000 nodes, not 16001: three levels of \
                      switches of 40 ports";
        assert_eq!(on("connectx6-hdr", 16_001), Err(reason.to_owned()));
        let reason = "connectx-qdr-back-to-back joins at most 2 nodes, not 3: it has no switch";
        assert_eq!(on("connectx-qdr-back-to-back", 3), Err(reason.to_owned()));
    }
}
