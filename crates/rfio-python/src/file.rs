//! Open files.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use verbena_rfio_client::Error;
use verbena_rfio_client::connection::{Memory, Operation, OperationOutput, SharedFile};
use verbena_rfio_client::open_flags::protocol_flags;
use verbena_rfio_protocol::request::{OpenFlags, Truncate, TwoPaths};
use verbena_rfio_protocol::types::Attributes;
use verbena_rfio_protocol::{IN_ORDER, REPLACE, Request};

use super::failure::{ErrorContext, about_both, system};
use super::ranges::Ranges;
use super::remote_path::RemotePath;
use super::{connections, names, waiting};

/// Bytes that one request copies between files on a server.
const COPIED_AT_ONCE: u64 = 1 << 30;

/// Python's buffer, written without a copy.
struct PythonBuffer(PyBackedBytes);

impl Memory for PythonBuffer {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        // A write request never fills its memory.
        &mut []
    }
}

/// An open file, without a position. A child of a fork may use its parent's: it opens them anew.
#[pyclass(frozen, module = "rfio_fsspec._native")]
#[derive(Debug)]
pub struct File {
    place: RemotePath,
    /// Protocol flags for reopening: without create, exclusive and truncate.
    flags: u32,
    /// Attributes at open.
    opened: Attributes,
    /// Whether this is the file's sole writer. Such a file is not reopened: after the connection is
    /// lost, the server grants the file to other clients and may have lost data that it had
    /// accepted.
    sole: bool,
    open: Mutex<Option<Arc<SharedFile>>>,
}

impl File {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<SharedFile>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the file on a live connection; reopens it if necessary, and checks that it is still
    /// the same file.
    fn on_connection(&self, py: Python<'_>) -> PyResult<Arc<SharedFile>> {
        let url = &self.place.url;
        let there = self.lock().clone().ok_or_else(closed).about(url)?;
        if self.sole || py.detach(|| there.is_usable()) {
            return Ok(there);
        }
        let connection = connections::to(py, &self.place)?;
        let identity = (self.opened.device, self.opened.inode);
        let opened =
            py.detach(|| SharedFile::reopen(connection, &self.place.path, self.flags, identity));
        let opened = Arc::new(opened.about(url)?);
        let earlier = match &mut *self.lock() {
            Some(place) => std::mem::replace(place, Arc::clone(&opened)),
            // Another thread closed it meanwhile.
            None => return Err(closed()).about(url),
        };
        py.detach(|| drop(earlier));
        Ok(opened)
    }

    /// Gives the file a new name by a request on its own connection. `version` is the protocol
    /// version that has the request.
    fn to_name(
        &self,
        py: Python<'_>,
        new: OsString,
        version: u16,
        request: fn(TwoPaths) -> Request,
    ) -> PyResult<()> {
        let there = RemotePath::new(new.clone()).about(&new)?;
        let file = self.on_connection(py)?;
        let done = py.detach(|| match file.version() < version {
            true => Err(system("older server", libc::EOPNOTSUPP)),
            false => file
                .call(request(names::both(&self.place, there)?))
                .map(drop),
        });
        done.map_err(|error| about_both(&error, &self.place.url, &new))
    }

    fn write(&self, py: Python<'_>, offset: u64, data: PyBackedBytes) -> PyResult<usize> {
        let (file, length) = (self.on_connection(py)?, data.len());
        let handle = file.handle();
        let done = waiting::start_and_wait(py, &self.place.url, || {
            file.begin(Operation::Write { handle, offset }, PythonBuffer(data))
        })?;
        done.outcome.about(&self.place.url)?;
        Ok(length)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let open = self.open.get_mut().unwrap_or_else(PoisonError::into_inner);
        waiting::drop_without_gil(open.take());
    }
}

fn closed() -> Error {
    system("closed file", libc::EBADF)
}

