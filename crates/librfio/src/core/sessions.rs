//! Connections that are kept: one for names per server, and one for each open file, so that files do not wait for each
//! other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use verbena_rfio::client::file::{SharedSession, lock};
use verbena_rfio::client::{Address, Error, Options, Session};
use verbena_rfio_protocol::{Reply, Request};

fn kept() -> &'static Mutex<HashMap<Address, SharedSession>> {
    static KEPT: OnceLock<Mutex<HashMap<Address, SharedSession>>> = OnceLock::new();
    KEPT.get_or_init(Mutex::default)
}

/// A connection of its own.
pub fn own(address: &Address) -> Result<SharedSession, Error> {
    Ok(Arc::new(Mutex::new(Session::connect(
        address,
        &Options::from_environment()?,
    )?)))
}

/// The kept connection, made if it is missing or broken.
pub fn shared(address: &Address) -> Result<SharedSession, Error> {
    let found = kept()
        .lock()
        .unwrap_or_else(|poison| poison.into_inner())
        .get(address)
        .cloned();
    match found {
        Some(session) if !lock(&session).is_broken() => Ok(session),
        _ => {
            let session = own(address)?;
            let mut kept = kept().lock().unwrap_or_else(|poison| poison.into_inner());
            kept.insert(address.clone(), Arc::clone(&session));
            Ok(session)
        }
    }
}

/// Closes the kept connections.
pub fn close_all() {
    kept()
        .lock()
        .unwrap_or_else(|poison| poison.into_inner())
        .clear();
}

/// A request by name. A kept connection may have been closed by a server that was started anew; requests that change
/// nothing are then asked once more.
pub fn ask(address: &Address, request: &Request) -> Result<Reply, Error> {
    let session = shared(address)?;
    let first = lock(&session).call(request);
    match first {
        Err(Error::Dropped(_) | Error::Connection(_)) if !request.changes() => {
            let session = shared(address)?;
            lock(&session).call(request)
        }
        other => other,
    }
}
