//! Resolves a key and an address to memory: the one check of keys, bounds, domains and rights.

use crate::planted::{self, Bug};
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use verbena_hca_shm::context_table::{KeyRecord, SegmentRecord};
use verbena_hca_shm::section::Section;

/// Bit in a record's access word: reads give zeros and writes are discarded (ibv_alloc_null_mr(3)).
pub const ACCESS_NULL: u32 = 1 << 31;

/// Bit in a record's access word: the key is a region's, so it is an L_Key too. A window has only
/// an R_Key (specification 10.6.6.2).
pub const ACCESS_REGION: u32 = 1 << 30;

/// Bit in a record's access word: the memory is a mapping of the adapter's own, which only the
/// owner can access, and not through the kernel ([`crate::dmabuf`]). Above the flags that
/// programs may set and below the optional ones.
pub const ACCESS_OWN_MAPPING: u32 = 1 << 19;

/// Reason for the refusal of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such key, or not for this protection domain or queue pair.
    Key,
    /// The key does not allow the operation.
    Rights,
    /// The range is not inside the region.
    Bounds,
}

/// An access request: the key and the queue pair that presents it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessRequest {
    /// The key.
    pub key: u32,
    /// Protection domain of the queue pair.
    pub pd: u32,
    /// The queue pair, for windows that are bound to one.
    pub queue_pair: u32,
    /// Rights that the operation needs, all of them.
    pub access: u32,
}

impl AccessRequest {
    /// Returns the request for a buffer of a work request, by its L_Key, with the rights `access`.
    #[inline]
    pub fn to_buffer(lkey: u32, pd: u32, access: u32) -> AccessRequest {
        AccessRequest {
            key: lkey,
            pd,
            queue_pair: 0,
            access: access | ACCESS_REGION,
        }
    }
}

/// A granted range of an owner's memory, valid while the section in which it was granted is open.
#[derive(Clone, Copy)]
pub struct ResolvedRange<'a> {
    record: &'a KeyRecord,
    key: u32,
    generation: u32,
    address: u64,
    length: u64,
    null: bool,
    own_mapping: bool,
}

/// A piece of a [`ResolvedRange`], by its means of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// In the owner's arena, at this offset.
    Arena {
        /// Offset in the arena's file.
        offset: u64,
        /// Length in bytes.
        length: usize,
    },
    /// Only at this address of the owner.
    Address {
        /// Virtual address in the owner.
        address: u64,
        /// Length in bytes.
        length: usize,
    },
    /// In a mapping of the owner's adapter, at this address of the owner: it stays mapped while the
    /// key is valid, and the kernel may not access it for other processes.
    Mapping {
        /// Virtual address in the owner.
        address: u64,
        /// Length in bytes.
        length: usize,
    },
    /// Nowhere: reads as zeros, discards writes.
    Null {
        /// Length in bytes.
        length: usize,
    },
}

impl Piece {
    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        match *self {
            Piece::Arena { length, .. }
            | Piece::Address { length, .. }
            | Piece::Mapping { length, .. }
            | Piece::Null { length } => length,
        }
    }
}

/// Checks whether access to `[address, address + length)` would be granted now.
///
/// # Errors
/// The reason for the refusal.
pub fn check(
    record: &KeyRecord,
    access_request: AccessRequest,
    address: u64,
    length: u64,
) -> Result<(), Refusal> {
    resolve(record, access_request, address, length).map(drop)
}

/// Checks access to `[address, address + length)` against the record of its key, inside a section.
///
/// # Errors
/// The reason for the refusal.
#[inline]
pub fn grant<'a>(
    _section: &'a Section<'_>,
    record: &'a KeyRecord,
    access_request: AccessRequest,
    address: u64,
    length: u64,
) -> Result<ResolvedRange<'a>, Refusal> {
    resolve(record, access_request, address, length)
}

/// As [`grant`], for the whole range of a key, without its bounds. The place returned is empty and
/// at its start.
///
/// # Errors
/// As [`grant`], except for bounds.
pub fn grant_whole<'a>(
    _section: &'a Section<'_>,
    record: &'a KeyRecord,
    access_request: AccessRequest,
) -> Result<ResolvedRange<'a>, Refusal> {
    resolve(record, access_request, record.iova.load(Relaxed), 0)
}

