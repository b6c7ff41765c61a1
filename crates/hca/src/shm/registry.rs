//! Who is on this host: one small file and one socket a process, in a directory that the user alone can open.
//!
//! The file holds a slot for each live process and says which process owns which block of queue pair numbers. It is
//! changed only under flock(2) on itself, which the kernel releases when a process dies; it is read without a lock.
//! A process is alive exactly as long as its socket accepts connections: nothing else is believed.

use crate::errno::{Errno, Result};
use crate::sys::mapping::{Mapping, Rights};
use crate::sys::socket::Socket;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

const MAGIC: u32 = 0x5665_7262;
const LAYOUT: u32 = 1;
/// Processes that a host can have at once.
pub const SLOTS: usize = 1024;
/// Queue pair numbers that a process takes at a time.
pub const BLOCK: u32 = 256;
const BLOCKS: usize = (1 << 24) / BLOCK as usize;
const HEADER: usize = 64;
const SLOT: usize = 64;
const BLOCKS_AT: usize = HEADER + SLOTS * SLOT;
const LENGTH: usize = BLOCKS_AT + BLOCKS * 4;
const FILE: &str = "registry";

const FREE: u32 = 0;
const LIVE: u32 = 1;

/// Words of a slot.
const STATE: usize = 0;
const GENERATION: usize = 4;
const PID: usize = 8;
const FLAGS: usize = 12;

/// In a slot's flags: the process has queue pairs attached to multicast groups.
pub const MULTICAST: u32 = 1;

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
    directory: PathBuf,
    handle: File,
    file: File,
    mapping: Mapping,
    gate: Mutex<()>,
}

/// Where the registry lies: `VERBENA_RUNTIME_DIR`, or `/dev/shm/verbena-<uid>`.
pub fn directory() -> PathBuf {
    match std::env::var_os("VERBENA_RUNTIME_DIR") {
        Some(path) if !path.is_empty() => PathBuf::from(path),
        // SAFETY: geteuid cannot fail and touches nothing.
        _ => PathBuf::from(format!("/dev/shm/verbena-{}", unsafe { libc::geteuid() })),
    }
}

