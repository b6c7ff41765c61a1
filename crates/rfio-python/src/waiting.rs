//! Waits for requests with the interpreter's lock (GIL) released.

use std::ffi::OsStr;
use std::time::Duration;

use pyo3::prelude::*;
use verbena_rfio_client::Error;
use verbena_rfio_client::connection::{FinishedOperation, PendingOperation, wait_any};

use super::failure::{ErrorContext, system};

/// Interval at which waits check for signals.
const LOOK: Duration = Duration::from_millis(200);

/// Drops a value with the GIL released, since it may have to send a last request to a server.
pub fn drop_without_gil<T: Send>(value: T) {
    // Without an interpreter, when the process exits, the value is dropped directly.
    Python::try_attach(|py| py.detach(|| drop(value)));
}

/// Allocates zeroed memory.
///
/// # Errors
/// ENOMEM.
pub fn zeroed(size: usize) -> Result<Vec<u8>, Error> {
    let mut memory = Vec::new();
    memory
        .try_reserve_exact(size)
        .map_err(|_| system("memory for a read", libc::ENOMEM))?;
    memory.resize(size, 0);
    Ok(memory)
}

/// Starts a request and waits for it. If a signal handler raises, the request is cancelled.
///
/// # Errors
/// `OSError` from the request, or the signal handler's exception.
pub fn start_and_wait(
    py: Python<'_>,
    url: &OsStr,
    begin: impl FnOnce() -> Result<PendingOperation, Error> + Send,
) -> PyResult<FinishedOperation> {
    let begun = py.detach(|| {
        let pending = begin()?;
        Ok((is_done_soon(&pending)?, pending))
    });
    match begun.about(url)? {
        (true, pending) => py.detach(|| pending.wait()).about(url),
        (false, pending) => wait_for(py, url, pending),
    }
}

/// Waits for a started request.
///
/// # Errors
/// As [`start_and_wait`].
pub fn wait_for(
    py: Python<'_>,
    url: &OsStr,
    pending: PendingOperation,
) -> PyResult<FinishedOperation> {
    loop {
        py.check_signals()?;
        if py.detach(|| is_done_soon(&pending)).about(url)? {
            // The memory may be a Python object, so it returns here, to a caller that holds the
            // GIL.
            return py.detach(|| pending.wait()).about(url);
        }
    }
}

fn is_done_soon(pending: &PendingOperation) -> Result<bool, Error> {
    Ok(wait_any(&[pending], Some(LOOK))?.is_some())
}
