//! A session's data queue pair: admission by token, then one transfer at a time.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use verbena_rfio_protocol::types::{Endpoint, Window};
use verbena_verbs::{Opcode, Region};

use super::admission::{Admission, TOKEN_BYTES};
use super::staging::Slot;
use super::{ServerFabric, register};
use crate::fabric::{FabricError, Outcome, Pair, Purpose};
use crate::server::engine::Segment;
use crate::server::quota::Share;

/// How long a transfer is polled for before the event loop turns to others. A software adapter is done by then, and so
/// is a fast one with a small transfer.
const SPIN: Duration = Duration::from_micros(20);

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

/// Bytes beyond which pieces are not gathered by one request.
const GATHERED: usize = 256 << 10;

/// Cuts pieces into runs that one request gathers: at most `most` of them, and `GATHERED` bytes if they are several.
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
    // Destroyed before what transfers and the token's region hold.
    pair: Pair,
    under_way: Option<(u64, Transfer)>,
    greeting: GreetingRegion,
    admission: Admission,
    _share: Share,
    next: u64,
    /// Pieces of memory that one request gathers.
    gathers: usize,
    /// Whether an event was asked for, and may have come.
    armed: bool,
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
        let (admission, token) = Admission::begin(now);
        let endpoint = pair.endpoint();
        let data = Self {
            pair,
            under_way: None,
            greeting: GreetingRegion(greeting),
            admission,
            _share: share,
            next: 1,
            gathers: fabric.adapter().segments(),
            armed: false,
        };
        Ok((data, endpoint, token))
    }

    /// Whether the client has shown the token by now. An error ends the pair.
    pub fn admit(&mut self, now: Instant) -> Result<(), FabricError> {
        let (pair, greeting) = (&self.pair, &self.greeting.0);
        self.admission.admit(now, || {
            // The client's send was acknowledged before it asked for a transfer, so the receive is complete or about to
            // be.
            match pair.spin(Duration::from_millis(2))? {
                Some(Outcome::Received(_, length, None)) if length as usize == TOKEN_BYTES => {}
                _ => return Err(FabricError::Late("the token")),
            }
            let mut shown = [0; TOKEN_BYTES];
            greeting.read(0, &mut shown)?;
            Ok(shown)
        })
    }

    /// Whether data that all lie in cached blocks can be sent from there; else they are packed into a staging slot.
    pub fn can_gather(&self, data: &[Segment]) -> bool {
        let length = |segment: &Segment| segment.bytes().len();
        data.iter()
            .all(|segment| matches!(segment, Segment::Block(..)))
            && groups(data, self.gathers, length).count() <= Pair::MOST_REQUESTS
    }

    /// Starts writing data to the client's window. A `notice` follows them as immediate data: the data are done with
    /// when they are acknowledged, and nobody waits for the client to take the notice.
    pub fn send(
        &mut self,
        data: Vec<Segment>,
        mut slot: Option<Slot>,
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
        // Small pieces that follow each other at the client are gathered by one request. A large one is its own: what a
        // request holds at the client, its adapter cannot take back meanwhile.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn groups_are_the_pieces_in_order_and_no_two_neighbours_fit_into_one(
            pieces in proptest::collection::vec(prop_oneof![1usize..9000, 1usize..(2 * GATHERED)], 0..100),
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
