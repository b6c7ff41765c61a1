//! The nodes of an emulation: which process is on which, and until when the sides of each are
//! occupied. They are words of a file in the runtime directory, which all processes of the user
//! share; each word is checked like a packet.

use std::fs::OpenOptions;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use verbena_hca_os::shared_words::SharedWords;
use verbena_hca_shm::registry::{EMULATION, Identity, SLOTS};

/// The variable with the name of this process's node. Without it, each process is a node.
pub const VARIABLE: &str = "VERBENA_NODE";

/// Number of nodes that a host can emulate.
const NODES: usize = 2048;

/// Words of a node: a cache line for the owner and for each side.
const WORDS: usize = 32;

/// Words in front of the nodes: the node of each process.
const PROCESSES: usize = SLOTS;

/// Names that are tried at other places if a place is taken.
const TRIES: usize = 64;

/// Times in the words are in sixteenths of a nanosecond.
const PARTS: f64 = 16.0;

/// Longest time that a side may be occupied, in nanoseconds: a larger one is no time.
const LONGEST: u64 = 60_000_000_000;

/// A side of a node that requests occupy.
#[derive(Clone, Copy, Debug)]
pub enum Resource {
    /// The sending side of its port.
    Out,
    /// The receiving side of its port.
    In,
    /// Its memory.
    Memory,
}

/// The nodes, as this process sees them.
pub struct Nodes {
    words: SharedWords,
    /// That of this process.
    own: usize,
}

impl Nodes {
    /// Joins those of a runtime directory, on the node that [`VARIABLE`] names. None, after a line
    /// on standard error, if that fails: then no request waits for another.
    pub fn join(directory: &Path, identity: Identity) -> Option<Nodes> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(directory.join(EMULATION));
        let words = file.map_err(|error| error.to_string()).and_then(|file| {
            let count = PROCESSES + NODES * WORDS;
            SharedWords::of(&file, count).map_err(|error| format!("{error:?}"))
        });
        let words = words.inspect_err(|error| {
            eprintln!(
                "verbena: cannot use {}: {error}; requests of emulated adapters do not wait for \
                 each other",
                directory.join(EMULATION).display()
            );
        });
        let mut nodes = Nodes {
            words: words.ok()?,
            own: 0,
        };
        let name = std::env::var(VARIABLE).unwrap_or_default();
        nodes.own = nodes.place(owner(&name, identity));
        let slot = nodes.words.get(identity.slot as usize);
        slot?.store(word_of(nodes.own, identity), Ordering::Relaxed);
        Some(nodes)
    }

    /// Returns the place of a node with this owner word, and takes one if it has none.
    fn place(&self, owner: u64) -> usize {
        let first = owner as usize % NODES;
        let places = (0..TRIES).map(|step| (first + step) % NODES);
        let mut mine = places.filter(|place| {
            let Some(word) = self.words.get(PROCESSES + place * WORDS) else {
                return false;
            };
            let (order, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            match word.compare_exchange(0, owner, order, failure) {
                Ok(_) => true,
                Err(found) => found == owner,
            }
        });
        mine.next().unwrap_or_else(|| {
            eprintln!(
                "verbena: this host has emulated more than {NODES} nodes; this one shares the port \
                 of another"
            );
            first
        })
    }

    /// Returns the node of this process.
    pub fn own(&self) -> usize {
        self.own
    }

    /// Returns the node of a process; none if that is not emulated.
    pub fn of(&self, identity: Identity) -> Option<usize> {
        let word = self.words.get(identity.slot as usize)?;
        let word = word.load(Ordering::Relaxed);
        let node = (word as u32).checked_sub(1)? as usize;
        (node < NODES && word == word_of(node, identity)).then_some(node)
    }

    fn word(&self, node: usize, resource: Resource) -> Option<&AtomicU64> {
        let line = 1 + resource as usize;
        self.words.get(PROCESSES + node * WORDS + 8 * line)
    }

    /// Occupies a side of a node for some nanoseconds from `now`, or from when it is free. Returns
    /// the nanoseconds until then.
    pub fn occupy(&self, node: usize, resource: Resource, now: u64, time: f64) -> u64 {
        let Some(word) = self.word(node, resource) else {
            return 0;
        };
        let now = now.saturating_mul(PARTS as u64);
        let taken = (time * PARTS) as u64;
        let start = |free: u64| match free > now.saturating_add(LONGEST * PARTS as u64) {
            true => now,
            false => free.max(now),
        };
        let (order, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        let next = |free: u64| Some(start(free).saturating_add(taken));
        let before = word.fetch_update(order, failure, next).unwrap_or(0);
        (start(before) - now) / PARTS as u64
    }
}

/// Returns the word of a process on a node: a later process in its slot may be on none.
fn word_of(node: usize, identity: Identity) -> u64 {
    u64::from(identity.generation) << 32 | (node as u64 + 1)
}

/// Returns the word of a node's owner, which is not 0.
fn owner(name: &str, identity: Identity) -> u64 {
    if name.is_empty() {
        return u64::from(identity.slot) + 1;
    }
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish() | 1 << 63
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> std::path::PathBuf {
        let name = format!(
            "verbena-nodes-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn process(slot: u32) -> Identity {
        Identity {
            slot,
            generation: 1,
        }
    }

    #[test]
    fn requests_wait_for_those_before_them_on_a_shared_side() {
        let directory = directory();
        let nodes = Nodes::join(&directory, process(3)).unwrap();
        let other = Nodes::join(&directory, process(4)).unwrap();
        assert_ne!(nodes.own(), other.own());
        assert_eq!(nodes.of(process(4)), Some(other.own()));
        assert_eq!(nodes.of(process(5)), None);
        let successor = Identity {
            slot: 4,
            generation: 2,
        };
        assert_eq!(nodes.of(successor), None);
        let node = other.own();
        assert_eq!(nodes.occupy(node, Resource::In, 1000, 100.5), 0);
        assert_eq!(other.occupy(node, Resource::In, 1000, 100.0), 100);
        assert_eq!(nodes.occupy(node, Resource::In, 1150, 1.0), 50);
        assert_eq!(nodes.occupy(node, Resource::Out, 1150, 1.0), 0);
        assert_eq!(nodes.occupy(node, Resource::In, 5000, 1.0), 0);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn words_that_are_no_times_or_nodes_are_ignored() {
        let directory = directory();
        let nodes = Nodes::join(&directory, process(1)).unwrap();
        let word = nodes.word(nodes.own(), Resource::Out).unwrap();
        word.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(nodes.occupy(nodes.own(), Resource::Out, 1000, 10.0), 0);
        assert_eq!(nodes.occupy(nodes.own(), Resource::Out, 1000, 10.0), 10);
        nodes
            .words
            .get(2)
            .unwrap()
            .store(u64::MAX, Ordering::Relaxed);
        assert_eq!(nodes.of(process(2)), None);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
