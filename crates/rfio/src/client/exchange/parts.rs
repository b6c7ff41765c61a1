//! Which parts of an area of memory requests have, so that no two that are under way have the same.

use std::ops::Range;

use crate::client::data::PARTS;

/// The parts of one area.
#[derive(Debug, Default)]
pub struct Parts {
    taken: [bool; PARTS],
}

impl Parts {
    /// The first of so many parts in a row that nobody has; they are taken then.
    pub fn take(&mut self, count: usize) -> Option<Range<usize>> {
        let first = self
            .taken
            .windows(count)
            .position(|row| !row.contains(&true))?;
        let row = first..first + count;
        self.taken[row.clone()].fill(true);
        Some(row)
    }

    /// Nobody has these any more.
    pub fn free(&mut self, row: Range<usize>) {
        self.taken[row].fill(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_is_taken_twice_and_freed_ones_are_found() {
        let mut parts = Parts::default();
        let first = parts.take(1).unwrap();
        let rest = parts.take(PARTS - 1).unwrap();
        assert_eq!((first.clone(), rest), (0..1, 1..PARTS));
        assert_eq!(parts.take(1), None);
        parts.free(first);
        assert_eq!(parts.take(2), None);
        assert_eq!(parts.take(1), Some(0..1));
    }
}