#[pymethods]
impl File {
    /// Opens `rfio://host[:port]/path` with the flags of `os.open`. EBUSY: `sole` is set, and
    /// another sole writer has it open.
    #[new]
    #[pyo3(signature = (url, flags, mode=0o666, sole=false))]
    fn new(py: Python<'_>, url: OsString, flags: i32, mode: u32, sole: bool) -> PyResult<Self> {
        let place = RemotePath::new(url.clone()).about(&url)?;
        let mut wanted = protocol_flags(flags).about(&url)?;
        if sole {
            wanted |= OpenFlags::SOLE_WRITER;
        }
        let connection = connections::to(py, &place)?;
        let file = py
            .detach(|| SharedFile::open(connection, &place.path, wanted, mode))
            .about(&url)?;
        Ok(Self {
            place,
            flags: wanted & !(OpenFlags::CREATE | OpenFlags::EXCLUSIVE | OpenFlags::TRUNCATE),
            opened: file.attributes().clone(),
            sole,
            open: Mutex::new(Some(Arc::new(file))),
        })
    }

    /// The attributes at the time it was opened.
    #[getter]
    fn opened(&self) -> super::attributes::Attributes {
        self.opened.clone().into()
    }

    /// Where it is.
    #[getter]
    fn url(&self) -> OsString {
        self.place.url.clone()
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.lock().is_none()
    }

    /// Bytes at an offset; fewer where the file ends.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        offset: u64,
        size: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let url = &self.place.url;
        let file = self.on_connection(py)?;
        let handle = file.handle();
        let done = waiting::start_and_wait(py, url, || {
            file.begin(Operation::Read { handle, offset }, waiting::zeroed(size)?)
        })?;
        match done.outcome.about(url)? {
            OperationOutput::Read(length) => Ok(PyBytes::new(py, &done.memory.bytes()[..length])),
            _ => Err(system("reply", libc::EPROTO)).about(url),
        }
    }

    /// Begins to read ranges (offset, length) with few requests; ranges longer than `most` bytes in
    /// parts.
    #[pyo3(signature = (ranges, most=1 << 30))]
    fn begin_ranges(&self, py: Python<'_>, ranges: Vec<(u64, u64)>, most: u64) -> PyResult<Ranges> {
        let file = self.on_connection(py)?;
        Ranges::begin(py, file, self.place.url.clone(), &ranges, most)
    }

    /// Writes at an offset.
    fn write_at(&self, py: Python<'_>, offset: u64, data: PyBackedBytes) -> PyResult<usize> {
        self.write(py, offset, data)
    }

    /// Writes at the end of a file that is open for appending.
    fn append(&self, py: Python<'_>, data: PyBackedBytes) -> PyResult<usize> {
        // The server determines the end when it writes, since it has the file open for appending.
        let end = self.size(py)?;
        self.write(py, end, data)
    }

    /// Copies a whole file of the same server to this one, which is empty, without moving the data
    /// to the client.
    fn copy_from(&self, py: Python<'_>, other: &Self) -> PyResult<()> {
        let (from, to) = (other.on_connection(py)?, self.on_connection(py)?);
        let mut at = 0;
        loop {
            let copied = py.detach(|| from.copy_to(at, &to, at, COPIED_AT_ONCE));
            match copied.about(&self.place.url)? {
                Some(0) => return Ok(()),
                Some(copied) => at += copied,
                None => return Err(system("copy", libc::EXDEV)).about(&self.place.url),
            }
            py.check_signals()?;
        }
    }

    /// Gives it a size.
    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        let file = self.on_connection(py)?;
        let handle = file.handle();
        let request = Request::Truncate(Truncate { handle, size });
        py.detach(|| file.call(request)).about(&self.place.url)?;
        Ok(())
    }

    /// Its size now.
    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        let file = self.on_connection(py)?;
        let about = py.detach(|| file.examine()).about(&self.place.url)?;
        Ok(about.size)
    }

    /// Renames it onto a file, of which owner, permissions, ACL and user attributes are kept.
    /// EOPNOTSUPP: the server is too old.
    fn replace(&self, py: Python<'_>, new: OsString) -> PyResult<()> {
        self.to_name(py, new, REPLACE, Request::Replace)
    }

    /// Renames it.
    fn rename(&self, py: Python<'_>, new: OsString) -> PyResult<()> {
        self.to_name(py, new, IN_ORDER, Request::Rename)
    }

    /// Gives it a second name, which must be free.
    fn link(&self, py: Python<'_>, new: OsString) -> PyResult<()> {
        self.to_name(py, new, IN_ORDER, Request::MakeHardLink)
    }

    /// Closes, once. Requests that are under way on it end first.
    fn close(&self, py: Python<'_>) {
        let taken = self.lock().take();
        py.detach(|| drop(taken));
    }
}