#[inline]
fn resolve(
    record: &KeyRecord,
    access_request: AccessRequest,
    address: u64,
    length: u64,
) -> Result<ResolvedRange<'_>, Refusal> {
    let generation = record.generation.load(Relaxed);
    let is_its_domain = record.pd.load(Relaxed) == access_request.pd || planted::is(Bug::Pd);
    if access_request.key == 0 || record.key.load(SeqCst) != access_request.key || !is_its_domain {
        return Err(Refusal::Key);
    }
    let bound = record.queue_pair.load(Relaxed);
    if bound != 0 && bound != access_request.queue_pair {
        return Err(Refusal::Key);
    }
    let access = record.access.load(Relaxed);
    if access & access_request.access != access_request.access && !planted::is(Bug::Access) {
        return Err(Refusal::Rights);
    }
    let from = address
        .checked_sub(record.iova.load(Relaxed))
        .ok_or(Refusal::Bounds)?;
    let to = from.checked_add(length).ok_or(Refusal::Bounds)?;
    if to > record.length.load(Relaxed) + u64::from(planted::is(Bug::Bounds)) {
        return Err(Refusal::Bounds);
    }
    let address = record.address.load(Relaxed).wrapping_add(from);
    Ok(ResolvedRange {
        record,
        key: access_request.key,
        generation,
        address,
        length,
        null: access & ACCESS_NULL != 0,
        own_mapping: access & ACCESS_OWN_MAPPING != 0,
    })
}

impl<'a> ResolvedRange<'a> {
    /// Returns whether the grant has held all the time since. Called after the last byte was
    /// touched: the owner does not wait for a thread that is stopped inside its section, but ends
    /// the right and moves the memory away.
    #[inline]
    pub fn has_held(&self) -> bool {
        std::sync::atomic::fence(Acquire);
        self.record.key.load(SeqCst) == self.key
            && self.record.generation.load(Relaxed) == self.generation
    }

    /// Returns part of the place.
    ///
    /// # Panics
    /// If the part is not inside.
    #[inline]
    pub fn part(self, offset: u64, length: u64) -> ResolvedRange<'a> {
        assert!(offset <= self.length && length <= self.length - offset);
        ResolvedRange {
            address: self.address.wrapping_add(offset),
            length,
            ..self
        }
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the virtual address in the owner.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the piece that is all of the place, if there is one: a fast path for the common
    /// case.
    #[inline]
    pub fn sole(self) -> Option<Piece> {
        let at = self.address;
        let end = at.checked_add(self.length)?;
        let length = self.length as usize;
        if self.null || length == 0 {
            return None;
        }
        for segment in &self.record.segments {
            let (first, last, offset) = load(segment);
            if first <= at && end <= last {
                let offset = offset.wrapping_add(at - first);
                return Some(Piece::Arena { offset, length });
            }
            if first < end && at < last {
                return None;
            }
        }
        Some(self.outside(at, length))
    }

    /// Returns a piece that is not in the arena.
    #[inline]
    fn outside(&self, address: u64, length: usize) -> Piece {
        match self.own_mapping {
            true => Piece::Mapping { address, length },
            false => Piece::Address { address, length },
        }
    }

    /// Returns the pieces in order. Offsets come from the owner's context table: other processes
    /// check them against the arena's length.
    #[inline]
    pub fn pieces(self) -> Pieces<'a> {
        Pieces {
            range: self,
            segment: 0,
        }
    }
}

/// Iterator over the pieces of a [`ResolvedRange`].
pub struct Pieces<'a> {
    range: ResolvedRange<'a>,
    segment: usize,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        let range = &mut self.range;
        if range.length == 0 {
            return None;
        }
        if range.null {
            let length = std::mem::take(&mut range.length) as usize;
            return Some(Piece::Null { length });
        }
        let at = range.address;
        let end = at.saturating_add(range.length);
        while let Some(segment) = range.record.segments.get(self.segment) {
            let (first, last, offset) = load(segment);
            if last <= at {
                self.segment += 1;
                continue;
            }
            if first >= end {
                break;
            }
            let (stop, arena) = if first <= at {
                (last.min(end), true)
            } else {
                (first, false)
            };
            let length = stop - at;
            range.address = stop;
            range.length -= length;
            let length = length as usize;
            return Some(if arena {
                Piece::Arena {
                    offset: offset.wrapping_add(at - first),
                    length,
                }
            } else {
                Piece::Address {
                    address: at,
                    length,
                }
            });
        }
        self.segment = range.record.segments.len();
        let length = std::mem::take(&mut range.length) as usize;
        Some(range.outside(at, length))
    }
}

