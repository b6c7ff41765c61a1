//! Adapters that process one request at a time (serial scheduling): queue pairs take turns, and a
//! turn costs more if another queue pair had the one before.
//!
//! A node has a word with the queue pair that had the last turn, and a word for each queue pair
//! with requests under way. None of them is locked: a process that is killed leaves times that
//! pass.

use crate::operation::{Operation, Placement};
use crate::reservation::{LONGEST, Request, Resource, Words, occupy_side};
use crate::table::{Times, Values, interpolated};
use std::sync::atomic::Ordering;

/// Index of the word with the queue pair that had the last turn.
pub(crate) const HOLDER: usize = 9;

/// Index of the first of the words of queue pairs with requests under way.
pub(crate) const FIRST_SLOT: usize = 1;

/// Number of those words: with one more queue pair, the costs are the highest of the table.
pub(crate) const SLOTS: usize = 7;

/// Low bits of such a word: a mark of the queue pair. The others are the time, to 1,024 ns.
const MARK: u64 = (1 << 10) - 1;

/// Numbers of queue pairs with requests under way for which a turn's time is known.
pub const ACTIVE: [usize; 4] = [1, 2, 4, 8];

/// The times of a request's turn, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Turn {
    /// Time behind another request of its queue pair, while so many queue pairs ([`ACTIVE`]) have
    /// requests under way.
    pub streams: [f64; 4],
    /// Time if its queue pair had no request under way and another had the turn before.
    pub resumed: f64,
}

impl Values for Turn {
    fn of(values: [f64; 5]) -> Turn {
        let [one, two, four, eight, resumed] = values;
        Turn {
            streams: [one, two, four, eight],
            resumed,
        }
    }

    fn values(self) -> [f64; 5] {
        let [one, two, four, eight] = self.streams;
        [one, two, four, eight, self.resumed]
    }
}

impl Turn {
    /// Returns the time behind another request while `active` queue pairs have requests under way.
    fn among(&self, active: usize) -> f64 {
        let above = ACTIVE.iter().position(|one| active <= *one);
        match above {
            None => self.streams[3],
            Some(0) => self.streams[0],
            Some(above) => {
                let (from, to) = (ACTIVE[above - 1], ACTIVE[above]);
                let share = (active - from) as f64 / (to - from) as f64;
                let (low, high) = (self.streams[above - 1], self.streams[above]);
                low + share * (high - low)
            }
        }
    }
}

/// The turns of a serial adapter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Serial {
    /// Nanoseconds by which a request is delayed if another queue pair had the turn before.
    pub change: f64,
    /// By placement: of writes, and of reads.
    curves: [[Vec<(u64, Turn)>; 2]; 2],
}

impl Serial {
    /// Returns turns with this change and without any times; [`Serial::add`] adds them.
    pub fn new(change: f64) -> Serial {
        Serial {
            change,
            ..Serial::default()
        }
    }

    /// Returns the points of an operation: messages take turns as writes do, atomics as reads.
    pub(crate) fn curve(&self, operation: Operation, placement: Placement) -> &Vec<(u64, Turn)> {
        &self.curves[kind(operation)][placement as usize]
    }

    /// As [`Serial::curve`].
    pub(crate) fn curve_mut(
        &mut self,
        operation: Operation,
        placement: Placement,
    ) -> &mut Vec<(u64, Turn)> {
        &mut self.curves[kind(operation)][placement as usize]
    }

    /// Adds the times of writes or reads with so many bytes, larger ones after smaller ones.
    pub fn add(&mut self, operation: Operation, placement: Placement, bytes: u64, turn: Turn) {
        self.curve_mut(operation, placement).push((bytes, turn));
    }

    fn turn(&self, request: &Request) -> Turn {
        let keys = [
            (request.operation, request.placement),
            (request.operation, Placement::Reference),
            (Operation::Write, Placement::Reference),
        ];
        let mut curves = keys
            .into_iter()
            .map(|(operation, placement)| self.curve(operation, placement));
        let curve = curves.find(|curve| !curve.is_empty());
        curve.map_or(Turn::default(), |curve| interpolated(curve, request.bytes))
    }

    /// Takes the turn of the request's node and occupies the sides that it needs. Returns the
    /// nanoseconds for which it waits.
    pub(crate) fn reserve(&self, request: &Request, times: &Times, words: &impl Words) -> u64 {
        let Request {
            own,
            peer,
            now,
            queue_pair,
            ..
        } = *request;
        let slots = Slots::of(request, words);
        let holder = u64::from(queue_pair) + 1;
        let before = words.word(own, HOLDER);
        let before = before.map(|word| word.swap(holder, Ordering::Relaxed));
        let is_changed = before != Some(holder);
        let turn = self.turn(request);
        let time = match (slots.is_busy, is_changed) {
            (true, _) => turn.among(slots.active),
            (false, true) => turn.resumed,
            (false, false) => turn.streams[0],
        };
        let other = peer.filter(|peer| *peer != own);
        let link = match request.is_fetched() {
            false => [(peer, Resource::In), (None, Resource::Out)],
            true => [(Some(own), Resource::In), (other, Resource::Out)],
        };
        let sides = [
            ((Some(own), Resource::Out), time),
            (link[0], times.sending),
            (link[1], times.sending),
            ((Some(own), Resource::Memory), times.memory),
            ((other, Resource::Memory), times.memory),
        ];
        let waits = sides
            .into_iter()
            .map(|(side, time)| occupy_side(words, side, now, time));
        let change = if is_changed { self.change as u64 } else { 0 };
        let wait = waits.max().unwrap_or(0).saturating_add(change);
        let end = now.saturating_add(wait);
        slots.note(words, end.saturating_add(times.completion as u64));
        wait
    }
}

