//! Open files of one session.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;
use verbena_rfio_protocol::Status;
use verbena_rfio_protocol::request::OpenFlags;
use verbena_rfio_protocol::types::Handle;

use super::Failure;
use crate::accounting::FileAccount;
use crate::export::Root;
use crate::quota::Share;
use crate::service::SoleWriter;

/// The storage of an open file.
#[derive(Debug)]
pub enum FileStorage {
    /// A regular file.
    File(OwnedFd),
    /// This number of zero bytes without storage, to measure everything except the storage.
    Unfilled(u64),
}

/// An open file.
#[derive(Debug)]
pub struct OpenFile {
    /// Its storage.
    pub body: FileStorage,
    /// Flags of the open request.
    pub flags: OpenFlags,
    /// The exported directory that contains it, if any.
    pub root: Option<Arc<Root>>,
    /// Counts of data read and written.
    pub account: FileAccount,
    /// Reservation, held until the file is dropped.
    pub _sole_writer: Option<SoleWriter>,
    /// The user's share of open files.
    pub _share: Share,
}

/// An open file with storage. It stays open for the lifetime of this value, even if its handle is
/// closed meanwhile.
#[derive(Debug)]
pub struct Stored(Arc<OpenFile>);

impl AsFd for Stored {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0.body {
            FileStorage::File(file) => file.as_fd(),
            FileStorage::Unfilled(_) => unreachable!("looked at when it was made"),
        }
    }
}

/// The table of handles: 64-bit numbers, never reused within a session, so that a late request
/// cannot reach another file.
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
    /// Creates an empty table for at most `limit` files.
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

    /// Checks that the session may open another file.
    ///
    /// # Errors
    /// EMFILE if it has reached its limit.
    pub fn must_have_room(&self) -> Result<(), Failure> {
        if self.lock().files.len() < self.limit {
            Ok(())
        } else {
            Err(Errno::MFILE.into())
        }
    }

    /// Returns whether no file is open.
    pub fn is_empty(&self) -> bool {
        self.lock().files.is_empty()
    }

    /// Adds a file and returns its handle.
    ///
    /// # Errors
    /// EMFILE if the session has reached its limit.
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

    /// Returns an open file.
    ///
    /// # Errors
    /// EBADF for an unknown handle.
    pub fn find(&self, handle: Handle) -> Result<Arc<OpenFile>, Failure> {
        let table = self.lock();
        let file = table.files.get(&handle.0).ok_or(Errno::BADF)?;
        Ok(Arc::clone(file))
    }

    /// Returns an open file with storage.
    ///
    /// # Errors
    /// EBADF for an unknown handle; not supported for a file without storage.
    pub fn find_stored(&self, handle: Handle) -> Result<Stored, Failure> {
        let file = self.find(handle)?;
        match file.body {
            FileStorage::File(_) => Ok(Stored(file)),
            FileStorage::Unfilled(_) => Err(Failure::Refused(
                Status::NOT_SUPPORTED,
                "the file has no storage",
            )),
        }
    }

    /// Returns a file that was opened for writing.
    ///
    /// # Errors
    /// EBADF for an unknown handle or a file open for reading, ESTALE if its export was replaced.
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

    /// Removes all files.
    pub fn take_all(&self) -> impl Iterator<Item = Arc<OpenFile>> {
        std::mem::take(&mut self.lock().files).into_values()
    }

    /// Removes a file. It is closed when no request uses it any more.
    ///
    /// # Errors
    /// EBADF for an unknown handle.
    pub fn remove(&self, handle: Handle) -> Result<Arc<OpenFile>, Failure> {
        self.lock()
            .files
            .remove(&handle.0)
            .ok_or(Errno::BADF.into())
    }
}
