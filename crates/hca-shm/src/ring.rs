//! A queue of variable-length records in shared memory, with one producer and one consumer.
//!
//! The ring is an array of 64-byte cells. A record takes one or more neighbouring cells; its first
//! cell starts with a 32-bit *stamp* of the lap over the ring in which it was written. The consumer
//! looks at one cell only, so a short record costs a single cache-line transfer between the two
//! cores.
//!
//! The protocol:
//! - Only the producer writes cells between `head` and `head + CELLS`; only the consumer advances
//!   `head`.
//! - Before a record is published, the stamp of the cell *behind* it is zeroed (the guard), so that
//!   old payload can never be taken for a record. Therefore a record of `k` cells needs `k + 1`
//!   free ones.
//! - SYNC POINT publish: the stamp is stored with Release after the rest of the record; the
//!   consumer loads it with Acquire before it reads anything else.
//! - SYNC POINT release: the consumer stores `head` with Release after its last read of a record;
//!   the producer loads it with Acquire before it writes into the cells.
//! - Cache hints (`prefetch`) are no part of the protocol: they only save the wait for a line that
//!   the other side has. A store to such a line does not wait by itself; the next locked
//!   instruction waits for it, and there always is one.
//! - Records do not wrap. A padding record fills the rest of a lap.
//! - `head` is also the acknowledgement: records before it have been consumed. An answer other than
//!   "done" is published on the ring of answers before `head` passes the record.

use crate::sync::{AtomicU32, AtomicU64, Ordering, prefetch_to_write};

/// Bytes of a cell: a cache line.
pub const CELL: usize = 64;
/// Bytes of a record's header, with the stamp.
pub const HEADER: usize = 48;
/// Bytes of a short record's header: up to 36 bytes of payload share its cache line.
pub const SHORT_HEADER: usize = 28;
/// Bit in the kind of a short record, whose header ends behind `psn`: the other fields read as 0.
pub const SHORT: u8 = 0x80;
/// Kind of a record that only fills up a lap.
pub const PADDING: u8 = 0;

/// Contents of a record, apart from its payload. The meaning of the fields depends on `kind`
/// (`qp::ring_message` of `verbena_hca` is the one place that reads and writes them).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, packed(4))]
pub struct Header {
    /// Kind of the record.
    pub kind: u8,
    /// Modifiers of the kind.
    pub flags: u8,
    /// Bytes of payload in this record, filled in by the ring; for padding, the number of its
    /// cells.
    pub length: u16,
    /// Destination queue pair.
    pub destination: u32,
    /// Incarnation of the destination queue pair.
    pub destination_incarnation: u32,
    /// Source queue pair.
    pub source: u32,
    /// Incarnation of the source queue pair.
    pub source_incarnation: u32,
    /// Packet sequence number of the message's first packet.
    pub psn: u32,
    /// Immediate data, key to invalidate, or syndrome.
    pub immediate: u32,
    /// A remote address or a domain.
    pub address: u64,
    /// Keys, lengths or an operand.
    pub word: u64,
}

/// Offset of the header in a cell: behind the stamp.
pub(crate) const HEADER_AT: usize = 4;
const _: () = assert!(HEADER_AT + std::mem::size_of::<Header>() == HEADER);
const _: () = assert!(HEADER_AT + std::mem::offset_of!(Header, immediate) == SHORT_HEADER);

/// The memory of a ring. `index` is always below `cells()`; `offset + bytes` may extend into the
/// following cells, but never past the last.
///
/// # Safety
/// `cells()` must be a power of two that never changes, and the accessors must stay inside memory
/// of that many cells.
pub unsafe trait Store {
    /// Returns the number of cells, a power of two.
    fn cells(&self) -> u64;
    /// Returns the first word of a cell.
    fn stamp(&self, index: u64) -> &AtomicU32;
    /// Returns the consumer's position.
    fn head(&self) -> &AtomicU64;
    /// Returns the first byte of a cell that is about to be read.
    fn readable(&self, index: u64) -> *const u8;
    /// Returns the first byte of a cell that is about to be written.
    fn writable(&self, index: u64) -> *mut u8;
}

/// The producer's private state.
#[derive(Debug, Default)]
pub struct Producer {
    tail: u64,
    head_seen: u64,
}

/// Free space for the next record.
#[derive(Debug)]
pub struct Space<'a> {
    producer: &'a mut Producer,
    /// Cells to skip before the record.
    padding: u64,
    cells: u64,
}

/// The consumer's private state.
#[derive(Debug, Default)]
pub struct Consumer {
    head: u64,
    published: u64,
}

/// Error for an unreadable ring: the contents cannot come from a correct producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// A record found by the consumer. The header is a private copy; the payload lies in shared memory
/// and may change.
#[derive(Debug)]
pub struct Record {
    /// Copy of the header, with `length` checked.
    pub header: Header,
    /// First byte of `header.length` bytes of payload.
    pub payload: *const u8,
}

