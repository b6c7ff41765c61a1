//! The sections of each kind of profile. A field's doc comment states its physical meaning;
//! `docs/models-parts.md` has the equations.

/// Declares a section of a profile: a struct, and a reader that takes every key exactly once.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident : $type:ty),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name { $($(#[$field_doc])* pub $field: $type),* }
        impl $name {
            pub(crate) fn read(
                section: &$crate::profile::reader::Section<'_>,
            ) -> Result<$name, $crate::profile::error::Error> {
                use $crate::profile::reader::Field;
                let value = $name { $($field: Field::take(section, stringify!($field))?),* };
                section.finish()?;
                Ok(value)
            }
        }
    };
}

mod adapter;
mod applications;
mod collectives;
mod congestion;
mod device;
mod host;
mod link;
mod mpi;
mod profile;
mod services;
mod software;
mod system;
mod topology;

pub use adapter::{
    Adapter, BlueFlame, Caches, ContextHome, Engines, OwnMemory, Receive, Scheduling, Send,
};
pub use applications::Applications;
pub use collectives::{
    AllGather, AllReduce, AllToAll, Barrier, Broadcast, Choice, Choices, Collectives, Ranks,
    Reduce, ReduceScatter, Rooted, When,
};
pub use congestion::{Congestion, Marking, RateControl, Telling};
pub use device::Device;
pub use host::{Bus, CorePair, Cpu, Host, Memory, Numa, Pcie, Pcix};
pub use link::{Cable, Link, Switch};
pub use mpi::{Channel, Mpi, Pipeline, Rendezvous, Unexpected};
pub use profile::Profile;
pub use services::{Ethernet, FileService, Stack};
pub use software::{Caches as HostCaches, ChannelWork, Cores, OwnWork, Software};
pub use system::{SETUP, System, SystemNames, differences};
pub use topology::{Dragonfly, FatTree, Topology, Torus};
