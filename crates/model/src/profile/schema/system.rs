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

impl System {
    /// Returns the largest number of nodes that it can connect.
    pub fn joins(&self) -> u64 {
        match (&self.topology, &self.switch) {
            (Some(topology), _) => topology.wiring.nodes() as u64,
            (None, Some(switch)) => switch.joins(),
            (None, None) => 2,
        }
    }
}