#[inline]
fn stamp_of(position: u64, cells: u64) -> u32 {
    // Odd, so never zero; two laps with the same stamp are 2^31 laps apart.
    ((position / cells) as u32).wrapping_mul(2).wrapping_add(1)
}

/// Returns the number of bytes before the payload of a record of this kind.
#[inline]
fn payload_at(kind: u8) -> usize {
    match kind & SHORT {
        0 => HEADER,
        _ => SHORT_HEADER,
    }
}

/// Returns the number of cells of a record of this kind with `length` bytes of payload.
#[inline]
pub fn cells_for(kind: u8, length: usize) -> u64 {
    (payload_at(kind) + length).div_ceil(CELL) as u64
}

/// Prefetches a cell that the producer is about to write.
#[inline]
pub fn prefetch(store: &impl Store, position: u64) {
    prefetch_to_write(store.stamp(position & (store.cells() - 1)));
}

impl Producer {
    /// Returns the position behind everything published so far.
    #[inline]
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Returns whether the consumer has consumed everything published.
    pub fn is_drained(&self, store: &impl Store) -> bool {
        store.head().load(Ordering::Acquire) == self.tail
    }

    /// Returns whether a record of so many cells fits now.
    #[inline]
    pub fn has_room(&mut self, store: &impl Store, cells: u64) -> bool {
        let padding = self.padding(store, cells);
        self.has_free(store, padding + cells + 1)
    }

    /// Returns whether so many cells are free now.
    #[inline]
    fn has_free(&mut self, store: &impl Store, need: u64) -> bool {
        if self.free(store) >= need {
            return true;
        }
        let head = store.head().load(Ordering::Acquire);
        // A head that goes backwards or past the tail is invalid; using it could overwrite unread
        // records.
        if head.wrapping_sub(self.head_seen) <= self.tail - self.head_seen {
            self.head_seen = head;
        }
        self.free(store) >= need
    }

    /// Returns space for a record of this kind with `length` bytes of payload, if it fits now.
    #[inline]
    pub fn space(&mut self, store: &impl Store, kind: u8, length: usize) -> Option<Space<'_>> {
        let cells = cells_for(kind, length);
        let padding = self.padding(store, cells);
        self.has_free(store, padding + cells + 1).then_some(Space {
            producer: self,
            padding,
            cells,
        })
    }

    /// Publishes a record; `fill` writes the payload (it gets the address of `length` writable
    /// bytes). Returns the position behind the record, or None, with nothing done, when the record
    /// does not fit.
    pub fn push(
        &mut self,
        store: &impl Store,
        header: Header,
        length: usize,
        fill: impl FnOnce(*mut u8),
    ) -> Option<u64> {
        let fill = |target| {
            fill(target);
            Ok::<(), std::convert::Infallible>(())
        };
        match self.try_push(store, header, length, fill) {
            Ok(end) => end,
            Err(never) => match never {},
        }
    }

    /// As [`Producer::push`], for a payload that may be unreadable: then nothing is published.
    ///
    /// # Errors
    /// The error of `fill`.
    pub fn try_push<E>(
        &mut self,
        store: &impl Store,
        header: Header,
        length: usize,
        fill: impl FnOnce(*mut u8) -> Result<(), E>,
    ) -> Result<Option<u64>, E> {
        match self.space(store, header.kind, length) {
            Some(space) => space.publish(store, header, length, fill).map(Some),
            None => Ok(None),
        }
    }

    /// Fills the rest of a lap.
    #[cold]
    fn pad(&mut self, store: &impl Store, padding: u64) {
        let filler = Header {
            kind: PADDING,
            length: padding as u16,
            ..Header::default()
        };
        self.write(store, filler, padding);
        self.publish(store, padding);
    }

    /// Writes guard and header of a record of so many cells at the tail. Returns the address of its
    /// payload.
    #[inline]
    fn write(&mut self, store: &impl Store, header: Header, cells: u64) -> *mut u8 {
        let mask = store.cells() - 1;
        let guard = (self.tail + cells) & mask;
        store.stamp(guard).store(0, Ordering::Relaxed);
        let cell = store.writable(self.tail & mask);
        // SAFETY: the record's cells are free (checked by the caller), in bounds, and the
        // producer's until the stamp is published.
        unsafe {
            cell.add(HEADER_AT).cast::<Header>().write_unaligned(header);
            cell.add(payload_at(header.kind))
        }
    }

    #[inline]
    fn publish(&mut self, store: &impl Store, cells: u64) {
        store
            .stamp(self.tail & (store.cells() - 1))
            .store(stamp_of(self.tail, store.cells()), Ordering::Release);
        self.tail += cells;
    }

    /// Returns the number of cells to skip so that a record of `cells` does not wrap.
    #[inline]
    fn padding(&self, store: &impl Store, cells: u64) -> u64 {
        let left = store.cells() - (self.tail & (store.cells() - 1));
        if cells <= left { 0 } else { left }
    }

    #[inline]
    fn free(&self, store: &impl Store) -> u64 {
        store.cells() - (self.tail - self.head_seen)
    }
}

