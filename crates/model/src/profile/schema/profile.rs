//! A profile of any kind.

use super::adapter::Adapter;
use super::applications::Applications;
use super::congestion::Congestion;
use super::host::Host;
use super::link::{Cable, Link, Switch};
use super::mpi::Mpi;
use super::services::{Ethernet, FileService, Stack};
use super::software::Software;
use super::system::SystemNames;
use super::topology::Topology;
use crate::profile::error::Error;
use crate::profile::kind::ProfileKind;
use crate::profile::reader::Section;

/// Declares the content type of each kind of profile.
macro_rules! profiles {
    ($($(#[$doc:meta])* $kind:ident($type:ty)),* $(,)?) => {
        /// One profile of any kind.
        #[derive(Debug, Clone)]
        pub enum Profile { $($(#[$doc])* $kind($type)),* }

        impl Profile {
            /// Reads the profile of kind `kind` whose root section is `root`.
            pub(crate) fn read(kind: ProfileKind, root: &Section<'_>) -> Result<Profile, Error> {
                let profile = match kind {
                    $(ProfileKind::$kind => Profile::$kind(<$type>::read(root)?)),*
                };
                root.finish()?;
                if let Profile::Mpi(mpi) = &profile {
                    mpi.check(root)?;
                }
                Ok(profile)
            }
        }
    };
}

profiles! {
    /// A host.
    Host(Host),
    /// An adapter.
    Adapter(Adapter),
    /// A link.
    Link(Link),
    /// A cable.
    Cable(Cable),
    /// A switch.
    Switch(Switch),
    /// A topology of switches.
    Topology(Topology),
    /// Congestion control.
    Congestion(Congestion),
    /// A message-passing library.
    Mpi(Mpi),
    /// A network stack.
    Stack(Stack),
    /// Ethernet.
    Ethernet(Ethernet),
    /// A file service.
    FileService(FileService),
    /// Applications.
    Applications(Applications),
    /// The software adapter.
    Software(Software),
    /// A system.
    System(SystemNames),
}
