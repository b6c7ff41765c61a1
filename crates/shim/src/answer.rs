//! From a path to what stands in for it.

use std::ffi::CStr;

use libc::{c_char, c_int};

use crate::errno;
use crate::place::{Fallback, Place, classify};
use crate::sysfs::{self, Entry};

/// What a call on one of our paths is answered with.
pub enum Answer<'a> {
    /// As if the call had named this node, which every host has.
    Node,
    /// As a node, but opened it is an event channel of the connection manager.
    ConnectionManager,
    /// A directory: below `/sys` at this path, if it can be listed.
    Directory(&'a [u8]),
    /// The read-only file at this path below `/sys`.
    File(&'a [u8]),
}

/// A character device that anybody may open, read and write.
pub const NODE: &CStr = c"/dev/null";
/// A directory that is always there.
pub const ROOT: &CStr = c"/";

/// What answers for `path`; `None` sends the call on untouched. Keeps `errno`.
///
/// # Safety
/// `path` is null or a C string that lives as long as the answer.
pub unsafe fn answer<'a>(path: *const c_char) -> Option<Answer<'a>> {
    // SAFETY: null or a C string, by the caller's promise.
    if !unsafe { may_be_ours(path) } {
        return None;
    }
    // SAFETY: not null, so a C string.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    let place = classify(bytes)?;
    errno::kept(|| match place {
        Place::Device => Some(Answer::Node),
        Place::ConnectionManager => Some(Answer::ConnectionManager),
        Place::Unless(fallback) => {
            // SAFETY: a C string, as above.
            let exists = unsafe { exists(path) };
            (!exists).then_some(match fallback {
                Fallback::Device => Answer::Node,
                Fallback::Directory => {
                    Answer::Directory(bytes.strip_prefix(b"/sys/").unwrap_or_default())
                }
            })
        }
        Place::Attribute(relative) => sysfs::look_up(relative).map(|entry| match entry {
            Entry::Directory => Answer::Directory(relative),
            Entry::File => Answer::File(relative),
        }),
    })
}

/// As [`answer`], for the calls that take a directory to start from: ours are all absolute, and
/// the directory does not count then.
///
/// # Safety
/// As for [`answer`].
pub unsafe fn answer_at<'a>(_directory: c_int, path: *const c_char) -> Option<Answer<'a>> {
    // SAFETY: the same promise.
    unsafe { answer(path) }
}

/// Whether the first bytes are those of a path of ours. Every path that the program ever asks for
/// comes by here, so this looks at two to five bytes, not at the whole string.
///
/// # Safety
/// `path` is null or a C string.
unsafe fn may_be_ours(path: *const c_char) -> bool {
    if path.is_null() {
        return false;
    }
    let starts_with = |prefix: &[u8; 5]| {
        prefix.iter().enumerate().all(|(i, byte)| {
            // SAFETY: the bytes before this one were equal to the prefix's, so none was the
            // string's end, and this one is inside.
            unsafe { *path.cast::<u8>().add(i) == *byte }
        })
    };
    starts_with(b"/dev/") || starts_with(b"/sys/")
}

/// Asks the kernel, past every interposed function.
///
/// # Safety
/// `path` is a C string.
unsafe fn exists(path: *const c_char) -> bool {
    // SAFETY: a C string by the caller's promise.
    unsafe { libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, path, libc::F_OK) == 0 }
}
