//! The event calendar: orders events by time, and events of one instant by the order of scheduling.
//!
//! A simulation may be divided into partitions (`place`). An event of one partition affects another
//! at least a lookahead later, so within windows of that length the partitions are independent: all
//! events of a window in one partition run, then those of the next partition. The order within a
//! partition is the same as without windows, except for events of the same picosecond that came
//! from different partitions. The benefits: a partition's state is loaded into the processor's
//! caches once per window instead of once per event, future events are appended to a list instead
//! of being sorted into one global heap, and the partitions may be divided among threads.
//! (Conservative synchronisation by windows: Nicol, "The cost of conservative synchronization in
//! parallel discrete event simulations", JACM 1993.)
//!
//! An event for another partition is added when its window ends, after the receiver's own events of
//! that window, in the order of the sending partitions. So the order of events does not depend on
//! which other partitions the same calendar has, and is the same for any number of threads.

use super::records::TaskId;
use super::time::Time;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

/// Number of a partition.
pub(super) type PartitionNumber = u32;

/// Number of prefetch announcements per task before its turn.
const STAGES: usize = 2;

/// Distance of each announcement, in events before the task's own.
const AHEAD: [usize; STAGES] = [40, 16];

/// Upcoming windows that are found without a search.
const NEAR: u64 = 64;

/// An event outside the current partition's current window.
#[derive(Clone, Copy)]
struct Entry {
    instant: Time,
    place: PartitionNumber,
    task: TaskId,
}

/// An event scheduled during a turn.
#[derive(Clone, Copy)]
struct Told {
    instant: Time,
    /// Number in the order of scheduling.
    sequence: u64,
    task: TaskId,
}

impl Told {
    /// Returns instant and number as one integer, which is compared at once.
    fn order(&self) -> u128 {
        u128::from(self.instant.0) << 64 | u128::from(self.sequence)
    }
}

impl PartialEq for Told {
    fn eq(&self, other: &Told) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Told {}

impl PartialOrd for Told {
    fn partial_cmp(&self, other: &Told) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Told {
    fn cmp(&self, other: &Told) -> Ordering {
        self.order().cmp(&other.order())
    }
}

pub(super) struct Calendar {
    /// Length of a window.
    lookahead: Time,
    /// Its reciprocal, 2^64 divided by it and rounded up; spans below `multiplied` may be divided
    /// by a multiplication with it, exactly.
    reciprocal: u64,
    multiplied: u64,
    /// The current partition, and the end of its window.
    place: PartitionNumber,
    end: Time,
    /// Events scheduled during this turn that fall before the window's end, and the instant of the
    /// first of them, or the end of time.
    agenda: BinaryHeap<Reverse<Told>>,
    soonest: Time,
    sequence: u64,
    /// The current window by partition. The current partition's entries are in time order; those
    /// before `next` have happened.
    round: Vec<Entry>,
    next: usize,
    turn_ends: usize,
    /// Announced entries of the window, per stage.
    named: [usize; STAGES],
    /// Number of the earliest window that may come next.
    coming: u64,
    /// The next windows by number modulo `NEAR`, and a bit for each that has entries.
    near: Box<[Vec<Entry>; NEAR as usize]>,
    near_used: u64,
    /// Windows beyond `near`.
    far: BTreeMap<u64, Vec<Entry>>,
    /// Events of this window for other partitions, with the partition that they come from.
    crossing: Vec<(PartitionNumber, Entry)>,
    /// Lists of past windows, kept for reuse: the last one first, as it is in the caches.
    spare: Vec<Vec<Entry>>,
    /// Position of each partition's next entry while a window is sorted.
    positions: Vec<u32>,
}

impl Calendar {
    pub(super) fn of_one_place() -> Calendar {
        Calendar {
            end: Time(u64::MAX),
            ..Calendar::of_places(Time(u64::MAX))
        }
    }

