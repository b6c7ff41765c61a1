//! The ring between one producer and one consumer.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use verbena_hca_loom::ring::{CELL, Consumer, Header, Producer, Store};
use verbena_hca_loom::sync::{AtomicU32, AtomicU64};

const CELLS: usize = 4;

struct Model {
    stamps: [AtomicU32; CELLS],
    cells: [UnsafeCell<[u8; CELL]>; CELLS],
    head: AtomicU64,
}

impl Model {
    fn new() -> Model {
        Model {
            stamps: std::array::from_fn(|_| AtomicU32::new(0)),
            cells: std::array::from_fn(|_| UnsafeCell::new([0; CELL])),
            head: AtomicU64::new(0),
        }
    }
}

// SAFETY: always four cells; the arrays check the indices. Records here take one cell each.
unsafe impl Store for Model {
    fn cells(&self) -> u64 {
        CELLS as u64
    }
    fn stamp(&self, index: u64) -> &AtomicU32 {
        &self.stamps[index as usize]
    }
    fn head(&self) -> &AtomicU64 {
        &self.head
    }
    fn readable(&self, index: u64) -> *const u8 {
        // Loom reports an error here if a write is not ordered before this read.
        self.cells[index as usize].with(|cell| cell.cast())
    }
    fn writable(&self, index: u64) -> *mut u8 {
        // Loom reports an error here if a read is not ordered before this write.
        self.cells[index as usize].with_mut(|cell| cell.cast())
    }
}

fn push(producer: &mut Producer, model: &Model, value: u64) -> bool {
    let header = Header {
        kind: 1,
        word: value,
        ..Header::default()
    };
    producer.push(model, header, 0, |_| ()).is_some()
}

/// Would find: a stamp that is published before the record, or a `head` that is published before
/// the last read.
#[test]
fn records_arrive_whole_in_order_before_room_is_reused() {
    loom::model(|| {
        let model = Arc::new(Model::new());
        let (mut producer, mut consumer) = (Producer::default(), Consumer::default());
        // Two records wait, so the writer soon reuses the cells that the reader is reading.
        for value in 0..2 {
            assert!(push(&mut producer, &model, value));
        }
        let writer = thread::spawn({
            let model = model.clone();
            move || {
                let mut pushed = 0;
                for value in [2, 3, 4] {
                    if push(&mut producer, &model, value) {
                        pushed += 1;
                    } else {
                        break;
                    }
                }
                pushed
            }
        });
        let mut seen = Vec::new();
        for _ in 0..3 {
            if let Some(record) = consumer.peek(&*model).unwrap() {
                seen.push(record.header.word);
                consumer.advance(&record);
            }
            consumer.publish(&*model);
        }
        let pushed = writer.join().unwrap();
        while let Some(record) = consumer.peek(&*model).unwrap() {
            seen.push(record.header.word);
            consumer.advance(&record);
        }
        let expected: Vec<u64> = (0..2 + pushed).collect();
        assert_eq!(seen, expected);
    });
}