impl Registry {
    /// Opens the registry in `directory`, making what is missing.
    ///
    /// # Errors
    /// EPERM when the directory belongs to somebody else or is open to others; EPROTO when the file is not a registry
    /// of this version.
    pub fn open(directory: &Path) -> Result<Registry> {
        loop {
            make_directory(directory)?;
            // The last process out may remove the directory at any moment until we hold the lock: then make it again.
            let (handle, file) = match open_file(directory) {
                Ok(opened) => opened,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error.into()),
            };
            let lock = match Lock::take(&file) {
                Ok(lock) => lock,
                Err(Errno::ESTALE) => continue,
                Err(error) => return Err(error),
            };
            let length = file.metadata()?.len();
            if length == 0 {
                file.set_len(LENGTH as u64)?;
            } else if length != LENGTH as u64 {
                return Err(Errno::EPROTO);
            }
            let mapping = Mapping::of_fd(file.as_fd(), LENGTH, Rights::ReadWrite)?;
            let magic = mapping.word32(0);
            if magic.load(Ordering::Relaxed) == 0 {
                mapping.word32(4).store(LAYOUT, Ordering::Relaxed);
                magic.store(MAGIC, Ordering::Relaxed);
            }
            if magic.load(Ordering::Relaxed) != MAGIC
                || mapping.word32(4).load(Ordering::Relaxed) != LAYOUT
            {
                return Err(Errno::EPROTO);
            }
            drop(lock);
            let directory = directory.to_owned();
            return Ok(Registry {
                directory,
                handle,
                file,
                mapping,
                gate: Mutex::new(()),
            });
        }
    }

    /// Opens the registry and takes a slot in it.
    ///
    /// # Errors
    /// As [`Registry::open`]; ENOMEM when every slot is taken.
    pub fn enter(directory: &Path) -> Result<(Registry, Identity, Socket)> {
        loop {
            let registry = Registry::open(directory)?;
            match registry.join() {
                Ok((identity, listener)) => return Ok((registry, identity, listener)),
                // The last process out removed it after we had opened it.
                Err(Errno::ESTALE) => continue,
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens the registry only if there is one.
    pub fn open_existing(directory: &Path) -> Result<Registry> {
        if !directory.join(FILE).exists() {
            return Err(Errno::ENOENT);
        }
        Registry::open(directory)
    }

    /// Takes a slot for this process and listens for its peers. ESTALE when the registry was removed meanwhile.
    fn join(&self) -> Result<(Identity, Socket)> {
        let _gate = self.gate.lock().unwrap_or_else(|e| e.into_inner());
        let _lock = Lock::take(&self.file)?;
        self.sweep_locked();
        let slot = (0..SLOTS as u32)
            .find(|&slot| self.word(slot, STATE).load(Ordering::Relaxed) == FREE)
            .ok_or(Errno::ENOMEM)?;
        let generation = self
            .word(slot, GENERATION)
            .load(Ordering::Relaxed)
            .wrapping_add(1)
            & 0x7fff_ffff;
        let identity = Identity { slot, generation };
        let path = self.socket_path(identity);
        let _ = fs::remove_file(&path);
        let listener = Socket::listen(&path)?;
        self.word(slot, GENERATION)
            .store(generation, Ordering::Relaxed);
        self.word(slot, PID)
            .store(std::process::id(), Ordering::Relaxed);
        self.word(slot, FLAGS).store(0, Ordering::Relaxed);
        self.word(slot, STATE).store(LIVE, Ordering::Release);
        Ok((identity, listener))
    }

    /// Gives the slot and all its numbers back. The last one out removes the registry.
    pub fn leave(&self, identity: Identity) {
        let _gate = self.gate.lock().unwrap_or_else(|e| e.into_inner());
        let Ok(_lock) = Lock::take(&self.file) else {
            return;
        };
        self.free_locked(identity);
        self.sweep_locked();
        self.remove_if_empty();
    }

    /// Reclaims what dead processes left, and the registry itself if nobody is left.
    pub fn sweep(&self) {
        let _gate = self.gate.lock().unwrap_or_else(|e| e.into_inner());
        let Ok(_lock) = Lock::take(&self.file) else {
            return;
        };
        self.sweep_locked();
        self.remove_if_empty();
    }

    /// Reclaims a process that seems to be dead, if it is.
    pub fn reclaim(&self, identity: Identity) {
        let _gate = self.gate.lock().unwrap_or_else(|e| e.into_inner());
        let Ok(_lock) = Lock::take(&self.file) else {
            return;
        };
        if self.generation(identity.slot) == Some(identity.generation) && !self.answers(identity) {
            self.free_locked(identity);
        }
    }

    /// Connects to a process.
    pub fn connect(&self, identity: Identity) -> Result<Socket> {
        Socket::connect(&self.socket_path(identity))
    }

    /// Takes a block of queue pair numbers; returns its first number. Block 0 holds the management queue pairs 0 and 1
    /// of the architecture and is never given out.
    pub fn allocate_block(&self, identity: Identity) -> Result<u32> {
        let _gate = self.gate.lock().unwrap_or_else(|e| e.into_inner());
        let _lock = Lock::take(&self.file)?;
        let block = (1..BLOCKS)
            .find(|&block| self.block(block).load(Ordering::Relaxed) == 0)
            .ok_or(Errno::ENOMEM)?;
        self.block(block)
            .store(identity.slot + 1, Ordering::Release);
        Ok(block as u32 * BLOCK)
    }

    /// Who owns a queue pair number.
    pub fn owner(&self, number: u32) -> Option<Identity> {
        let owner = self
            .block((number as usize >> 8) % BLOCKS)
            .load(Ordering::Acquire);
        let slot = owner
            .checked_sub(1)
            .filter(|&slot| (slot as usize) < SLOTS)?;
        Some(Identity {
            slot,
            generation: self.generation(slot)?,
        })
    }

    /// All live processes: identity and process id.
    pub fn processes(&self) -> Vec<(Identity, u32)> {
        (0..SLOTS as u32)
            .filter_map(|slot| {
                let generation = self.generation(slot)?;
                Some((
                    Identity { slot, generation },
                    self.word(slot, PID).load(Ordering::Relaxed),
                ))
            })
            .collect()
    }

    /// Sets or clears flags of our own slot.
    pub fn set_flags(&self, identity: Identity, flags: u32) {
        self.word(identity.slot, FLAGS)
            .store(flags, Ordering::Release);
    }

    /// Flags of a process.
    pub fn flags(&self, identity: Identity) -> u32 {
        self.word(identity.slot, FLAGS).load(Ordering::Acquire)
    }

    /// The directory that everything lies in.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    fn generation(&self, slot: u32) -> Option<u32> {
        if self.word(slot, STATE).load(Ordering::Acquire) != LIVE {
            return None;
        }
        Some(self.word(slot, GENERATION).load(Ordering::Relaxed))
    }

    fn sweep_locked(&self) {
        for (identity, _) in self.processes() {
            if !self.answers(identity) {
                self.free_locked(identity);
            }
        }
        self.remove_orphans();
    }

    /// Removes sockets that no slot names and nobody listens to: what is left when somebody scribbled over the file.
    fn remove_orphans(&self) {
        for entry in fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            let identity = name.to_str().and_then(|name| {
                let (slot, generation) = name.split_once('.')?;
                let (slot, generation) = (slot.parse().ok()?, generation.parse().ok()?);
                Some(Identity { slot, generation })
            });
            if let Some(identity) = identity.filter(|identity| !self.answers(*identity)) {
                let _ = fs::remove_file(self.socket_path(identity));
            }
        }
    }

    /// Whether the process's socket is still listened to. Anything but a refusal counts as alive.
    fn answers(&self, identity: Identity) -> bool {
        !matches!(
            self.connect(identity),
            Err(Errno(libc::ECONNREFUSED | libc::ENOENT | libc::ECONNRESET))
        )
    }

    fn free_locked(&self, identity: Identity) {
        let _ = fs::remove_file(self.socket_path(identity));
        for block in 1..BLOCKS {
            let word = self.block(block);
            if word.load(Ordering::Relaxed) == identity.slot + 1 {
                word.store(0, Ordering::Relaxed);
            }
        }
        self.word(identity.slot, STATE)
            .store(FREE, Ordering::Release);
    }

    fn remove_if_empty(&self) {
        if self.processes().is_empty() {
            let _ = fs::remove_file(file_path(&self.handle));
            for entry in fs::read_dir(&self.directory)
                .into_iter()
                .flatten()
                .flatten()
            {
                // Domains and ports of processes that were killed; what is locked is not in use either, for nobody is left.
                let name = entry.file_name();
                let name = name.to_string_lossy();
                if name.starts_with("xrcd-") || name.starts_with("cm-") {
                    let _ = fs::remove_file(entry.path());
                }
            }
            let _ = fs::remove_dir(&self.directory);
        }
    }

    /// Through the directory's descriptor, so that a long directory name does not overflow a socket address.
    fn socket_path(&self, identity: Identity) -> PathBuf {
        PathBuf::from(format!(
            "/proc/self/fd/{}/{}.{}",
            self.handle.as_raw_fd(),
            identity.slot,
            identity.generation
        ))
    }

    fn word(&self, slot: u32, field: usize) -> &AtomicU32 {
        self.mapping
            .word32(HEADER + slot as usize % SLOTS * SLOT + field)
    }

    fn block(&self, block: usize) -> &AtomicU32 {
        self.mapping.word32(BLOCKS_AT + block * 4)
    }
}

