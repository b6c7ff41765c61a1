//! A session's data queue pair: admission by token, then one transfer at a time.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use verbena_rfio_protocol::types::{Endpoint, Window};
use verbena_verbs::{Opcode, Region};

use super::staging::Slot;
use super::{ServerFabric, register};
use crate::auth::compare::are_equal;
use crate::auth::proof::random;
use crate::fabric::{FabricError, Outcome, Pair, Purpose};
use crate::server::engine::Segment;
use crate::server::quota::Share;

/// How long a token is good for.
const TOKEN_LIFE: Duration = Duration::from_secs(10);

/// How long a transfer is polled for before the event loop turns to others. A software adapter is done by then, and so
/// is a fast one with a small transfer.
const SPIN: Duration = Duration::from_micros(20);

const TOKEN_BYTES: usize = 32;

/// Whether the client has shown its token.
#[derive(Debug)]
pub enum Admission {
    /// Not yet; this is what is expected, until then.
    Awaited([u8; TOKEN_BYTES], Instant),
    /// Yes. The token is gone.
    Admitted,
}

/// What a transfer holds while the adapter works on it.
#[derive(Debug)]
enum Transfer {
    /// Data on their way to the client; held so that blocks stay pinned and the slot stays taken.
    Outgoing(
        #[allow(dead_code)] Vec<Segment>,
        #[allow(dead_code)] Option<Slot>,
    ),
    /// Data on their way from the client.
    Incoming(Slot),
}

/// A transfer that is over.
#[derive(Debug)]
#[must_use]
pub enum Finished {
    /// The client has its data.
    Sent,
    /// The client's data are here.
    Arrived(Arrived),
}

/// Data that arrived; the adapter is done with them.
#[derive(Debug)]
pub struct Arrived(Slot);

impl Arrived {
    /// The data.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: made by `DataPair::finish` alone, after the completion of the only transfer into the slot.
        unsafe { self.0.bytes() }
    }
}

/// The queue pair.
#[derive(Debug)]
pub struct DataPair {
    // Destroyed before what transfers and the token's region hold.
    pair: Pair,
    under_way: Option<(u64, Transfer)>,
    greeting: GreetingRegion,
    admission: Admission,
    _share: Share,
    next: u64,
    /// Pieces of memory that one request gathers.
    gathers: usize,
}

/// Where the token arrives.
struct GreetingRegion(Region);

impl std::fmt::Debug for GreetingRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("greeting region")
    }
}

impl DataPair {
    /// A pair connected to the client's end. Gives its own end and the token that the client must send over it.
    pub fn connect(
        fabric: &ServerFabric,
        peer: &Endpoint,
        share: Share,
        now: Instant,
    ) -> Result<(Self, Endpoint, [u8; TOKEN_BYTES]), FabricError> {
        let pair = Pair::new(fabric.adapter(), Purpose::Initiator)?;
        let greeting = register(fabric.adapter(), TOKEN_BYTES)?;
        pair.receive(0, Some(greeting.segment(0, TOKEN_BYTES)?))?;
        pair.connect(peer)?;
        let token = random();
        let endpoint = pair.endpoint();
        let data = Self {
            pair,
            under_way: None,
            greeting: GreetingRegion(greeting),
            admission: Admission::Awaited(token, now + TOKEN_LIFE),
            _share: share,
            next: 1,
            gathers: fabric.adapter().segments(),
        };
        Ok((data, endpoint, token))
    }

    /// Whether the client has shown the token by now. An error ends the pair.
    pub fn admit(&mut self, now: Instant) -> Result<(), FabricError> {
        let Admission::Awaited(token, until) = &self.admission else {
            return Ok(());
        };
        if now > *until {
            return Err(FabricError::Late("the token"));
        }
        // The client's send was acknowledged before it asked for a transfer, so the receive is complete or about to be.
        match self.pair.spin(Duration::from_millis(2))? {
            Some(Outcome::Received(_, length, None)) if length as usize == TOKEN_BYTES => {}
            _ => return Err(FabricError::Late("the token")),
        }
        let mut shown = [0; TOKEN_BYTES];
        self.greeting.0.read(0, &mut shown)?;
        if !are_equal(token, &shown) {
            return Err(FabricError::BadEndpoint(
                "a wrong token came over it".into(),
            ));
        }
        self.admission = Admission::Admitted;
        Ok(())
    }

    /// Pieces of cached blocks that one transfer may have; more are packed into a staging slot.
    pub fn most_pieces(&self) -> usize {
        self.gathers * Pair::MOST_REQUESTS
    }

    /// Starts writing data to the client's window, the last of it with the request's number as immediate.
    pub fn send(
        &mut self,
        data: Vec<Segment>,
        mut slot: Option<Slot>,
        window: &Window,
        request: u64,
    ) -> Result<(), FabricError> {
        let id = self.next;
        self.next += 1;
        let mut parts = Vec::with_capacity(data.len());
        if let Some(slot) = &mut slot {
            for segment in &data {
                slot.append(segment.bytes())?;
            }
            parts.push(slot.segment()?);
        } else {
            for segment in &data {
                let part = segment.registered().ok_or(FabricError::Unregistered)??;
                parts.push(part);
            }
        }
        // Pieces that follow each other at the client are gathered by one request.
        let groups = parts.chunks(self.gathers);
        let last = groups.len().saturating_sub(1);
        let mut address = window.address;
        let list: Vec<_> = groups
            .enumerate()
            .map(|(index, group)| {
                let opcode = match index == last {
                    true => Opcode::WriteImmediate(address, window.key, request as u32),
                    false => Opcode::Write(address, window.key),
                };
                let length: usize = group.iter().map(verbena_verbs::Segment::length).sum();
                address = address.wrapping_add(length as u64);
                (id, opcode, group.iter().copied())
            })
            .collect();
        self.pair.post(list.into_iter())?;
        self.under_way = Some((id, Transfer::Outgoing(data, slot)));
        Ok(())
    }

    /// Starts reading data from the client's window.
    pub fn fetch(
        &mut self,
        mut slot: Slot,
        window: &Window,
        length: usize,
    ) -> Result<(), FabricError> {
        let id = self.next;
        self.next += 1;
        slot.reserve(length)?;
        self.pair.post(
            [(
                id,
                Opcode::Read(window.address, window.key),
                [slot.segment()?],
            )]
            .into_iter(),
        )?;
        self.under_way = Some((id, Transfer::Incoming(slot)));
        Ok(())
    }

    /// The transfer, if it is done. Otherwise an event will come.
    pub fn finish(&mut self) -> Result<Option<Finished>, FabricError> {
        let Some((due, _)) = &self.under_way else {
            return Ok(None);
        };
        let due = *due;
        self.pair.drain_events()?;
        let mut outcome = self.pair.spin(SPIN)?;
        if outcome.is_none() {
            self.pair.arm()?;
            outcome = self.pair.poll()?;
        }
        match outcome {
            None => Ok(None),
            Some(Outcome::Sent(id)) if id == due => {
                Ok(self.under_way.take().map(|(_, transfer)| match transfer {
                    Transfer::Outgoing(..) => Finished::Sent,
                    Transfer::Incoming(slot) => Finished::Arrived(Arrived(slot)),
                }))
            }
            Some(other) => Err(FabricError::BadEndpoint(format!(
                "unexpected completion {other:?}"
            ))),
        }
    }

    /// Whether a transfer is under way.
    pub fn is_busy(&self) -> bool {
        self.under_way.is_some()
    }

    /// The descriptor that becomes readable when a transfer may be done.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.pair.events()
    }
}
