use crate::ring::*;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use proptest::prelude::*;
use std::cell::UnsafeCell;

struct Local {
    cells: Box<[UnsafeCell<[u8; CELL]>]>,
    head: AtomicU64,
}

impl Local {
    fn new(cells: usize) -> Local {
        Local {
            cells: (0..cells).map(|_| UnsafeCell::new([0; CELL])).collect(),
            head: AtomicU64::new(0),
        }
    }
}

// SAFETY: the cells are one contiguous boxed slice whose length never changes; index is below
// cells() by contract.
unsafe impl Store for Local {
    fn cells(&self) -> u64 {
        self.cells.len() as u64
    }
    fn stamp(&self, index: u64) -> &AtomicU32 {
        // SAFETY: a cell's offset is a multiple of 64 in a slice of bytes that the allocator
        // aligned to at least 4.
        unsafe { &*self.writable(index).cast::<AtomicU32>() }
    }
    fn head(&self) -> &AtomicU64 {
        &self.head
    }
    fn readable(&self, index: u64) -> *const u8 {
        self.writable(index)
    }
    fn writable(&self, index: u64) -> *mut u8 {
        assert!(index < self.cells());
        // SAFETY: in bounds, just checked.
        unsafe {
            self.cells
                .as_ptr()
                .cast::<u8>()
                .cast_mut()
                .add(index as usize * CELL)
        }
    }
}

fn push(producer: &mut Producer, store: &Local, kind: u8, bytes: &[u8]) -> Option<u64> {
    producer.push(
        store,
        Header {
            kind,
            ..Header::default()
        },
        bytes.len(),
        |to| {
            // SAFETY: the ring gives space for exactly the requested length.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
        },
    )
}

fn pop(consumer: &mut Consumer, store: &Local) -> Option<(u8, Vec<u8>)> {
    let record = consumer.peek(store).unwrap()?;
    let length = record.header.length as usize;
    // SAFETY: a checked record has `length` bytes of payload.
    let bytes = unsafe { std::slice::from_raw_parts(record.payload, length) }.to_vec();
    consumer.advance(&record);
    consumer.publish(store);
    Some((record.header.kind, bytes))
}

#[test]
fn empty_ring_has_no_record() {
    let store = Local::new(8);
    assert!(Consumer::default().peek(&store).unwrap().is_none());
}

#[test]
fn full_ring_refuses_until_a_release() {
    let store = Local::new(8);
    let (mut producer, mut consumer) = (Producer::default(), Consumer::default());
    let mut pushed = 0;
    while push(&mut producer, &store, 1, b"x").is_some() {
        pushed += 1;
    }
    assert_eq!(pushed, 7, "one cell stays free for the guard");
    assert_eq!(pop(&mut consumer, &store), Some((1, b"x".to_vec())));
    assert!(push(&mut producer, &store, 2, b"y").is_some());
}

#[test]
fn payload_resembling_a_stamp_is_not_a_record() {
    let store = Local::new(8);
    let (mut producer, mut consumer) = (Producer::default(), Consumer::default());
    let forged = 1u32.to_ne_bytes().repeat(60);
    for lap in 0..100 {
        push(&mut producer, &store, 9, &forged[..(lap % 5) * 40]).unwrap();
        assert_eq!(pop(&mut consumer, &store).unwrap().0, 9);
        assert_eq!(pop(&mut consumer, &store), None);
    }
}

#[test]
fn invalid_header_is_reported() {
    let store = Local::new(8);
    let mut producer = Producer::default();
    push(&mut producer, &store, 1, b"abc").unwrap();
    for (kind, length) in [
        (1, 465u16),
        (1, u16::MAX),
        (SHORT | 1, 485),
        (PADDING, 0),
        (PADDING, 7),
        (PADDING, 9),
    ] {
        let header = Header {
            kind,
            length,
            ..Header::default()
        };
        // SAFETY: cell 0 exists, and no other thread uses it.
        unsafe {
            store
                .writable(0)
                .add(HEADER_AT)
                .cast::<Header>()
                .write_unaligned(header)
        };
        assert_eq!(Consumer::default().peek(&store).unwrap_err(), Corrupt);
    }
}

