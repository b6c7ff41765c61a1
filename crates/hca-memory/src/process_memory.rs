//! The memory of this process that peers access: keys, windows and registered pages.

use crate::arena::Arena;
use crate::fork_mutex::{ForkMutex, GENERATION};
use crate::key::Keys;
use crate::page_policy::Pages;
use crate::peers::Peers;
use crate::tables::WeakTable;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use verbena_hca_os::errno::Result;
use verbena_hca_os::memfd::Memfd;
use verbena_hca_os::page_box::PageBox;
use verbena_hca_shm::context_table::ContextTable;
use verbena_hca_shm::section::OwnMarks;

/// An object whose key a queue pair can invalidate: a memory window.
pub trait Invalidate: Send + Sync {
    /// Ends the binding under a key, requested through a queue pair and its protection domain.
    ///
    /// # Errors
    /// EINVAL for an object that is not bound under this key; EPERM for another protection domain
    /// or queue pair.
    fn invalidate(&self, key: u32, pd: u32, queue_pair: u32) -> Result<()>;
}

/// Keys, windows and registered pages of a process.
pub struct ProcessMemory {
    contexts: Arc<ContextTable>,
    contexts_file: Memfd,
    /// None where the system refuses so much address space.
    arena: Option<PageBox<Arena>>,
    keys: Keys,
    windows: WeakTable<dyn Invalidate>,
    own_marks: OwnMarks,
    /// Held while pages move into or out of the arena.
    registration: ForkMutex,
    probe: Box<AtomicU64>,
    fork_generation: u64,
    peers: OnceLock<Weak<dyn Peers>>,
}

impl ProcessMemory {
    /// Creates the context table and the arena.
    ///
    /// # Errors
    /// EINVAL for an invalid environment variable; the system's.
    pub fn create() -> Result<ProcessMemory> {
        let pages = Pages::from_environment()?;
        let (contexts, contexts_file) = ContextTable::create()?;
        let contexts = Arc::new(contexts);
        let arena = Arena::create(pages).ok();
        let memory = ProcessMemory {
            keys: Keys::new(contexts.clone()),
            contexts,
            contexts_file,
            arena,
            windows: WeakTable::default(),
            own_marks: OwnMarks::default(),
            registration: ForkMutex::new(),
            probe: Box::new(AtomicU64::new(u64::from(std::process::id()) << 32 | 0x5eed)),
            fork_generation: GENERATION.load(Ordering::SeqCst),
            peers: OnceLock::new(),
        };
        memory.is_harmless(memory.contexts_file.as_fd());
        Ok(memory)
    }

    /// Sets the peers that access the memory. Only the first call has an effect.
    pub fn set_peers(&self, peers: Weak<dyn Peers>) {
        let _ = self.peers.set(peers);
    }

    pub(super) fn peers(&self) -> Option<Arc<dyn Peers>> {
        self.peers.get()?.upgrade()
    }

    /// Returns the context table: records that peers may read.
    #[inline]
    pub fn contexts(&self) -> &Arc<ContextTable> {
        &self.contexts
    }

    /// Returns the file of the context table.
    pub fn contexts_file(&self) -> &Memfd {
        &self.contexts_file
    }

    /// Returns the memory that backs registered pages.
    #[inline]
    pub fn arena(&self) -> Option<&Arena> {
        self.arena.as_deref()
    }

    /// Returns the memory keys.
    #[inline]
    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Returns the memory windows by key.
    #[inline]
    pub fn windows(&self) -> &WeakTable<dyn Invalidate> {
        &self.windows
    }

    /// Returns the section marks of local threads for access to local memory outside a channel.
    #[inline]
    pub fn own_marks(&self) -> &OwnMarks {
        &self.own_marks
    }

    pub(super) fn registration(&self) -> &ForkMutex {
        &self.registration
    }

    /// Returns address and value of a word by which peers probe their access.
    pub fn probe(&self) -> (u64, u64) {
        let address = (&raw const *self.probe) as u64;
        (address, self.probe.load(Ordering::Relaxed))
    }

    /// Notes that a descriptor of the adapter holds no pages of the application.
    pub fn is_harmless(&self, descriptor: BorrowedFd<'_>) {
        if let Some(arena) = self.arena() {
            arena.is_harmless(descriptor);
        }
    }

    /// Returns whether this memory belongs to an ancestor of the calling process.
    pub fn is_inherited(&self) -> bool {
        self.fork_generation != GENERATION.load(Ordering::Relaxed)
    }

    /// Returns the ranges that a forked child must not touch.
    pub fn shared_mappings(&self) -> Vec<(usize, usize)> {
        let arena = self.arena();
        let arena = arena.map(|arena| (arena.base() as usize, arena.length()));
        std::iter::once(self.contexts.range())
            .chain(arena)
            .collect()
    }
}
