//! RDMA on the client: one data queue pair per session, and the two memory areas that the server
//! may access.
//!
//! - The **read area** receives data of reads: the server may write to it and not read it.
//! - The **write area** holds data of writes: the server may read it and not write to it. It
//!   contains only data that the server was asked to write.
//!
//! Each request exposes its part of an area, and the access right ends with the request
//! ([`super::area`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use verbena_rfio_common::fabric::{Adapter, FabricError, Pair, PairCompletion, Purpose};
use verbena_rfio_protocol::request::Connect;
use verbena_rfio_protocol::types::Window;
use verbena_rfio_protocol::{Reply, Request};
use verbena_verbs::{AccessFlags, Buffer, Opcode, Region};

use super::area::{Area, PARTS, RemoteAccess};
use super::error::Error;
use super::fork_guard;

/// Work request number of the token's send.
const TOKEN: u64 = u64::MAX;

/// Work request number of every receive; the immediates distinguish them.
const RECEIVE: u64 = 1;

/// Work request number of a window's binding or invalidation; one at a time is in progress.
const WINDOW: u64 = 2;

/// The data path of a session.
pub struct DataPath {
    // Declared first, so dropped first: afterwards no peer can access the areas.
    pair: Pair,
    read_area: Option<Area>,
    write_area: Option<Area>,
    adapter: Arc<Adapter>,
    part: usize,
    /// Number of posted receives that no immediate has consumed.
    posted: usize,
    /// Immediates that arrived before they were waited for.
    early: Vec<u32>,
    timeout: Duration,
}

impl From<FabricError> for Error {
    fn from(error: FabricError) -> Self {
        Self::Fabric(error.to_string())
    }
}

impl From<verbena_verbs::Error> for Error {
    fn from(error: verbena_verbs::Error) -> Self {
        Self::Fabric(error.to_string())
    }
}

/// The result of opening the adapter, and the process that opened it.
struct OpenedAdapter {
    process: u64,
    adapter: Result<Arc<Adapter>, String>,
}

/// Returns this process's adapter, which is opened once. A forked process opens its own, since the
/// inherited one belongs to its parent, down to the mappings. No lock is involved that another
/// thread of the parent could have held at the fork.
#[allow(unsafe_code, reason = "a pointer that identifies forks")]
fn adapter() -> Result<Arc<Adapter>, Error> {
    static CURRENT: AtomicPtr<OpenedAdapter> = AtomicPtr::new(std::ptr::null_mut());
    let process = fork_guard::generation();
    let current = CURRENT.load(Ordering::Acquire);
    // SAFETY: null, or created below by `Box::into_raw` and never freed once stored.
    if let Some(opened) = unsafe { current.as_ref() }
        && opened.process == process
    {
        return opened.adapter.clone().map_err(Error::NoDevice);
    }
    let adapter = Adapter::open().map_err(|error| error.as_missing_device());
    let fresh = Box::into_raw(Box::new(OpenedAdapter {
        process,
        adapter: adapter.clone(),
    }));
    let stored = CURRENT.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire);
    if stored.is_err() {
        // Another thread was faster; this thread's adapter lives as long as its session.
        // SAFETY: created above by `Box::into_raw`, and not shared since it was not stored.
        drop(unsafe { Box::from_raw(fresh) });
    }
    adapter.map_err(Error::NoDevice)
}

/// Checks that this host has an RDMA device.
///
/// # Errors
/// [`Error::NoDevice`] if there is none that can be used.
pub fn check_device() -> Result<(), Error> {
    adapter().map(drop)
}

impl DataPath {
    /// Connects a data queue pair over a session, which `call` is to carry one request, and sends
    /// the token. `payload` is the largest payload of a request.
    ///
    /// # Errors
    /// The adapter cannot be opened, the server refuses, or the connection fails.
    pub fn connect(
        payload: u32,
        timeout: Duration,
        call: impl FnOnce(&Request) -> Result<Reply, Error>,
    ) -> Result<Self, Error> {
        let adapter = adapter()?;
        let pair = Pair::new(&adapter, Purpose::Target)?;
        let request = Request::Connect(Connect {
            endpoint: pair.endpoint(),
        });
        let connected = match call(&request)? {
            Reply::Connected(connected) => connected,
            other => return Err(Error::unexpected(&other)),
        };
        pair.connect(&connected.endpoint)?;
        let timeout = if timeout.is_zero() {
            Duration::from_secs(3600)
        } else {
            timeout
        };
        {
            let token = register(&adapter, connected.token.len(), AccessFlags::LOCAL)?;
            token.write(0, &connected.token)?;
            let segment = token.segment(0, connected.token.len())?;
            pair.post([(TOKEN, Opcode::Send, [segment])].into_iter())?;
            match pair.wait(timeout, "the token's delivery")? {
                PairCompletion::Sent(TOKEN) => {}
                other => return Err(Error::Fabric(format!("unexpected completion {other}"))),
            }
        }
        let part = payload as usize / PARTS;
        Ok(Self {
            pair,
            read_area: None,
            write_area: None,
            adapter,
            part,
            posted: 0,
            early: Vec::new(),
            timeout,
        })
    }

    /// Exposes a part for receiving data, from its beginning on.
    ///
    /// # Errors
    /// The area cannot be created or exposed.
    pub fn open_read_window(&mut self, part: usize, length: usize) -> Result<Window, Error> {
        let mut area = match self.read_area.take() {
            Some(area) => area,
            None => Area::new(&self.adapter, self.part, RemoteAccess::Write)?,
        };
        let window = self.expose(&mut area, part, length);
        self.read_area = Some(area);
        window
    }

