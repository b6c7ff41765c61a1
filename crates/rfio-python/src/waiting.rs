//! Waits for requests with the interpreter's lock (GIL) released.

use std::ffi::OsStr;
use std::time::Duration;

use pyo3::prelude::*;
use verbena_rfio_client::Error;
use verbena_rfio_client::exchange::{Done, Ticket, wait_any};

use super::failure::{About, system};

/// Interval at which waits check for signals.
const LOOK: Duration = Duration::from_millis(200);

/// Drops a value with the GIL released, since it may have to send a last request to a server.
pub fn let_go<T: Send>(value: T) {
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
pub fn for_what_begins(
    py: Python<'_>,
    url: &OsStr,
    begin: impl FnOnce() -> Result<Ticket, Error> + Send,
) -> PyResult<Done> {
    let begun = py.detach(|| {
        let ticket = begin()?;
        Ok((is_done_soon(&ticket)?, ticket))
    });
    match begun.about(url)? {
        (true, ticket) => py.detach(|| ticket.wait()).about(url),
        (false, ticket) => for_ticket(py, url, ticket),
    }
}

/// Waits for a started request.
///
/// # Errors
/// As [`for_what_begins`].
pub fn for_ticket(py: Python<'_>, url: &OsStr, ticket: Ticket) -> PyResult<Done> {
    loop {
        py.check_signals()?;
        if py.detach(|| is_done_soon(&ticket)).about(url)? {
            // The memory may be a Python object, so it returns here, to a caller that holds the
            // GIL.
            return py.detach(|| ticket.wait()).about(url);
        }
    }
}

fn is_done_soon(ticket: &Ticket) -> Result<bool, Error> {
    Ok(wait_any(&[ticket], Some(LOOK))?.is_some())
}