fn kind(operation: Operation) -> usize {
    usize::from(matches!(operation, Operation::Read | Operation::Atomic))
}

/// The queue pairs of a node with requests under way, as a request finds them.
struct Slots {
    node: usize,
    mark: u64,
    /// Whether the request's queue pair is among them.
    is_busy: bool,
    /// Their number, with that of the request.
    active: usize,
    /// Index of the word for its queue pair, and the word's value.
    place: Option<(usize, u64)>,
}

impl Slots {
    fn of(request: &Request, words: &impl Words) -> Slots {
        // Numbers of a process are next to each other; the multiplication distributes them.
        let mark = u64::from(request.queue_pair.wrapping_mul(0x9E37_79B1) >> 22);
        let (node, now) = (request.own, request.now);
        let mut slots = Slots {
            node,
            mark,
            is_busy: false,
            active: 1,
            place: None,
        };
        for index in FIRST_SLOT..FIRST_SLOT + SLOTS {
            let Some(word) = words.word(node, index) else {
                continue;
            };
            let value = word.load(Ordering::Relaxed);
            let end = value & !MARK;
            let is_under_way = end > now && end <= now.saturating_add(2 * LONGEST);
            match (is_under_way, value & MARK == mark) {
                (true, true) => {
                    slots.is_busy = true;
                    slots.place = Some((index, value));
                }
                (true, false) => slots.active += 1,
                (false, _) if slots.place.is_none() => slots.place = Some((index, value)),
                (false, _) => {}
            }
        }
        if slots.active + usize::from(slots.is_busy) > SLOTS {
            // All words are in use: there may be more queue pairs, and this may be one of them.
            slots.active = SLOTS + 1;
            slots.is_busy = true;
        }
        slots
    }

    /// Notes that the queue pair's last request is under way until `end`. If another process takes
    /// the word at the same time, or all are in use, the next request tries again.
    fn note(&self, words: &impl Words, end: u64) {
        let Some((index, value)) = self.place else {
            return;
        };
        if let Some(word) = words.word(self.node, index) {
            // To the nearest.
            let next = end.saturating_add(MARK / 2) & !MARK | self.mark;
            let order = Ordering::Relaxed;
            let _ = word.compare_exchange(value, next, order, order);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reservation::WORDS;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicU64;

    struct Memory(Vec<AtomicU64>);

    impl Words for Memory {
        fn word(&self, node: usize, index: usize) -> Option<&AtomicU64> {
            self.0.get(node * WORDS + index)
        }
    }

    fn words() -> Memory {
        Memory((0..2 * WORDS).map(|_| AtomicU64::new(0)).collect())
    }

    fn serial() -> Serial {
        let mut serial = Serial::new(40.0);
        let turn = Turn::of([100.0, 200.0, 300.0, 400.0, 150.0]);
        serial.add(Operation::Write, Placement::Reference, 8, turn);
        serial
    }

    fn request(now: u64, queue_pair: u32) -> Request {
        Request {
            operation: Operation::Write,
            placement: Placement::Reference,
            bytes: 8,
            now,
            own: 0,
            peer: Some(1),
            queue_pair,
        }
    }

    const TIMES: Times = Times {
        visible: 1000.0,
        completion: 20_000.0,
        sending: 10.0,
        memory: 0.0,
        posting: 10.0,
    };

    #[test]
    fn a_stream_waits_for_itself_and_changes_once() {
        let (words, serial) = (words(), serial());
        let wait = |now, pair| serial.reserve(&request(now, pair), &TIMES, &words);
        assert_eq!(wait(1000, 7), 40);
        assert_eq!(wait(1000, 7), 150);
        assert_eq!(wait(1000, 7), 250);
        // Much later.
        assert_eq!(wait(1_000_000, 7), 0);
    }

    #[test]
    fn streams_of_two_queue_pairs_cost_more() {
        let (words, serial) = (words(), serial());
        let wait = |now, pair| serial.reserve(&request(now, pair), &TIMES, &words);
        wait(1000, 7);
        wait(1000, 9);
        let third = wait(1000, 7);
        // It waits for both resumed ones, and pays the change; the next waits for its 200 ns.
        assert_eq!(third, 340);
        assert_eq!(wait(1000, 9), 540);
        assert_eq!(wait(1000, 9), 700);
    }

    #[test]
    fn more_queue_pairs_than_words_cost_most() {
        let (words, serial) = (words(), serial());
        let wait = |pair| serial.reserve(&request(1000, pair), &TIMES, &words);
        for _ in 0..2 {
            (0..20).for_each(|pair| {
                wait(pair);
            });
        }
        let before = wait(0);
        assert_eq!(wait(0), before - 40 + 400);
    }

    #[test]
    fn times_between_numbers_of_queue_pairs_are_in_proportion() {
        let turn = Turn::of([100.0, 200.0, 300.0, 400.0, 150.0]);
        let times = [0, 1, 2, 3, 4, 6, 8, 9].map(|active| turn.among(active));
        let wanted = [100.0, 100.0, 200.0, 250.0, 300.0, 350.0, 400.0, 400.0];
        assert_eq!(times, wanted);
    }

    proptest! {
        #[test]
        fn any_words_give_a_wait_that_ends(
            values in prop::collection::vec(any::<u64>(), 2 * WORDS),
            now in 0..1u64 << 50,
            queue_pair: u32,
        ) {
            let words = Memory(values.into_iter().map(AtomicU64::new).collect());
            let wait = serial().reserve(&request(now, queue_pair), &TIMES, &words);
            prop_assert!(wait <= LONGEST + 40);
        }
    }
}
