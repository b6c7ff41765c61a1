//! What is to happen, in the order in which it will: by time, and at one time in the order of scheduling.
//!
//! A simulation may have places. What happens in one place is felt in another no sooner than a lookahead later, so
//! within windows of that length each place is on its own: all of a window's events of one place run, then those of the
//! next. The order within a place is the same as without windows but for events of the same picosecond that came from
//! different places. What it is good for: the state of a place is looked at once a window and not once an event, and
//! what lies ahead is appended to a list instead of sorted into a heap of everything. (Conservative synchronisation by
//! windows: Nicol, "The cost of conservative synchronization in parallel discrete event simulations", JACM 1993; here
//! for the sake of the processor's caches.)

use super::executor::TaskId;
use super::time::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Number of a place.
pub(super) type Place = u32;

/// A task is named so many times before its turn.
const STAGES: usize = 2;

/// How many events before it that is.
const AHEAD: [usize; STAGES] = [48, 16];

/// Windows behind the present one that are found without a search.
const NEAR: u64 = 64;

/// Something scheduled beyond what the present place does in the present window.
#[derive(Clone, Copy)]
struct Entry {
    instant: Time,
    place: Place,
    task: TaskId,
}

/// Events to come.
pub(super) struct Calendar {
    /// Length of a window.
    lookahead: Time,
    /// Whose turn it is, and until when.
    place: Place,
    end: Time,
    /// What it was told in the course of its turn to do before the window's end; the number keeps the order of scheduling.
    agenda: BinaryHeap<Reverse<(Time, u64, TaskId)>>,
    sequence: u64,
    /// This window by place; of the present place's entries, which are in the order of time, those up to `next` have happened.
    round: Vec<Entry>,
    next: usize,
    turn_ends: usize,
    /// How far in it tasks have been named beforehand, by stage.
    named: [usize; STAGES],
    /// Number of the window that is next at the earliest.
    coming: u64,
    /// The next windows by number, counted round, and a bit for each that has entries.
    near: Box<[Vec<Entry>; NEAR as usize]>,
    near_used: u64,
    /// Windows beyond these.
    far: BTreeMap<u64, Vec<Entry>>,
    /// Lists of former windows, to be used again.
    spare: Vec<Vec<Entry>>,
    order: ByPlace,
}

impl Calendar {
    /// Of one place.
    pub(super) fn of_one_place() -> Calendar {
        Calendar {
            end: Time(u64::MAX),
            ..Calendar::of_places(Time(u64::MAX))
        }
    }

    /// Of places that feel each other after `lookahead` at the earliest; that is not zero.
    pub(super) fn of_places(lookahead: Time) -> Calendar {
        assert!(lookahead > Time::ZERO, "places need a lookahead");
        Calendar {
            lookahead,
            place: 0,
            end: Time::ZERO,
            agenda: BinaryHeap::new(),
            sequence: 0,
            round: Vec::new(),
            next: 0,
            turn_ends: 0,
            named: [0; STAGES],
            coming: 0,
            near: Box::new([const { Vec::new() }; NEAR as usize]),
            near_used: 0,
            far: BTreeMap::new(),
            spare: Vec::new(),
            order: ByPlace::default(),
        }
    }

    /// Whose turn it is.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// Wakes `task` in `place` at `instant`.
    pub(super) fn schedule(&mut self, place: Place, instant: Time, task: TaskId) {
        if instant >= self.end {
            let entry = Entry {
                instant,
                place,
                task,
            };
            self.window(instant.0 / self.lookahead.0).push(entry);
        } else {
            assert!(
                place == self.place,
                "place {place} was told of {instant} by place {}, less than a lookahead before",
                self.place
            );
            self.agenda.push(Reverse((instant, self.sequence, task)));
            self.sequence += 1;
        }
    }

    /// The list of a window that is still to come.
    fn window(&mut self, number: u64) -> &mut Vec<Entry> {
        // At the very end of time the window's end is no more than that, and there is no next one.
        let number = number.max(self.coming);
        if number - self.coming < NEAR {
            self.near_used |= 1 << (number % NEAR);
            return &mut self.near[(number % NEAR) as usize];
        }
        let spare = &mut self.spare;
        let made = || spare.pop().unwrap_or_default();
        self.far.entry(number).or_insert_with(made)
    }

