//! File attributes.

use pyo3::prelude::*;
use verbena_rfio_protocol::types;

/// Attributes of a file: times in nanoseconds since 1970, sizes in bytes, blocks of 512 bytes.
#[pyclass(frozen, get_all, module = "rfio_fsspec._native")]
#[derive(Debug)]
pub struct Attributes {
    /// Device, as the server has it: with the inode it tells files apart.
    device: u64,
    /// Inode.
    inode: u64,
    /// Type and permission bits, as in `st_mode`.
    mode: u32,
    /// Hard links.
    links: u64,
    /// Owner on the server.
    owner: u32,
    /// Group on the server.
    group: u32,
    /// Bytes.
    size: u64,
    /// Blocks that are allocated.
    blocks: u64,
    /// Last access.
    accessed: i64,
    /// Last change of the data.
    modified: i64,
    /// Last change of the inode.
    changed: i64,
}

impl From<types::Attributes> for Attributes {
    fn from(about: types::Attributes) -> Self {
        Self {
            device: about.device,
            inode: about.inode,
            mode: about.mode,
            links: about.links,
            owner: about.owner,
            group: about.group,
            size: about.size,
            blocks: about.blocks,
            accessed: about.accessed,
            modified: about.modified,
            changed: about.changed,
        }
    }
}
