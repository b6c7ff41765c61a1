//! RDMA on the client: one data queue pair a session, and the two areas of memory that the server may reach.
//!
//! - The **landing area** takes what is read. The server may write to it and not read it. It holds nothing but data on
//!   their way, and what lands is copied out once and then checked, so a server that writes late changes nothing.
//! - The **offering area** gives what is written. The server may read it and not write to it. It holds nothing but data
//!   that the server was asked to write.
//!
//! Both are registered for this session alone and deregistered with it, before the memory goes.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use verbena_rfio_protocol::request::Connect;
use verbena_rfio_protocol::types::Window;
use verbena_rfio_protocol::{Reply, Request};
use verbena_verbs::{AccessFlags, Backing, Buffer, Opcode, Region};

use super::error::Error;
use super::session::{Session, unexpected};
use crate::fabric::{Adapter, FabricError, Outcome, Pair, Purpose};

/// Parts of an area: transfers that may be under way at once.
pub const PARTS: usize = 4;

/// Number of the token's send.
const TOKEN: u64 = u64::MAX;

/// Number of every receive; immediates tell them apart.
const LANDING: u64 = 1;

/// The data path of a session.
pub struct DataPath {
    // Destroyed first: afterwards nobody reaches the areas.
    pair: Pair,
    landing: Option<Region>,
    offering: Option<Region>,
    adapter: Arc<Adapter>,
    part: usize,
    /// Receives that are posted and that no immediate has taken.
    posted: usize,
    /// Immediates that came before they were waited for.
    early: Vec<u32>,
    patience: Duration,
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

/// The adapter of this process; opened once.
fn adapter() -> Result<Arc<Adapter>, Error> {
    static ADAPTER: OnceLock<Result<Arc<Adapter>, String>> = OnceLock::new();
    let opened = ADAPTER.get_or_init(|| Adapter::open().map_err(|error| error.to_string()));
    opened.clone().map_err(Error::Fabric)
}

impl DataPath {
    /// Connects a data queue pair over a session and shows the token.
    pub fn connect(session: &mut Session, patience: Duration) -> Result<Self, Error> {
        let adapter = adapter()?;
        let pair = Pair::new(&adapter, Purpose::Target)?;
        let request = Request::Connect(Connect {
            endpoint: pair.endpoint(),
        });
        let connected = match session.call(&request)? {
            Reply::Connected(connected) => connected,
            other => return Err(unexpected(&other)),
        };
        pair.connect(&connected.endpoint)?;
        let patience = if patience.is_zero() {
            Duration::from_secs(3600)
        } else {
            patience
        };
        {
            let token = register(&adapter, connected.token.len(), AccessFlags::LOCAL)?;
            token.write(0, &connected.token)?;
            let segment = token.segment(0, connected.token.len())?;
            pair.post([(TOKEN, Opcode::Send, segment)].into_iter())?;
            match pair.wait(patience, "the token's delivery")? {
                Outcome::Sent(TOKEN) => {}
                other => return Err(Error::Fabric(format!("unexpected completion {other:?}"))),
            }
        }
        let part = session.terms().most_payload as usize / PARTS;
        Ok(Self {
            pair,
            landing: None,
            offering: None,
            adapter,
            part,
            posted: 0,
            early: Vec::new(),
            patience,
        })
    }

    /// Opens a window to land in: from the beginning of a part on, however long it is within the area.
    pub fn open_landing(&mut self, part: usize, length: usize) -> Result<Window, Error> {
        if self.landing.is_none() {
            let area = register(
                &self.adapter,
                PARTS * self.part,
                AccessFlags::LOCAL.remote_write(),
            )?;
            self.landing = Some(area);
        }
        // One receive for each transfer that may be under way; one that no immediate took serves the next.
        while self.posted < PARTS {
            self.pair.receive(LANDING, None)?;
            self.posted += 1;
        }
        window(self.landing.as_ref(), part * self.part, length)
    }

    /// Waits for the immediate of a request, after its reply has come: now the data are all there. Copies them out.
    pub fn landed(&mut self, request: u64, part: usize, into: &mut [u8]) -> Result<(), Error> {
        let wanted = request as u32;
        if let Some(index) = self.early.iter().position(|&came| came == wanted) {
            self.early.swap_remove(index);
        } else {
            loop {
                match self.pair.wait(self.patience, "the end of the data")? {
                    Outcome::Received(LANDING, _, Some(came)) => {
                        self.posted -= 1;
                        if came == wanted {
                            break;
                        }
                        // At most as many as receives were posted.
                        self.early.push(came);
                    }
                    other => return Err(Error::Fabric(format!("unexpected completion {other:?}"))),
                }
            }
        }
        let area = self
            .landing
            .as_ref()
            .ok_or_else(|| Error::Fabric("no landing area".into()))?;
        Ok(area.read(part * self.part, into)?)
    }

    /// Puts data into a part, for the server to fetch.
    pub fn offer(&mut self, part: usize, bytes: &[u8]) -> Result<Window, Error> {
        if self.offering.is_none() {
            let area = register(
                &self.adapter,
                PARTS * self.part,
                AccessFlags::default().remote_read(),
            )?;
            self.offering = Some(area);
        }
        if let Some(area) = &self.offering {
            area.write(part * self.part, bytes)?;
        }
        window(self.offering.as_ref(), part * self.part, bytes.len())
    }
}

fn window(area: Option<&Region>, offset: usize, length: usize) -> Result<Window, Error> {
    let area = area.ok_or_else(|| Error::Fabric("no area".into()))?;
    if offset + length > area.length() {
        return Err(Error::Setup(format!(
            "{length} bytes at {offset} of an area of {}",
            area.length()
        )));
    }
    Ok(Window {
        address: area.address() + offset as u64,
        key: area.remote_key(),
        length: length as u32,
    })
}

fn register(adapter: &Adapter, bytes: usize, access: AccessFlags) -> Result<Region, Error> {
    Ok(adapter
        .domain()
        .register(Buffer::allocate(bytes, Backing::Pages)?, access)?)
}

impl std::fmt::Debug for DataPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "data path over {:?}", self.pair)
    }
}
