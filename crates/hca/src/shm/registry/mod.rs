//! Who is on this host: one small file and one socket a process, in a directory that the user alone can open.
//!
//! The file holds a slot for each process and says which process owns which block of queue pair numbers. A process is
//! alive exactly as long as it holds the lock on its slot's byte ([`presence`]): nothing else is believed, and nothing
//! has to be asked of the process itself. No lock is held over anything that another process could wait for: a process
//! that is stopped, wherever, keeps nobody from entering, taking numbers or leaving.
//!
//! What a process that was killed has left is taken back when its peers notice, or when slots or blocks run short.

mod directory;
mod layout;
mod presence;
#[cfg(test)]
mod tests;

pub use directory::{TREE, prepare, remove_tree, wills};
pub use layout::{BLOCK, BLOCKS, SLOTS};

use crate::errno::{Errno, Result};
use crate::sys::socket::Socket;
use directory::{Directory, FILE};
use layout::{Life, Table};
use presence::{Alone, Claim};
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// In a slot's flags: the process has queue pairs attached to multicast groups.
pub const MULTICAST: u32 = 1;

/// How long whoever enters waits for the last process out to finish removing the registry: some hundred microseconds,
/// unless just that process is stopped just then.
const PATIENCE: Duration = Duration::from_secs(10);

/// A process as the registry knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Index of its slot.
    pub slot: u32,
    /// How often the slot had been used before, so that a successor is not taken for it.
    pub generation: u32,
}

/// The registry of this user on this host.
pub struct Registry {
    directory: Directory,
    file: File,
    table: Table,
    /// Our slot: the kernel does not tell us of our own lock.
    own: OnceLock<u32>,
}

/// Where the registry lies: `VERBENA_RUNTIME_DIR`, or `/dev/shm/verbena-<uid>`.
pub fn directory() -> PathBuf {
    match std::env::var_os("VERBENA_RUNTIME_DIR") {
        Some(path) if !path.is_empty() => PathBuf::from(path),
        // SAFETY: geteuid cannot fail and touches nothing.
        _ => PathBuf::from(format!("/dev/shm/verbena-{}", unsafe { libc::geteuid() })),
    }
}

/// What an error of the registry's says of its directory, for whoever has to do something about it.
pub fn obstacle(error: Errno) -> String {
    match error {
        Errno::EPROTO => "it is of another version, whose processes must end first".to_owned(),
        Errno::EPERM => {
            "it is no directory, or somebody else's, or open to others (its mode must be 0700)"
                .to_owned()
        }
        Errno(libc::EROFS) => "its file system can only be read".to_owned(),
        Errno(libc::ENOSPC | libc::EDQUOT) => {
            format!(
                "there is no room for the {} KiB that it takes",
                layout::LENGTH.div_ceil(1024)
            )
        }
        error => error.to_string(),
    }
}

impl Registry {
    /// Opens the registry in `directory`, making what is missing.
    ///
    /// # Errors
    /// EPERM when the directory belongs to somebody else or is open to others; EPROTO when the file is not a registry
    /// of this version; ENOSPC when there is no room for it.
    pub fn open(directory: &Path) -> Result<Registry> {
        loop {
            if let Some((directory, file)) = Directory::open(directory)? {
                let table = match Table::of(&file) {
                    // Of another version, whose processes may all be dead.
                    Err(Errno::EPROTO)
                        if layout::is_a_registry(&file) && presence::nobody_lives(&file) =>
                    {
                        directory.remove();
                        continue;
                    }
                    table => table?,
                };
                return Ok(Registry {
                    directory,
                    file,
                    table,
                    own: OnceLock::new(),
                });
            }
        }
    }