    /// Posts receives for the immediate of a read without checksums, before the request is sent.
    ///
    /// # Errors
    /// Posting a receive fails.
    pub fn post_receives(&mut self) -> Result<(), Error> {
        // One receive for each possible concurrent transfer; an unused one serves the next
        // transfer.
        while self.posted < PARTS {
            self.pair.receive(RECEIVE, None)?;
            self.posted += 1;
        }
        Ok(())
    }

    /// Waits for the immediate of a request, after its reply has come; all data have arrived then.
    ///
    /// # Errors
    /// The queue pair fails, or the immediate does not arrive in time.
    pub fn wait_for_immediate(&mut self, request: u64) -> Result<(), Error> {
        let wanted = request as u32;
        if let Some(index) = self.early.iter().position(|&came| came == wanted) {
            self.early.swap_remove(index);
            return Ok(());
        }
        while self.early.last() != Some(&wanted) {
            match self.pair.wait(self.timeout, "the end of the data")? {
                outcome @ PairCompletion::Received(..) => self.record_immediate(outcome)?,
                other => return Err(unexpected_completion(other)),
            }
        }
        self.early.pop();
        Ok(())
    }

    /// Revokes the server's access to a read's part.
    ///
    /// # Errors
    /// The window cannot be invalidated.
    pub fn close_read_window(&mut self, part: usize) -> Result<(), Error> {
        let Some(mut area) = self.read_area.take() else {
            return Ok(());
        };
        let closed = self.revoke(&mut area, part);
        self.read_area = Some(area);
        closed
    }

    /// Returns whether received data in a local part may be used in place; waits until `verdict`
    /// accepts them.
    ///
    /// # Errors
    /// `verdict` rejects the data for too long.
    pub fn verify_in_place(
        &self,
        part: usize,
        length: usize,
        verdict: impl Fn(&[u8]) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        self.read_area()?.verify_in_place(part, length, verdict)
    }

    /// Returns received data of a local part in place.
    ///
    /// # Errors
    /// The part is exposed, or may be written by the peer.
    pub fn content(&self, part: usize, length: usize) -> Result<&[u8], Error> {
        self.read_area()?.content(part, length)
    }

    fn read_area(&self) -> Result<&Area, Error> {
        let area = self.read_area.as_ref();
        area.ok_or_else(|| Error::Fabric("no read area".into()))
    }

    /// Copies received data out of a local part once `verdict` accepts them.
    ///
    /// # Errors
    /// The copy fails, or `verdict` rejects the data for too long.
    pub fn copy_out(
        &self,
        part: usize,
        into: &mut [u8],
        verdict: impl Fn(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.read_area()?.copy_out(part, into, verdict)
    }

    /// Copies data into a part and exposes it for the server to read.
    ///
    /// # Errors
    /// The area cannot be created or exposed.
    pub fn open_write_window(&mut self, part: usize, bytes: &[u8]) -> Result<Window, Error> {
        let mut area = match self.write_area.take() {
            Some(area) => area,
            None => Area::new(&self.adapter, self.part, RemoteAccess::Read)?,
        };
        let window = area
            .fill(part, bytes)
            .map_err(Error::from)
            .and_then(|()| self.expose(&mut area, part, bytes.len()));
        self.write_area = Some(area);
        window
    }

    /// Revokes the server's access to a write's part.
    ///
    /// # Errors
    /// The window cannot be invalidated.
    pub fn close_write_window(&mut self, part: usize) -> Result<(), Error> {
        let Some(mut area) = self.write_area.take() else {
            return Ok(());
        };
        let closed = self.revoke(&mut area, part);
        self.write_area = Some(area);
        closed
    }

    fn expose(&mut self, area: &mut Area, part: usize, length: usize) -> Result<Window, Error> {
        // A failed request may have left its part exposed.
        if area.is_exposed(part) {
            self.revoke(area, part)?;
        }
        let pair = &self.pair;
        let window = area.expose(part, length, |window, region, range, access| {
            pair.bind(WINDOW, window, region, range, access)
        })?;
        if area.is_exposed(part) {
            self.wait_for_window()?;
        }
        Ok(window)
    }

    fn revoke(&mut self, area: &mut Area, part: usize) -> Result<(), Error> {
        if !area.is_exposed(part) {
            return Ok(());
        }
        let pair = &self.pair;
        area.revoke(part, |window| pair.invalidate(WINDOW, window))?;
        self.wait_for_window()
    }

    /// Waits for the completion of a binding or an invalidation.
    fn wait_for_window(&mut self) -> Result<(), Error> {
        loop {
            match self.pair.wait(self.timeout, "a memory window")? {
                PairCompletion::Sent(WINDOW) => return Ok(()),
                outcome @ PairCompletion::Received(..) => self.record_immediate(outcome)?,
                other => return Err(unexpected_completion(other)),
            }
        }
    }

    /// Remembers an immediate.
    fn record_immediate(&mut self, outcome: PairCompletion) -> Result<(), Error> {
        let PairCompletion::Received(RECEIVE, _, Some(came)) = outcome else {
            return Err(unexpected_completion(outcome));
        };
        // At most as many as receives were posted.
        self.posted -= 1;
        self.early.push(came);
        Ok(())
    }
}

fn unexpected_completion(outcome: PairCompletion) -> Error {
    Error::Fabric(format!("unexpected completion {outcome}"))
}

fn register(adapter: &Adapter, bytes: usize, access: AccessFlags) -> Result<Region, Error> {
    Ok(adapter
        .domain()
        .register(Buffer::allocate(bytes)?, access)?)
}

impl std::fmt::Debug for DataPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "data path over {:?}", self.pair)
    }
}
