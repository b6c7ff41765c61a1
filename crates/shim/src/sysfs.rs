//! The content of our device's sysfs files, asked from the library that plays the device.

use libc::{c_char, ssize_t};

use crate::library::Function;

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

/// `size_t verbena_sysfs_list(const char *path, char *buffer, size_t size)`: the names in the
/// directory at `path`, each with a final zero; their length in all.
type List = unsafe extern "C" fn(*const c_char, *mut c_char, usize) -> usize;

// SAFETY: Verbena's own functions have these signatures.
static READ: Function<Read> = unsafe { Function::new(c"verbena_sysfs_read") };
// SAFETY: as above.
static LIST: Function<List> = unsafe { Function::new(c"verbena_sysfs_list") };

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

/// The names in the directory at `path` (relative to `/sys`), each with a final zero. What does not
/// fit is left out.
pub fn names(path: &[u8]) -> Option<Content> {
    let mut content = Content {
        bytes: [0; PAGE],
        length: 0,
    };
    let name = c_string(path)?;
    let list = LIST.get()?;
    // SAFETY: the path is a C string, the buffer has this length.
    let length = unsafe {
        let buffer = content.bytes.as_mut_ptr().cast();
        list(name.as_ptr().cast(), buffer, content.bytes.len())
    };
    content.length = length.min(PAGE);
    Some(content)
}

fn ask(path: &[u8], buffer: &mut [u8]) -> Option<ssize_t> {
    let name = c_string(path)?;
    let read = READ.get()?;
    // SAFETY: the path is a C string, the buffer has this length.
    let answer = unsafe {
        read(
            name.as_ptr().cast(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
        )
    };
    Some(answer)
}

/// A path as a C string; `None` for one that is longer than any of ours.
fn c_string(path: &[u8]) -> Option<[u8; 512]> {
    // The bytes after the path stay zero and end the string.
    let mut name = [0u8; 512];
    name[..511].get_mut(..path.len())?.copy_from_slice(path);
    Some(name)
}