impl Space<'_> {
    /// Returns the position behind the record.
    #[inline]
    pub fn end(&self) -> u64 {
        self.producer.tail + self.padding + self.cells
    }

    /// Publishes the record, of the kind and length that the space is for; `fill` as for
    /// [`Producer::try_push`]. Returns the position behind it.
    ///
    /// # Errors
    /// The error of `fill`; then nothing is published.
    #[inline]
    pub fn publish<E>(
        self,
        store: &impl Store,
        header: Header,
        length: usize,
        fill: impl FnOnce(*mut u8) -> Result<(), E>,
    ) -> Result<u64, E> {
        let Space {
            producer,
            padding,
            cells,
        } = self;
        if padding > 0 {
            producer.pad(store, padding);
        }
        let header = Header {
            length: length as u16,
            ..header
        };
        let payload = producer.write(store, header, cells);
        fill(payload)?;
        producer.publish(store, cells);
        // The guard of the next record, if that is short.
        prefetch(store, producer.tail + 1);
        Ok(producer.tail)
    }
}

impl Consumer {
    /// Returns the next record, if one is published. It stays the next until [`Consumer::advance`].
    ///
    /// # Errors
    /// [`Corrupt`] for contents that no correct producer writes. This ends for any contents: at
    /// most one padding record lies between two others, and it ends its lap.
    pub fn peek(&mut self, store: &impl Store) -> Result<Option<Record>, Corrupt> {
        match self.published_cell(store) {
            Some((_, header)) if header.kind == PADDING => self.skip_padding(store, header)?,
            Some((index, header)) => return self.record(store, index, header).map(Some),
            None => return Ok(None),
        }
        match self.published_cell(store) {
            Some((_, header)) if header.kind == PADDING => Err(Corrupt),
            Some((index, header)) => self.record(store, index, header).map(Some),
            None => Ok(None),
        }
    }

    /// Returns whether a record is published, by one look at its cell.
    #[inline]
    pub fn has_record(&self, store: &impl Store) -> bool {
        let (stamp, published) = self.next(store);
        stamp.load(Ordering::Acquire) == published
    }

    /// Returns the stamp of the next record, and the value that it has once the record is
    /// published.
    #[inline]
    pub fn next<'a>(&self, store: &'a impl Store) -> (&'a AtomicU32, u32) {
        let cells = store.cells();
        (
            store.stamp(self.head & (cells - 1)),
            stamp_of(self.head, cells),
        )
    }

    /// Returns index and header of the record at the consumer's position, if it is published.
    #[inline]
    fn published_cell(&self, store: &impl Store) -> Option<(u64, Header)> {
        if !self.has_record(store) {
            return None;
        }
        let index = self.head & (store.cells() - 1);
        let cell = store.readable(index);
        // SAFETY: the cell is in bounds, and the Acquire load in `has_record` makes the header
        // readable; only the copy is used.
        let header = unsafe { cell.add(HEADER_AT).cast::<Header>().read_unaligned() };
        Some((index, header))
    }

    fn skip_padding(&mut self, store: &impl Store, header: Header) -> Result<(), Corrupt> {
        let cells = store.cells();
        let left = cells - (self.head & (cells - 1));
        if u64::from(header.length) != left {
            return Err(Corrupt);
        }
        self.head += left;
        Ok(())
    }

    #[inline]
    fn record(&self, store: &impl Store, index: u64, header: Header) -> Result<Record, Corrupt> {
        if index + cells_for(header.kind, header.length.into()) > store.cells() {
            return Err(Corrupt);
        }
        // SAFETY: the header is inside the first cell.
        let payload = unsafe { store.readable(index).add(payload_at(header.kind)) };
        let header = match header.kind & SHORT {
            0 => header,
            // The copy has bytes of the payload there.
            _ => Header {
                immediate: 0,
                address: 0,
                word: 0,
                ..header
            },
        };
        Ok(Record { header, payload })
    }

    /// Prefetches `head`, which the producer reads, for writing while a record is processed.
    #[inline]
    pub fn prefetch(&self, store: &impl Store) {
        prefetch_to_write(store.head());
    }

    /// Consumes the record that [`Consumer::peek`] returned.
    #[inline]
    pub fn advance(&mut self, record: &Record) {
        self.head += cells_for(record.header.kind, record.header.length.into());
    }

    /// Stores the position for the producer. Returns whether it has changed.
    pub fn publish(&mut self, store: &impl Store) -> bool {
        if self.head == self.published {
            return false;
        }
        store.head().store(self.head, Ordering::Release);
        self.published = self.head;
        true
    }
}
