//! Classes of program behaviour, so that a search can exclude known faults.

macro_rules! classes {
    ($($(#[$meta:meta])* $Class:ident = $word:literal;)*) => {
        /// A class of calls or of circumstances.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Class { $($(#[$meta])* $Class,)* }

        impl Class {
            /// All classes.
            pub const ALL: &'static [Class] = &[$(Class::$Class),*];

            /// Returns its name on the command line.
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
    /// Invalid keys, bounds, domains, rights, lengths.
    Wrong = "wrong";
    /// Messages without a receive request.
    Rnr = "rnr";
    /// Queue pairs that are reset and reconnected.
    Resets = "resets";
    /// Moves to the error state.
    Errors = "errors";
    /// SQD and back.
    Drains = "drains";
    /// Changes of queue pairs' access rights.
    Access = "access";
    /// Regions registered and deregistered.
    Regions = "regions";
    /// Regions reregistered in place.
    Rereg = "rereg";
    /// Memory windows.
    Windows = "windows";
    /// Objects destroyed, even while in use.
    Destroy = "destroy";
    /// Bursts of short messages.
    Short = "short";
    /// Concurrent calls.
    Together = "together";
    /// Transfers of megabytes that are interrupted.
    Races = "races";
    /// Processes killed.
    Kills = "kills";
    /// Processes stopped and continued.
    Pauses = "pauses";
    /// Processes that fork.
    Forks = "forks";
    /// Rules that have requests fail, links lose and delay, and completion queues show less.
    Rules = "rules";
    /// Pages returned to the system.
    Pages = "pages";
}

impl Class {
    /// Returns the class with this name.
    ///
    /// # Errors
    ///
    /// A message with all names.
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
            .ok_or_else(|| format!("no class `{name}`; the classes are {}", names()))
    }
}
