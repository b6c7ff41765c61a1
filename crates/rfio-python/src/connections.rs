//! This process's connections, one per server.

use std::ffi::OsString;
use std::sync::Arc;

use pyo3::prelude::*;
use verbena_rfio_client::exchange::Connections;
use verbena_rfio_client::{Error, Exchange, Options};
use verbena_rfio_protocol::{Reply, Request};

use super::failure::About;
use super::place::Place;

static CONNECTIONS: Connections = Connections::new(Options::from_environment);

/// Returns the connection to a server; connects, with the environment's options, if there is none.
///
/// # Errors
/// `OSError`: the connection fails.
pub fn to(py: Python<'_>, place: &Place) -> PyResult<Arc<Exchange>> {
    let kept = CONNECTIONS.kept(&place.address);
    let (fresh, exchange) = py
        .detach(|| match kept.filter(|exchange| exchange.stands()) {
            Some(exchange) => Ok((false, exchange)),
            None => {
                let options = Options::from_environment()?;
                Ok((true, Exchange::connect(&place.address, &options)?))
            }
        })
        .about(&place.url)?;
    if fresh {
        CONNECTIONS.keep(&place.address, &exchange);
    }
    Ok(exchange)
}

/// Sends a request without data and returns its reply. A kept connection may have been closed by a
/// restarted server, so a request that changes nothing is then sent once more.
///
/// # Errors
/// `OSError`: the connection fails. The inner result is the request's.
pub fn ask(py: Python<'_>, place: &Place, request: &Request) -> PyResult<Result<Reply, Error>> {
    let exchange = to(py, place)?;
    match py.detach(|| exchange.call(request.clone())) {
        Err(Error::Dropped(_) | Error::Connection(_)) if !request.changes() => {
            let exchange = to(py, place)?;
            Ok(py.detach(|| exchange.call(request.clone())))
        }
        other => Ok(other),
    }
}

/// Returns whether this process has had a connection to the server.
#[pyfunction]
pub fn is_known(url: OsString) -> PyResult<bool> {
    let place = Place::new(url.clone()).about(&url)?;
    Ok(CONNECTIONS.kept(&place.address).is_some())
}
