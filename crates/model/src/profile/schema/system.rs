//! Systems: hosts, adapters and the network between them.

use super::adapter::Adapter;
use super::congestion::Congestion;
use super::host::Host;
use super::link::{Cable, Link, Switch};
use super::mpi::{Channel, Mpi};
use super::topology::Topology;
use crate::correction::Corrections;
use crate::profile::error::Error;
use crate::profile::quantity::Count;
use crate::profile::reader::{Field, Section};

/// A system: the names of the profiles that make it up.
#[derive(Debug, Clone)]
pub struct SystemNames {
    /// Description.
    pub about: String,
    /// Host profile.
    pub host: String,
    /// Adapter profile.
    pub adapter: String,
    /// Link profile.
    pub link: String,
    /// Cable profile.
    pub cable: String,
    /// Switch profile; if absent, the nodes are connected back to back.
    pub switch: Option<String>,
    /// Topology of several switches; if absent, a fat tree of as many as needed.
    pub topology: Option<String>,
    /// Congestion control profile.
    pub congestion: Option<String>,
    /// Message-passing profile.
    pub mpi: Option<String>,
    /// Ports used by each adapter.
    pub ports: Count,
    /// Nodes.
    pub nodes: Count,
}

impl SystemNames {
    pub(crate) fn read(root: &Section<'_>) -> Result<SystemNames, Error> {
        Ok(SystemNames {
            about: root.word("about")?,
            host: root.word("host")?,
            adapter: root.word("adapter")?,
            link: root.word("link")?,
            cable: root.word("cable")?,
            switch: Field::take(root, "switch")?,
            topology: Field::take(root, "topology")?,
            congestion: Field::take(root, "congestion")?,
            mpi: Field::take(root, "mpi")?,
            ports: Field::take(root, "ports")?,
            nodes: Field::take(root, "nodes")?,
        })
    }
}

impl System {
    /// Returns whether programs reach the adapter by verbs; if not, only message passing over the
    /// kernel's sockets is modelled.
    pub fn has_verbs(&self) -> bool {
        let channel = self.mpi.as_ref().map(|mpi| mpi.channel);
        channel != Some(Channel::Socket)
    }
}

/// A system with its parts.
#[derive(Debug, Clone)]
pub struct System {
    /// Name of its profile.
    pub name: String,
    /// Names of its parts' profiles; of a fabric that exists, the description as topology.
    pub parts: SystemNames,
    /// Description.
    pub about: String,
    /// Host.
    pub host: Host,
    /// Adapter.
    pub adapter: Adapter,
    /// Link.
    pub link: Link,
    /// Cable.
    pub cable: Cable,
    /// Switch; if absent, the nodes are connected back to back.
    pub switch: Option<Switch>,
    /// Topology of several switches; if absent, a fat tree of as many as needed.
    pub topology: Option<Topology>,
    /// Congestion control; if absent, buffer credits alone limit senders.
    pub congestion: Option<Congestion>,
    /// Message passing.
    pub mpi: Option<Mpi>,
    /// Ports used by each adapter.
    pub ports: u64,
    /// Nodes.
    pub nodes: u64,
    /// Corrections by measurements; profiles have none.
    pub corrections: Corrections,
}

/// Properties beside adapters and hosts in which compared systems may differ.
pub const SETUP: [&str; 3] = ["library", "MTU", "network"];

impl System {
    /// Returns the values of [`SETUP`] in words: names of profiles, and the MTU in bytes.
    pub fn setup(&self) -> [String; 3] {
        let parts = &self.parts;
        let mut network = parts.link.clone();
        network += &match &parts.switch {
            Some(switch) => format!(" through {switch}"),
            None => " without a switch".to_owned(),
        };
        for (word, part) in [
            ("topology", &parts.topology),
            ("congestion", &parts.congestion),
        ] {
            if let Some(part) = part {
                network += &format!(", {word} {part}");
            }
        }
        let library = parts.mpi.as_deref().unwrap_or("none");
        [
            library.to_owned(),
            format!("{} B", self.link.mtu.0),
            network,
        ]
    }

    /// Returns the file of the fabric that connects it; `None` without one.
    pub fn fabric_file(&self) -> Option<&str> {
        let joined = self.topology.as_ref()?;
        joined.built.as_ref().map(|_| joined.about.as_str())
    }

    /// Returns the largest number of nodes that it can connect.
    pub fn joins(&self) -> u64 {
        match (&self.topology, &self.switch) {
            (Some(topology), _) => topology.wiring.nodes() as u64,
            (None, Some(switch)) => switch.joins(),
            (None, None) => 2,
        }
    }
}

/// Returns a sentence for each property of [`SETUP`] in which systems, by name, differ; of the
/// library only if they pass messages.
pub fn differences(systems: &[(&str, [String; 3])], passes_messages: bool) -> Vec<String> {
    let properties = SETUP.iter().enumerate();
    let properties = properties.skip(usize::from(!passes_messages));
    let sentences = properties.filter_map(|(number, property)| {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for (name, setup) in systems {
            let value = setup[number].as_str();
            match groups.iter_mut().find(|(known, _)| *known == value) {
                Some((_, names)) if names.contains(name) => {}
                Some((_, names)) => names.push(name),
                None => groups.push((value, vec![name])),
            }
        }
        let words = groups
            .iter()
            .map(|(value, names)| format!("{value} ({})", names.join(", ")));
        let words: Vec<String> = words.collect();
        let text = words.join("; ");
        (words.len() > 1).then(|| format!("the systems differ in their {property}: {text}"))
    });
    sentences.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Library, Overrides};

    #[test]
    fn systems_differ_in_library_mtu_and_network() {
        let library = Library::shipped(&Overrides::none()).expect("sound");
        let setup = |name: &'static str| (name, library.system(name).expect("known").setup());
        let [hdr, roce, remote, intel] = [
            "connectx6-hdr",
            "connectx6dx-100gbe",
            "connectx5-100gbe-dcqcn",
            "connectx6-hdr-intel",
        ]
        .map(setup);
        let tcp = setup("tcp-100gbe");
        assert_eq!(
            differences(&[hdr.clone(), roce.clone(), tcp, hdr.clone()], true),
            [
                "the systems differ in their library: openmpi-5 (connectx6-hdr, \
                 connectx6dx-100gbe); openmpi-tcp (tcp-100gbe)",
                "the systems differ in their MTU: 2048 B (connectx6-hdr); 1024 B \
                 (connectx6dx-100gbe); 8948 B (tcp-100gbe)",
                "the systems differ in their network: 4x-hdr through quantum (connectx6-hdr); \
                 100gbe through spectrum (connectx6dx-100gbe); 100gbe-tcp through spectrum \
                 (tcp-100gbe)"
            ]
        );
        // The same but for congestion control.
        assert_eq!(differences(&[roce, remote], false).len(), 1);
        assert_eq!(differences(&[hdr, intel], true), Vec::<String>::new());
    }
}
