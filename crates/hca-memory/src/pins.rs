//! Pinned pages: the pages of the arena that belong to the application, their home addresses, and
//! the number of registrations that cover each.
//!
//! A page is pinned from its adoption until it is restored. Its users are the registrations whose
//! segments contain it. A page without users is restored at once; if that fails it stays and is
//! tried again later. The process's registration lock protects all of this.

use crate::interval::{Advance, IntervalMap};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// A range of addresses that lies in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Offset of `start` in the arena.
    pub offset: u64,
}

impl Segment {
    /// Returns its range of offsets in the arena.
    pub fn offsets(&self) -> Range<u64> {
        self.offset..self.offset + (self.end - self.start)
    }
}

/// State of a range of pinned pages with consecutive addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// The application's address of the page when it was adopted.
    pub home: u64,
    /// Address of the private mapping that was there, kept without pages if possible. It is moved
    /// back when the page is restored.
    pub shadow: Option<u64>,
    /// Number of registrations that cover the page.
    pub users: u32,
    /// An eviction is moving the page: no new registration may name it by its offset.
    pub moving: bool,
}

impl Advance for Pin {
    fn advanced(&self, by: u64) -> Pin {
        Pin {
            home: self.home + by,
            shadow: self.shadow.map(|shadow| shadow + by),
            ..self.clone()
        }
    }
}

/// Identifies the segments of one registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldId(u64);

/// Pages without users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loose {
    /// Their offsets in the arena.
    pub offsets: Range<u64>,
    /// Address at which their last user had them.
    pub address: u64,
    /// Address of the mapping to move back, if it was kept.
    pub shadow: Option<u64>,
}

/// Loose pages by the address at which their last user had them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StuckPages {
    address: u64,
}

impl Advance for StuckPages {
    fn advanced(&self, by: u64) -> StuckPages {
        StuckPages {
            address: self.address + by,
        }
    }
}

/// Hashes locally counted numbers, which cannot be chosen to collide: cheaper than the standard
/// library's hasher.
#[derive(Default)]
struct CountHasher(u64);

impl Hasher for CountHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // 2^64 divided by the golden ratio; the table takes the low bits and the highest.
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

/// All pinned pages, by offset in the arena.
#[derive(Debug, Default)]
pub struct Pins {
    pinned: IntervalMap<Pin>,
    holds: HashMap<HoldId, Vec<Segment>, BuildHasherDefault<CountHasher>>,
    count: u64,
    /// Loose pages that could not be restored. Some may have users again.
    stuck: IntervalMap<StuckPages>,
    /// Offset at which the next retry begins.
    turn: u64,
}

impl Pins {
    /// Adds pages that were just adopted; they have no users yet.
    pub fn pin(&mut self, segment: Segment, shadow: Option<u64>) {
        let pin = Pin {
            home: segment.start,
            shadow,
            users: 0,
            moving: false,
        };
        self.pinned.insert(segment.offsets(), pin);
    }

    /// Returns the parts of a range of the arena that a registration may name.
    pub fn nameable(&self, offsets: Range<u64>) -> Vec<Range<u64>> {
        let mut parts: Vec<Range<u64>> = Vec::new();
        for (range, pin) in self.pinned.overlapping(offsets) {
            match parts.last_mut() {
                _ if pin.moving => (),
                Some(last) if last.end == range.start => last.end = range.end,
                _ => parts.push(range),
            }
        }
        parts
    }

    /// Adds a registration of these segments, which are all nameable.
    pub fn hold(&mut self, segments: Vec<Segment>) -> HoldId {
        for segment in &segments {
            self.pinned.update(segment.offsets(), |pin| {
                pin.users = pin.users.saturating_add(1)
            });
        }
        self.count += 1;
        let id = HoldId(self.count);
        self.holds.insert(id, segments);
        id
    }

