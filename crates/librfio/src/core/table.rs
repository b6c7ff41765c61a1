//! Descriptors of open remote files.
//!
//! A remote file takes a real descriptor of the process (of an empty memory file), so that its number is never that of a
//! local file, and so that closing and limits behave as programs expect.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use verbena_rfio::client::Error;

use super::file::{OpenFile, Reading};

/// An open remote file and the descriptor that it takes.
pub struct Entry {
    file: Mutex<Option<OpenFile>>,
    _placeholder: OwnedFd,
}

/// What `rfiosetopt` chose: requests per read, buffer (the default), read ahead, stream.
static READ_OPTION: AtomicI32 = AtomicI32::new(1);

/// The reading option.
pub fn read_option() -> i32 {
    READ_OPTION.load(Ordering::Relaxed)
}

/// Chooses the reading option.
pub fn set_read_option(option: i32) {
    READ_OPTION.store(option, Ordering::Relaxed);
}

/// How files that are opened now read.
pub fn reading() -> Reading {
    if read_option() == 0 {
        Reading::Direct
    } else {
        Reading::Buffered
    }
}

fn table() -> MutexGuard<'static, HashMap<i32, Arc<Entry>>> {
    static TABLE: OnceLock<Mutex<HashMap<i32, Arc<Entry>>>> = OnceLock::new();
    TABLE
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(|poison| poison.into_inner())
}

/// Gives a file a descriptor.
pub fn insert(file: OpenFile) -> Result<i32, Error> {
    // SAFETY: a constant name and a flag; the result is checked.
    let number = unsafe { libc::memfd_create(c"rfio".as_ptr(), libc::MFD_CLOEXEC) };
    if number < 0 {
        return Err(Error::Local(
            "descriptor".into(),
            std::io::Error::last_os_error(),
        ));
    }
    // SAFETY: just made, owned by nobody else.
    let placeholder = unsafe { OwnedFd::from_raw_fd(number) };
    let number = placeholder.as_raw_fd();
    table().insert(
        number,
        Arc::new(Entry {
            file: Mutex::new(Some(file)),
            _placeholder: placeholder,
        }),
    );
    Ok(number)
}

/// Acts on the remote file of a descriptor; `None` if the descriptor is not of a remote file.
pub fn with<T>(
    descriptor: i32,
    act: impl FnOnce(&mut OpenFile) -> Result<T, Error>,
) -> Option<Result<T, Error>> {
    let entry = table().get(&descriptor).cloned()?;
    let mut file = entry
        .file
        .lock()
        .unwrap_or_else(|poison| poison.into_inner());
    Some(match &mut *file {
        Some(file) => act(file),
        None => Err(Error::Local(
            "descriptor".into(),
            std::io::Error::from_raw_os_error(libc::EBADF),
        )),
    })
}

/// Takes a descriptor's file out; calls that are under way on it end first.
pub fn remove(descriptor: i32) -> Option<OpenFile> {
    let entry = table().remove(&descriptor)?;
    entry
        .file
        .lock()
        .unwrap_or_else(|poison| poison.into_inner())
        .take()
}
