//! Tasks by number, and tasks whose state is a plain record: cheaper than futures where a large
//! simulation has many.
//!
//! The records of one type are in a [`Slab`], which their [`Machine`] owns. An event names a record
//! by the number of its machine and its own. Everything that wakes a task wakes records alike, so
//! the two kinds of task wait for each other, and replacing one by the other does not change the
//! order of events.

use super::executor::Sim;

/// Bits of a task's number in its table.
const OWN_BITS: u32 = 29;

/// A number in a table, and its generation. The numbers of removed records are reused. Events of
/// the removed record may still come; without generations they would wake its successor, whose
/// place among the events of an instant would then depend on numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct RecordId {
    number: u32,
    generation: u32,
}

/// Identifies a task: its machine, if it is a record, and its number in that table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct TaskId(RecordId);

impl TaskId {
    /// Returns the task that is a future.
    pub(super) fn of_future(id: RecordId) -> TaskId {
        TaskId::new(0, id)
    }

    /// Returns a task of this number.
    #[cfg(test)]
    pub(super) fn numbered(number: u32) -> TaskId {
        TaskId::of_future(RecordId {
            number,
            generation: 0,
        })
    }

    fn new(machine: u32, id: RecordId) -> TaskId {
        debug_assert!(id.number < 1 << OWN_BITS, "too many tasks");
        TaskId(RecordId {
            number: machine << OWN_BITS | id.number,
            ..id
        })
    }

    /// Returns the index of the task's machine, or `None` for a future, and its number there.
    pub(super) fn parts(self) -> (Option<usize>, RecordId) {
        let machine = (self.0.number >> OWN_BITS) as usize;
        let id = RecordId {
            number: self.0.number & ((1 << OWN_BITS) - 1),
            ..self.0
        };
        (machine.checked_sub(1), id)
    }
}

/// Number of a machine in its simulation, from 1. Futures have number 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineNumber(u32);

impl MachineNumber {
    /// Most machines of a simulation.
    pub(super) const MOST: usize = (1 << (u32::BITS - OWN_BITS)) - 1;

    pub(super) fn at(index: usize) -> MachineNumber {
        assert!(index < MachineNumber::MOST, "too many machines");
        MachineNumber(index as u32 + 1)
    }

    /// Returns the task that is a record.
    pub fn task(self, record: RecordId) -> TaskId {
        TaskId::new(self.0, record)
    }
}

/// Advances records. It must not own the simulation, which owns it.
pub trait Machine {
    /// Advances a record for which an event may have come. As futures may be polled spuriously, so
    /// may this be called: for an event of another partition than the record waits in, before its
    /// time, or after its end.
    fn advance(&self, sim: &Sim, record: RecordId);

    /// Prefetches a record (`depth` 0), then the state that it points to (1), some events before
    /// its turn.
    fn prefetch(&self, record: RecordId, depth: usize);

    /// Drops all records.
    fn clear(&self);
}

/// Records by number. The numbers of removed records are reused, the last removed first.
#[derive(Debug)]
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

/// A record, or the memory of one.
#[derive(Debug)]
pub struct Slot<T> {
    /// Generation of the record, or of the next one.
    generation: u32,
    record: Option<T>,
}

impl<T> Slot<T> {
    /// Returns the record that is there now.
    pub fn record(&self) -> Option<&T> {
        self.record.as_ref()
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    /// Adds a record and returns its number.
    #[inline]
    pub fn add(&mut self, record: T) -> RecordId {
        match self.free.pop() {
            Some(number) => {
                let slot = &mut self.slots[number as usize];
                slot.record = Some(record);
                RecordId {
                    number,
                    generation: slot.generation,
                }
            }
            None => {
                self.slots.push(Slot {
                    generation: 0,
                    record: Some(record),
                });
                RecordId {
                    number: (self.slots.len() - 1) as u32,
                    generation: 0,
                }
            }
        }
    }

    /// Returns a record, or `None` after its removal.
    #[inline]
    pub fn get(&mut self, id: RecordId) -> Option<&mut T> {
        let slot = &mut self.slots[id.number as usize];
        let record = slot.record.as_mut();
        record.filter(|_| slot.generation == id.generation)
    }

    /// Returns the memory of a number.
    pub fn slot(&self, id: RecordId) -> &Slot<T> {
        &self.slots[id.number as usize]
    }

    /// Removes an existing record and returns it.
    #[inline]
    pub fn remove(&mut self, id: RecordId) -> Option<T> {
        let slot = &mut self.slots[id.number as usize];
        debug_assert!(slot.generation == id.generation, "removed twice");
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.number);
        slot.record.take()
    }

    /// Returns the number of records for which there is memory.
    pub fn room(&self) -> usize {
        self.slots.len()
    }

    /// Removes all records and frees their memory. Returns them.
    pub fn take(&mut self) -> Vec<T> {
        self.free = Vec::new();
        let slots = std::mem::take(&mut self.slots);
        slots.into_iter().filter_map(|slot| slot.record).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reused_number_does_not_name_the_removed_record() {
        let mut slab = Slab::default();
        let (one, two) = (slab.add("one"), slab.add("two"));
        slab.remove(one);
        assert_eq!(slab.get(one), None);
        let three = slab.add("three");
        assert_eq!((one.number, three.number), (0, 0));
        assert_eq!(slab.get(one), None);
        assert_eq!(slab.get(three), Some(&mut "three"));
        assert_eq!(slab.get(two), Some(&mut "two"));
        assert_eq!(slab.room(), 2);
    }

    #[test]
    fn a_task_is_named_by_machine_number_and_generation() {
        let id = RecordId {
            number: (1 << OWN_BITS) - 1,
            generation: u32::MAX,
        };
        assert_eq!(TaskId::of_future(id).parts(), (None, id));
        let last = MachineNumber::at(MachineNumber::MOST - 1);
        assert_eq!(last.task(id).parts(), (Some(MachineNumber::MOST - 1), id));
    }
}
