//! Registry of the processes on this host: one small file, and one socket a process, in a directory
//! that only the user can open.
//!
//! The file has a slot for each process and records the owner of each block of queue pair numbers.
//! A process is alive exactly as long as it holds the lock on its slot's byte (`presence`): no
//! other sign counts, and the process itself need not be asked. No lock is held across anything
//! that can wait for another process: a stopped process, wherever it stopped, keeps no other from
//! entering, allocating numbers or leaving.
//!
//! The remains of a killed process are reclaimed when its peers notice, or when slots or blocks run
//! short.

mod directory;
mod layout;
mod presence;
#[cfg(test)]
mod tests;

pub use directory::{EMULATION, TREE, death_records, prepare, remove_tree};
pub use layout::{BLOCK, BLOCKS, SLOTS};

use directory::{Directory, FILE};
use layout::{Life, Table};
use presence::{Alone, SlotLock};
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::socket::Socket;

/// Slot flag: the process has queue pairs attached to multicast groups.
pub const MULTICAST: u32 = 1;

/// Time that an entering process waits for the last leaving process to finish removing the
/// registry: some hundred microseconds, unless that process is stopped just then.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Identity of a process in the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Index of its slot.
    pub slot: u32,
    /// Number of earlier uses of the slot; distinguishes a process from its successors.
    pub generation: u32,
}

/// The registry of this user on this host.
pub struct Registry {
    directory: Directory,
    file: File,
    table: Table,
    /// The slot of this process: the kernel does not report a process's own lock.
    own: OnceLock<u32>,
}

/// Reclaims the remains of dead processes in the registry at `directory`; removes it when no
/// process lives.
pub fn sweep(directory: &Path) {
    if let Ok(registry) = Registry::open_existing(directory) {
        registry.sweep();
    }
}

/// Returns the registry's directory: `VERBENA_RUNTIME_DIR`, or `/dev/shm/verbena-<uid>`.
pub fn directory() -> PathBuf {
    match std::env::var_os("VERBENA_RUNTIME_DIR") {
        Some(path) if !path.is_empty() => PathBuf::from(path),
        // SAFETY: geteuid cannot fail and touches no memory.
        _ => PathBuf::from(format!("/dev/shm/verbena-{}", unsafe { libc::geteuid() })),
    }
}

/// Describes a registry error for the user.
pub fn obstacle(error: Errno) -> String {
    match error {
        Errno::EPROTO => {
            "it belongs to another version; end that version's processes first".to_owned()
        }
        Errno::EPERM => {
            "it is not a directory, belongs to another user, or is open to others (its mode must \
             be 0700)"
                .to_owned()
        }
        Errno(libc::EROFS) => "its file system is read-only".to_owned(),
        Errno(libc::ENOSPC | libc::EDQUOT) => {
            format!(
                "its file system is full (see `df` and `df -i`): it needs {} KiB of free space, \
                 and inodes for its files",
                layout::LENGTH.div_ceil(1024)
            )
        }
        error => error.to_string(),
    }
}

impl Registry {
    /// Opens the registry in `directory`; creates missing parts.
    ///
    /// # Errors
    /// EPERM when the directory belongs to another user or is open to others; EPROTO when the file
    /// is not a registry of this version; ENOSPC when there is no space for it.
    pub fn open(directory: &Path) -> Result<Registry> {
        loop {
            if let Some(registry) = Registry::try_open(directory, true)? {
                return Ok(registry);
            }
        }
    }

    /// Makes one attempt to open the registry. None when it is missing, or was just removed.
    fn try_open(directory: &Path, create: bool) -> Result<Option<Registry>> {
        let Some((directory, file)) = Directory::open(directory, create)? else {
            return Ok(None);
        };
        let table = match Table::of(&file) {
            // A registry of another version is removed if all its processes are dead.
            Err(Errno::EPROTO) if layout::is_a_registry(&file) && presence::is_unused(&file) => {
                directory.remove();
                return Ok(None);
            }
            table => table?,
        };
        Ok(Some(Registry {
            directory,
            file,
            table,
            own: OnceLock::new(),
        }))
    }