/// Opens a directory and the registry file in it: through the descriptor, so that both are of one directory even when
/// another of the same name takes its place between the two calls.
fn open_file(directory: &Path) -> std::io::Result<(File, File)> {
    let handle = File::open(directory)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(file_path(&handle))?;
    Ok((handle, file))
}

fn file_path(directory: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{FILE}", directory.as_raw_fd()))
}

fn make_directory(directory: &Path) -> Result<()> {
    let metadata = loop {
        match DirBuilder::new().mode(0o700).create(directory) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => (),
            Err(error) => return Err(error.into()),
        }
        match fs::symlink_metadata(directory) {
            Ok(metadata) => break metadata,
            // Removed between the two calls.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        }
    };
    // SAFETY: geteuid cannot fail and touches nothing.
    let me = unsafe { libc::geteuid() };
    if !metadata.is_dir() || metadata.uid() != me || metadata.mode() & 0o077 != 0 {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// flock(2) on the registry file, released when dropped or when the process dies.
///
/// ESTALE when the file has been removed: what it says is then nobody's, and what now lies under its name is not ours.
struct Lock<'a>(&'a File);

impl<'a> Lock<'a> {
    fn take(file: &'a File) -> Result<Lock<'a>> {
        loop {
            // SAFETY: plain system call on a descriptor that outlives the lock.
            if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } == 0 {
                let lock = Lock(file);
                if file.metadata()?.nlink() == 0 {
                    return Err(Errno::ESTALE);
                }
                return Ok(lock);
            }
            let error = Errno::last();
            if error != Errno(libc::EINTR) {
                return Err(error);
            }
        }
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        // SAFETY: plain system call on a live descriptor.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("verbena-registry-{}-{name}", std::process::id()))
    }

    #[test]
    fn a_process_joins_takes_numbers_and_leaves_nothing() {
        let path = scratch("join");
        let registry = Registry::open(&path).unwrap();
        let (me, _listener) = registry.join().unwrap();
        let first = registry.allocate_block(me).unwrap();
        assert!(first >= BLOCK);
        assert_eq!(registry.owner(first + 7), Some(me));
        assert_eq!(registry.owner(first + BLOCK), None);
        registry.leave(me);
        assert!(!path.exists());
    }

    #[test]
    fn a_registry_that_was_removed_is_not_joined_nor_mistaken_for_its_successor() {
        let path = scratch("stale");
        let early = Registry::open(&path).unwrap();
        let (last, identity, _listener) = Registry::enter(&path).unwrap();
        last.leave(identity);
        assert_eq!(early.join().err(), Some(Errno::ESTALE));
        let (successor, identity, _listener) = Registry::enter(&path).unwrap();
        early.sweep();
        assert!(path.join(FILE).exists(), "the successor's file is not ours");
        assert!(successor.allocate_block(identity).is_ok());
        successor.leave(identity);
        assert!(!path.exists());
    }

    #[test]
    fn whoever_enters_while_others_leave_gets_in() {
        let path = scratch("crowd");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        let (registry, identity, _listener) = Registry::enter(&path).unwrap();
                        let number = registry.allocate_block(identity).unwrap();
                        assert_eq!(registry.owner(number), Some(identity));
                        registry.leave(identity);
                    }
                });
            }
        });
        assert!(!path.exists());
    }

    #[test]
    fn what_a_dead_process_left_is_reclaimed() {
        let path = scratch("dead");
        let registry = Registry::open(&path).unwrap();
        let (me, _listener) = registry.join().unwrap();
        let (dead, its_listener) = registry.join().unwrap();
        let number = registry.allocate_block(dead).unwrap();
        registry.reclaim(dead);
        assert_eq!(registry.owner(number), Some(dead), "it still listens");
        drop(its_listener);
        registry.reclaim(dead);
        assert_eq!(registry.owner(number), None);
        registry.leave(me);
        assert!(!path.exists());
    }

    #[test]
    fn sockets_that_no_slot_names_are_removed() {
        let path = scratch("orphan");
        let registry = Registry::open(&path).unwrap();
        let (me, _listener) = registry.join().unwrap();
        let (lost, its_listener) = registry.join().unwrap();
        registry
            .word(lost.slot, STATE)
            .store(FREE, Ordering::Release);
        drop(its_listener);
        registry.leave(me);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_open_to_others_is_refused() {
        let path = scratch("open");
        DirBuilder::new().mode(0o755).create(&path).unwrap();
        assert_eq!(Registry::open(&path).err(), Some(Errno::EPERM));
        fs::remove_dir(&path).unwrap();
    }

    #[test]
    fn a_file_that_is_no_registry_is_refused() {
        let path = scratch("other");
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        fs::write(path.join(FILE), b"something else").unwrap();
        assert_eq!(Registry::open(&path).err(), Some(Errno::EPROTO));
        fs::remove_dir_all(&path).unwrap();
    }
}
