//! Directories. A remote one is a listing in memory behind a `DIR` pointer that only this library
//! understands; pointers that are not in its table are passed to the system's functions.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, OnceLock};

use verbena_rfio_client::Error;
use verbena_rfio_client::copy::list;
use verbena_rfio_protocol::types::Entry;

use crate::core::resolve::{self, ResolvedPath};
use crate::core::sessions;
use crate::{errors, ffi};

/// A remote directory.
struct Listing {
    entries: Vec<Entry>,
    next: usize,
    /// The result of the last `readdir`, valid until the next.
    shown: Box<libc::dirent>,
}

// SAFETY: `dirent` has only bytes and integers; the box is used under the table's lock, and by the
// caller as readdir(3) allows.
unsafe impl Send for Listing {}

fn table() -> MutexGuard<'static, HashMap<usize, Listing>> {
    static TABLE: OnceLock<Mutex<HashMap<usize, Listing>>> = OnceLock::new();
    TABLE
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(|poison| poison.into_inner())
}

fn open(path: &[u8]) -> Result<*mut libc::DIR, Error> {
    match resolve::find(path)? {
        ResolvedPath::Remote(address, path) => {
            let entries = list(|request| sessions::ask(&address, &request), &path)?;
            // SAFETY: `dirent` has only bytes and integers, for which zero is valid.
            let mut shown: Box<libc::dirent> = Box::new(unsafe { std::mem::zeroed() });
            // The listing owns the memory, so no `DIR` of the system has its address.
            let handle = (&raw mut *shown).cast::<libc::DIR>();
            table().insert(
                handle as usize,
                Listing {
                    entries,
                    next: 0,
                    shown,
                },
            );
            Ok(handle)
        }
        ResolvedPath::Local(path) => {
            let path =
                CString::new(path.as_os_str().as_bytes()).map_err(|_| ffi::invalid("path"))?;
            // SAFETY: `path` is a C string that outlives the call.
            let directory = unsafe { libc::opendir(path.as_ptr()) };
            if directory.is_null() {
                return Err(Error::Local(
                    "directory".into(),
                    std::io::Error::last_os_error(),
                ));
            }
            Ok(directory)
        }
    }
}

/// Returns the next entry of a remote directory: the inner `None` after the last one, the outer
/// `None` if the directory is not remote.
pub fn next(directory: *mut libc::DIR) -> Option<Option<Entry>> {
    let mut table = table();
    let listing = table.get_mut(&(directory as usize))?;
    let entry = listing.entries.get(listing.next).cloned();
    listing.next += usize::from(entry.is_some());
    Some(entry)
}

/// Opens a directory.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_opendir(path: *const c_char) -> *mut libc::DIR {
    // SAFETY: the crate's contract promises valid pointers.
    unsafe { ffi::name(path) }
        .and_then(open)
        .unwrap_or_else(|error| {
            errors::note(&error);
            std::ptr::null_mut()
        })
}

/// Returns the next entry.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_readdir(directory: *mut libc::DIR) -> *mut libc::dirent {
    let mut table = table();
    let Some(listing) = table.get_mut(&(directory as usize)) else {
        drop(table);
        // SAFETY: not in the table, so a valid DIR of the system, as the contract requires.
        return unsafe { libc::readdir(directory) };
    };
    let Some(entry) = listing.entries.get(listing.next) else {
        return std::ptr::null_mut();
    };
    listing.next += 1;
    let shown = &mut *listing.shown;
    shown.d_ino = entry.attributes.inode;
    shown.d_off = listing.next as i64;
    shown.d_reclen = size_of::<libc::dirent>() as u16;
    shown.d_type = ((entry.attributes.mode & libc::S_IFMT) >> 12) as u8;
    shown.d_name.fill(0);
    let room = shown.d_name.len() - 1;
    for (place, &byte) in shown.d_name[..room].iter_mut().zip(entry.name.as_bytes()) {
        *place = byte as c_char;
    }
    shown
}

/// Returns the next entry.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_readdir64(directory: *mut libc::DIR) -> *mut libc::dirent64 {
    // SAFETY: the caller passes a valid pointer, as the crate's contract requires; both structures
    // are the same on all supported platforms.
    unsafe { rfio_readdir(directory).cast() }
}
const _: () = assert!(size_of::<libc::dirent>() == size_of::<libc::dirent64>());

/// Moves back to the first entry.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_rewinddir(directory: *mut libc::DIR) {
    match table().get_mut(&(directory as usize)) {
        Some(listing) => listing.next = 0,
        // SAFETY: not in the table, so a valid DIR of the system, as the contract requires.
        None => unsafe { libc::rewinddir(directory) },
    }
}

/// Closes a directory.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_closedir(directory: *mut libc::DIR) -> c_int {
    match table().remove(&(directory as usize)) {
        Some(_) => 0,
        // SAFETY: not in the table, so a valid DIR of the system, as the contract requires.
        None => unsafe { libc::closedir(directory) },
    }
}