#[test]
fn padding_after_padding_is_corrupt() {
    let store = Local::new(8);
    let padding = Header {
        kind: PADDING,
        length: 8,
        ..Header::default()
    };
    // SAFETY: cell 0 exists, and no other thread uses it.
    unsafe {
        store
            .writable(0)
            .add(HEADER_AT)
            .cast::<Header>()
            .write_unaligned(padding)
    };
    let mut consumer = Consumer::default();
    // The same cell is padding in this lap and in the next: a producer that follows the reader
    // around.
    store.stamp(0).store(1, Ordering::Relaxed);
    assert!(consumer.peek(&store).unwrap().is_none());
    for lap in 1..50u32 {
        store.stamp(0).store(lap * 2 + 1, Ordering::Relaxed);
        assert!(consumer.peek(&store).unwrap().is_none());
    }
}

#[test]
fn invalid_head_is_refused() {
    let store = Local::new(8);
    let mut producer = Producer::default();
    while push(&mut producer, &store, 1, b"x").is_some() {}
    for head in [u64::MAX, 1 << 40, 8] {
        store.head.store(head, Ordering::Relaxed);
        assert!(
            push(&mut producer, &store, 1, b"x").is_none(),
            "head {head}"
        );
    }
}

#[test]
fn short_record_has_36_bytes_of_payload_in_one_cell() {
    let store = Local::new(8);
    let (mut producer, mut consumer) = (Producer::default(), Consumer::default());
    let bytes = [0xff; 37];
    assert_eq!(
        push(&mut producer, &store, SHORT | 1, &bytes[..36]),
        Some(1)
    );
    assert_eq!(push(&mut producer, &store, SHORT | 1, &bytes), Some(3));
    assert_eq!(push(&mut producer, &store, 1, &bytes[..16]), Some(4));
    let header = consumer.peek(&store).unwrap().unwrap().header;
    let expected = Header {
        kind: SHORT | 1,
        length: 36,
        ..Header::default()
    };
    assert_eq!(header, expected, "no payload in the header");
    for (kind, length) in [(SHORT | 1, 36), (SHORT | 1, 37), (1, 16)] {
        let expected = Some((kind, bytes[..length].to_vec()));
        assert_eq!(pop(&mut consumer, &store), expected);
    }
}

proptest! {
    #[test]
    fn garbage_in_cells_never_leads_outside_the_ring(
        garbage in proptest::collection::vec(any::<u8>(), 8 * CELL),
        steps in 1usize..50,
    ) {
        let store = Local::new(8);
        // SAFETY: eight cells, and no other thread uses them.
        unsafe { store.writable(0).copy_from_nonoverlapping(garbage.as_ptr(), garbage.len()) };
        let first = store.writable(0) as usize;
        store.stamp(0).store(1, Ordering::Relaxed);
        let mut consumer = Consumer::default();
        for _ in 0..steps {
            let Ok(Some(record)) = consumer.peek(&store) else { break };
            let end = record.payload as usize + record.header.length as usize;
            prop_assert!(record.payload as usize >= first && end <= first + 8 * CELL);
            consumer.advance(&record);
        }
    }

    #[test]
    fn records_round_trip_through_the_ring(
        script in proptest::collection::vec(
            (any::<bool>(), prop_oneof![Just(3), Just(SHORT | 3)], 0usize..300),
            1..400,
        ),
        cells in prop_oneof![Just(8usize), Just(16), Just(64)],
    ) {
        let store = Local::new(cells);
        let (mut producer, mut consumer) = (Producer::default(), Consumer::default());
        let mut model = std::collections::VecDeque::new();
        for (step, (write, kind, length)) in script.into_iter().enumerate() {
            if write {
                let bytes: Vec<u8> = (0..length).map(|i| (i + step) as u8).collect();
                if push(&mut producer, &store, kind, &bytes).is_some() {
                    model.push_back((kind, bytes));
                }
            } else {
                prop_assert_eq!(pop(&mut consumer, &store), model.pop_front());
            }
        }
    }
}