    /// Opens the registry and takes a slot in it.
    ///
    /// # Errors
    /// As [`Registry::open`]; ENOMEM when every slot is taken; EBUSY when the last process out does not finish removing
    /// the registry.
    pub fn enter(directory: &Path) -> Result<(Registry, Identity, Socket)> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let registry = Registry::open(directory)?;
            if registry.ports_down().load(Ordering::SeqCst) != 0 {
                // Of processes that live; those of the dead end with the registry.
                registry.sweep();
            }
            match registry.join() {
                Ok((identity, listener)) => return Ok((registry, identity, listener)),
                // The last process out removed it after we had opened it, or is about to.
                Err(Errno::ESTALE) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_micros(200));
                }
                Err(Errno::ESTALE) => return Err(Errno::EBUSY),
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens the registry only if there is one.
    ///
    /// # Errors
    /// ENOENT; as [`Registry::open`].
    pub fn open_existing(directory: &Path) -> Result<Registry> {
        if !directory.join(FILE).exists() {
            return Err(Errno::ENOENT);
        }
        Registry::open(directory)
    }

    /// Takes a slot for this process and listens for its peers. ESTALE when the registry is removed meanwhile.
    fn join(&self) -> Result<(Identity, Socket)> {
        let slot = self.claim_slot()?;
        let entered = self.occupy(slot);
        if entered.is_err() {
            presence::release(&self.file, slot);
        }
        entered
    }

    /// Holds a slot in which nobody lives: one that was given back if there is any, else one whose process has died.
    fn claim_slot(&self) -> Result<u32> {
        for only_given_back in [true, false] {
            for slot in self.table.slots_to_try() {
                if only_given_back && self.table.life(slot).lasts {
                    continue;
                }
                match presence::claim(&self.file, slot)? {
                    Claim::Held => return Ok(slot),
                    Claim::Taken => (),
                    Claim::Closing => return Err(Errno::ESTALE),
                }
            }
        }
        Err(Errno::ENOMEM)
    }

    /// Begins to live in a slot that is held.
    fn occupy(&self, slot: u32) -> Result<(Identity, Socket)> {
        // What lies under the file's name now is another's, if the last process out has been here.
        if self.file.metadata()?.nlink() == 0 {
            return Err(Errno::ESTALE);
        }
        let before = self.table.life(slot);
        if before.lasts {
            self.bury(Identity {
                slot,
                generation: before.generation,
            });
        }
        let generation = before.generation.wrapping_add(1) & 0x7fff_ffff;
        let identity = Identity { slot, generation };
        let path = self.directory.socket(identity);
        let listener = match Socket::listen(&path) {
            Err(Errno(libc::EADDRINUSE)) => {
                // Nobody else is of this identity: somebody scribbled over the file, and a number came again.
                fs::remove_file(&path)?;
                Socket::listen(&path)?
            }
            listener => listener?,
        };
        self.table.begin_life(slot, generation);
        let _ = self.own.set(slot);
        Ok((identity, listener))
    }

    /// Gives the slot and all its numbers back. The last one out removes the registry.
    pub fn leave(&self, identity: Identity) {
        self.bury(identity);
        presence::release(&self.file, identity.slot);
        self.remove_if_empty();
    }

    /// Takes back what dead processes left, and removes the registry itself if nobody is left.
    pub fn sweep(&self) {
        self.bury_all_dead();
        self.remove_if_empty();
    }

    /// Takes back what a process has left that seems to be dead, if it is.
    pub fn reclaim(&self, identity: Identity) {
        if self.lasts(identity) && !self.is_held(identity.slot) {
            self.bury(identity);
        }
    }

    /// Whether a process lives: the kernel's answer, whatever the process itself is doing.
    pub fn is_alive(&self, identity: Identity) -> bool {
        self.lasts(identity) && self.is_held(identity.slot)
    }

    fn is_held(&self, slot: u32) -> bool {
        self.own.get() == Some(&slot) || presence::is_held(&self.file, slot)
    }

    /// Connects to a process, without waiting.
    ///
    /// # Errors
    /// EAGAIN while too many others wait to be heard by it; ECONNREFUSED or ENOENT when it is gone; EMFILE and its like.
    pub fn connect(&self, identity: Identity) -> Result<Socket> {
        Socket::connect(&self.directory.socket(identity))
    }

    /// Takes a block of queue pair numbers, each time another, so that numbers are used again late; returns its first number.
    ///
    /// # Errors
    /// ENOMEM when live processes have them all.
    pub fn allocate_block(&self, identity: Identity) -> Result<u32> {
        let in_turn = || (1..BLOCKS).map(|_| self.table.next_block());
        self.allocate_first(identity, in_turn)
    }

    /// Takes the first that is free of some blocks of queue pair numbers; returns its first number.
    ///
    /// # Errors
    /// ENOMEM when live processes have them all.
    pub fn allocate_block_of(
        &self,
        identity: Identity,
        blocks: impl Iterator<Item = u32> + Clone,
    ) -> Result<u32> {
        self.allocate_first(identity, || blocks.clone())
    }

    /// What dead processes have left is taken back when there is no other.
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
                self.bury_all_dead();
                try_all().ok_or(Errno::ENOMEM)?
            }
        };
        Ok(block * BLOCK)
    }

    /// Who owns a queue pair number.
    #[inline]
    pub fn owner(&self, number: u32) -> Option<Identity> {
        let (slot, generation) = self.table.holder(number / BLOCK)?;
        let identity = Identity { slot, generation };
        self.lasts(identity).then_some(identity)
    }

    /// All processes that have not left: identity and process id. Some may have been killed.
    pub fn processes(&self) -> Vec<(Identity, u32)> {
        self.lives()
            .map(|identity| (identity, self.table.pid(identity.slot)))
            .collect()
    }

    /// Processes that have queue pairs attached to multicast groups.
    pub fn multicast_members(&self) -> impl Iterator<Item = Identity> + '_ {
        self.lives()
            .filter(|identity| self.flags(*identity) & MULTICAST != 0)
    }

    /// Sets or clears flags of our own slot.
    pub fn set_flags(&self, identity: Identity, flags: u32) {
        self.table
            .flags(identity.slot)
            .store(flags, Ordering::Release);
    }

    /// Flags of a process.
    pub fn flags(&self, identity: Identity) -> u32 {
        self.table.flags(identity.slot).load(Ordering::Acquire)
    }

    /// The InfiniBand ports that were taken down, a bit each ([`crate::link::bit`]).
    pub fn ports_down(&self) -> &AtomicU64 {
        self.table.ports_down()
    }

    /// Where whoever captures all processes is called.
    pub fn capture_socket(&self) -> PathBuf {
        self.directory.capture_socket()
    }

    /// The directory that everything lies in.
    pub fn path(&self) -> &Path {
        &self.directory.path
    }

    fn lives(&self) -> impl Iterator<Item = Identity> + '_ {
        self.table.used_slots().filter_map(|slot| {
            let Life { generation, lasts } = self.table.life(slot);
            lasts.then_some(Identity { slot, generation })
        })
    }

    /// Whether a process has neither left nor been found dead.
    fn lasts(&self, identity: Identity) -> bool {
        self.table.life(identity.slot)
            == Life {
                generation: identity.generation,
                lasts: true,
            }
    }

    /// Ends the life of a process that is leaving or dead.
    fn bury(&self, identity: Identity) {
        if self.table.end_life(identity.slot, identity.generation) {
            let _ = fs::remove_file(self.directory.socket(identity));
        }
    }

    fn bury_all_dead(&self) {
        for identity in self.lives() {
            self.reclaim(identity);
        }
    }

    /// The lock that shuts everybody out is taken without waiting, and only when nobody lives: then only those who are
    /// about to enter can meet it.
    fn remove_if_empty(&self) {
        let Some(_alone) = Alone::claim(&self.file) else {
            return;
        };
        if self.file.metadata().is_ok_and(|file| file.nlink() > 0) {
            self.directory.remove();
        }
    }
}

impl AsFd for Registry {
    /// The file whose locks tell that we live: a forked child must give its copy up.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
