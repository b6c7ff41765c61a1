//! Writes a rank's file, for importers and for tests of the reader.

use crate::block::{MARK, framed};
use crate::number::put;
use crate::part::{CALL, Part};
use crate::rank::{DEFINED, ENTRY, NAME, PREDICTED, RecordedOn};
use std::collections::HashMap;

/// A rank's file under construction.
#[derive(Debug, Clone)]
pub struct Writer {
    /// The first block.
    head: Vec<u8>,
    /// The other complete blocks.
    file: Vec<u8>,
    block: Vec<u8>,
    names: HashMap<String, usize>,
    numbers: HashMap<Vec<u8>, usize>,
    next: Vec<usize>,
    last: usize,
    computing: Ticks,
    within: Ticks,
}

/// Times of one kind in whole ticks: the remainder is carried over to the next time, so that sums
/// are exact.
#[derive(Debug, Clone)]
struct Ticks {
    tick: u64,
    left: u64,
}

impl Ticks {
    fn put(&mut self, to: &mut Vec<u8>, nanoseconds: u64) {
        let time = self.left.saturating_add(nanoseconds);
        put(to, time / self.tick);
        self.left = time % self.tick;
    }
}

impl Writer {
    /// Creates the file of rank `rank` of `size`, with times in nanoseconds.
    pub fn new(rank: usize, size: usize, library: &str) -> Writer {
        Writer::with_tick(rank, size, library, 1)
    }

    /// Like [`new`](Writer::new), with times in ticks of `tick` nanoseconds, at least 1.
    pub fn with_tick(rank: usize, size: usize, library: &str, tick: u64) -> Writer {
        let mut head = Vec::new();
        put(&mut head, rank as u64);
        put(&mut head, size as u64);
        put(&mut head, tick);
        put(&mut head, library.len() as u64);
        head.extend(library.as_bytes());
        Writer {
            head,
            file: Vec::new(),
            block: Vec::new(),
            names: HashMap::new(),
            numbers: HashMap::new(),
            next: Vec::new(),
            last: 0,
            computing: Ticks { tick, left: 0 },
            within: Ticks { tick, left: 0 },
        }
    }

    /// Adds where the rank was recorded; at most once.
    pub fn recorded_on(&mut self, on: RecordedOn) {
        put(&mut self.head, on.host);
        put(&mut self.head, on.processors);
    }

    /// Adds a call with its preceding computing time and its duration, both in nanoseconds.
    pub fn call(&mut self, name: &str, parts: &[Part], computing: u64, within: u64) {
        let name = self.name(name);
        let mut entry = Vec::new();
        parts.iter().for_each(|part| part.write(&mut entry));
        put(&mut entry, CALL);
        put(&mut entry, name as u64);
        let number = match self.numbers.get(&entry) {
            Some(&number) if self.next[self.last] == number => {
                put(&mut self.block, PREDICTED);
                number
            }
            Some(&number) => {
                put(&mut self.block, ENTRY + number as u64);
                number
            }
            None => {
                put(&mut self.block, DEFINED);
                put(&mut self.block, entry.len() as u64);
                self.block.extend(&entry);
                self.next.push(0);
                self.numbers.insert(entry, self.next.len() - 1);
                self.next.len() - 1
            }
        };
        self.next[self.last] = number;
        self.last = number;
        self.computing.put(&mut self.block, computing);
        self.within.put(&mut self.block, within);
    }

    fn name(&mut self, name: &str) -> usize {
        if let Some(&number) = self.names.get(name) {
            return number;
        }
        put(&mut self.block, NAME);
        put(&mut self.block, name.len() as u64);
        self.block.extend(name.as_bytes());
        self.names.insert(name.to_owned(), self.names.len());
        self.names.len() - 1
    }

    /// Ends a block: the calls so far are readable from then on.
    pub fn flush(&mut self) {
        if !self.block.is_empty() {
            self.file.extend(framed(&self.block));
            self.block.clear();
        }
    }

    /// Returns the file.
    pub fn finish(mut self) -> Vec<u8> {
        self.flush();
        [MARK.as_slice(), &framed(&self.head), &self.file].concat()
    }
}