/// Loads the end first: it says whether the other words are valid
/// ([`crate::key::Keys::relocate`]).
#[inline]
fn load(segment: &SegmentRecord) -> (u64, u64, u64) {
    let end = segment.end.load(Acquire);
    (
        segment.start.load(Relaxed),
        end,
        segment.offset.load(Relaxed),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, AtomicU64};

    fn segment(start: u64, end: u64, offset: u64) -> SegmentRecord {
        SegmentRecord {
            start: AtomicU64::new(start),
            end: AtomicU64::new(end),
            offset: AtomicU64::new(offset),
        }
    }

    fn record(segments: [SegmentRecord; 3]) -> KeyRecord {
        KeyRecord {
            key: AtomicU32::new(0x101),
            pd: AtomicU32::new(5),
            access: AtomicU32::new(3),
            queue_pair: AtomicU32::new(0),
            iova: AtomicU64::new(0x10_0000),
            length: AtomicU64::new(0x3000),
            address: AtomicU64::new(0x7000_0100),
            segments,
            generation: AtomicU32::new(0),
        }
    }

    fn none() -> SegmentRecord {
        segment(0, 0, 0)
    }

    const CLAIM: AccessRequest = AccessRequest {
        key: 0x101,
        pd: 5,
        queue_pair: 9,
        access: 2,
    };

    #[test]
    fn invalid_access_request_is_refused_with_its_reason() {
        let record = record([none(), none(), none()]);
        let ask =
            |access_request, address, length| check(&record, access_request, address, length).err();
        assert_eq!(ask(CLAIM, 0x10_0000, 0x3000), None);
        assert_eq!(
            ask(
                AccessRequest {
                    key: 0x102,
                    ..CLAIM
                },
                0x10_0000,
                1
            ),
            Some(Refusal::Key)
        );
        assert_eq!(
            ask(AccessRequest { key: 0, ..CLAIM }, 0x10_0000, 1),
            Some(Refusal::Key)
        );
        assert_eq!(
            ask(AccessRequest { pd: 6, ..CLAIM }, 0x10_0000, 1),
            Some(Refusal::Key)
        );
        assert_eq!(
            ask(AccessRequest { access: 4, ..CLAIM }, 0x10_0000, 1),
            Some(Refusal::Rights)
        );
        assert_eq!(ask(CLAIM, 0x0f_ffff, 1), Some(Refusal::Bounds));
        assert_eq!(ask(CLAIM, 0x10_0000, 0x3001), Some(Refusal::Bounds));
        assert_eq!(ask(CLAIM, 0x10_0001, u64::MAX), Some(Refusal::Bounds));
        record.queue_pair.store(8, SeqCst);
        assert_eq!(ask(CLAIM, 0x10_0000, 1), Some(Refusal::Key));
    }

    #[test]
    fn range_splits_into_arena_and_address_pieces_in_order() {
        let record = record([
            segment(0x7000_1000, 0x7000_2000, 0x8000),
            segment(0x7000_2000, 0x7000_3000, 0x20_0000),
            none(),
        ]);
        let range = resolve(&record, CLAIM, 0x10_0000, 0x3000).unwrap();
        let pieces: Vec<Piece> = range.pieces().collect();
        assert_eq!(
            pieces,
            [
                Piece::Address {
                    address: 0x7000_0100,
                    length: 0xf00
                },
                Piece::Arena {
                    offset: 0x8000,
                    length: 0x1000
                },
                Piece::Arena {
                    offset: 0x20_0000,
                    length: 0x1000
                },
                Piece::Address {
                    address: 0x7000_3000,
                    length: 0x100
                },
            ]
        );
        assert_eq!(range.sole(), None);
        let across = resolve(&record, CLAIM, 0x10_1efc, 8).unwrap();
        assert_eq!(across.sole(), None);
        let inside = resolve(&record, CLAIM, 0x10_0f10, 8).unwrap();
        assert_eq!(inside.sole(), inside.pieces().next());
        let before = resolve(&record, CLAIM, 0x10_0000, 8).unwrap();
        assert_eq!(before.sole(), before.pieces().next());
        assert_eq!(
            inside.pieces().collect::<Vec<_>>(),
            [Piece::Arena {
                offset: 0x8010,
                length: 8
            }]
        );
    }

    #[test]
    fn adapter_mapping_is_one_piece() {
        let record = record([none(), none(), none()]);
        record.access.store(3 | ACCESS_OWN_MAPPING, Relaxed);
        let range = resolve(&record, CLAIM, 0x10_0010, 0x20).unwrap();
        let piece = Piece::Mapping {
            address: 0x7000_0110,
            length: 0x20,
        };
        assert_eq!(range.sole(), Some(piece));
        assert_eq!(range.pieces().collect::<Vec<_>>(), [piece]);
    }

    #[test]
    fn empty_range_has_no_pieces() {
        let record = record([none(), none(), none()]);
        assert_eq!(
            resolve(&record, CLAIM, 0x10_3000, 0)
                .unwrap()
                .pieces()
                .count(),
            0
        );
    }
}
