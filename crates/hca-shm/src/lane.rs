//! Lanes: queues of short messages in shared memory, one for each sending queue pair, with one
//! producer and one consumer. A slot is a cache line.
//!
//! | word | written by | when | read by |
//! |---|---|---|---|
//! | slot: header, payload | producer | before its stamp | consumer, after the stamp |
//! | slot: stamp | producer | last, Release | consumer, Acquire |
//! | head | consumer | after its last use of a slot, Release | producer, Acquire |
//! | gate of a queue pair | its process | after all other words of its record, SeqCst | peers |
//!
//! The protocol:
//! - The producer writes a slot only if the consumer has released it: `tail - released < SLOTS`.
//! - SYNC POINT lane: the stamp names the lap over the slots in which it was written. It is stored
//!   with Release after the rest of the slot; the consumer loads it with Acquire before it reads
//!   anything else.
//! - SYNC POINT lane head: the consumer stores `head` with Release after its last use of a slot,
//!   and after it has published any answer to the message on the channel's ring of answers. The
//!   producer loads `head` with Acquire, takes the answers after that, and only then treats the
//!   messages before `head` as acknowledged.
//! - SYNC POINT lane echo: a message in the other direction carries the same news ([`Echo`]): the
//!   number of the lane by which its sender received last, and the position behind that message,
//!   which was released before. The stamp of its slot takes the place of `head`. So two queue pairs
//!   that answer each other need not read each other's `head`, which would cost a transfer of its
//!   cache line. Positions of a lane only grow, whichever queue pairs it connects, so an old echo
//!   acknowledges nothing new.
//! - SYNC POINT gate: a process changes the gate of a queue pair's record after it has changed the
//!   other words of the record. A peer that loads the gate first and then checks these words may
//!   from then on check the gate alone: as long as it has the same value, none of them has changed,
//!   except by a change that is still in progress. The change is followed by a fence
//!   ([`crate::section`]) where it revokes rights.
//! - SYNC POINT lane order: a message in the lane of a queue pair is older than every record of the
//!   queue pair in the channel that is pushed after it, so the consumer empties the lane before it
//!   serves a record of that queue pair. The other way round the producer sees to the order: it
//!   uses the lane only while none of the queue pair's records is in progress in the channel.
//! - SYNC POINT lane generation: the producer announces a lane by a notice in the channel, whenever
//!   it begins to use it for a queue pair or an incarnation. The notice and the messages behind it
//!   carry the same new generation. A message of another generation than the consumer knows waits
//!   for its notice, before which all older messages are served. A channel holds far fewer notices
//!   than there are generations.
//! - Sleep ([`crate::sleep`]): the consumer's look covers its lanes as it covers its rings; the
//!   producer's look takes the send queue's lock, under which messages are published.
//!
//! Nothing read from a slot is trusted: the length is checked, the payload is only copied. A head
//! past the last message ends the connection with the peer.

use crate::sync::{AtomicU32, Ordering, prefetch_to_write};

/// Slots of a lane.
pub const SLOTS: u32 = 64;
/// Bytes of a slot: a cache line.
pub const SLOT: usize = 64;
/// Bytes before the payload of a slot.
const HEADER: usize = 16;
/// Offset of the header in a slot: behind the stamp.
const HEADER_AT: usize = 4;
/// Largest payload of a slot in bytes.
pub const PAYLOAD: usize = SLOT - HEADER;

/// Contents of a slot, apart from stamp and payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Header {
    /// Bytes of payload.
    pub length: u8,
    /// Modifiers of the message.
    pub flags: u8,
    /// Generation of the lane.
    pub generation: u16,
    /// Packet sequence number, of 24 bits, and above it the number of the lane that the message
    /// acknowledges.
    pub psn_and_lane: u32,
    /// Position in that lane before which messages are acknowledged.
    pub acknowledged: u32,
}

/// The consumer's position in a lane, as a message in the other direction carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Number of the lane in its channel.
    pub lane: u8,
    /// Position before which messages are acknowledged.
    pub position: u32,
}

const _: () = assert!(HEADER_AT + size_of::<Header>() == HEADER);

