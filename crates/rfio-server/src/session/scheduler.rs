//! The scheduler of a session: decides which requests may begin and which must wait, and tracks
//! cancellations.
//!
//! # Rules
//!
//! - A request begins when no unfinished earlier request must precede it
//!   ([`verbena_rfio_protocol::order`]). Of those that may begin, the earliest does.
//! - In version 2 every request must follow every earlier one, and none is accepted before the
//!   previous one has ended.
//! - A request has all the memory that it needs before it is added. A waiting request waits only
//!   for requests that have begun, so requests of one session cannot deadlock.

use std::collections::VecDeque;

use verbena_rfio_protocol::ANY_ORDER;
use verbena_rfio_protocol::order::Order;

/// Maximum number of requests in progress per session. Further requests of the client wait.
pub const MOST_REQUESTS: u32 = 64;

/// Identifies a request in progress; the client's number may be used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key(u64);

/// A new request.
#[derive(Debug)]
pub struct Entry<T> {
    /// The client's number.
    pub id: u64,
    /// Its ordering constraints.
    pub order: Order,
    /// Maximum length of its answer's data in bytes.
    pub promised: usize,
    /// Whether it is read-only, so that it can be canceled even after it has begun.
    pub only_looks: bool,
    /// The work to be done.
    pub task: T,
}

#[derive(Debug)]
struct Listed<T> {
    key: Key,
    id: u64,
    order: Order,
    promised: usize,
    only_looks: bool,
    /// The work to be done, until it begins.
    waiting: Option<T>,
    taken_back: bool,
}

/// The requests of a session in progress, in order of arrival.
#[derive(Debug)]
pub struct Lane<T> {
    listed: VecDeque<Listed<T>>,
    next: u64,
    room: usize,
    /// Sum over all requests in progress.
    promised: usize,
    /// Whether something has changed since [`Lane::next`] returned nothing.
    stirred: bool,
}

impl<T> Lane<T> {
    /// Creates the scheduler of a session with this protocol version.
    pub fn new(version: u16) -> Self {
        let room = match version {
            ANY_ORDER.. => MOST_REQUESTS as usize,
            _ => 1,
        };
        Self {
            listed: VecDeque::new(),
            next: 0,
            room,
            promised: 0,
            stirred: false,
        }
    }

    /// Returns whether one more request may be accepted.
    pub fn has_room(&self) -> bool {
        self.listed.len() < self.room
    }

    /// Returns whether no request is in progress.
    pub fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// Returns the maximum length of the data of all pending answers, in bytes.
    pub fn promised(&self) -> usize {
        self.promised
    }

    /// Adds a request; there must be room.
    pub fn add(&mut self, entry: Entry<T>) {
        debug_assert!(self.has_room());
        let Entry {
            id,
            order,
            promised,
            only_looks,
            task,
        } = entry;
        let key = Key(self.next);
        self.next += 1;
        self.promised += promised;
        self.stirred = true;
        self.listed.push_back(Listed {
            key,
            id,
            order,
            promised,
            only_looks,
            waiting: Some(task),
            taken_back: false,
        });
    }

    /// Returns the earliest request that may begin, and marks it as begun.
    pub fn next(&mut self) -> Option<(Key, T)> {
        if !self.stirred {
            return None;
        }
        let may_begin = |index: &usize| {
            let this = &self.listed[*index];
            let mut earlier = self.listed.range(..*index);
            this.waiting.is_some() && !earlier.any(|other| this.order.must_follow(&other.order))
        };
        let found = (0..self.listed.len()).find(may_begin);
        self.stirred = found.is_some();
        let begun = &mut self.listed[found?];
        begun.waiting.take().map(|task| (begun.key, task))
    }

    /// Returns whether a request that has begun was canceled.
    pub fn is_taken_back(&self, key: Key) -> bool {
        let mut listed = self.listed.iter();
        listed.any(|listed| listed.key == key && listed.taken_back)
    }

    /// Removes a request that had begun and has ended; returns whether it was canceled.
    pub fn end(&mut self, key: Key) -> bool {
        let Some(index) = self.listed.iter().position(|listed| listed.key == key) else {
            return false;
        };
        self.remove(index).is_some_and(|ended| ended.taken_back)
    }

    /// Cancels a request. If it had not begun, removes it and returns its work.
    pub fn take_back(&mut self, id: u64) -> Option<T> {
        let index = self.listed.iter().position(|listed| listed.id == id)?;
        match self.listed[index].waiting.is_some() {
            true => self.remove(index)?.waiting,
            false => {
                let begun = &mut self.listed[index];
                begun.taken_back = begun.only_looks;
                None
            }
        }
    }

