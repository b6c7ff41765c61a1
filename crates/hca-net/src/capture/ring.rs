//! The shared memory between a captured process and its capturer: a ring of packets, and the number
//! of lost ones.

use super::Seen;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64};
use verbena_hca_os::errno::Result;
use verbena_hca_os::mapping::{Mapping, MappingRights};
use verbena_hca_os::memfd::Memfd;
use verbena_hca_shm::ring::{CELL, Header, Store};

const CONTROL: usize = 4096;
/// Capacity, which bounds how far a capturer may be behind: some ten milliseconds of a process that
/// only sends.
const CELLS: usize = 1 << 18;
const HEAD: usize = 0;
const LOST: usize = 64;
const LENGTH: usize = CONTROL + CELLS * CELL;

/// The shared memory of one captured process.
#[derive(Debug)]
pub(super) struct Ring {
    mapping: Mapping,
}

impl Ring {
    /// Creates a ring and the file to hand to the capturer.
    pub(super) fn create() -> Result<(Ring, Memfd)> {
        let memfd = Memfd::create(c"verbena-capture", LENGTH)?;
        let mapping = Mapping::of(&memfd, MappingRights::ReadWrite)?;
        Ok((Ring { mapping }, memfd))
    }

    /// Maps the ring that a captured process handed over.
    pub(super) fn of_captured(fd: OwnedFd) -> Result<Ring> {
        let memfd = Memfd::adopt(fd, LENGTH)?;
        let mapping = Mapping::of(&memfd, MappingRights::ReadWrite)?;
        Ok(Ring { mapping })
    }

    /// Returns the number of packets that did not fit so far.
    pub(super) fn lost(&self) -> &AtomicU64 {
        self.mapping.word64(LOST)
    }
}

// SAFETY: the constants above place CELLS whole cells, a power of two, inside the mapping.
unsafe impl Store for Ring {
    fn cells(&self) -> u64 {
        CELLS as u64
    }
    fn stamp(&self, index: u64) -> &AtomicU32 {
        // SAFETY: a cell's first word is aligned and only accessed atomically.
        unsafe { &*self.writable(index).cast::<AtomicU32>() }
    }
    fn head(&self) -> &AtomicU64 {
        self.mapping.word64(HEAD)
    }
    fn readable(&self, index: u64) -> *const u8 {
        self.writable(index)
    }
    fn writable(&self, index: u64) -> *mut u8 {
        let index = index as usize & (CELLS - 1);
        // SAFETY: masked to the ring, which lies inside the mapping.
        unsafe { self.mapping.base().add(CONTROL + index * CELL) }
    }
}

/// Kind of a record with a packet; its payload is the frame from the IP header to the ICRC.
const PACKET: u8 = 1;

/// Returns the header of a packet's record.
pub(super) fn emit(seen: Seen, time: u64) -> Header {
    Header {
        kind: PACKET,
        flags: match seen {
            Seen::Sent => 0,
            Seen::Received => 1,
            Seen::Damaged => 2,
        },
        address: time,
        ..Header::default()
    }
}

/// Parses a header; None for one that no captured process of this version writes.
pub(super) fn parse(header: &Header) -> Option<(Seen, u64)> {
    let seen = match (header.kind, header.flags) {
        (PACKET, 0) => Seen::Sent,
        (PACKET, 1) => Seen::Received,
        (PACKET, 2) => Seen::Damaged,
        _ => return None,
    };
    Some((seen, header.address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use verbena_hca_shm::ring::{Consumer, Producer};

    #[test]
    fn packets_round_trip_until_the_ring_is_full() {
        let (ring, file) = Ring::create().unwrap();
        let other = Ring::of_captured(
            std::os::fd::AsFd::as_fd(&file)
                .try_clone_to_owned()
                .unwrap(),
        );
        let other = other.unwrap();
        let (mut producer, mut consumer) = (Producer::default(), Consumer::default());
        let frame = [7u8; 4200];
        let mut pushed = 0;
        loop {
            // SAFETY: the ring gives space for the frame's length.
            let fill = |to: *mut u8| unsafe { to.copy_from(frame.as_ptr(), frame.len()) };
            match producer.push(&ring, emit(Seen::Received, pushed), frame.len(), fill) {
                Some(_) => pushed += 1,
                None => break,
            }
        }
        ring.lost().fetch_add(1, Ordering::Relaxed);
        assert!(pushed > 3000, "{pushed}");
        for expected in 0..pushed {
            let record = consumer.peek(&other).unwrap().unwrap();
            assert_eq!(parse(&record.header), Some((Seen::Received, expected)));
            assert_eq!(usize::from(record.header.length), frame.len());
            consumer.advance(&record);
        }
        assert!(consumer.peek(&other).unwrap().is_none());
        assert_eq!(other.lost().load(Ordering::Relaxed), 1);
    }

    #[test]
    fn ring_file_of_wrong_length_is_refused() {
        let file = Memfd::create(c"verbena-capture", CONTROL).unwrap();
        let fd = std::os::fd::AsFd::as_fd(&file)
            .try_clone_to_owned()
            .unwrap();
        assert!(Ring::of_captured(fd).is_err());
    }
}
