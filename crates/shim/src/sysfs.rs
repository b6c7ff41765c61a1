//! The content of our device's sysfs files, asked from the library that plays the device.

use std::ffi::CStr;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::{c_char, c_void, ssize_t};

/// More than the longest file; sysfs itself stops at a page.
const PAGE: usize = 4096;

/// What the library has at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// A file.
    File,
    /// A directory.
    Directory,
}

/// The text of a file, without allocation.
pub struct Content {
    bytes: [u8; PAGE],
    length: usize,
}

impl Content {
    /// The text.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// `ssize_t verbena_sysfs_read(const char *path, char *buffer, size_t size)`: the length of the
/// file at `path` (relative to `/sys`) and as much of it as fits, -1 where there is none, -2 where
/// there is a directory.
type Read = unsafe extern "C" fn(*const c_char, *mut c_char, usize) -> ssize_t;

const LIBRARY: &CStr = c"libibverbs.so.1";
const FUNCTION: &CStr = c"verbena_sysfs_read";
const DIRECTORY: ssize_t = -2;

/// What is at `path` (relative to `/sys`).
pub fn look_up(path: &[u8]) -> Option<Entry> {
    match ask(path, &mut [])? {
        DIRECTORY => Some(Entry::Directory),
        length if length >= 0 => Some(Entry::File),
        _ => None,
    }
}

/// The content of the file at `path` (relative to `/sys`).
pub fn content(path: &[u8]) -> Option<Content> {
    let mut content = Content {
        bytes: [0; PAGE],
        length: 0,
    };
    let length = ask(path, &mut content.bytes)?;
    content.length = usize::try_from(length).ok()?.min(PAGE);
    Some(content)
}

fn ask(path: &[u8], buffer: &mut [u8]) -> Option<ssize_t> {
    // The bytes after the path stay zero and end the C string.
    let mut name = [0u8; 512];
    name[..511].get_mut(..path.len())?.copy_from_slice(path);
    let read = function()?;
    // SAFETY: `read` has this signature; the path is a C string, the buffer has this length.
    let answer = unsafe {
        read(
            name.as_ptr().cast(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
        )
    };
    Some(answer)
}

fn function() -> Option<Read> {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    static LOADING: AtomicBool = AtomicBool::new(false);

    let mut found = FOUND.load(Ordering::Acquire);
    if found.is_null() {
        // Loading a library opens files; such a call must not come back here.
        if LOADING.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: both are C strings. The library is the one the program would load itself, and
        // stays loaded.
        unsafe {
            let library = libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL);
            if !library.is_null() {
                found = libc::dlsym(library, FUNCTION.as_ptr());
            }
        }
        FOUND.store(found, Ordering::Release);
        LOADING.store(false, Ordering::Release);
    }
    if found.is_null() {
        return None;
    }
    // SAFETY: a function of this name has the signature above; it is Verbena's own.
    Some(unsafe { mem::transmute::<*mut c_void, Read>(found) })
}
