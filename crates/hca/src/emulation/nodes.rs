//! The nodes of an emulation: which process is on which, and until when the sides of each are
//! occupied. They are words of a file in the runtime directory, which all processes of the user
//! share; each word is checked like a packet.

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use verbena_emulation::node::NodeRule;
use verbena_emulation::reservation::{self, WORDS};
use verbena_hca_os::shared_words::SharedWords;
use verbena_hca_shm::registry::{EMULATION, Identity, SLOTS};

/// The variable with the name of this process's node.
pub const VARIABLE: &str = "VERBENA_NODE";

/// The variable with the rule that names it, if [`VARIABLE`] does not. Without both, each process
/// is a node.
const RULE: &str = "VERBENA_NODE_BY";

/// Number of nodes that a host can emulate.
const NODES: usize = 2048;

/// Words in front of the nodes: the node of each process.
const PROCESSES: usize = SLOTS;

/// Names that are tried at other places if a place is taken.
const TRIES: usize = 64;

/// Milliseconds for which a process waits for another one that joins.
const LOCKING: u32 = 200;

/// The nodes, as this process sees them.
pub struct Nodes {
    words: SharedWords,
    /// That of this process.
    own: usize,
}

impl Nodes {
    /// Joins those of a runtime directory, on the node that [`VARIABLE`] names. If no other process
    /// on that node is alive, its sides become free. None, after a line on standard error, if it
    /// fails: then no request waits for another.
    pub fn join(
        directory: &Path,
        identity: Identity,
        is_alive: impl Fn(Identity) -> bool,
    ) -> Option<Nodes> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(directory.join(EMULATION));
        let words = file.map_err(|error| error.to_string()).and_then(|file| {
            let count = PROCESSES + NODES * WORDS;
            let words = SharedWords::of(&file, count).map_err(|error| format!("{error:?}"))?;
            Ok((words, Alone::of(file)))
        });
        let words = words.inspect_err(|error| {
            eprintln!(
                "verbena: cannot use {}: {error}; requests of emulated adapters do not wait for \
                 each other",
                directory.join(EMULATION).display()
            );
        });
        // Processes of a node join one after another, so that exactly one finds it empty.
        let (words, _alone) = words.ok()?;
        let mut nodes = Nodes { words, own: 0 };
        nodes.own = nodes.place(owner(&name(), identity));
        let slot = nodes.words.get(identity.slot as usize);
        slot?.store(word_of(nodes.own, identity), Ordering::SeqCst);
        if !nodes.is_shared(identity, is_alive) {
            nodes.release();
        }
        Some(nodes)
    }

    /// Returns whether another process on this node is alive.
    fn is_shared(&self, own: Identity, is_alive: impl Fn(Identity) -> bool) -> bool {
        let mut slots = (0..PROCESSES as u32).filter(|slot| *slot != own.slot);
        slots.any(|slot| {
            let word = self.words.get(slot as usize);
            let word = word.map_or(0, |word| word.load(Ordering::SeqCst));
            let process = Identity {
                slot,
                generation: (word >> 32) as u32,
            };
            word == word_of(self.own, process) && is_alive(process)
        })
    }

    /// Frees all sides of this node.
    fn release(&self) {
        // The first word names the owner.
        let words = 1..WORDS;
        let words = words.filter_map(|index| reservation::Words::word(self, self.own, index));
        words.for_each(|word| word.store(0, Ordering::Relaxed));
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
}

impl reservation::Words for Nodes {
    fn word(&self, node: usize, index: usize) -> Option<&AtomicU64> {
        self.words.get(PROCESSES + node * WORDS + index)
    }
}

/// The lock of a file, held until this is dropped: closing the file would not end it while its
/// mapping exists.
struct Alone(File);

impl Alone {
    /// Locks a file. A process that is stopped while it joins keeps others waiting for a short time
    /// only.
    fn of(file: File) -> Alone {
        for _ in 0..LOCKING {
            // SAFETY: the descriptor is open.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Alone(file)
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // SAFETY: the descriptor is open.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// Returns the name of this process's node, empty for a node of this process alone. A rule that
/// does not apply to it is named on standard error.
fn name() -> String {
    let variable = |name: &str| std::env::var(name).ok();
    let named = variable(VARIABLE).filter(|name| !name.is_empty());
    let rule = variable(RULE).filter(|rule| !rule.is_empty());
    let (None, Some(text)) = (&named, rule) else {
        return named.unwrap_or_default();
    };
    let namespace = |kind: &str| {
        let link = std::fs::read_link(format!("/proc/self/ns/{kind}")).ok()?;
        Some(link.to_string_lossy().into_owned())
    };
    let rule = text.parse::<NodeRule>().map_err(|error| error.to_string());
    let name = rule.and_then(|rule| rule.node(variable, namespace));
    name.unwrap_or_else(|error| {
        eprintln!(
            "verbena: {RULE}={text}: {error}; process {} is an emulated node by itself",
            std::process::id()
        );
        String::new()
    })
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
    use verbena_emulation::reservation::{Resource, Words};

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

    fn occupy(nodes: &Nodes, node: usize, side: Resource, now: u64, time: f64) -> u64 {
        let word = nodes.word(node, side.index()).unwrap();
        reservation::occupy(word, now, time)
    }

    #[test]
    fn processes_wait_for_each_other_on_a_shared_side() {
        let directory = directory();
        let nodes = Nodes::join(&directory, process(3), |_| true).unwrap();
        let other = Nodes::join(&directory, process(4), |_| true).unwrap();
        assert_ne!(nodes.own(), other.own());
        assert_eq!(nodes.of(process(4)), Some(other.own()));
        assert_eq!(nodes.of(process(5)), None);
        let successor = Identity {
            slot: 4,
            generation: 2,
        };
        assert_eq!(nodes.of(successor), None);
        let node = other.own();
        assert_eq!(occupy(&nodes, node, Resource::In, 1000, 100.5), 0);
        assert_eq!(occupy(&other, node, Resource::In, 1000, 100.0), 100);
        assert_eq!(occupy(&nodes, node, Resource::Out, 1150, 1.0), 0);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn a_node_whose_processes_are_dead_is_free() {
        let directory = directory();
        let nodes = Nodes::join(&directory, process(7), |_| true).unwrap();
        let node = nodes.own();
        assert_eq!(occupy(&nodes, node, Resource::Out, 1000, 100.0), 0);
        // A later process in the same slot is on the same node, as neither has a name.
        let joined = |slot, is_alive: bool| {
            let process = Identity {
                slot,
                generation: 2,
            };
            Nodes::join(&directory, process, |_| is_alive).unwrap()
        };
        assert_eq!(joined(7, true).own(), node);
        assert_eq!(occupy(&nodes, node, Resource::Out, 1000, 100.0), 0);
        // Another process is still on it.
        let word = nodes.words.get(8).unwrap();
        word.store(word_of(node, process(8)), Ordering::Relaxed);
        joined(7, true);
        assert_eq!(occupy(&nodes, node, Resource::Out, 1000, 100.0), 100);
        joined(7, false);
        assert_eq!(occupy(&nodes, node, Resource::Out, 1000, 100.0), 0);
        std::fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn words_that_are_no_nodes_are_ignored() {
        let directory = directory();
        let nodes = Nodes::join(&directory, process(1), |_| true).unwrap();
        nodes
            .words
            .get(2)
            .unwrap()
            .store(u64::MAX, Ordering::Relaxed);
        assert_eq!(nodes.of(process(2)), None);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
