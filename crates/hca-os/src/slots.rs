//! A queue of slots that are filled and emptied in place, for elements of some hundred bytes with
//! lists, whose memory is worth keeping for the next (work requests).

use std::ops::Range;

/// The contents of a slot.
pub trait Slot: Default {
    /// Drops all references when the element is finished.
    fn release(&mut self);
}

/// Elements in the order in which they were appended. Positions count from the oldest.
#[derive(Debug, Default)]
pub struct Slots<T> {
    /// Empty, or a power of two in length.
    slots: Vec<T>,
    first: usize,
    count: usize,
}

/// Initial number of slots.
const FEW: usize = 4;

impl<T: Slot> Slots<T> {
    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    fn index(&self, place: usize) -> usize {
        (self.first + place) & (self.slots.len() - 1)
    }

    /// Returns the element at a position.
    #[inline]
    pub fn get(&self, place: usize) -> Option<&T> {
        if place >= self.count {
            return None;
        }
        self.slots.get(self.index(place))
    }

    /// Returns the element at a position.
    #[inline]
    pub fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        if place >= self.count {
            return None;
        }
        let index = self.index(place);
        self.slots.get_mut(index)
    }

    /// Returns the oldest element.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        match self.count {
            0 => None,
            _ => self.slots.get(self.first),
        }
    }

    /// Returns the elements at some positions, in order.
    pub fn range(&self, places: Range<usize>) -> impl Iterator<Item = &T> {
        places.filter_map(|place| self.get(place))
    }

    /// Appends a slot for a new element. It still has the contents of an old one.
    #[inline]
    pub fn append(&mut self) -> &mut T {
        if self.count == self.slots.len() {
            self.grow();
        }
        self.count += 1;
        let index = self.index(self.count - 1);
        &mut self.slots[index]
    }

    /// Returns a slot for an element before all others.
    pub fn prepend(&mut self) -> &mut T {
        if self.count == self.slots.len() {
            self.grow();
        }
        self.count += 1;
        self.first = self.index(self.slots.len() - 1);
        &mut self.slots[self.first]
    }

    #[cold]
    fn grow(&mut self) {
        self.slots.rotate_left(self.first);
        self.first = 0;
        let count = (2 * self.slots.len()).max(FEW);
        self.slots.resize_with(count, T::default);
    }

    /// Finishes the oldest element and frees its slot.
    #[inline(always)]
    pub fn remove_front(&mut self) {
        if self.count > 0
            && let Some(slot) = self.slots.get_mut(self.first)
        {
            slot.release();
            self.first = self.index(1);
            self.count -= 1;
        }
    }

    /// Takes the oldest element out.
    pub fn take_front(&mut self) -> Option<T> {
        let front = std::mem::take(self.get_mut(0)?);
        self.remove_front();
        Some(front)
    }

    /// Takes all elements out.
    pub fn take_all(&mut self) -> Vec<T> {
        let mut all = std::mem::take(self);
        all.slots.rotate_left(all.first);
        all.slots.truncate(all.count);
        all.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[derive(Default)]
    struct Number {
        index: u64,
    }

    impl Slot for Number {
        fn release(&mut self) {}
    }

    proptest! {
        #[test]
        fn slots_return_elements_in_order(steps in proptest::collection::vec(0u8..7, 0..200)) {
            let mut slots = Slots::<Number>::default();
            let mut expected = VecDeque::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    0..=2 => {
                        slots.append().index = number as u64;
                        expected.push_back(number as u64);
                    }
                    4 => {
                        slots.prepend().index = number as u64;
                        expected.push_front(number as u64);
                    }
                    5 => {
                        let taken = slots.take_front().map(|one| one.index);
                        prop_assert_eq!(taken, expected.pop_front());
                    }
                    3 => {
                        slots.remove_front();
                        expected.pop_front();
                    }
                    _ => {
                        let taken: Vec<u64> = slots.take_all().iter().map(|one| one.index)
                            .collect();
                        prop_assert_eq!(taken, expected.drain(..).collect::<Vec<u64>>());
                    }
                }
                prop_assert_eq!(slots.len(), expected.len());
                prop_assert_eq!(slots.is_empty(), expected.is_empty());
                let seen: Vec<u64> = slots.range(0..slots.len()).map(|one| one.index).collect();
                prop_assert!(seen.iter().eq(expected.iter()));
                prop_assert_eq!(slots.front().map(|one| one.index), expected.front().copied());
                prop_assert!(slots.get(expected.len()).is_none());
            }
        }
    }
}
