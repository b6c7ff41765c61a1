//! Fuzzes the consumer of the shared memory ring with arbitrary bytes in the shared cells: it stays
//! inside the cells and reports an error when it cannot continue.
#![no_main]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64};

use libfuzzer_sys::fuzz_target;
use verbena_hca::qp::ring_message::Source;
use verbena_hca_shm::ring::{CELL, Consumer, HEADER, SHORT, SHORT_HEADER, Store};

const CELLS: usize = 16;

#[repr(align(64))]
struct Cells(UnsafeCell<[u8; CELLS * CELL]>);

struct Shared {
    cells: Cells,
    head: AtomicU64,
}

// SAFETY: the number of cells is constant, and each accessor stays within its cell.
unsafe impl Store for Shared {
    fn cells(&self) -> u64 {
        CELLS as u64
    }
    fn stamp(&self, index: u64) -> &AtomicU32 {
        // SAFETY: a cell is aligned to 64 bytes and its first word is only used as this atomic.
        unsafe { &*self.writable(index).cast::<AtomicU32>() }
    }
    fn head(&self) -> &AtomicU64 {
        &self.head
    }
    fn readable(&self, index: u64) -> *const u8 {
        self.writable(index)
    }
    fn writable(&self, index: u64) -> *mut u8 {
        assert!(index < CELLS as u64);
        // SAFETY: the assertion above keeps the index in bounds.
        unsafe { self.cells.0.get().cast::<u8>().add(index as usize * CELL) }
    }
}

fuzz_target!(|input: &[u8]| {
    let mut cells = [0; CELLS * CELL];
    let length = input.len().min(cells.len());
    cells[..length].copy_from_slice(&input[..length]);
    let shared = Shared {
        cells: Cells(UnsafeCell::new(cells)),
        head: AtomicU64::new(0),
    };
    let start = shared.readable(0) as usize;
    let mut consumer = Consumer::default();
    // Each lap changes the expected stamp, so the same bytes are read at most once.
    while let Ok(Some(record)) = consumer.peek(&shared) {
        let from = record.payload as usize;
        let to = from + record.header.length as usize;
        let header = match record.header.kind & SHORT {
            0 => HEADER,
            _ => SHORT_HEADER,
        };
        assert!(from >= start + header && to <= start + CELLS * CELL);
        // SAFETY: the assertion above keeps the range inside the cells, which nothing else
        // accesses.
        let payload = unsafe { std::slice::from_raw_parts(record.payload, to - from) };
        for bytes in payload.as_chunks::<{ Source::LENGTH }>().0 {
            assert_eq!(&Source::parse(bytes).emit(), bytes);
        }
        consumer.advance(&record);
    }
    consumer.publish(&shared);
});
