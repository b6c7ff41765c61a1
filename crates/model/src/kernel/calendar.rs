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
    /// What it does in this window; the number keeps the order of scheduling.
    agenda: BinaryHeap<Reverse<(Time, u64, TaskId)>>,
    sequence: u64,
    /// The rest of this window by place, from `next` on.
    round: Vec<Entry>,
    next: usize,
    /// How far in it tasks have been named beforehand, by stage.
    named: [usize; STAGES],
    /// Later windows by number.
    windows: BTreeMap<u64, Vec<Entry>>,
    /// Lists of former windows, to be used again.
    spare: Vec<Vec<Entry>>,
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
            named: [0; STAGES],
            windows: BTreeMap::new(),
            spare: Vec::new(),
        }
    }

    /// Whose turn it is.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// Wakes `task` in `place` at `instant`.
    pub(super) fn schedule(&mut self, place: Place, instant: Time, task: TaskId) {
        if instant >= self.end {
            let window = instant.0 / self.lookahead.0;
            let spare = &mut self.spare;
            let later = self.windows.entry(window);
            later
                .or_insert_with(|| spare.pop().unwrap_or_default())
                .push(Entry {
                    instant,
                    place,
                    task,
                });
        } else {
            assert!(
                place == self.place,
                "place {place} was told of {instant} by place {}, less than a lookahead before",
                self.place
            );
            self.note(instant, task);
        }
    }

    fn note(&mut self, instant: Time, task: TaskId) {
        self.agenda.push(Reverse((instant, self.sequence, task)));
        self.sequence += 1;
    }

    /// Takes the next event.
    pub(super) fn next(&mut self) -> Option<(Time, TaskId)> {
        loop {
            if let Some(Reverse((instant, _, task))) = self.agenda.pop() {
                return Some((instant, task));
            }
            if self.next == self.round.len() {
                self.begin_window()?;
            }
            self.begin_turn();
        }
    }

    /// Names the tasks whose turn comes soon, to `coming` with the stage: each of a window at every stage, in their order.
    pub(super) fn name_coming(&mut self, mut coming: impl FnMut(usize, TaskId)) {
        for (stage, named) in self.named.iter_mut().enumerate() {
            let end = (self.next + AHEAD[stage]).min(self.round.len());
            for entry in self.round.get(*named..end).unwrap_or_default() {
                coming(stage, entry.task);
            }
            *named = end.max(*named);
        }
    }

    /// The next place of this window has its turn.
    fn begin_turn(&mut self) {
        self.place = self.round[self.next].place;
        while let Some(entry) = self.round.get(self.next).copied() {
            if entry.place != self.place {
                break;
            }
            self.note(entry.instant, entry.task);
            self.next += 1;
        }
    }

    /// The next window with events begins, if there is one.
    fn begin_window(&mut self) -> Option<()> {
        let (window, entries) = self.windows.pop_first()?;
        let mut former = std::mem::replace(&mut self.round, entries);
        former.clear();
        self.spare.push(former);
        self.round.sort_by_key(|entry| entry.place);
        self.next = 0;
        self.named = [0; STAGES];
        self.end = Time((window + 1).saturating_mul(self.lookahead.0));
        Some(())
    }

    /// Forgets everything that was to happen.
    pub(super) fn clear(&mut self) {
        self.agenda.clear();
        self.round.clear();
        self.next = 0;
        self.named = [0; STAGES];
        self.windows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_place_goes_by_time_and_then_by_scheduling() {
        let mut calendar = Calendar::of_one_place();
        for (instant, task) in [(70, 0), (30, 1), (70, 2), (30, 3)] {
            calendar.schedule(0, Time(instant), task);
        }
        let order: Vec<_> = std::iter::from_fn(|| calendar.next()).collect();
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
        assert_eq!(calendar.next(), Some((Time(20), 3)));
        // It goes on in the same window: before its own later event, and before the other place's.
        calendar.schedule(0, Time(80), 5);
        let order: Vec<_> = std::iter::from_fn(|| calendar.next().map(|(_, task)| task)).collect();
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
        while let Some((_, task)) = calendar.next() {
            calendar.name_coming(|stage, task| named[stage].push(task));
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
        calendar.next();
        calendar.schedule(1, Time(50), 1);
    }
}
