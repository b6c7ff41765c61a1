//! Classes of what programs do, so that faults behind known ones can be looked for.

macro_rules! classes {
    ($($(#[$meta:meta])* $Class:ident = $word:literal;)*) => {
        /// A class of calls or of circumstances.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Class { $($(#[$meta])* $Class,)* }

        impl Class {
            /// All of them.
            pub const ALL: &'static [Class] = &[$(Class::$Class),*];

            /// Its name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Class::$Class => $word,)* }
            }
        }
    };
}

classes! {
    /// Unreliable connections.
    Uc = "uc";
    /// Unreliable datagrams.
    Ud = "ud";
    /// Extended reliable connections.
    Xrc = "xrc";
    /// Shared receive queues.
    Srq = "srq";
    /// RDMA reads.
    Reads = "reads";
    /// Atomics.
    Atomics = "atomics";
        /// RDMA writes with immediate data.
    Immediates = "immediates";
        /// Sends with invalidate.
    Invalidates = "invalidates";
    /// Inline data.
    Inline = "inline";
    /// Wrong keys, bounds, domains, rights, lengths.
    Wrong = "wrong";
    /// Messages without a receive request.
    Rnr = "rnr";
    /// Ends that are reset and connected again.
    Resets = "resets";
    /// Moves to the error state.
    Errors = "errors";
    /// SQD and back.
    Drains = "drains";
    /// Rights of queue pairs taken and given.
    Access = "access";
    /// Regions registered and deregistered.
    Regions = "regions";
    /// Regions registered anew in place.
    Rereg = "rereg";
    /// Memory windows.
    Windows = "windows";
    /// Objects destroyed, also those in use.
    Destroy = "destroy";
    /// Several calls at the same time.
    Together = "together";
    /// Transfers of megabytes that are cut off.
    Races = "races";
    /// Processes killed.
    Kills = "kills";
    /// Processes stopped and continued.
    Pauses = "pauses";
    /// Processes that fork.
    Forks = "forks";
    /// Pages given back to the system.
    Pages = "pages";
}

impl Class {
    /// The class with this name. The error lists the names.
    pub fn named(name: &str) -> Result<Class, String> {
        let found = Class::ALL.iter().find(|class| class.name() == name);
        let names = || {
            Class::ALL
                .iter()
                .map(|class| class.name())
                .collect::<Vec<_>>()
                .join(", ")
        };
        found
            .copied()
            .ok_or_else(|| format!("there is no class `{name}` ({})", names()))
    }
}
