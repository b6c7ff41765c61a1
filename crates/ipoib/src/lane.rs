//! Queue pairs that send, and the memory of their requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use verbena_verbs::{
    AccessFlags, AddressHandle, Buffer, Opcode, ProtectionDomain, QueuePair, Region, Scratch,
    SendFlags, SendTarget,
};

use crate::encapsulation::{self, Protocol};
use crate::station::Sent;

/// Requests in flight of one queue pair.
pub const DEPTH: usize = 128;
/// Time after which a receiver that takes nothing is no longer waited for.
pub const PATIENCE: Duration = Duration::from_millis(20);
/// No lane.
const FREE: u32 = u32::MAX;

/// Memory of requests in flight: slots of equal size.
pub struct Slots {
    region: Region,
    size: usize,
    free: Vec<u32>,
    /// The lane of each slot.
    owners: Vec<u32>,
    scratch: Scratch,
}

impl Slots {
    /// Registers memory for `count` datagrams of `size` bytes.
    ///
    /// # Errors
    ///
    /// The memory cannot be allocated or registered.
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        count: usize,
        size: usize,
    ) -> verbena_verbs::Result<Slots> {
        let buffer = Buffer::allocate(count * size)?;
        Ok(Slots {
            region: domain.register(buffer, AccessFlags::LOCAL)?,
            size,
            free: (0..count as u32).rev().collect(),
            owners: vec![FREE; count],
            scratch: Scratch::new(),
        })
    }

    /// Returns whether every slot is in use.
    pub fn are_used_up(&self) -> bool {
        self.free.is_empty()
    }

    fn release(&mut self, slot: u32) {
        if let Some(owner) = self.owners.get_mut(slot as usize)
            && *owner != FREE
        {
            *owner = FREE;
            self.free.push(slot);
        }
    }

    /// Releases the slots of a lane whose queue pair has been destroyed.
    pub fn release_all(&mut self, lane: u32) {
        for slot in 0..self.owners.len() {
            if self.owners[slot] == lane {
                self.release(slot as u32);
            }
        }
    }
}

/// A queue pair that sends to one neighbour, to groups, or answers to all.
pub struct Lane {
    number: u32,
    pair: QueuePair,
    in_flight: usize,
    /// Since when the lane has been full, or without a slot, and nothing has completed.
    blocked_since: Option<Instant>,
}

impl Lane {
    /// Returns the lane of a queue pair in RTS.
    pub fn new(number: u32, pair: QueuePair) -> Lane {
        Lane {
            number,
            pair,
            in_flight: 0,
            blocked_since: None,
        }
    }

    /// Returns its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns its queue pair.
    pub fn pair(&self) -> &QueuePair {
        &self.pair
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns whether the receiver takes nothing.
    pub fn is_stalled(&self) -> bool {
        self.blocked_since
            .is_some_and(|since| since.elapsed() >= PATIENCE)
    }

    /// Sends a packet to a queue pair.
    pub fn send(
        &mut self,
        slots: &mut Slots,
        (address, queue_pair, queue_key): (&AddressHandle, u32, u32),
        protocol: Protocol,
        packet: &[u8],
    ) -> Sent {
        let length = encapsulation::LENGTH + packet.len();
        if length > slots.size {
            return Sent::Refused;
        }
        if self.in_flight == DEPTH || slots.are_used_up() {
            self.blocked_since.get_or_insert_with(Instant::now);
            return if self.is_stalled() {
                Sent::Stalled
            } else {
                Sent::Busy
            };
        }
        let Some(&slot) = slots.free.last() else {
            return Sent::Busy;
        };
        let at = slot as usize * slots.size;
        let written = slots.region.write(at, &protocol.header());
        let written = written.and_then(|()| slots.region.write(at + encapsulation::LENGTH, packet));
        let (Ok(()), Some(segment)) = (written, slots.region.part(at, length)) else {
            return Sent::Refused;
        };
        let id = u64::from(self.number) << 32 | u64::from(slot);
        let work = (id, Opcode::Send, SendFlags::SIGNALED);
        let target = SendTarget::Datagram(address, queue_pair, queue_key);
        match self
            .pair
            .post_one(&mut slots.scratch, work, segment, target)
        {
            Ok(()) => {
                slots.free.pop();
                slots.owners[slot as usize] = self.number;
                self.in_flight += 1;
                Sent::Done
            }
            Err(_) => Sent::Refused,
        }
    }

    /// Notes that a request has completed.
    pub fn complete(&mut self, slots: &mut Slots, id: u64) {
        slots.release(id as u32);
        self.in_flight = self.in_flight.saturating_sub(1);
        self.blocked_since = None;
    }
}