    /// Takes the next event. When a place's turn begins, tasks whose turn comes soon are named to `coming` with the stage: each of a
    /// window at every stage, in their order.
    pub(super) fn next(&mut self, coming: impl FnMut(usize, TaskId)) -> Option<(Time, TaskId)> {
        if self.next == self.turn_ends && self.agenda.is_empty() {
            if self.next == self.round.len() {
                self.begin_window()?;
            }
            self.begin_turn();
            self.name_coming(coming);
        }
        let planned = self.round[..self.turn_ends].get(self.next);
        let told = self.agenda.peek().map(|Reverse((instant, ..))| *instant);
        // What was planned before the window began was scheduled before what its turn brought.
        match planned {
            Some(entry) if told.is_none_or(|told| entry.instant <= told) => {
                self.next += 1;
                Some((entry.instant, entry.task))
            }
            _ => {
                let Reverse((instant, _, task)) = self.agenda.pop()?;
                Some((instant, task))
            }
        }
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

    /// The next place of this window has its turn.
    fn begin_turn(&mut self) {
        let left = &mut self.round[self.next..];
        self.place = left[0].place;
        let others = left.iter().position(|entry| entry.place != self.place);
        let turn = others.unwrap_or(left.len());
        // Stable: at one instant in the order of scheduling.
        left[..turn].sort_by_key(|entry| entry.instant);
        self.turn_ends = self.next + turn;
        self.sequence = 0;
    }

    /// The next window with events begins, if there is one.
    fn begin_window(&mut self) -> Option<()> {
        let ahead = self.near_used.rotate_right((self.coming % NEAR) as u32);
        let near = (ahead != 0).then(|| self.coming + u64::from(ahead.trailing_zeros()));
        let far = self.far.first_key_value().map(|(number, _)| *number);
        let window = near.into_iter().chain(far).min()?;
        self.round.clear();
        // What was scheduled when the window was far was scheduled first.
        if far == Some(window)
            && let Some((_, mut entries)) = self.far.pop_first()
        {
            self.round.append(&mut entries);
            self.spare.push(entries);
        }
        if near == Some(window) {
            self.round.append(&mut self.near[(window % NEAR) as usize]);
            self.near_used &= !(1 << (window % NEAR));
        }
        self.order.put(&mut self.round);
        (self.next, self.turn_ends) = (0, 0);
        self.named = [0; STAGES];
        self.coming = window + 1;
        self.end = Time(self.coming.saturating_mul(self.lookahead.0));
        Some(())
    }

    /// Forgets everything that was to happen.
    pub(super) fn clear(&mut self) {
        self.agenda.clear();
        self.round.clear();
        (self.next, self.turn_ends) = (0, 0);
        self.named = [0; STAGES];
        self.near.iter_mut().for_each(Vec::clear);
        self.near_used = 0;
        self.far.clear();
    }
}

/// Puts entries in the order of their places; those of a place stay as they are. By counting, for a window has many of few places.
#[derive(Default)]
struct ByPlace {
    /// Where the next entry of each place goes.
    positions: Vec<u32>,
    sorted: Vec<Entry>,
}

impl ByPlace {
    fn put(&mut self, entries: &mut Vec<Entry>) {
        let places = entries.iter().map(|entry| entry.place as usize + 1);
        let places = places.max().unwrap_or(0);
        if places > 4 * entries.len() {
            return entries.sort_by_key(|entry| entry.place);
        }
        self.positions.clear();
        self.positions.resize(places, 0);
        for entry in &*entries {
            self.positions[entry.place as usize] += 1;
        }
        let mut before = 0;
        for position in &mut self.positions {
            before += std::mem::replace(position, before);
        }
        self.sorted.clone_from(entries);
        for entry in &*entries {
            let position = &mut self.positions[entry.place as usize];
            self.sorted[*position as usize] = *entry;
            *position += 1;
        }
        std::mem::swap(entries, &mut self.sorted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unnamed(_: usize, _: TaskId) {}

    #[test]
    fn one_place_goes_by_time_and_then_by_scheduling() {
        let mut calendar = Calendar::of_one_place();
        for (instant, task) in [(70, 0), (30, 1), (70, 2), (30, 3)] {
            calendar.schedule(0, Time(instant), task);
        }
        let order: Vec<_> = std::iter::from_fn(|| calendar.next(unnamed)).collect();
        let expected = [(30, 1), (30, 3), (70, 0), (70, 2)];
        assert_eq!(order, expected.map(|(instant, task)| (Time(instant), task)));
    }

    #[test]
    fn a_place_does_all_of_a_window_before_the_next_place_does() {
        let mut calendar = Calendar::of_places(Time(100));
        for (place, instant, task) in [(1, 10, 0), (0, 90, 1), (1, 120, 2), (0, 20, 3), (1, 10, 4)]
        {
            calendar.schedule(place, Time(instant), task);
        }
        assert_eq!(calendar.next(unnamed), Some((Time(20), 3)));
        // It goes on in the same window: before its own later event, and before the other place's.
        calendar.schedule(0, Time(80), 5);
        let order: Vec<_> =
            std::iter::from_fn(|| calendar.next(unnamed).map(|(_, task)| task)).collect();
        assert_eq!(order, [5, 1, 0, 4, 2]);
    }

    #[test]
    fn every_event_of_a_window_is_named_beforehand_once_at_each_stage() {
        let mut calendar = Calendar::of_places(Time(100));
        const TASKS: TaskId = 500;
        for task in 0..TASKS {
            // Two windows; some places have an event of each, some have many.
            let (place, window) = (task * task % 37, u64::from(task % 2));
            calendar.schedule(place, Time(100 * window + 50), task);
        }
        let mut named = [(); STAGES].map(|()| Vec::new());
        let mut taken = Vec::new();
        while let Some((_, task)) = calendar.next(|stage, task| named[stage].push(task)) {
            taken.push(task);
            assert!(named.iter().all(|named| named.len() >= taken.len()));
            let ahead = named[0].len() - taken.len();
            assert!(ahead <= AHEAD[0] + TASKS as usize / 37 + 20, "{ahead}");
        }
        assert_eq!(taken.len(), TASKS as usize);
        assert_eq!(named, [taken.clone(), taken]);
    }

    #[test]
    #[should_panic(expected = "less than a lookahead before")]
    fn a_place_cannot_tell_another_sooner_than_a_lookahead() {
        let mut calendar = Calendar::of_places(Time(100));
        calendar.schedule(0, Time(0), 0);
        calendar.next(unnamed);
        calendar.schedule(1, Time(50), 1);
    }

    /// Events that schedule others, some far ahead, against a list that is searched for the first each time.
    #[test]
    fn it_is_what_a_list_in_order_of_window_place_and_time_would_be() {
        const LOOKAHEAD: u64 = 100;
        for (seed, places) in [(1, 1), (2, 3), (3, 40), (4, 5000)] {
            let mut calendar = Calendar::of_places(Time(LOOKAHEAD));
            let mut list: Vec<(u64, Place, Time, TaskId)> = Vec::new();
            let mut number: u64 = seed;
            let mut draw = |below: u64| {
                number = number
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (number >> 33) % below
            };
            let add = |calendar: &mut Calendar, list: &mut Vec<_>, place, instant: u64| {
                let task = list.len() as TaskId;
                calendar.schedule(place, Time(instant), task);
                list.push((instant / LOOKAHEAD, place, Time(instant), task));
            };
            for _ in 0..200 {
                add(&mut calendar, &mut list, draw(places) as Place, draw(500));
            }
            let mut done = vec![false; 200];
            for _ in 0..3000 {
                let first = (0..list.len())
                    .filter(|&n| !done[n])
                    .min_by_key(|&n| list[n]);
                let expected = first.map(|n| (list[n].2, list[n].3));
                assert_eq!(calendar.next(unnamed), expected);
                let Some(n) = first else { break };
                done[n] = true;
                let (_, place, instant, _) = list[n];
                assert_eq!(calendar.place(), place);
                // In its own place soon, or anywhere a lookahead later or more, now and then by thousands of windows.
                for _ in 0..draw(3) {
                    let far = [1, 1, 70, 5000][draw(4) as usize];
                    match draw(2) {
                        0 => add(&mut calendar, &mut list, place, instant.0 + draw(90)),
                        _ => {
                            let later = instant.0 + LOOKAHEAD * (1 + draw(far)) + draw(100);
                            add(&mut calendar, &mut list, draw(places) as Place, later);
                        }
                    }
                    done.push(false);
                }
            }
        }
    }
}
