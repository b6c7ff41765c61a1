//! The kinds of profiles.

/// Kind and name of a profile.
pub(super) type Name = (ProfileKind, String);

/// Declares the kinds of profiles, with the word for each in a file.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $word:literal),* $(,)?) => {
        /// The kind of a profile.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ProfileKind { $($(#[$doc])* $kind),* }

        impl ProfileKind {
            const WORDS: &[(&str, ProfileKind)] = &[$(($word, ProfileKind::$kind)),*];
        }
    };
}

kinds! {
    /// A host.
    Host = "host",
    /// An adapter.
    Adapter = "adapter",
    /// A link.
    Link = "link",
    /// A cable.
    Cable = "cable",
    /// A switch.
    Switch = "switch",
    /// A topology of switches.
    Topology = "topology",
    /// Congestion control.
    Congestion = "congestion",
    /// A message-passing library.
    Mpi = "mpi",
    /// A network stack.
    Stack = "stack",
    /// Ethernet.
    Ethernet = "ethernet",
    /// A file service.
    FileService = "file-service",
    /// Applications.
    Applications = "applications",
    /// The software adapter.
    Software = "software",
    /// A system.
    System = "system",
}

impl ProfileKind {
    /// Returns the word for this kind in profiles.
    pub fn word(self) -> &'static str {
        let found = ProfileKind::WORDS.iter().find(|(_, kind)| *kind == self);
        found.map_or("", |(word, _)| word)
    }

    /// Returns the kind of profile with this key of its top level, of keys that are often put in
    /// another.
    pub(super) fn with_key(key: &str) -> Option<ProfileKind> {
        let system = [
            "host",
            "adapter",
            "link",
            "cable",
            "switch",
            "topology",
            "congestion",
        ];
        match key {
            "routing" | "fat_tree" | "torus" | "dragonfly" | "table" => Some(ProfileKind::Topology),
            "rate" | "mtu" | "lanes" => Some(ProfileKind::Link),
            _ if system.contains(&key) || key == "mpi" => Some(ProfileKind::System),
            _ => None,
        }
    }

    pub(super) fn from_word(word: &str) -> Option<ProfileKind> {
        let found = ProfileKind::WORDS.iter().find(|(known, _)| *known == word);
        found.map(|(_, kind)| *kind)
    }

    /// Returns the message `wrong`, followed by the list of valid kinds.
    pub(super) fn expected(wrong: &str) -> String {
        let words: Vec<_> = ProfileKind::WORDS.iter().map(|(word, _)| *word).collect();
        format!("{wrong}; expected one of {}", words.join(", "))
    }
}
