//! A map from ranges of numbers to values, for page ranges whose values change from page to page.
//!
//! Ranges never overlap. A value can be continued ([`Advance`]), so a range can be cut anywhere and
//! equal neighbours are joined. All costs are in the number of ranges that a call touches.

use std::collections::BTreeMap;
use std::ops::Range;

/// A value of a range that can be continued to later positions.
pub trait Advance {
    /// Returns the value at a position `by` further on.
    fn advanced(&self, by: u64) -> Self;
}

/// Values by range.
#[derive(Debug)]
pub struct IntervalMap<V> {
    /// By first number: one past the last, and the value at the first.
    ranges: BTreeMap<u64, (u64, V)>,
}

impl<V> Default for IntervalMap<V> {
    fn default() -> IntervalMap<V> {
        IntervalMap {
            ranges: BTreeMap::new(),
        }
    }
}

impl<V: Advance + Clone + PartialEq> IntervalMap<V> {
    /// Sets the value of a range, replacing the old one.
    pub fn insert(&mut self, range: Range<u64>, value: V) {
        if range.is_empty() {
            return;
        }
        self.remove(range.clone());
        self.ranges.insert(range.start, (range.end, value));
        self.join(range);
    }

    /// Returns the parts of ranges that lie in a range, in order.
    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, V)> {
        let before = self.ranges.range(..=range.start).next_back();
        let first = before.map_or(range.start, |(start, _)| *start);
        let Range {
            start: from,
            end: to,
        } = range;
        self.ranges
            .range(first.min(to)..to)
            .filter(move |(_, (end, _))| from < to && *end > from)
            .map(move |(start, (end, value))| {
                let first = (*start).max(from);
                (first..(*end).min(to), value.advanced(first - start))
            })
    }

    /// Returns the first range that begins at `at` or later.
    pub fn next_from(&self, at: u64) -> Option<(Range<u64>, V)> {
        let (start, (end, value)) = self.ranges.range(at..).next()?;
        Some((*start..*end, value.clone()))
    }

    /// Returns all ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = (Range<u64>, &V)> {
        self.ranges
            .iter()
            .map(|(start, (end, value))| (*start..*end, value))
    }

    /// Changes the values inside a range.
    pub fn update(&mut self, range: Range<u64>, mut change: impl FnMut(&mut V)) {
        if range.is_empty() {
            return;
        }
        self.cut(range.start);
        self.cut(range.end);
        for (_, (_, value)) in self.ranges.range_mut(range.clone()) {
            change(value);
        }
        self.join(range);
    }

    /// Removes and returns everything inside a range.
    pub fn remove(&mut self, range: Range<u64>) -> Vec<(Range<u64>, V)> {
        let inside: Vec<_> = self.overlapping(range.clone()).collect();
        if !inside.is_empty() {
            self.cut(range.start);
            self.cut(range.end);
            for (part, _) in &inside {
                self.ranges.remove(&part.start);
            }
        }
        inside
    }

    /// Returns whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Makes `at` a boundary, if it lies inside a range.
    fn cut(&mut self, at: u64) {
        let Some((&start, (end, value))) = self.ranges.range_mut(..at).next_back() else {
            return;
        };
        if *end > at {
            let rest = (*end, value.advanced(at - start));
            *end = at;
            self.ranges.insert(at, rest);
        }
    }

    /// Joins neighbours that continue each other, in and next to a range.
    fn join(&mut self, range: Range<u64>) {
        let before = self.ranges.range(..range.start).next_back();
        let mut at = before.map_or(range.start, |(start, _)| *start);
        while at <= range.end {
            let Some((&start, (end, value))) = self.ranges.range(at..=range.end).next() else {
                return;
            };
            let continued = self
                .ranges
                .get(end)
                .filter(|(_, next)| *next == value.advanced(end - start))
                .map(|(next_end, _)| (*end, *next_end));
            match continued {
                Some((next, next_end)) => {
                    self.ranges.remove(&next);
                    if let Some((end, _)) = self.ranges.get_mut(&start) {
                        *end = next_end;
                    }
                    at = start;
                }
                None => at = *end,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Counts users of addresses that continue.
    #[derive(Clone, Debug, PartialEq)]
    struct Counted {
        address: u64,
        users: u32,
    }

    impl Advance for Counted {
        fn advanced(&self, by: u64) -> Counted {
            Counted {
                address: self.address + by,
                users: self.users,
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(Range<u64>, u64),
        Update(Range<u64>),
        Remove(Range<u64>),
    }

    fn range() -> impl Strategy<Value = Range<u64>> {
        (0u64..40, 0u64..12).prop_map(|(start, length)| start..start + length)
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (range(), 0u64..3).prop_map(|(range, base)| Step::Insert(range, base * 1000)),
            range().prop_map(Step::Update),
            range().prop_map(Step::Remove),
        ]
    }

    proptest! {
        #[test]
        fn interval_map_matches_a_table_of_single_numbers(
            steps in proptest::collection::vec(step(), 1..60)) {
            let mut map = IntervalMap::default();
            let mut table: Vec<Option<Counted>> = vec![None; 64];
            for step in steps {
                match step {
                    Step::Insert(range, base) => {
                        let first = Counted { address: base + range.start, users: 1 };
                        for at in range.clone() {
                            table[at as usize] = Some(first.advanced(at - range.start));
                        }
                        map.insert(range, first);
                    }
                    Step::Update(range) => {
                        for at in range.clone() {
                            if let Some(counted) = &mut table[at as usize] {
                                counted.users += 1;
                            }
                        }
                        map.update(range, |counted| counted.users += 1);
                    }
                    Step::Remove(range) => {
                        let mut expected = Vec::new();
                        for at in range.clone() {
                            expected.extend(table[at as usize].take().map(|counted| (at, counted)));
                        }
                        let taken: Vec<(u64, Counted)> = map
                            .remove(range)
                            .into_iter()
                            .flat_map(|(range, first)| {
                                let start = range.start;
                                range.map(move |at| (at, first.advanced(at - start)))
                            })
                            .collect();
                        prop_assert_eq!(taken, expected);
                    }
                }
                for at in 0..64u64 {
                    let seen = map.overlapping(at..at + 1).last().map(|(_, counted)| counted);
                    prop_assert_eq!(seen, table[at as usize].clone());
                }
                let ranges: Vec<(Range<u64>, Counted)> =
                    map.iter().map(|(range, counted)| (range, counted.clone())).collect();
                for pair in ranges.windows(2) {
                    let (first, second) = (&pair[0], &pair[1]);
                    prop_assert!(first.0.start < first.0.end && first.0.end <= second.0.start);
                    let continues = first.0.end == second.0.start
                        && first.1.advanced(first.0.end - first.0.start) == second.1;
                    prop_assert!(!continues, "neighbours that are one range");
                }
            }
        }
    }
}
