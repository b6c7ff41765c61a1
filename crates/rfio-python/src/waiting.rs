//! Waiting for what was begun, without the interpreter's lock.

use std::ffi::OsStr;
use std::time::Duration;

use pyo3::prelude::*;
use verbena_rfio::client::Error;
use verbena_rfio::client::exchange::{Done, Ticket, wait_any};

use super::failure::{About, system};

/// How soon a signal is seen.
const LOOK: Duration = Duration::from_millis(200);

/// Drops what may have last words for a server, which take their time.
pub fn let_go<T: Send>(value: T) {
    // Without an interpreter, at its end, nobody is kept waiting either.
    Python::try_attach(|py| py.detach(|| drop(value)));
}

/// Memory for so many bytes, if there is any.
pub fn zeroed(size: usize) -> Result<Vec<u8>, Error> {
    let mut memory = Vec::new();
    memory
        .try_reserve_exact(size)
        .map_err(|_| system("memory for a read", libc::ENOMEM))?;
    memory.resize(size, 0);
    Ok(memory)
}

/// Begins something and waits for it. A signal whose handler raises takes it back.
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

/// Waits for what was begun.
pub fn for_ticket(py: Python<'_>, url: &OsStr, ticket: Ticket) -> PyResult<Done> {
    loop {
        py.check_signals()?;
        if py.detach(|| is_done_soon(&ticket)).about(url)? {
            // The memory comes back here, where the interpreter's lock is held: it may be one of Python's objects.
            return py.detach(|| ticket.wait()).about(url);
        }
    }
}

fn is_done_soon(ticket: &Ticket) -> Result<bool, Error> {
    Ok(wait_any(&[ticket], Some(LOOK))?.is_some())
}
