//! Connections that are kept: one for names per server, and one for each open file, so that files do not wait for each
//! other.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use verbena_rfio::auth::ticket::Ticket;
use verbena_rfio::client::file::{SharedSession, lock};
use verbena_rfio::client::{Address, Error, Options, Session, lineage};
use verbena_rfio_protocol::{Reply, Request};

use super::forks;

/// A session, and the process that opened it.
type Kept = HashMap<Address, (u64, SharedSession)>;

/// The table, locked.
pub type Guard = MutexGuard<'static, Kept>;

/// Locks it, for a look or for the time of a fork.
pub fn hold() -> Guard {
    static KEPT: OnceLock<Mutex<Kept>> = OnceLock::new();
    KEPT.get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(|poison| poison.into_inner())
}

/// A connection of its own.
pub fn own(address: &Address) -> Result<SharedSession, Error> {
    forks::prepare();
    Ok(Arc::new(Mutex::new(Session::connect(
        address,
        &Options::from_environment()?,
    )?)))
}

/// How long a server may take to let a ticket's holder in. Whoever has a ticket has another way to the file, and waits for this
/// one; a server that is full answers within three seconds.
const FOR_A_TICKET: Duration = Duration::from_secs(5);

/// A connection of its own that a ticket opens, which is used up by that.
pub fn by_ticket(address: &Address, ticket: Ticket) -> Result<SharedSession, Error> {
    forks::prepare();
    let options = Options {
        ticket: Some(ticket),
        ..Options::from_environment()?
    };
    let patience = match options.patience.is_zero() {
        true => FOR_A_TICKET,
        false => options.patience.min(FOR_A_TICKET),
    };
    let session = Session::connect_within(address, &options, patience)?;
    Ok(Arc::new(Mutex::new(session)))
}

/// The kept connection, made if it is missing, broken, or a parent's.
pub fn shared(address: &Address) -> Result<SharedSession, Error> {
    let found = hold().get(address).cloned();
    match found {
        Some((process, session)) if process == lineage::mark() && !lock(&session).is_broken() => {
            Ok(session)
        }
        _ => {
            let session = own(address)?;
            let entry = (lineage::mark(), Arc::clone(&session));
            forget_if_inherited(hold().insert(address.clone(), entry));
            Ok(session)
        }
    }
}

/// Closes the kept connections.
pub fn close_all() {
    for entry in std::mem::take(&mut *hold()).into_values() {
        forget_if_inherited(Some(entry));
    }
}

/// A parent's session may be locked by a thread that is not in this process: it is left alone.
fn forget_if_inherited(entry: Option<(u64, SharedSession)>) {
    if let Some((process, session)) = entry
        && process != lineage::mark()
    {
        std::mem::forget(session);
    }
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
