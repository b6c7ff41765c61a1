//! A session's data queue pair: admission by token, then one transfer at a time.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use verbena_rfio_common::fabric::{FabricError, Pair, PairCompletion, Purpose};
use verbena_rfio_protocol::types::{Endpoint, Window};
use verbena_verbs::{Opcode, Region};

use super::admission::{Admission, TOKEN_BYTES};
use super::staging::StagingSlot;
use super::{ServerFabric, register};
use crate::engine::Segment;
use crate::quota::Share;

/// How long a transfer is polled for before the event loop continues with other connections. A
/// software adapter is done by then, and so is a fast one with a small transfer.
const SPIN: Duration = Duration::from_micros(20);

/// Memory of a transfer in progress.
#[derive(Debug)]
enum Transfer {
    /// Data being sent to the client; held so that blocks stay pinned and the slot stays reserved.
    Outgoing(
        #[allow(dead_code)] Vec<Segment>,
        #[allow(dead_code)] Option<StagingSlot>,
    ),
    /// Data being fetched from the client.
    Incoming(StagingSlot),
}

/// A finished transfer.
#[derive(Debug)]
#[must_use]
pub enum FinishedTransfer {
    /// The client has received its data.
    Sent,
    /// The client's data have arrived.
    Arrived(Arrived),
}

/// Data that arrived; the adapter no longer accesses them.
#[derive(Debug)]
pub struct Arrived(StagingSlot);

impl Arrived {
    /// Returns the data.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: only `DataPair::finish` creates this value, after the completion of the only
        // transfer into the slot.
        unsafe { self.0.bytes() }
    }
}

/// Bytes beyond which pieces are not gathered by one request.
const GATHERED: usize = 256 << 10;

/// Divides pieces into groups that one request gathers each: at most `most` pieces, and at most
/// `GATHERED` bytes if there are several.
fn groups<T>(
    pieces: &[T],
    most: usize,
    length: impl Fn(&T) -> usize,
) -> impl Iterator<Item = &[T]> {
    let mut rest = pieces;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |piece: &&T| {
            bytes += length(piece);
            bytes <= GATHERED
        };
        let count = rest.iter().take(most).take_while(fits).count().max(1);
        let (now, later) = rest.split_at_checked(count)?;
        rest = later;
        Some(now)
    })
}

/// The queue pair.
#[derive(Debug)]
pub struct DataPair {
    // Declared first, so dropped before the memory of transfers and the token's region.
    pair: Pair,
    under_way: Option<(u64, Transfer)>,
    token_region: TokenRegion,
    admission: Admission,
    _share: Share,
    next: u64,
    /// Maximum number of memory segments per request.
    gathers: usize,
    /// Whether an event was requested and may have arrived.
    armed: bool,
}

/// Memory that receives the token.
struct TokenRegion(Region);

impl std::fmt::Debug for TokenRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("token region")
    }
}

impl DataPair {
    /// Connects a queue pair to the client's endpoint. Returns it with its local endpoint and the
    /// token that the client must send over it.
    ///
    /// # Errors
    /// The queue pair cannot be created or connected.
    pub fn connect(
        fabric: &ServerFabric,
        peer: &Endpoint,
        share: Share,
        now: Instant,
    ) -> Result<(Self, Endpoint, [u8; TOKEN_BYTES]), FabricError> {
        let pair = Pair::new(fabric.adapter(), Purpose::Initiator)?;
        let token_region = register(fabric.adapter(), TOKEN_BYTES)?;
        pair.receive(0, Some(token_region.segment(0, TOKEN_BYTES)?))?;
        pair.connect(peer)?;
        let (admission, token) = Admission::begin(now);
        let endpoint = pair.endpoint();
        let data = Self {
            pair,
            under_way: None,
            token_region: TokenRegion(token_region),
            admission,
            _share: share,
            next: 1,
            gathers: fabric.adapter().segments(),
            armed: false,
        };
        Ok((data, endpoint, token))
    }

