//! Copying files to and from a service.
//!
//! What holds for every copy:
//! - Data go to a partial file beside the destination, `.NAME.rfpart`; the destination's name appears by a rename when
//!   everything is there. Nobody ever sees half a file under its name.
//! - A partial file has one writer at a time; a second copy to the same place fails with "busy".
//! - To continue, the blocks of the partial file are compared with the source's by checksum and only those that differ
//!   or are missing are moved. So it does not matter how the copy ended, nor whether the source changed since.
//! - A source that changes while it is copied is an error.

mod download;
mod local;
pub mod progress;
mod resume;
mod tree;
mod upload;

use std::sync::Arc;
use std::sync::Mutex;

use super::address::{Address, Location};
use super::error::Error;
use super::file::SharedSession;
use super::options::Options;
use super::session::Session;

pub use local::CopyError;
pub use progress::{Progress, Report};
pub use tree::{copy_tree, list};

/// Bytes of one request of a copy.
pub(crate) const CHUNK: u32 = 1 << 20;

/// What to do with a partial file of an earlier attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// Start over.
    Discard,
    /// Keep what is right in it.
    Continue,
}

/// Whether the whole file's checksum is compared at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// Blocks only, as they arrive.
    Blocks,
    /// What was written is read back and compared with the source, block by block.
    Written,
}

/// How to copy.
#[derive(Debug, Clone)]
pub struct Manner {
    /// How to connect.
    pub options: Options,
    /// What to do with an earlier attempt.
    pub earlier: Earlier,
    /// What to verify.
    pub verification: Verification,
    /// Sessions that share the work of one file.
    pub parallel: usize,
    /// Copy only so many bytes from the front.
    pub most: Option<u64>,
    /// Whether the data must be on stable storage before the rename.
    pub stable: Stable,
}

/// Whether data are forced to stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stable {
    /// The system writes them when it likes.
    Later,
    /// Before the rename.
    First,
}

/// Copies one file (or a pipe: `-`).
pub fn copy_file(
    from: &Location,
    to: &Location,
    manner: &Manner,
    progress: &Progress,
) -> Result<(), CopyError> {
    match (from, to) {
        (Location::Remote(address, path), Location::Local(local)) if local.as_os_str() == "-" => {
            download::to_pipe(
                address,
                path,
                &mut std::io::stdout().lock(),
                manner,
                progress,
            )
        }
        (Location::Local(local), Location::Remote(address, path)) if local.as_os_str() == "-" => {
            upload::from_pipe(
                &mut std::io::stdin().lock(),
                address,
                path,
                manner,
                progress,
            )
        }
        (Location::Remote(address, path), Location::Local(local)) => {
            download::to_file(address, path, local, manner, progress)
        }
        (Location::Local(local), Location::Remote(address, path)) => {
            upload::from_file(local, address, path, manner, progress)
        }
        (Location::Local(from), Location::Local(to)) => {
            local::between_files(from, to, manner, progress)
        }
        (Location::Remote(from, source), Location::Remote(to, path)) => {
            upload::from_remote(from, source, to, path, manner, progress)
        }
    }
}

/// Opens a session for a copy.
pub(crate) fn connect(address: &Address, options: &Options) -> Result<SharedSession, Error> {
    Ok(Arc::new(Mutex::new(Session::connect(address, options)?)))
}
