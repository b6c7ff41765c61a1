//! Open files of one session.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use verbena_rfio_protocol::Status;
use verbena_rfio_protocol::request::OpenFlags;
use verbena_rfio_protocol::types::Handle;

use super::Failure;
use crate::server::quota::Share;
use crate::server::service::SoleWriter;

/// What an open file is.
#[derive(Debug)]
pub enum Body {
    /// A regular file.
    File(OwnedFd),
    /// So many zero bytes and no storage: for measurements of everything but the storage.
    Unfilled(u64),
}

/// An open file.
#[derive(Debug)]
pub struct OpenFile {
    /// The file itself.
    pub body: Body,
    /// How it was opened.
    pub flags: OpenFlags,
    /// Kept only to be dropped with the file.
    pub _sole_writer: Option<SoleWriter>,
    /// The user's share of open files.
    pub _share: Share,
}

/// The table: 64-bit numbers, never reused within a session, so a late request cannot reach another file.
#[derive(Debug)]
pub struct Handles {
    files: HashMap<u64, OpenFile>,
    next: u64,
    limit: usize,
}

impl Handles {
    /// No file, at most `limit`.
    pub fn new(limit: usize) -> Self {
        Self {
            files: HashMap::new(),
            next: 1,
            limit,
        }
    }

    /// Fails with EMFILE when the session has all it may have.
    pub fn must_have_room(&self) -> Result<(), Failure> {
        if self.files.len() < self.limit {
            Ok(())
        } else {
            Err(Errno::MFILE.into())
        }
    }

    /// Whether no file is open.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Adds a file.
    pub fn insert(&mut self, file: OpenFile) -> Handle {
        let handle = self.next;
        self.next += 1;
        self.files.insert(handle, file);
        Handle(handle)
    }

    /// An open file.
    pub fn find(&self, handle: Handle) -> Result<&OpenFile, Failure> {
        self.files.get(&handle.0).ok_or(Errno::BADF.into())
    }

    /// A file with storage behind it.
    pub fn find_stored(&self, handle: Handle) -> Result<&OwnedFd, Failure> {
        match &self.find(handle)?.body {
            Body::File(file) => Ok(file),
            Body::Unfilled(_) => Err(Failure::Refused(
                Status::NOT_SUPPORTED,
                "the file has no storage",
            )),
        }
    }

    /// A file that was opened for writing.
    pub fn find_writable(&self, handle: Handle) -> Result<&OwnedFd, Failure> {
        if !self.find(handle)?.flags.has(OpenFlags::WRITE) {
            return Err(Errno::BADF.into());
        }
        self.find_stored(handle)
    }

    /// Takes a file out.
    pub fn remove(&mut self, handle: Handle) -> Result<OpenFile, Failure> {
        self.files.remove(&handle.0).ok_or(Errno::BADF.into())
    }
}