    /// Checks that the client has sent the token. An error ends the queue pair.
    ///
    /// # Errors
    /// As `admit`.
    pub fn admit(&mut self, now: Instant) -> Result<(), FabricError> {
        let (pair, token_region) = (&self.pair, &self.token_region.0);
        self.admission.admit(now, || {
            // The client's send was acknowledged before it requested a transfer, so the receive is
            // complete or about to be.
            match pair.spin(Duration::from_millis(2))? {
                Some(PairCompletion::Received(_, length, None))
                    if length as usize == TOKEN_BYTES => {}
                _ => return Err(FabricError::Late("the token")),
            }
            let mut shown = [0; TOKEN_BYTES];
            token_region.read(0, &mut shown)?;
            Ok(shown)
        })
    }

    /// Returns whether the data all lie in cached blocks and can be sent from there; otherwise they
    /// are packed into a staging slot.
    pub fn can_gather(&self, data: &[Segment]) -> bool {
        let length = |segment: &Segment| segment.bytes().len();
        data.iter()
            .all(|segment| matches!(segment, Segment::Block(..)))
            && groups(data, self.gathers, length).count() <= Pair::MOST_REQUESTS
    }

    /// Starts writing data to the client's window. A `notice` follows them as immediate data. The
    /// transfer is finished when the data are acknowledged, without waiting for the client to
    /// consume the notice.
    ///
    /// # Errors
    /// The data are not registered, do not fit the slot, or posting fails.
    pub fn send(
        &mut self,
        data: Vec<Segment>,
        mut slot: Option<StagingSlot>,
        window: &Window,
        notice: Option<u32>,
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
        // Small pieces that are contiguous at the client are gathered by one request. A large one
        // gets a separate request: the client's adapter cannot revoke access while a request uses
        // it.
        let mut address = window.address;
        let list: Vec<_> = groups(&parts, self.gathers, verbena_verbs::Segment::length)
            .map(|group| {
                let opcode = Opcode::Write(address, window.key);
                let length: usize = group.iter().map(verbena_verbs::Segment::length).sum();
                address = address.wrapping_add(length as u64);
                (id, opcode, group.iter().copied())
            })
            .collect();
        self.pair.post(list.into_iter())?;
        self.under_way = Some((id, Transfer::Outgoing(data, slot)));
        match notice {
            Some(word) => self.pair.notify(id, word),
            None => Ok(()),
        }
    }

    /// Starts reading data from the client's window.
    ///
    /// # Errors
    /// The data do not fit the slot, or posting fails.
    pub fn fetch(
        &mut self,
        mut slot: StagingSlot,
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

    /// Returns the transfer if it is finished. Otherwise an event will follow.
    ///
    /// # Errors
    /// The queue pair failed.
    pub fn finish(&mut self) -> Result<Option<FinishedTransfer>, FabricError> {
        let Some((due, _)) = &self.under_way else {
            return Ok(None);
        };
        let due = *due;
        if std::mem::take(&mut self.armed) {
            self.pair.drain_events()?;
        }
        let mut outcome = self.pair.spin(SPIN)?;
        if outcome.is_none() {
            self.pair.arm()?;
            self.armed = true;
            outcome = self.pair.poll()?;
        }
        match outcome {
            None => Ok(None),
            Some(PairCompletion::Sent(id)) if id == due => {
                Ok(self.under_way.take().map(|(_, transfer)| match transfer {
                    Transfer::Outgoing(..) => FinishedTransfer::Sent,
                    Transfer::Incoming(slot) => FinishedTransfer::Arrived(Arrived(slot)),
                }))
            }
            Some(other) => Err(FabricError::BadEndpoint(format!(
                "unexpected completion {other}"
            ))),
        }
    }

    /// Returns the descriptor that becomes readable when a transfer may be finished.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.pair.events()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn groups_keep_the_order_and_are_as_large_as_possible(
            pieces in proptest::collection::vec(prop_oneof![1usize..9000, 1usize..(2 * GATHERED)],
                0..100),
            most in 1usize..20,
        ) {
            let cut: Vec<&[usize]> = groups(&pieces, most, |&length| length).collect();
            prop_assert_eq!(cut.concat(), pieces.clone());
            let bytes = |group: &[usize]| group.iter().sum::<usize>();
            for group in &cut {
                prop_assert!((1..=most).contains(&group.len()));
                prop_assert!(group.len() == 1 || bytes(group) <= GATHERED);
            }
            for two in cut.windows(2) {
                prop_assert!(two[0].len() == most || bytes(two[0]) + two[1][0] > GATHERED);
            }
        }
    }
}
