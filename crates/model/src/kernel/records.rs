//! Tasks whose state is a plain record: cheaper than futures where a large simulation has many.
//!
//! The records of one type are in a [`Slab`], which their [`Machine`] owns. An event names a record
//! by the number of its machine and its own. Everything that wakes a task wakes records alike, so
//! the two kinds of task wait for each other, and replacing one by the other does not change the
//! order of events.

use super::calendar::TaskId;
use super::executor::Sim;

/// Bits of a task's number before those that name its machine.
const OWN_BITS: u32 = 29;

/// Number of a machine in its simulation, from 1. Futures have number 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineNumber(u32);

impl MachineNumber {
    /// Most machines of a simulation.
    pub(super) const MOST: usize = (1 << (TaskId::BITS - OWN_BITS)) - 1;

    pub(super) fn at(index: usize) -> MachineNumber {
        assert!(index < MachineNumber::MOST, "too many machines");
        MachineNumber(index as u32 + 1)
    }

    /// Returns the task number of a record.
    pub fn task(self, record: u32) -> u32 {
        debug_assert!(record < 1 << OWN_BITS, "too many records");
        self.0 << OWN_BITS | record
    }
}

/// Returns the index of a task's machine and its record, or `None` for a future.
pub(super) fn record_of(task: TaskId) -> Option<(usize, u32)> {
    let machine = (task >> OWN_BITS) as usize;
    (machine > 0).then(|| (machine - 1, task & ((1 << OWN_BITS) - 1)))
}

/// Advances records. It must not own the simulation, which owns it.
pub trait Machine {
    /// Advances a record for which an event may have come. As futures may be polled spuriously, so
    /// may this be called: for an event of another partition than the record waits in, before its
    /// time, or after its end.
    fn advance(&self, sim: &Sim, record: u32);

    /// Prefetches a record (`depth` 0), then the state that it points to (1), some events before
    /// its turn.
    fn prefetch(&self, record: u32, depth: usize);

    /// Drops all records.
    fn clear(&self);
}

/// Records by number. The numbers of removed records are reused, the last removed first.
#[derive(Debug)]
pub struct Slab<T> {
    records: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            records: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Adds a record and returns its number.
    pub fn add(&mut self, record: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.records[number as usize] = Some(record);
                number
            }
            None => {
                self.records.push(Some(record));
                (self.records.len() - 1) as u32
            }
        }
    }

    /// Returns a record, or `None` after its removal.
    pub fn get(&mut self, number: u32) -> Option<&mut T> {
        self.records[number as usize].as_mut()
    }

    /// Returns where a record is, whether it exists or not.
    pub fn slot(&self, number: u32) -> &Option<T> {
        &self.records[number as usize]
    }

    /// Removes a record.
    pub fn remove(&mut self, number: u32) {
        self.records[number as usize] = None;
        self.free.push(number);
    }

    /// Returns the number of records for which there is memory.
    pub fn room(&self) -> usize {
        self.records.len()
    }
}
