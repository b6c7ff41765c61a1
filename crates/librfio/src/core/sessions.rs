//! Connections that are kept for synchronous calls: one per server for names, and some for files.
//!
//! The thread that takes replies from a connection works for all threads that wait on it. So each
//! file has its own connection while there are few, and threads that read different files do not
//! wait for each other; many files share connections. Idle connections are reused, so opening a
//! file usually is one request.

use std::collections::HashMap;
use std::ffi::OsString;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use verbena_rfio_auth::ticket::Ticket;
use verbena_rfio_client::connection::SharedFile;
use verbena_rfio_client::connection::connections::{self, Connections};
use verbena_rfio_client::options::Fabric;
use verbena_rfio_client::{Address, Error, MultiplexedConnection, Options, fork_guard};
use verbena_rfio_protocol::types::Path;
use verbena_rfio_protocol::{Reply, Request};

use super::forks;

/// Maximum number of connections of a process to one server for files.
const MOST: usize = 16;

/// Timeout for the handshake with a ticket. A ticket's holder has another way to the file, and
/// waits for this one; a server that is full answers within three seconds.
const FOR_A_TICKET: Duration = Duration::from_secs(5);

static NAMES: Connections = Connections::new(without_data);

/// Name operations need no queue pair.
fn without_data() -> Result<Options, Error> {
    Ok(Options {
        fabric: Fabric::Tcp,
        ..Options::from_environment()?
    })
}

/// The connections to one server.
#[derive(Default)]
pub struct FilePool {
    there: Vec<Arc<MultiplexedConnection>>,
    /// Number of connections being established.
    coming: usize,
    /// The process that established them.
    process: u64,
}

/// The environment's settings for connections: a program may change its identity between two files.
type Settings = Vec<(OsString, OsString)>;

fn settings() -> Settings {
    let is_ours = |(name, _): &(OsString, OsString)| name.as_encoded_bytes().starts_with(b"RFIO_");
    let mut found: Settings = std::env::vars_os().filter(is_ours).collect();
    found.sort();
    found
}

/// Connections by server and settings.
type Files = HashMap<(Address, Settings), FilePool>;

static FILES: LazyLock<Mutex<Files>> = LazyLock::new(Mutex::default);

fn files() -> MutexGuard<'static, Files> {
    FILES.lock().unwrap_or_else(|poison| poison.into_inner())
}

/// Both tables, locked.
pub type Guard = (connections::Guard<'static>, MutexGuard<'static, Files>);

/// Locks them, for fork(2).
pub fn lock() -> Guard {
    (NAMES.lock(), files())
}

impl FilePool {
    /// Returns a connection for one more file, or `None` if the caller shall establish a new one.
    fn take(&mut self) -> Option<Arc<MultiplexedConnection>> {
        if self.process != fork_guard::generation() {
            *self = Self {
                process: fork_guard::generation(),
                ..Self::default()
            };
        }
        self.there.retain(|connection| !connection.is_broken());
        let least = self
            .there
            .iter()
            .min_by_key(|there| Arc::strong_count(there));
        let is_idle = |there: &&Arc<MultiplexedConnection>| Arc::strong_count(there) == 1;
        let is_full = self.there.len() + self.coming >= MOST;
        let found = least.filter(|least| is_full || is_idle(least)).cloned();
        self.coming += usize::from(found.is_none());
        found
    }
}

/// Establishes a new connection and adds it to the pool.
fn fresh(key: (Address, Settings)) -> Result<Arc<MultiplexedConnection>, Error> {
    let connect = || MultiplexedConnection::connect(&key.0, &Options::from_environment()?);
    let made = connect();
    let mut files = files();
    let pool = files.entry(key).or_default();
    pool.coming = pool.coming.saturating_sub(1);
    if let Ok(made) = &made {
        pool.there.push(Arc::clone(made));
    }
    made
}

/// Opens a file; `flags` are the protocol's.
///
/// # Errors
/// Those of connecting and opening.
pub fn open(address: &Address, path: &Path, flags: u32, mode: u32) -> Result<SharedFile, Error> {
    forks::prepare();
    let key = (address.clone(), settings());
    let kept = files().entry(key.clone()).or_default().take();
    if let Some(kept) = kept
        && kept.is_usable()
    {
        match SharedFile::open(kept, path, flags, mode) {
            // The server may have closed an idle connection just now.
            Err(error) if error.is_closed_connection() => {}
            opened => return opened,
        }
    }
    SharedFile::open(fresh(key)?, path, flags, mode)
}

/// Opens the file of a ticket, on its own connection. This consumes the ticket.
///
/// # Errors
/// Those of connecting and opening.
pub fn redeem(address: &Address, ticket: Ticket) -> Result<SharedFile, Error> {
    forks::prepare();
    let (path, flags) = (ticket.claims.path.clone(), ticket.claims.access);
    let options = Options {
        ticket: Some(ticket),
        ..Options::from_environment()?
    };
    let timeout = match options.timeout.is_zero() {
        true => FOR_A_TICKET,
        false => options.timeout.min(FOR_A_TICKET),
    };
    let connection = MultiplexedConnection::connect_within(address, &options, timeout)?;
    SharedFile::open(connection, &path, flags, 0)
}

/// Closes the kept connections; each ends with the last file that uses it.
pub fn close_all() {
    NAMES.close_all();
    // Outside the lock, as closing takes time.
    let kept = std::mem::take(&mut *files());
    drop(kept);
}

/// Sends a name request. The server may have been restarted, so a kept connection may be closed;
/// requests that change nothing are then sent again.
///
/// # Errors
/// Those of connecting, and the server's.
pub fn ask(address: &Address, request: &Request) -> Result<Reply, Error> {
    forks::prepare();
    match NAMES.to(address)?.call(request.clone()) {
        Err(error) if error.is_closed_connection() && !request.changes() => {
            NAMES.to(address)?.call(request.clone())
        }
        other => other,
    }
}
