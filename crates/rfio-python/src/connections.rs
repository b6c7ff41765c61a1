//! This process's connections, one per server.

use std::ffi::OsString;
use std::sync::Arc;

use pyo3::prelude::*;
use verbena_rfio_client::connection::Connections;
use verbena_rfio_client::{Error, MultiplexedConnection, Options};
use verbena_rfio_protocol::{Reply, Request};

use super::failure::ErrorContext;
use super::remote_path::RemotePath;

static CONNECTIONS: Connections = Connections::new(Options::from_environment);

/// Returns the connection to a server; connects, with the environment's options, if there is none.
///
/// # Errors
/// `OSError`: the connection fails.
pub fn to(py: Python<'_>, place: &RemotePath) -> PyResult<Arc<MultiplexedConnection>> {
    let kept = CONNECTIONS.get(&place.address);
    let (fresh, connection) = py
        .detach(|| match kept.filter(|connection| connection.is_usable()) {
            Some(connection) => Ok((false, connection)),
            None => {
                let options = Options::from_environment()?;
                Ok((
                    true,
                    MultiplexedConnection::connect(&place.address, &options)?,
                ))
            }
        })
        .about(&place.url)?;
    if fresh {
        CONNECTIONS.insert(&place.address, &connection);
    }
    Ok(connection)
}

/// Sends a request without data and returns its reply. A kept connection may have been closed by a
/// restarted server, so a request that changes nothing is then sent once more.
///
/// # Errors
/// `OSError`: the connection fails. The inner result is the request's.
pub fn ask(
    py: Python<'_>,
    place: &RemotePath,
    request: &Request,
) -> PyResult<Result<Reply, Error>> {
    let connection = to(py, place)?;
    match py.detach(|| connection.call(request.clone())) {
        Err(error) if error.is_closed_connection() && !request.changes() => {
            let connection = to(py, place)?;
            Ok(py.detach(|| connection.call(request.clone())))
        }
        other => Ok(other),
    }
}

/// Returns whether this process has had a connection to the server.
#[pyfunction]
pub fn is_known(url: OsString) -> PyResult<bool> {
    let place = RemotePath::new(url.clone()).about(&url)?;
    Ok(CONNECTIONS.get(&place.address).is_some())
}
