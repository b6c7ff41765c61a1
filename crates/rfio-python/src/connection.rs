//! A connection driven by a Python event loop.
//!
//! Only the constructor blocks. Requests are numbered; the loop calls `advance` when the descriptor
//! is ready, which returns the results of ended requests. A connection belongs to one loop and is
//! used in that loop's thread.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use verbena_rfio_client::bounds::ListingBounds;
use verbena_rfio_client::connection::{Operation, OperationOutput, PendingOperation};
use verbena_rfio_client::open_flags::protocol_flags;
use verbena_rfio_client::{MultiplexedConnection, Options};
use verbena_rfio_protocol::request::{OnHandle, Open};
use verbena_rfio_protocol::types::Handle;
use verbena_rfio_protocol::{Reply, Request};

use super::failure::{ErrorContext, system};
use super::names::{attributes_of, listed, listing_of, status_of};
use super::ranges::{MOST, RangePlan};
use super::remote_path::RemotePath;
use super::waiting;

/// Result type of a request.
#[derive(Debug)]
enum ResultType {
    Attributes,
    Listing { held: usize },
    Opened,
    Bytes,
    Ranges(RangePlan),
    Nothing,
}

#[derive(Debug)]
struct StartedRequest {
    pending: PendingOperation,
    url: OsString,
    wanted: ResultType,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    begun: BTreeMap<u64, StartedRequest>,
}

/// A connection that never waits.
#[pyclass(frozen, module = "rfio_fsspec._native")]
#[derive(Debug)]
pub struct Connection {
    connection: Arc<MultiplexedConnection>,
    state: Mutex<State>,
}

impl Connection {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(
        &self,
        py: Python<'_>,
        url: OsString,
        wanted: ResultType,
        operation: Operation,
        memory: Vec<u8>,
    ) -> PyResult<u64> {
        let pending = py.detach(|| self.connection.begin(operation, memory));
        let pending = pending.about(&url)?;
        let mut state = self.lock();
        state.next += 1;
        let number = state.next;
        let begun = StartedRequest {
            pending,
            url,
            wanted,
        };
        state.begun.insert(number, begun);
        Ok(number)
    }

    fn call(
        &self,
        py: Python<'_>,
        url: OsString,
        wanted: ResultType,
        request: Request,
    ) -> PyResult<u64> {
        self.begin(py, url, wanted, Operation::Call(request), Vec::new())
    }
}

impl StartedRequest {
    /// Returns the result of an ended request.
    fn finish(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let url = &self.url;
        let done = py.detach(|| self.pending.wait()).about(url)?;
        match (self.wanted, done.outcome.about(url)?) {
            (ResultType::Attributes, OperationOutput::Reply(reply, _)) => {
                attributes_of(reply).about(url)?.into_py_any(py)
            }
            (ResultType::Listing { held }, OperationOutput::Reply(reply, _)) => {
                let mut bounds = ListingBounds::after(held);
                let (entries, cookie) = listed(reply, &mut bounds).about(url)?;
                (entries, cookie, bounds.bytes()).into_py_any(py)
            }
            (ResultType::Opened, OperationOutput::Reply(Reply::Opened(opened), _)) => {
                let about = super::attributes::Attributes::from(opened.attributes);
                (opened.handle.0, about).into_py_any(py)
            }
            (ResultType::Bytes, OperationOutput::Read(length)) => {
                PyBytes::new(py, &done.memory.bytes()[..length]).into_py_any(py)
            }
            (ResultType::Ranges(plan), OperationOutput::Vector(lengths)) => plan
                .join(py, done.memory.bytes(), &lengths)?
                .into_py_any(py),
            (ResultType::Nothing, _) => Ok(py.None()),
            _ => Err(system("reply", libc::EPROTO)).about(url),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let begun = std::mem::take(&mut state.unwrap_or_else(PoisonError::into_inner).begun);
        waiting::drop_without_gil((begun, Arc::clone(&self.connection)));
    }
}

#[pymethods]
impl Connection {
    /// Connects to the server of a URL. This alone waits.
    #[new]
    fn new(py: Python<'_>, url: OsString) -> PyResult<Self> {
        let place = RemotePath::new(url.clone()).about(&url)?;
        let connection = py.detach(|| {
            let options = Options::from_environment()?;
            MultiplexedConnection::connect(&place.address, &options)
        });
        Ok(Self {
            connection: connection.about(&url)?,
            state: Mutex::default(),
        })
    }

