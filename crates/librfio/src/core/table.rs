//! Descriptors of open remote files.
//!
//! A remote file occupies a real descriptor of the process (of an empty memory file), so that its
//! number never collides with a local file's, and closing and limits behave as programs expect.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use verbena_rfio_client::connection::SharedFile;
use verbena_rfio_client::{Error, fork_guard};

use super::file::{FileOrigin, OpenFile};
use super::forks;
use super::read_ahead::ReadMode;

/// An open remote file and the descriptor that it occupies.
pub struct Entry {
    file: Mutex<Option<OpenFile>>,
    /// The same file for asynchronous requests, after the first one.
    async_file: Mutex<Option<Arc<SharedFile>>>,
    /// Whether an asynchronous request has written since the file was last used.
    is_stale: AtomicBool,
    /// Arguments for opening the file again in a child process.
    origin: FileOrigin,
    /// The file's position, for a child process, which must not wait for the file's lock.
    position: AtomicU64,
    /// The process that opened it.
    process: u64,
    placeholder: OwnedFd,
}

/// The value set by `rfiosetopt`: requests per read, buffer (the default), read ahead, stream.
static READ_OPTION: AtomicI32 = AtomicI32::new(1);

/// Returns the reading option.
pub fn read_option() -> i32 {
    READ_OPTION.load(Ordering::Relaxed)
}

/// Sets the reading option.
pub fn set_read_option(option: i32) {
    READ_OPTION.store(option, Ordering::Relaxed);
}

/// Returns the reading mode for files opened now.
pub fn reading() -> ReadMode {
    // RFIO_READBUF 1, RFIO_READAHEAD 2 and RFIO_STREAM 16 may be combined.
    match read_option() {
        0 => ReadMode::Direct,
        option if option & 16 != 0 => ReadMode::Streamed,
        option if option & 2 != 0 => ReadMode::Ahead,
        _ => ReadMode::Buffered,
    }
}

/// The locked table.
pub type Guard = MutexGuard<'static, HashMap<i32, Arc<Entry>>>;

/// Locks the table, for an access or for fork(2).
pub fn lock() -> Guard {
    static TABLE: OnceLock<Mutex<HashMap<i32, Arc<Entry>>>> = OnceLock::new();
    TABLE
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(|poison| poison.into_inner())
}

/// Assigns a descriptor to a file.
///
/// # Errors
/// Those of memfd_create(2).
pub fn insert(file: OpenFile) -> Result<i32, Error> {
    forks::prepare();
    // SAFETY: a constant name and a flag; the result is checked.
    let number = unsafe { libc::memfd_create(c"rfio".as_ptr(), libc::MFD_CLOEXEC) };
    if number < 0 {
        return Err(Error::Local(
            "descriptor".into(),
            std::io::Error::last_os_error(),
        ));
    }
    // SAFETY: the descriptor was just created, so nothing else owns it.
    let placeholder = unsafe { OwnedFd::from_raw_fd(number) };
    let number = placeholder.as_raw_fd();
    lock().insert(number, Arc::new(Entry::new(file, placeholder)));
    Ok(number)
}

impl Entry {
    fn new(file: OpenFile, placeholder: OwnedFd) -> Self {
        Self {
            origin: file.origin().clone(),
            position: AtomicU64::new(file.position()),
            file: Mutex::new(Some(file)),
            async_file: Mutex::new(None),
            is_stale: AtomicBool::new(false),
            process: fork_guard::generation(),
            placeholder,
        }
    }
}

/// Returns the entry of a descriptor, if it is a remote file's. In a child process the file is
/// opened again first, with its own session and a position that begins at the parent's.
fn entry(descriptor: i32) -> Option<Result<Arc<Entry>, Error>> {
    let found = lock().get(&descriptor).cloned()?;
    if found.process == fork_guard::generation() {
        return Some(Ok(found));
    }
    let position = found.position.load(Ordering::Acquire);
    let opened = OpenFile::reopen(&found.origin, position);
    Some(opened.map(|file| {
        let mut table = lock();
        // Another thread may have done it meanwhile.
        if let Some(there) = table.get(&descriptor)
            && there.process == fork_guard::generation()
        {
            return Arc::clone(there);
        }
        // SAFETY: the inherited entry owns the number and is never dropped, so it has one owner in
        // this process.
        let placeholder = unsafe { OwnedFd::from_raw_fd(found.placeholder.as_raw_fd()) };
        let fresh = Arc::new(Entry::new(file, placeholder));
        if let Some(inherited) = table.insert(descriptor, Arc::clone(&fresh)) {
            std::mem::forget(inherited);
        }
        std::mem::forget(found);
        fresh
    }))
}

impl Entry {
    /// Returns the file for asynchronous requests; opened by the first of them, and again after its
    /// connection is lost.
    ///
    /// # Errors
    /// Those of opening it.
    pub fn async_file(&self) -> Result<Arc<SharedFile>, Error> {
        let mut file = self
            .async_file
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        match &*file {
            Some(there) if there.is_usable() => Ok(Arc::clone(there)),
            _ => {
                let fresh = Arc::new(self.origin.open_async()?);
                *file = Some(Arc::clone(&fresh));
                Ok(fresh)
            }
        }
    }

    /// Marks the file as changed by an asynchronous request, so that data read ahead is not used.
    pub fn has_changed(&self) {
        self.is_stale.store(true, Ordering::Release);
    }
}

/// Returns the remote file of a descriptor; `None` if the descriptor is not a remote file's.
pub fn find(descriptor: i32) -> Option<Result<Arc<Entry>, Error>> {
    entry(descriptor)
}

/// Acts on the remote file of a descriptor; `None` if the descriptor is not a remote file's.
pub fn with<T>(
    descriptor: i32,
    act: impl FnOnce(&mut OpenFile) -> Result<T, Error>,
) -> Option<Result<T, Error>> {
    let entry = match entry(descriptor)? {
        Ok(entry) => entry,
        Err(error) => return Some(Err(error)),
    };
    let mut file = entry
        .file
        .lock()
        .unwrap_or_else(|poison| poison.into_inner());
    Some(match &mut *file {
        Some(file) => {
            if entry.is_stale.swap(false, Ordering::AcqRel) {
                file.forget();
            }
            let result = act(file);
            entry.position.store(file.position(), Ordering::Release);
            result
        }
        None => Err(Error::Local(
            "descriptor".into(),
            std::io::Error::from_raw_os_error(libc::EBADF),
        )),
    })
}

/// A file removed from the table.
pub enum Removed {
    /// A file of this process.
    Own(Box<OpenFile>),
    /// A file that a parent opened and this process never used: the server is not informed.
    Inherited,
}

/// Removes a descriptor's file; calls in progress on it end first.
pub fn remove(descriptor: i32) -> Option<Removed> {
    let entry = lock().remove(&descriptor)?;
    if entry.process != fork_guard::generation() {
        // SAFETY: the inherited entry owns the number and is forgotten below without closing it; it
        // is closed here.
        drop(unsafe { OwnedFd::from_raw_fd(entry.placeholder.as_raw_fd()) });
        std::mem::forget(entry);
        return Some(Removed::Inherited);
    }
    entry
        .file
        .lock()
        .unwrap_or_else(|poison| poison.into_inner())
        .take()
        .map(|file| Removed::Own(Box::new(file)))
}
