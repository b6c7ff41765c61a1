//! Open files of one session.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;
use verbena_rfio_protocol::Status;
use verbena_rfio_protocol::request::OpenFlags;
use verbena_rfio_protocol::types::Handle;

use super::Failure;
use crate::server::accounting::FileAccount;
use crate::server::export::Root;
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
    /// The exported directory that it is in, if it is in one.
    pub root: Option<Arc<Root>>,
    /// What is read and written.
    pub account: FileAccount,
    /// Kept only to be dropped with the file.
    pub _sole_writer: Option<SoleWriter>,
    /// The user's share of open files.
    pub _share: Share,
}

/// An open file with storage behind it. It stays open for as long as this lives, whatever is closed meanwhile.
#[derive(Debug)]
pub struct Stored(Arc<OpenFile>);

impl AsFd for Stored {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0.body {
            Body::File(file) => file.as_fd(),
            Body::Unfilled(_) => unreachable!("looked at when it was made"),
        }
    }
}

/// The table: 64-bit numbers, never reused within a session, so a late request cannot reach another file.
#[derive(Debug)]
pub struct Handles {
    table: Mutex<Table>,
    limit: usize,
}

#[derive(Debug)]
struct Table {
    files: HashMap<u64, Arc<OpenFile>>,
    next: u64,
}

impl Handles {
    /// No file, at most `limit`.
    pub fn new(limit: usize) -> Self {
        let table = Table {
            files: HashMap::new(),
            next: 1,
        };
        Self {
            table: Mutex::new(table),
            limit,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Fails with EMFILE when the session has all it may have.
    pub fn must_have_room(&self) -> Result<(), Failure> {
        if self.lock().files.len() < self.limit {
            Ok(())
        } else {
            Err(Errno::MFILE.into())
        }
    }

    /// Whether no file is open.
    pub fn is_empty(&self) -> bool {
        self.lock().files.is_empty()
    }

    /// Adds a file; fails with EMFILE when the session has all it may have by now.
    pub fn insert(&self, file: OpenFile) -> Result<Handle, Failure> {
        let mut table = self.lock();
        if table.files.len() >= self.limit {
            return Err(Errno::MFILE.into());
        }
        let handle = table.next;
        table.next += 1;
        table.files.insert(handle, Arc::new(file));
        Ok(Handle(handle))
    }

    /// An open file.
    pub fn find(&self, handle: Handle) -> Result<Arc<OpenFile>, Failure> {
        let table = self.lock();
        let file = table.files.get(&handle.0).ok_or(Errno::BADF)?;
        Ok(Arc::clone(file))
    }

    /// A file with storage behind it.
    pub fn find_stored(&self, handle: Handle) -> Result<Stored, Failure> {
        let file = self.find(handle)?;
        match file.body {
            Body::File(_) => Ok(Stored(file)),
            Body::Unfilled(_) => Err(Failure::Refused(
                Status::NOT_SUPPORTED,
                "the file has no storage",
            )),
        }
    }

    /// A file that was opened for writing.
    pub fn find_writable(&self, handle: Handle) -> Result<Stored, Failure> {
        let file = self.find(handle)?;
        if !file.flags.has(OpenFlags::WRITE) {
            return Err(Errno::BADF.into());
        }
        if let Some(root) = &file.root {
            root.must_not_be_replaced()?;
        }
        self.find_stored(handle)
    }

    /// Takes all files out.
    pub fn take_all(&self) -> impl Iterator<Item = Arc<OpenFile>> {
        std::mem::take(&mut self.lock().files).into_values()
    }

    /// Takes a file out. It is closed when nothing uses it any more.
    pub fn remove(&self, handle: Handle) -> Result<Arc<OpenFile>, Failure> {
        self.lock()
            .files
            .remove(&handle.0)
            .ok_or(Errno::BADF.into())
    }
}