    /// The descriptor that is ready when `advance` is due.
    fn fileno(&self) -> i32 {
        self.connection.events().as_raw_fd()
    }

    /// Whether `advance` is due when the descriptor takes data, too.
    fn wants_to_send(&self, py: Python<'_>) -> bool {
        py.detach(|| self.connection.wants_to_send())
    }

    /// Whether it has ended, as far as `advance` knows.
    fn is_broken(&self, py: Python<'_>) -> bool {
        py.detach(|| self.connection.is_broken())
    }

    /// Sends and receives without waiting. Returns, for each finished request, its number, whether
    /// it succeeded, and its result or exception.
    fn advance(&self, py: Python<'_>) -> PyResult<Vec<(u64, bool, Py<PyAny>)>> {
        // Each affected request reports the error itself.
        let _ = py.detach(|| self.connection.advance());
        let ended: Vec<(u64, StartedRequest)> = {
            let mut state = self.lock();
            let has_ended = |begun: &StartedRequest| begun.pending.has_ended().unwrap_or(true);
            let numbers: Vec<u64> = state
                .begun
                .iter()
                .filter(|(_, begun)| has_ended(begun))
                .map(|(&number, _)| number)
                .collect();
            numbers
                .into_iter()
                .filter_map(|number| Some((number, state.begun.remove(&number)?)))
                .collect()
        };
        let outcome = |(number, begun): (u64, StartedRequest)| match begun.finish(py) {
            Ok(value) => Ok((number, true, value)),
            Err(error) => Ok((number, false, error.into_value(py).into_any())),
        };
        ended.into_iter().map(outcome).collect()
    }

    /// Does without a request, which may still be carried out.
    fn leave(&self, py: Python<'_>, number: u64) {
        let begun = self.lock().begun.remove(&number);
        py.detach(|| drop(begun));
    }

    /// Asks for the attributes of a path.
    #[pyo3(signature = (url, follow=true))]
    fn examine(&self, py: Python<'_>, url: OsString, follow: bool) -> PyResult<u64> {
        let place = RemotePath::new(url.clone()).about(&url)?;
        let request = status_of(place.path, follow);
        self.call(py, url, ResultType::Attributes, request)
    }

    /// Asks for entries of a directory: returns them, the next cookie, 0 at the end, and the bytes
    /// that the listing takes with the `held` of the pages before.
    fn entries(&self, py: Python<'_>, url: OsString, cookie: u64, held: usize) -> PyResult<u64> {
        let place = RemotePath::new(url.clone()).about(&url)?;
        let request = listing_of(place.path, cookie);
        self.call(py, url, ResultType::Listing { held }, request)
    }

    /// Asks to open a file with the flags of `os.open`: returns its handle and attributes.
    fn open(&self, py: Python<'_>, url: OsString, flags: i32) -> PyResult<u64> {
        let place = RemotePath::new(url.clone()).about(&url)?;
        let request = Request::Open(Open {
            path: place.path,
            flags: protocol_flags(flags).about(&url)?,
            mode: 0,
        });
        self.call(py, url, ResultType::Opened, request)
    }

    /// Asks for bytes of an open file: returns fewer where the file ends.
    fn read(
        &self,
        py: Python<'_>,
        url: OsString,
        handle: u64,
        offset: u64,
        size: usize,
    ) -> PyResult<u64> {
        let handle = Handle(handle);
        let memory = py.detach(|| waiting::zeroed(size)).about(&url)?;
        let operation = Operation::Read { handle, offset };
        self.begin(py, url, ResultType::Bytes, operation, memory)
    }

    /// Asks for ranges of an open file, offsets and lengths: returns the bytes of each.
    fn read_ranges(
        &self,
        py: Python<'_>,
        url: OsString,
        handle: u64,
        ranges: Vec<(u64, u64)>,
    ) -> PyResult<u64> {
        let plan = py.detach(|| RangePlan::new(Handle(handle), &ranges, MOST));
        let (plan, operation, memory) = plan.about(&url)?;
        self.begin(py, url, ResultType::Ranges(plan), operation, memory)
    }

    /// Requests to close a file, after the requests before this one.
    fn close(&self, py: Python<'_>, url: OsString, handle: u64) -> PyResult<u64> {
        let handle = Handle(handle);
        let request = Request::Close(OnHandle { handle });
        self.call(py, url, ResultType::Nothing, request)
    }
}