    /// Opens the registry, takes a slot in it and listens for peers.
    ///
    /// # Errors
    /// As [`Registry::open`]; ENOMEM when every slot is taken; EBUSY when the last leaving process
    /// does not finish removing the registry within 10 s.
    pub fn enter(directory: &Path) -> Result<(Registry, Identity, Socket)> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let registry = Registry::open(directory)?;
            if registry.ports_down().load(Ordering::SeqCst) != 0 {
                // Only live processes may keep ports down; bits left by dead ones end with the
                // registry.
                registry.sweep();
            }
            match registry.join() {
                Ok((identity, listener)) => return Ok((registry, identity, listener)),
                // The last leaving process removed it after this one had opened it, or is about to.
                Err(Errno::ESTALE) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_micros(200));
                }
                Err(Errno::ESTALE) => return Err(Errno::EBUSY),
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens the registry only if it exists.
    ///
    /// # Errors
    /// ENOENT when it does not exist; as [`Registry::open`].
    pub fn open_existing(directory: &Path) -> Result<Registry> {
        if !directory.join(FILE).exists() {
            return Err(Errno::ENOENT);
        }
        Registry::try_open(directory, false)?.ok_or(Errno::ENOENT)
    }

    /// Takes a slot for this process and listens for its peers. ESTALE when the registry is removed
    /// meanwhile.
    fn join(&self) -> Result<(Identity, Socket)> {
        let slot = self.lock_slot()?;
        let entered = self.occupy(slot);
        if entered.is_err() {
            presence::release(&self.file, slot);
            // A process that left meanwhile may have taken this one for alive.
            self.remove_if_empty();
        }
        entered
    }

    /// Locks a slot without a live process: a released one if possible, otherwise that of a dead
    /// process.
    fn lock_slot(&self) -> Result<u32> {
        for only_given_back in [true, false] {
            for slot in self.table.slots_to_try() {
                if only_given_back && self.table.life(slot).in_use {
                    continue;
                }
                match presence::try_lock(&self.file, slot)? {
                    SlotLock::Held => return Ok(slot),
                    SlotLock::Taken => (),
                    SlotLock::Closing => return Err(Errno::ESTALE),
                }
            }
        }
        Err(Errno::ENOMEM)
    }

    /// Begins a life in a locked slot.
    fn occupy(&self, slot: u32) -> Result<(Identity, Socket)> {
        // If the last leaving process was here, the file's name now belongs to another file.
        if self.file.metadata()?.nlink() == 0 {
            return Err(Errno::ESTALE);
        }
        let before = self.table.life(slot);
        if before.in_use {
            self.reclaim_slot(Identity {
                slot,
                generation: before.generation,
            });
        }
        let generation = before.generation.wrapping_add(1) & 0x7fff_ffff;
        let identity = Identity { slot, generation };
        let path = self.directory.socket(identity);
        let listener = match Socket::listen(&path) {
            Err(Errno(libc::EADDRINUSE)) => {
                // No other process has this identity: the file was overwritten, and a generation
                // came again.
                fs::remove_file(&path)?;
                Socket::listen(&path)?
            }
            listener => listener?,
        };
        self.table.begin_life(slot, generation);
        let _ = self.own.set(slot);
        Ok((identity, listener))
    }

    /// Releases the slot and all its numbers. The last process to leave removes the registry.
    pub fn leave(&self, identity: Identity) {
        self.reclaim_slot(identity);
        presence::release(&self.file, identity.slot);
        self.remove_if_empty();
    }

    /// Reclaims the remains of dead processes, and removes the registry itself if no process is
    /// left.
    pub fn sweep(&self) {
        self.reclaim_all_dead();
        self.remove_if_empty();
    }

    /// Reclaims the remains of a process if it is dead.
    pub fn reclaim(&self, identity: Identity) {
        if self.has_not_ended(identity) && !self.is_held(identity.slot) {
            self.reclaim_slot(identity);
        }
    }

    /// Returns whether a process lives, by the kernel's lock and without its cooperation.
    pub fn is_alive(&self, identity: Identity) -> bool {
        self.has_not_ended(identity) && self.is_held(identity.slot)
    }

    fn is_held(&self, slot: u32) -> bool {
        self.own.get() == Some(&slot) || presence::is_held(&self.file, slot)
    }

    /// Connects to a process without blocking.
    ///
    /// # Errors
    /// EAGAIN while the process's accept queue is full; ECONNREFUSED or ENOENT when the process has
    /// ended; EMFILE and other resource limits.
    pub fn connect(&self, identity: Identity) -> Result<Socket> {
        Socket::connect(&self.directory.socket(identity))
    }

    /// Allocates a block of queue pair numbers, each time the next one, so that numbers are reused
    /// late. Returns its first number.
    ///
    /// # Errors
    /// ENOMEM when live processes own all blocks.
    pub fn allocate_block(&self, identity: Identity) -> Result<u32> {
        let in_turn = || (1..BLOCKS).map(|_| self.table.next_block());
        self.allocate_first(identity, in_turn)
    }

    /// Allocates the first free one of the given blocks of queue pair numbers. Returns its first
    /// number.
    ///
    /// # Errors
    /// ENOMEM when live processes own all of them.
    pub fn allocate_block_of(
        &self,
        identity: Identity,
        blocks: impl Iterator<Item = u32> + Clone,
    ) -> Result<u32> {
        self.allocate_first(identity, || blocks.clone())
    }

    /// Allocates the first free block; reclaims the blocks of dead processes if there is none.
    fn allocate_first<I: Iterator<Item = u32>>(
        &self,
        identity: Identity,
        blocks: impl Fn() -> I,
    ) -> Result<u32> {
        let Identity { slot, generation } = identity;
        let try_all = || blocks().find(|&block| self.table.take_block(block, slot, generation));
        let block = match try_all() {
            Some(block) => block,
            None => {
                self.reclaim_all_dead();
                try_all().ok_or(Errno::ENOMEM)?
            }
        };
        Ok(block * BLOCK)
    }

    /// Returns the owner of a queue pair number.
    #[inline]
    pub fn owner(&self, number: u32) -> Option<Identity> {
        let (slot, generation) = self.table.holder(number / BLOCK)?;
        let identity = Identity { slot, generation };
        self.has_not_ended(identity).then_some(identity)
    }

    /// Returns identity and process id of all processes that have not left. Some may have been
    /// killed.
    pub fn processes(&self) -> Vec<(Identity, u32)> {
        self.lives()
            .map(|identity| (identity, self.table.pid(identity.slot)))
            .collect()
    }

    /// Returns the processes that have queue pairs attached to multicast groups.
    pub fn multicast_members(&self) -> impl Iterator<Item = Identity> + '_ {
        self.lives()
            .filter(|identity| self.flags(*identity) & MULTICAST != 0)
    }

    /// Sets the flags of this process's slot.
    pub fn set_flags(&self, identity: Identity, flags: u32) {
        self.table
            .flags(identity.slot)
            .store(flags, Ordering::Release);
    }

    /// Returns the flags of a process.
    pub fn flags(&self, identity: Identity) -> u32 {
        self.table.flags(identity.slot).load(Ordering::Acquire)
    }

    /// Returns the word of InfiniBand ports that were taken down, a bit each.
    #[inline]
    pub fn ports_down(&self) -> &AtomicU64 {
        self.table.ports_down()
    }

    /// Returns the socket path at which a capturer of all processes listens.
    pub fn capture_socket(&self) -> PathBuf {
        self.directory.capture_socket()
    }

    /// Returns the registry's directory.
    pub fn path(&self) -> &Path {
        &self.directory.path
    }

    fn lives(&self) -> impl Iterator<Item = Identity> + '_ {
        self.table.used_slots().filter_map(|slot| {
            let Life { generation, in_use } = self.table.life(slot);
            in_use.then_some(Identity { slot, generation })
        })
    }

    /// Returns whether a process has neither left nor been found dead.
    #[inline]
    fn has_not_ended(&self, identity: Identity) -> bool {
        self.table.life(identity.slot)
            == Life {
                generation: identity.generation,
                in_use: true,
            }
    }

    /// Ends the life of a process that is leaving or dead.
    fn reclaim_slot(&self, identity: Identity) {
        if self.table.end_life(identity.slot, identity.generation) {
            let _ = fs::remove_file(self.directory.socket(identity));
        }
    }

    fn reclaim_all_dead(&self) {
        for identity in self.lives() {
            self.reclaim(identity);
        }
    }

    /// Removes the registry if no process lives. The exclusive lock is taken without waiting, and
    /// only when no process lives: so only entering processes can meet it.
    fn remove_if_empty(&self) {
        let Some(_alone) = Alone::try_lock(&self.file) else {
            return;
        };
        if self.file.metadata().is_ok_and(|file| file.nlink() > 0) {
            self.directory.remove();
        }
    }
}

impl AsFd for Registry {
    /// Returns the file whose locks show that this process lives: a forked child must close its
    /// copy.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
