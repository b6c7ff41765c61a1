//! Queue pairs that send, and the memory of their requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use verbena_verbs::{
    AccessFlags, Buffer, Opcode, ProtectionDomain, QueuePair, Region, Scratch, SendFlags,
    SendTarget,
};

use crate::encapsulation;
use crate::segment::Segments;
use crate::station::Sent;

/// Requests in flight of one queue pair.
pub const DEPTH: usize = 128;
/// Time after which a receiver of datagrams that takes nothing is no longer waited for.
pub const PATIENCE: Duration = Duration::from_millis(20);
/// Slots that are left to lanes with at most so many requests in flight, so that a few neighbours
/// that take little do not keep others from sending.
const RESERVED: usize = 16;
const FEW: usize = 4;
/// Time for which a neighbour that was waited for so long is not waited for again: others would
/// wait with it.
const LONG_WAIT: Duration = Duration::from_millis(50);
const PAUSE: Duration = Duration::from_millis(500);
/// No lane.
const FREE: u32 = u32::MAX;

/// Memory of requests in flight: slots of equal size.
pub struct Slots {
    region: Region,
    /// A bit of the ids of requests.
    mark: u64,
    /// Requests in flight of one queue pair.
    depth: usize,
    /// Time after which a receiver that takes nothing is no longer waited for.
    patience: Duration,
    size: usize,
    free: Vec<u32>,
    /// The lane of each slot.
    owners: Vec<u32>,
    scratch: Scratch,
    /// The time, as it was last set.
    now: Instant,
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
        (mark, depth, patience): (u64, usize, Duration),
    ) -> verbena_verbs::Result<Slots> {
        let buffer = Buffer::allocate(count * size)?;
        Ok(Slots {
            region: domain.register(buffer, AccessFlags::LOCAL)?,
            mark,
            depth,
            patience,
            size,
            free: (0..count as u32).rev().collect(),
            owners: vec![FREE; count],
            scratch: Scratch::new(),
            now: Instant::now(),
        })
    }

    /// Sets the time at which requests are sent and complete from now on.
    pub fn set_time(&mut self, now: Instant) {
        self.now = now;
    }

    /// Returns whether every slot is in use.
    pub fn are_used_up(&self) -> bool {
        self.free.is_empty()
    }

    /// Returns the next free slot. It is free until its request is posted.
    pub fn next_free(&self) -> Option<u32> {
        self.free.last().copied()
    }

    /// Returns the memory, and where a slot starts.
    pub fn place(&self, slot: u32) -> (&Region, usize) {
        (&self.region, slot as usize * self.size)
    }

    /// Releases a slot whose request has ended, once.
    pub fn release(&mut self, slot: u32) {
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

/// A queue pair that sends to one neighbour, to groups, or answers to all: of datagrams, or
/// connected.
pub struct Lane {
    number: u32,
    pair: QueuePair,
    in_flight: usize,
    /// Since when a packet waits because the lane is full, or without a slot.
    blocked: Option<Instant>,
    /// Until when the receiver is not waited for.
    slow_until: Option<Instant>,
    /// When a request last completed, or the first one was sent.
    moved: Instant,
    patience: Duration,
}

impl Lane {
    /// Returns the lane of a queue pair in RTS.
    pub fn new(number: u32, pair: QueuePair) -> Lane {
        Lane {
            number,
            pair,
            in_flight: 0,
            blocked: None,
            slow_until: None,
            moved: Instant::now(),
            patience: PATIENCE,
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

    /// Returns its queue pair alone.
    pub fn into_pair(self) -> QueuePair {
        self.pair
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns whether a packet has waited in vain.
    pub fn is_stalled(&self) -> bool {
        self.blocked
            .is_some_and(|since| since.elapsed() >= self.patience)
    }

    /// Returns whether requests are in flight and none has completed for this time.
    pub fn is_stuck(&self, time: Duration) -> bool {
        self.in_flight > 0 && self.moved.elapsed() >= time
    }

    /// Sends a packet.
    pub fn send(
        &mut self,
        slots: &mut Slots,
        target: SendTarget<'_>,
        header: [u8; encapsulation::LENGTH],
        packet: &[u8],
    ) -> Sent {
        let length = encapsulation::LENGTH + packet.len();
        if length > slots.size {
            return Sent::Refused;
        }
        let Some(slot) = self.slot(slots) else {
            return self.blocked(slots.patience);
        };
        let (region, at) = slots.place(slot);
        let written = region.write(at, &header);
        let written = written.and_then(|()| region.write(at + encapsulation::LENGTH, packet));
        match written {
            Ok(()) => self.post(slots, target, slot, length),
            Err(_) => Sent::Refused,
        }
    }

    /// Sends segments of a long packet, none of which is longer than a slot, while the queue pair
    /// takes requests. Returns the numbers of those that were sent, and of those that were refused.
    pub fn send_segments(
        &mut self,
        slots: &mut Slots,
        target: SendTarget<'_>,
        header: [u8; encapsulation::LENGTH],
        segments: &mut Segments,
    ) -> (u64, u64) {
        let (mut sent, mut refused) = (0, 0);
        while let Some(slot) = self.slot(slots) {
            let Some((front, data)) = segments.next_parts() else {
                break;
            };
            let (region, at) = slots.place(slot);
            let mut end = at;
            let mut is_written = true;
            for part in [&header[..], front, data] {
                is_written &= region.write(end, part).is_ok();
                end += part.len();
            }
            let is_sent = is_written && self.post(slots, target, slot, end - at) == Sent::Done;
            *(if is_sent { &mut sent } else { &mut refused }) += 1;
        }
        (sent, refused)
    }

    /// Returns the slot for the next request, if the queue pair takes one.
    pub fn slot(&self, slots: &Slots) -> Option<u32> {
        let is_reserved = slots.free.len() <= RESERVED && self.in_flight >= FEW;
        let is_free = self.in_flight < slots.depth && !is_reserved;
        slots.next_free().filter(|_| is_free)
    }

    fn blocked(&mut self, patience: Duration) -> Sent {
        self.patience = patience;
        let is_slow = self.slow_until.is_some_and(|until| Instant::now() < until);
        self.blocked.get_or_insert_with(Instant::now);
        if is_slow || self.is_stalled() {
            Sent::Stalled
        } else {
            Sent::Busy
        }
    }

    /// Ends the wait of a packet.
    fn unblock(&mut self) {
        if let Some(since) = self.blocked.take()
            && self.patience >= LONG_WAIT
            && since.elapsed() >= LONG_WAIT
        {
            self.slow_until = Some(Instant::now() + PAUSE);
        }
    }

    /// Sends the first bytes of a slot that [`Lane::slot`] has returned.
    pub fn post(
        &mut self,
        slots: &mut Slots,
        target: SendTarget<'_>,
        slot: u32,
        length: usize,
    ) -> Sent {
        let at = slot as usize * slots.size;
        let segment = slots.region.part(at, length);
        let Some(segment) = segment.filter(|_| slots.next_free() == Some(slot)) else {
            return Sent::Refused;
        };
        let id = slots.mark | u64::from(self.number) << 32 | u64::from(slot);
        let work = (id, Opcode::Send, SendFlags::SIGNALED);
        match self
            .pair
            .post_one(&mut slots.scratch, work, segment, target)
        {
            Ok(()) => {
                slots.free.pop();
                slots.owners[slot as usize] = self.number;
                if self.in_flight == 0 {
                    // Not the turn's: this thread may have waited since that was read.
                    self.moved = Instant::now();
                }
                self.in_flight += 1;
                self.unblock();
                Sent::Done
            }
            Err(_) => Sent::Refused,
        }
    }

    /// Notes that a request has completed.
    pub fn complete(&mut self, slots: &mut Slots, id: u64) {
        slots.release(id as u32);
        self.in_flight = self.in_flight.saturating_sub(1);
        self.moved = slots.now;
    }
}