    /// Returns the segments of a registration.
    pub fn segments(&self, id: HoldId) -> &[Segment] {
        self.holds.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Returns the segments that a registration's keys may name: none while its pages are being
    /// moved.
    pub fn places(&self, id: HoldId) -> &[Segment] {
        let segments = self.segments(id);
        let moves = |segment: &Segment| !self.moving(segment.offsets()).is_empty();
        match segments.iter().any(moves) {
            true => &[],
            false => segments,
        }
    }

    /// Ends a registration. Returns the pages that no other registration covers.
    pub fn depart(&mut self, id: HoldId) -> Vec<Loose> {
        let mut loose = Vec::new();
        for segment in self.holds.remove(&id).unwrap_or_default() {
            let offsets = segment.offsets();
            self.pinned.update(offsets.clone(), |pin| {
                pin.users = pin.users.saturating_sub(1)
            });
            for (range, pin) in self.pinned.overlapping(offsets) {
                if pin.users == 0 {
                    let address = segment.start + (range.start - segment.offset);
                    loose.push(Loose {
                        offsets: range,
                        address,
                        shadow: pin.shadow,
                    });
                }
            }
        }
        loose
    }

    /// Removes pages that were restored or are no longer mapped.
    pub fn unpin(&mut self, offsets: Range<u64>) {
        self.pinned.remove(offsets);
    }

    /// Keeps loose pages that could not be restored now.
    pub fn keep_stuck(&mut self, loose: Loose) {
        let address = loose.address;
        self.stuck.insert(loose.offsets, StuckPages { address });
    }

    /// Returns at most `count` ranges of stuck pages to retry, without those that have users again.
    pub fn retry(&mut self, count: usize) -> Vec<Loose> {
        let mut again = Vec::new();
        for _ in 0..count {
            let next = self.stuck.next_from(self.turn);
            let Some((range, stuck)) = next.or_else(|| self.stuck.next_from(0)) else {
                break;
            };
            self.turn = range.end;
            self.stuck.remove(range.clone());
            for (offsets, pin) in self.pinned.overlapping(range.clone()) {
                if pin.users == 0 {
                    let address = stuck.address + (offsets.start - range.start);
                    again.push(Loose {
                        offsets,
                        address,
                        shadow: pin.shadow,
                    });
                }
            }
        }
        again
    }

    /// Returns all pinned pages, in order of offset.
    pub fn all(&self) -> impl Iterator<Item = (Range<u64>, &Pin)> {
        self.pinned.iter()
    }

    /// Returns the pinned pages of a registration, each once.
    pub fn pages_of(&self, id: HoldId) -> Vec<(Range<u64>, Pin)> {
        let mut pages: IntervalMap<Pin> = IntervalMap::default();
        for segment in self.segments(id) {
            for (range, pin) in self.pinned.overlapping(segment.offsets()) {
                pages.insert(range, pin);
            }
        }
        pages.overlapping(0..u64::MAX).collect()
    }

    /// Sets whether pages are being moved.
    pub fn set_moving(&mut self, offsets: Range<u64>, moving: bool) {
        self.pinned.update(offsets, |pin| pin.moving = moving);
    }

    /// Returns the pages of a range that are marked as being moved.
    pub fn moving(&self, offsets: Range<u64>) -> Vec<(Range<u64>, Pin)> {
        let all = self.pinned.overlapping(offsets);
        all.filter(|(_, pin)| pin.moving).collect()
    }

    /// Returns the registrations that cover pages of a range.
    pub fn holders(&self, offsets: &Range<u64>) -> Vec<HoldId> {
        let touches = |segment: &Segment| {
            let own = segment.offsets();
            own.start < offsets.end && offsets.start < own.end
        };
        let covers =
            |(id, segments): (&HoldId, &Vec<Segment>)| segments.iter().any(touches).then_some(*id);
        self.holds.iter().filter_map(covers).collect()
    }

    /// Records that the pages at `from` were moved to `to`, clears their mark, and updates the
    /// segments that name them.
    pub fn relocate(&mut self, from: Range<u64>, to: u64) {
        for (range, pin) in self.pinned.remove(from.clone()) {
            let start = to + (range.start - from.start);
            let pin = Pin {
                moving: false,
                ..pin
            };
            self.pinned
                .insert(start..start + (range.end - range.start), pin);
        }
        for segments in self.holds.values_mut() {
            *segments = segments
                .iter()
                .flat_map(|segment| relocated(segment, &from, to))
                .collect();
            join(segments);
        }
    }
}

/// Returns the parts of a segment after its part inside `from` has moved to `to`.
fn relocated(segment: &Segment, from: &Range<u64>, to: u64) -> Vec<Segment> {
    let own = segment.offsets();
    let (first, last) = (own.start.max(from.start), own.end.min(from.end));
    if first >= last {
        return vec![*segment];
    }
    let cut = |range: Range<u64>, offset: u64| Segment {
        start: segment.start + (range.start - own.start),
        end: segment.start + (range.end - own.start),
        offset,
    };
    [
        cut(own.start..first, own.start),
        cut(first..last, to + (first - from.start)),
        cut(last..own.end, last),
    ]
    .into_iter()
    .filter(|part| part.start < part.end)
    .collect()
}

/// Joins neighbours that continue each other.
pub fn join(segments: &mut Vec<Segment>) {
    segments.dedup_by(|next, last| {
        let continues = last.end == next.start && last.offsets().end == next.offset;
        if continues {
            last.end = next.end;
        }
        continues
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAGE: u64 = 4096;

    fn segment(start: u64, pages: u64, offset: u64) -> Segment {
        Segment {
            start,
            end: start + pages * PAGE,
            offset,
        }
    }

    proptest! {
        /// One run of 32 pages; registrations begin and end; a page is loose exactly when its last
        /// registration ends.
        #[test]
        fn page_is_loose_after_its_last_registration_ends(
            script in proptest::collection::vec((any::<bool>(), 0u64..32, 1u64..32,
                any::<usize>()), 1..60),
        ) {
            const HOME: u64 = 0x1000_0000;
            const SHADOW: u64 = 0x2000_0000;
            let mut pins = Pins::default();
            let mut users = [0usize; 32];
            let mut pinned = [false; 32];
            let mut held: Vec<(HoldId, Range<u64>)> = Vec::new();
            for (take, first, length, pick) in script {
                if take || held.is_empty() {
                    let range = first..(first + length).min(32);
                    for page in range.clone() {
                        if !pinned[page as usize] {
                            pins.pin(
                                segment(HOME + page * PAGE, 1, page * PAGE),
                                Some(SHADOW + page * PAGE),
                            );
                            pinned[page as usize] = true;
                        }
                        users[page as usize] += 1;
                    }
                    let pages = range.end - range.start;
                    let whole = segment(HOME + range.start * PAGE, pages, range.start * PAGE);
                    prop_assert_eq!(pins.nameable(whole.offsets()), vec![whole.offsets()]);
                    held.push((pins.hold(vec![whole]), range));
                } else {
                    let (id, range) = held.swap_remove(pick % held.len());
                    let mut expected = Vec::new();
                    for page in range {
                        users[page as usize] -= 1;
                        if users[page as usize] == 0 {
                            expected.push(page);
                            pinned[page as usize] = false;
                        }
                    }
                    let mut given = Vec::new();
                    for loose in pins.depart(id) {
                        for at in (loose.offsets.start..loose.offsets.end).step_by(PAGE as usize) {
                            let on = at - loose.offsets.start;
                            prop_assert_eq!(loose.address + on, HOME + at);
                            prop_assert_eq!(loose.shadow.map(|shadow| shadow + on),
                                Some(SHADOW + at));
                            given.push(at / PAGE);
                        }
                        pins.unpin(loose.offsets);
                    }
                    prop_assert_eq!(given, expected);
                }
            }
            for (id, _) in held {
                for loose in pins.depart(id) {
                    pins.unpin(loose.offsets);
                }
            }
            prop_assert!(pins.pinned.is_empty());
        }
    }

    #[test]
    fn stuck_pages_are_retried_in_turn_once_each() {
        let mut pins = Pins::default();
        for page in [0, 10, 20] {
            pins.pin(segment(0x10_0000 + page * PAGE, 2, page * PAGE), None);
        }
        let loose = |page: u64, pages: u64| Loose {
            offsets: page * PAGE..(page + pages) * PAGE,
            address: 0x10_0000 + page * PAGE,
            shadow: None,
        };
        pins.keep_stuck(loose(0, 2));
        pins.keep_stuck(loose(1, 1));
        pins.keep_stuck(loose(10, 2));
        pins.keep_stuck(loose(20, 2));
        let used = pins.hold(vec![segment(0x10_0000 + 10 * PAGE, 1, 10 * PAGE)]);
        assert_eq!(pins.retry(2), [loose(0, 2), loose(11, 1)]);
        pins.keep_stuck(loose(0, 2));
        assert_eq!(pins.retry(1), [loose(20, 2)]);
        assert_eq!(pins.retry(9), [loose(0, 2)]);
        assert_eq!(pins.retry(9), []);
        assert_eq!(pins.depart(used), [loose(10, 1)]);
    }

    #[test]
    fn segments_follow_moved_pages() {
        let mut pins = Pins::default();
        pins.pin(segment(0x10_0000, 4, 0), Some(0x50_0000));
        let whole = pins.hold(vec![segment(0x10_0000, 4, 0)]);
        let half = pins.hold(vec![segment(0x10_0000, 2, 0)]);
        assert_eq!(pins.pages_of(whole).len(), 2, "the users differ");
        pins.set_moving(PAGE..2 * PAGE, true);
        assert_eq!(pins.nameable(0..4 * PAGE), [0..PAGE, 2 * PAGE..4 * PAGE]);
        let mut both = pins.holders(&(PAGE..2 * PAGE));
        both.sort();
        assert_eq!(both, [whole, half]);
        pins.relocate(PAGE..2 * PAGE, 100 * PAGE);
        assert_eq!(
            pins.segments(whole),
            [
                segment(0x10_0000, 1, 0),
                segment(0x10_1000, 1, 100 * PAGE),
                segment(0x10_2000, 2, 2 * PAGE),
            ]
        );
        assert_eq!(
            pins.segments(half),
            [segment(0x10_0000, 1, 0), segment(0x10_1000, 1, 100 * PAGE)]
        );
        assert_eq!(pins.depart(half), []);
        let loose = pins.depart(whole);
        assert_eq!(loose.len(), 3);
        assert_eq!(
            (loose[1].address, loose[1].shadow, loose[1].offsets.start),
            (0x10_1000, Some(0x50_1000), 100 * PAGE)
        );
    }
}