/// The memory of a lane. Slots are named by index, below `slots()`.
///
/// # Safety
/// `slots()` must be a power of two that never changes, and the accessors must stay inside memory
/// of that many slots.
pub unsafe trait Store {
    /// Returns the number of slots, a power of two.
    fn slots(&self) -> u32;
    /// Returns the first word of a slot.
    fn stamp(&self, index: u32) -> &AtomicU32;
    /// Returns the consumer's position.
    fn head(&self) -> &AtomicU32;
    /// Returns the first byte of a slot that is about to be read.
    fn readable(&self, index: u32) -> *const u8;
    /// Returns the first byte of a slot that is about to be written.
    fn writable(&self, index: u32) -> *mut u8;
}

/// A message found by the consumer. The header is a private copy; the payload lies in shared memory
/// and may change.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Copy of the header.
    pub header: Header,
    /// First byte of [`PAYLOAD`] readable bytes.
    pub payload: *const u8,
}

/// Returns the stamp of the slot at a position.
#[inline]
fn stamp_of(position: u32, slots: u32) -> u32 {
    // Odd, so never zero; a slot's stamps differ until positions wrap, and then from the last lap.
    (position / slots).wrapping_mul(2).wrapping_add(1)
}

/// Publishes a message at a position whose slot is free. `fill` writes the payload, at most
/// [`PAYLOAD`] bytes.
///
/// # Errors
/// The error of `fill`; then nothing is published.
#[inline(always)]
pub fn publish<E>(
    store: &impl Store,
    position: u32,
    header: Header,
    fill: impl FnOnce(*mut u8) -> Result<(), E>,
) -> Result<(), E> {
    let slots = store.slots();
    let index = position & (slots - 1);
    let slot = store.writable(index);
    // SAFETY: the slot is free (the caller's promise), in bounds, and the producer's until its
    // stamp is published.
    let payload = unsafe {
        slot.add(HEADER_AT).cast::<Header>().write_unaligned(header);
        slot.add(HEADER)
    };
    fill(payload)?;
    // SYNC POINT lane.
    store
        .stamp(index)
        .store(stamp_of(position, slots), Ordering::Release);
    prefetch_to_write(store.stamp(position.wrapping_add(1) & (slots - 1)));
    Ok(())
}

/// Returns the payload of a message that was published and is not released: the producer sends it
/// again by another way.
#[inline]
pub fn sent_payload(store: &impl Store, position: u32) -> *const u8 {
    let index = position & (store.slots() - 1);
    // SAFETY: inside the slot.
    unsafe { store.readable(index).add(HEADER) }
}

/// Returns the stamp of the slot at a position, and its value once a message is published there.
#[inline]
pub fn next(store: &impl Store, position: u32) -> (&AtomicU32, u32) {
    let slots = store.slots();
    let stamp = store.stamp(position & (slots - 1));
    (stamp, stamp_of(position, slots))
}

/// Returns whether a message is published at a position, by one look.
#[inline]
pub fn is_published(store: &impl Store, position: u32) -> bool {
    let slots = store.slots();
    // SYNC POINT lane.
    let stamp = store.stamp(position & (slots - 1)).load(Ordering::Acquire);
    stamp == stamp_of(position, slots)
}

/// Returns the message at a position, if it is published in this generation of the lane.
#[inline]
pub fn peek(store: &impl Store, position: u32, generation: u16) -> Option<Message> {
    if !is_published(store, position) {
        return None;
    }
    let slot = store.readable(position & (store.slots() - 1));
    // SAFETY: the slot is in bounds, and the Acquire load above makes it readable.
    let message = unsafe {
        Message {
            header: slot.add(HEADER_AT).cast::<Header>().read_unaligned(),
            payload: slot.add(HEADER),
        }
    };
    // SYNC POINT lane generation.
    (message.header.generation == generation).then_some(message)
}

/// Releases the slots before `position`, whose messages are acknowledged by that.
#[inline]
pub fn release(store: &impl Store, position: u32) {
    // SYNC POINT lane head.
    store.head().store(position, Ordering::Release);
}

/// Returns the position before which messages are acknowledged.
#[inline]
pub fn released(store: &impl Store) -> u32 {
    // SYNC POINT lane head.
    store.head().load(Ordering::Acquire)
}

/// Prefetches the head for writing, while the message at the front is processed.
#[inline]
pub fn prefetch_head(store: &impl Store) {
    prefetch_to_write(store.head());
}