    fn remove(&mut self, index: usize) -> Option<Listed<T>> {
        let removed = self.listed.remove(index)?;
        self.promised -= removed.promised;
        self.stirred = true;
        Some(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use verbena_rfio_protocol::request::{OnHandle, OnPath, Ping, Read, Request, Truncate};
    use verbena_rfio_protocol::types::{Handle, Path, Range};
    use verbena_rfio_protocol::{ANY_ORDER, IN_ORDER};

    fn request() -> impl Strategy<Value = Request> {
        let path = Path::new("/p").unwrap();
        let on = OnPath { path };
        prop_oneof![
            (0u64..3).prop_map(|handle| Request::Read(Read {
                handle: Handle(handle),
                range: Range {
                    offset: 0,
                    length: 1
                },
                checksums: false,
                window: None,
            })),
            (0u64..3).prop_map(|handle| Request::Truncate(Truncate {
                handle: Handle(handle),
                size: 0,
            })),
            (0u64..3).prop_map(|handle| Request::Close(OnHandle {
                handle: Handle(handle),
            })),
            Just(Request::Status(on.clone())),
            Just(Request::Unlink(on)),
            Just(Request::Ping(Ping {})),
        ]
    }

    /// An event of a session.
    #[derive(Debug, Clone)]
    enum Step {
        Come(Request),
        Begin,
        End(prop::sample::Index),
        TakeBack(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => request().prop_map(Step::Come),
            4 => Just(Step::Begin),
            3 => any::<prop::sample::Index>().prop_map(Step::End),
            1 => any::<prop::sample::Index>().prop_map(Step::TakeBack),
        ]
    }

    /// Reference implementation of the rules: all requests in progress, in order.
    #[derive(Default)]
    struct Reference {
        under_way: Vec<(u64, Order, bool)>,
    }

    impl Reference {
        fn may_begin(&self) -> Option<usize> {
            self.under_way
                .iter()
                .enumerate()
                .position(|(index, (_, order, begun))| {
                    let free = self.under_way[..index]
                        .iter()
                        .all(|(_, earlier, _)| !order.must_follow(earlier));
                    !begun && free
                })
        }
    }

    fn obeys_the_law(version: u16, steps: Vec<Step>) -> Result<(), TestCaseError> {
        let mut lane = Lane::new(version);
        let mut reference = Reference::default();
        let mut keys: Vec<(u64, Key, bool)> = Vec::new();
        let mut looks = Vec::new();
        let mut id = 0;
        for step in steps {
            match step {
                Step::Come(request) if lane.has_room() => {
                    let order = Order::of(&request);
                    lane.add(Entry {
                        id,
                        order: order.clone(),
                        promised: 1,
                        only_looks: request.only_looks(),
                        task: id,
                    });
                    reference.under_way.push((id, order, false));
                    looks.push(request.only_looks());
                    id += 1;
                }
                Step::Come(_) => {
                    let room = if version == IN_ORDER {
                        1
                    } else {
                        MOST_REQUESTS as usize
                    };
                    prop_assert_eq!(reference.under_way.len(), room);
                }
                Step::Begin => {
                    let expected = reference.may_begin();
                    let began = lane.next();
                    prop_assert_eq!(
                        began.as_ref().map(|(_, id)| *id),
                        expected.map(|index| reference.under_way[index].0)
                    );
                    if let (Some((key, id)), Some(index)) = (began, expected) {
                        reference.under_way[index].2 = true;
                        keys.push((id, key, false));
                    }
                }
                Step::End(which) if !keys.is_empty() => {
                    let (id, key, taken_back) = keys.swap_remove(which.index(keys.len()));
                    prop_assert_eq!(lane.end(key), taken_back);
                    reference.under_way.retain(|&(other, ..)| other != id);
                }
                Step::TakeBack(which) if id > 0 => {
                    let wanted = which.index(id as usize) as u64;
                    let there = reference
                        .under_way
                        .iter()
                        .position(|&(id, ..)| id == wanted);
                    let waits = there.is_some_and(|index| !reference.under_way[index].2);
                    prop_assert_eq!(lane.take_back(wanted), waits.then_some(wanted));
                    match there {
                        Some(index) if waits => drop(reference.under_way.remove(index)),
                        _ => keys
                            .iter_mut()
                            .filter(|(id, ..)| *id == wanted)
                            .for_each(|(.., taken_back)| *taken_back = looks[wanted as usize]),
                    }
                }
                Step::End(_) | Step::TakeBack(_) => {}
            }
            prop_assert_eq!(lane.promised(), reference.under_way.len());
        }
        // All requests in progress come to their end: none waits for one that has ended.
        loop {
            while let Some((key, id)) = lane.next() {
                keys.push((id, key, false));
            }
            match keys.pop() {
                Some((_, key, _)) => drop(lane.end(key)),
                None => break,
            }
        }
        prop_assert!(lane.is_empty());
        Ok(())
    }

    proptest! {
        #[test]
        fn requests_begin_as_the_ordering_rules_allow(steps in proptest::collection::vec(step(), 0..300)) {
            obeys_the_law(ANY_ORDER, steps)?;
        }

        #[test]
        fn version_2_runs_one_request_at_a_time(steps in proptest::collection::vec(step(), 0..60)) {
            obeys_the_law(IN_ORDER, steps)?;
        }
    }
}
