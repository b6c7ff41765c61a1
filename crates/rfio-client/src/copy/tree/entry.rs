//! The entries of a tree.

use super::super::facts::FileFacts;

/// Type of a tree entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryKind {
    Directory,
    Link,
    File,
    /// A device, socket or FIFO, which is not copied; the string describes it.
    Other(&'static str),
}

impl EntryKind {
    pub(super) fn of_mode(mode: u32) -> Self {
        match mode & libc::S_IFMT {
            libc::S_IFDIR => Self::Directory,
            libc::S_IFLNK => Self::Link,
            libc::S_IFREG => Self::File,
            libc::S_IFIFO => Self::Other("a FIFO"),
            libc::S_IFSOCK => Self::Other("a socket"),
            libc::S_IFCHR => Self::Other("a character device"),
            libc::S_IFBLK => Self::Other("a block device"),
            _ => Self::Other("a file of unknown type"),
        }
    }
}

/// Returns the mode bits that a copy keeps: the permission bits, and for a directory the sticky and
/// set-group-ID bits as well, which govern the names in it. Files lose set-user-ID and
/// set-group-ID, so a copied program never runs with another user's rights.
pub(super) fn kept_bits(mode: u32) -> u32 {
    match EntryKind::of_mode(mode) {
        EntryKind::Directory => mode & 0o3777,
        _ => mode & 0o777,
    }
}

/// An entry of a directory in a tree.
#[derive(Debug, Clone)]
pub(super) struct TreeEntry {
    pub(super) name: Vec<u8>,
    pub(super) kind: EntryKind,
    pub(super) facts: FileFacts,
    /// Device and inode number, which identify a file within one system.
    pub(super) identity: (u64, u64),
    /// Last change of the inode, in nanoseconds since 1970.
    pub(super) changed: i64,
    pub(super) links: u64,
}

/// A symbolic link to create.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) at: Vec<u8>,
    pub(super) text: Vec<u8>,
    /// Last change of the original link, in nanoseconds since 1970.
    pub(super) modified: i64,
}