    /// Creates a calendar for partitions that affect each other after `lookahead` at the earliest.
    ///
    /// # Panics
    ///
    /// If `lookahead` is zero.
    pub(super) fn of_places(lookahead: Time) -> Calendar {
        assert!(lookahead > Time::ZERO, "places need a lookahead");
        Calendar {
            lookahead,
            reciprocal: (u64::MAX / lookahead.0).wrapping_add(1),
            // The error of a quotient is below 2^-32, so it does not reach the next whole number.
            multiplied: if lookahead.0 > 1 { 1 << 32 } else { 0 },
            place: 0,
            end: Time::ZERO,
            agenda: BinaryHeap::new(),
            soonest: Time(u64::MAX),
            sequence: 0,
            round: Vec::new(),
            next: 0,
            turn_ends: 0,
            named: [0; STAGES],
            coming: 0,
            near: Box::new([const { Vec::new() }; NEAR as usize]),
            near_used: 0,
            far: BTreeMap::new(),
            crossing: Vec::new(),
            spare: Vec::new(),
            positions: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn place(&self) -> PartitionNumber {
        self.place
    }

    /// Has `task` continue in another partition, `place`, at `instant`. It comes from partition
    /// `from`.
    ///
    /// # Panics
    ///
    /// If `instant` is within the current window.
    #[inline]
    pub(super) fn cross(
        &mut self,
        from: PartitionNumber,
        place: PartitionNumber,
        instant: Time,
        task: TaskId,
    ) {
        assert!(
            instant >= self.end,
            "place {place} received {instant} from place {from}, less than a lookahead before"
        );
        let entry = Entry {
            instant,
            place,
            task,
        };
        self.crossing.push((from, entry));
    }

    /// Returns the instant of the first event that crosses in this window.
    pub(super) fn first_crossing(&self) -> Option<Time> {
        self.crossing.iter().map(|(_, entry)| entry.instant).min()
    }

    /// Adds the events that cross, at the end of a window.
    pub(super) fn settle(&mut self) {
        let mut crossing = std::mem::take(&mut self.crossing);
        if !crossing.is_sorted_by_key(|(from, _)| *from) {
            crossing.sort_by_key(|(from, _)| *from);
        }
        for (_, entry) in crossing.drain(..) {
            self.schedule(entry.place, entry.instant, entry.task);
        }
        self.crossing = crossing;
    }

    /// Wakes `task` in `place` at `instant`.
    ///
    /// # Panics
    ///
    /// If `instant` is within the current window and `place` is not the current partition.
    #[inline]
    pub(super) fn schedule(&mut self, place: PartitionNumber, instant: Time, task: TaskId) {
        if instant < self.end {
            return self.schedule_in_turn(place, instant, task);
        }
        let number = self.number_of(instant);
        let list = &mut self.near[(number % NEAR) as usize];
        if number - self.coming >= NEAR || list.len() == list.capacity() {
            return self.schedule_in_new_memory(number, place, instant, task);
        }
        list.push(Entry {
            instant,
            place,
            task,
        });
        self.near_used |= 1 << (number % NEAR);
    }

    /// Schedules an event of the current window.
    #[inline(never)]
    fn schedule_in_turn(&mut self, place: PartitionNumber, instant: Time, task: TaskId) {
        assert!(
            place == self.place,
            "place {place} received {instant} from place {}, less than a lookahead before",
            self.place
        );
        self.soonest = self.soonest.min(instant);
        self.agenda.push(Reverse(Told {
            instant,
            sequence: self.sequence,
            task,
        }));
        self.sequence += 1;
    }

    /// Schedules an event whose window is far or needs memory.
    #[cold]
    fn schedule_in_new_memory(
        &mut self,
        number: u64,
        place: PartitionNumber,
        instant: Time,
        task: TaskId,
    ) {
        let list = match number - self.coming < NEAR {
            true => {
                self.near_used |= 1 << (number % NEAR);
                &mut self.near[(number % NEAR) as usize]
            }
            false => self.far.entry(number).or_default(),
        };
        if list.capacity() == 0 {
            *list = self.spare.pop().unwrap_or_default();
        }
        list.push(Entry {
            instant,
            place,
            task,
        });
    }

    /// Returns the number of the window of an instant after the current window: a division, which
    /// takes longer than a multiplication.
    #[inline]
    pub(super) fn number_of(&self, instant: Time) -> u64 {
        let ahead = instant.0 - self.end.0;
        let windows = match ahead < self.multiplied {
            true => ((u128::from(ahead) * u128::from(self.reciprocal)) >> 64) as u64,
            false => ahead / self.lookahead.0,
        };
        self.coming + windows
    }

    /// Takes the next event of the window, if there is one. At the start of a partition's turn,
    /// passes the tasks whose turn comes soon to `coming`, if there is one, together with the
    /// stage: each task of a window once per stage, in order.
    #[inline]
    pub(super) fn next(
        &mut self,
        coming: Option<impl FnMut(usize, TaskId)>,
    ) -> Option<(Time, TaskId)> {
        if self.next == self.turn_ends && self.agenda.is_empty() {
            self.begin_turn(coming)?;
        }
        // On a tie, entries from before the window precede those scheduled during the turn.
        if let Some(entry) = self.round[..self.turn_ends].get(self.next)
            && entry.instant <= self.soonest
        {
            self.next += 1;
            return Some((entry.instant, entry.task));
        }
        let soonest = self.soonest;
        self.next_of_agenda().map(|task| (soonest, task))
    }

    /// Takes the first event of the agenda, whose instant is `soonest`.
    #[inline(never)]
    fn next_of_agenda(&mut self) -> Option<TaskId> {
        let Reverse(told) = self.agenda.pop()?;
        let first = self.agenda.peek();
        self.soonest = first.map_or(Time(u64::MAX), |Reverse(first)| first.instant);
        Some(told.task)
    }

    /// Starts the turn of the next partition that has events, if there is one.
    #[inline(never)]
    fn begin_turn(&mut self, coming: Option<impl FnMut(usize, TaskId)>) -> Option<()> {
        let left = &mut self.round[self.next..];
        let place = left.first()?.place;
        let mut turn = 1;
        let mut is_sorted = true;
        while let Some(entry) = left.get(turn)
            && entry.place == place
        {
            is_sorted &= left[turn - 1].instant <= entry.instant;
            turn += 1;
        }
        if !is_sorted {
            sort_by_time(&mut left[..turn]);
        }
        self.place = place;
        self.turn_ends = self.next + turn;
        self.sequence = 0;
        if let Some(coming) = coming {
            self.name_coming(coming);
        }
        Some(())
    }

    fn name_coming(&mut self, mut coming: impl FnMut(usize, TaskId)) {
        for (stage, named) in self.named.iter_mut().enumerate() {
            let end = (self.turn_ends + AHEAD[stage]).min(self.round.len());
            for entry in self.round.get(*named..end).unwrap_or_default() {
                coming(stage, entry.task);
            }
            *named = end.max(*named);
        }
    }

    /// Returns the number of the next window that has events, if there is one.
    pub(super) fn next_window(&self) -> Option<u64> {
        let ahead = self.near_used.rotate_right((self.coming % NEAR) as u32);
        let near = (ahead != 0).then(|| self.coming + u64::from(ahead.trailing_zeros()));
        let far = self.far.first_key_value().map(|(number, _)| *number);
        near.into_iter().chain(far).min()
    }

    /// Starts a window after the current one, no later than the next that has events.
    pub(super) fn begin_window(&mut self, window: u64) {
        let far = self.far.first_key_value().map(|(number, _)| *number);
        let mut entries = std::mem::take(&mut self.near[(window % NEAR) as usize]);
        self.near_used &= !(1 << (window % NEAR));
        // Entries made while the window was still far precede the others.
        if far == Some(window)
            && let Some((_, mut earlier)) = self.far.pop_first()
        {
            earlier.append(&mut entries);
            entries = earlier;
        }
        self.sort_by_partition(&entries);
        entries.clear();
        self.spare.push(entries);
        (self.next, self.turn_ends) = (0, 0);
        self.named = [0; STAGES];
        self.coming = window + 1;
        self.end = Time(self.coming.saturating_mul(self.lookahead.0));
    }

    /// Copies the entries of a window into the round, sorted by partition, stably. A counting sort,
    /// as a window has many entries of few partitions.
    fn sort_by_partition(&mut self, entries: &[Entry]) {
        let places = entries.iter().map(|entry| entry.place as usize + 1);
        let places = places.max().unwrap_or(0);
        if places > 4 * entries.len() {
            self.round.clear();
            self.round.extend_from_slice(entries);
            return self.round.sort_by_key(|entry| entry.place);
        }
        let Some(any) = entries.first() else {
            return self.round.clear();
        };
        // All of them are overwritten.
        self.round.resize(entries.len(), *any);
        self.positions.clear();
        self.positions.resize(places, 0);
        for entry in entries {
            self.positions[entry.place as usize] += 1;
        }
        let mut before = 0;
        for position in &mut self.positions {
            before += std::mem::replace(position, before);
        }
        for entry in entries {
            let position = &mut self.positions[entry.place as usize];
            self.round[*position as usize] = *entry;
            *position += 1;
        }
    }

    pub(super) fn clear(&mut self) {
        self.agenda.clear();
        self.soonest = Time(u64::MAX);
        self.round.clear();
        (self.next, self.turn_ends) = (0, 0);
        self.named = [0; STAGES];
        self.near.iter_mut().for_each(Vec::clear);
        self.near_used = 0;
        self.far.clear();
        self.crossing.clear();
    }
}

/// Sorts entries by time, stably: events of one instant keep the order of scheduling.
#[inline(never)]
fn sort_by_time(entries: &mut [Entry]) {
    entries.sort_by_key(|entry| entry.instant);
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNNAMED: Option<fn(usize, TaskId)> = None;

    /// Takes the next event of this or a later window.
    fn next(calendar: &mut Calendar) -> Option<(Time, TaskId)> {
        next_telling(calendar, UNNAMED)
    }

    fn next_telling(
        calendar: &mut Calendar,
        mut coming: Option<impl FnMut(usize, TaskId)>,
    ) -> Option<(Time, TaskId)> {
        loop {
            if let Some(event) = calendar.next(coming.as_mut()) {
                return Some(event);
            }
            calendar.settle();
            let window = calendar.next_window()?;
            calendar.begin_window(window);
        }
    }

    #[test]
    fn one_partition_runs_by_time_then_by_scheduling_order() {
        let mut calendar = Calendar::of_one_place();
        for (instant, task) in [(70, 0), (30, 1), (70, 2), (30, 3)] {
            calendar.schedule(0, Time(instant), TaskId::numbered(task));
        }
        let order: Vec<_> = std::iter::from_fn(|| next(&mut calendar)).collect();
        let expected = [(30, 1), (30, 3), (70, 0), (70, 2)];
        assert_eq!(
            order,
            expected.map(|(instant, task)| (Time(instant), TaskId::numbered(task)))
        );
    }

    #[test]
    fn a_partition_finishes_its_window_before_the_next_partition() {
        let mut calendar = Calendar::of_places(Time(100));
        for (place, instant, task) in [(1, 10, 0), (0, 90, 1), (1, 120, 2), (0, 20, 3), (1, 10, 4)]
        {
            calendar.schedule(place, Time(instant), TaskId::numbered(task));
        }
        let first = next(&mut calendar);
        assert_eq!(first, Some((Time(20), TaskId::numbered(3))));
        // Scheduled within the window: runs before the partition's own later event and before the
        // other partition.
        calendar.schedule(0, Time(80), TaskId::numbered(5));
        let order: Vec<_> =
            std::iter::from_fn(|| next(&mut calendar).map(|(_, task)| task)).collect();
        assert_eq!(order, [5, 1, 0, 4, 2].map(TaskId::numbered));
    }

    #[test]
    fn every_event_of_a_window_is_announced_once_at_each_stage() {
        let mut calendar = Calendar::of_places(Time(100));
        const TASKS: u32 = 500;
        for task in 0..TASKS {
            // Two windows; some partitions have one event in each, some have many.
            let (place, window) = (task * task % 37, u64::from(task % 2));
            let task = TaskId::numbered(task);
            calendar.schedule(place, Time(100 * window + 50), task);
        }
        let mut named = [(); STAGES].map(|()| Vec::new());
        let mut taken = Vec::new();
        while let Some((_, task)) = next_telling(
            &mut calendar,
            Some(|stage: usize, task| named[stage].push(task)),
        ) {
            taken.push(task);
            assert!(named.iter().all(|named| named.len() >= taken.len()));
            let ahead = named[0].len() - taken.len();
            assert!(ahead <= AHEAD[0] + TASKS as usize / 37 + 20, "{ahead}");
        }
        assert_eq!(taken.len(), TASKS as usize);
        assert!(named.iter().all(|named| *named == taken));
    }

    #[test]
    #[should_panic(expected = "less than a lookahead before")]
    fn an_event_for_another_partition_within_the_lookahead_panics() {
        let mut calendar = Calendar::of_places(Time(100));
        calendar.schedule(0, Time(0), TaskId::numbered(0));
        next(&mut calendar);
        calendar.cross(0, 1, Time(50), TaskId::numbered(1));
    }

    /// A window that only other threads have events in: nothing happens, nothing happens twice.
    #[test]
    fn a_window_without_events_is_empty() {
        let mut calendar = Calendar::of_places(Time(100));
        calendar.schedule(3, Time(0), TaskId::numbered(1));
        calendar.schedule(3, Time(350), TaskId::numbered(2));
        assert_eq!(next(&mut calendar), Some((Time(0), TaskId::numbered(1))));
        assert_eq!(calendar.next(UNNAMED), None);
        calendar.begin_window(2);
        assert_eq!(calendar.next(UNNAMED), None);
        assert_eq!(next(&mut calendar), Some((Time(350), TaskId::numbered(2))));
    }

    /// Events of one instant: a partition's own come first, then those that crossed, in the order
    /// of the partitions that they come from, regardless of the order in which they are passed on.
    #[test]
    fn events_that_cross_are_in_the_order_of_their_origins() {
        let task = TaskId::numbered;
        for passed in [[(1, 10), (1, 11), (2, 20)], [(2, 20), (1, 10), (1, 11)]] {
            let mut calendar = Calendar::of_places(Time(100));
            calendar.schedule(0, Time(0), task(0));
            assert_eq!(next(&mut calendar), Some((Time(0), task(0))));
            for (from, number) in passed {
                calendar.cross(from, 0, Time(150), task(number));
            }
            calendar.schedule(0, Time(150), task(1));
            assert_eq!(calendar.first_crossing(), Some(Time(150)));
            let order: Vec<_> =
                std::iter::from_fn(|| next(&mut calendar).map(|(_, task)| task)).collect();
            assert_eq!(order, [1, 10, 11, 20].map(task));
        }
    }

    /// Compares with a list that is searched for the first event each time; events schedule others,
    /// some far ahead.
    #[test]
    fn the_calendar_equals_a_list_sorted_by_window_partition_and_time() {
        const LOOKAHEAD: u64 = 100;
        for (seed, places) in [(1, 1), (2, 3), (3, 40), (4, 5000)] {
            let mut calendar = Calendar::of_places(Time(LOOKAHEAD));
            let mut list: Vec<(u64, PartitionNumber, Time, TaskId)> = Vec::new();
            let mut number: u64 = seed;
            let mut draw = |below: u64| {
                number = number
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (number >> 33) % below
            };
            let add = |calendar: &mut Calendar, list: &mut Vec<_>, place, instant: u64| {
                let task = TaskId::numbered(list.len() as u32);
                calendar.schedule(place, Time(instant), task);
                list.push((instant / LOOKAHEAD, place, Time(instant), task));
            };
            for _ in 0..200 {
                add(
                    &mut calendar,
                    &mut list,
                    draw(places) as PartitionNumber,
                    draw(500),
                );
            }
            let mut done = vec![false; 200];
            for _ in 0..3000 {
                let first = (0..list.len())
                    .filter(|&n| !done[n])
                    .min_by_key(|&n| list[n]);
                let expected = first.map(|n| (list[n].2, list[n].3));
                assert_eq!(next(&mut calendar), expected);
                let Some(n) = first else { break };
                done[n] = true;
                let (_, place, instant, _) = list[n];
                assert_eq!(calendar.place(), place);
                // Soon in the same partition, or anywhere at least a lookahead later, now and then
                // by thousands of windows.
                for _ in 0..draw(3) {
                    let far = [1, 1, 70, 5000][draw(4) as usize];
                    match draw(2) {
                        0 => add(&mut calendar, &mut list, place, instant.0 + draw(90)),
                        _ => {
                            let later = instant.0 + LOOKAHEAD * (1 + draw(far)) + draw(100);
                            add(
                                &mut calendar,
                                &mut list,
                                draw(places) as PartitionNumber,
                                later,
                            );
                        }
                    }
                    done.push(false);
                }
            }
        }
    }
}
