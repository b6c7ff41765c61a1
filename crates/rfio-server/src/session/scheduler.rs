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
pub struct RequestKey(u64);

/// A new request.
#[derive(Debug)]
pub struct NewRequest<T> {
    /// The client's number.
    pub id: u64,
    /// Its ordering constraints.
    pub order: Order,
    /// Maximum length of its answer's data in bytes.
    pub promised: usize,
    /// Whether it is read-only, so that it can be canceled even after it has begun.
    pub is_read_only: bool,
    /// The work to be done.
    pub task: T,
}

#[derive(Debug)]
struct ScheduledRequest<T> {
    key: RequestKey,
    id: u64,
    order: Order,
    promised: usize,
    is_read_only: bool,
    /// The work to be done, until it begins.
    waiting: Option<T>,
    is_canceled: bool,
}

/// The requests of a session in progress, in order of arrival.
#[derive(Debug)]
pub struct Scheduler<T> {
    requests: VecDeque<ScheduledRequest<T>>,
    next: u64,
    capacity: usize,
    /// Sum over all requests in progress.
    promised: usize,
    /// Whether something has changed since [`Scheduler::next`] returned nothing.
    has_changed: bool,
}

impl<T> Scheduler<T> {
    /// Creates the scheduler of a session with this protocol version.
    pub fn new(version: u16) -> Self {
        let capacity = match version {
            ANY_ORDER.. => MOST_REQUESTS as usize,
            _ => 1,
        };
        Self {
            requests: VecDeque::new(),
            next: 0,
            capacity,
            promised: 0,
            has_changed: false,
        }
    }

    /// Returns whether one more request may be accepted.
    pub fn has_room(&self) -> bool {
        self.requests.len() < self.capacity
    }

    /// Returns whether no request is in progress.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Returns the maximum length of the data of all pending answers, in bytes.
    pub fn promised(&self) -> usize {
        self.promised
    }

    /// Adds a request; there must be room.
    pub fn add(&mut self, entry: NewRequest<T>) {
        debug_assert!(self.has_room());
        let NewRequest {
            id,
            order,
            promised,
            is_read_only,
            task,
        } = entry;
        let key = RequestKey(self.next);
        self.next += 1;
        self.promised += promised;
        self.has_changed = true;
        self.requests.push_back(ScheduledRequest {
            key,
            id,
            order,
            promised,
            is_read_only,
            waiting: Some(task),
            is_canceled: false,
        });
    }

    /// Returns the earliest request that may begin, and marks it as begun.
    pub fn next(&mut self) -> Option<(RequestKey, T)> {
        if !self.has_changed {
            return None;
        }
        let may_begin = |index: &usize| {
            let this = &self.requests[*index];
            let mut earlier = self.requests.range(..*index);
            this.waiting.is_some() && !earlier.any(|other| this.order.must_follow(&other.order))
        };
        let found = (0..self.requests.len()).find(may_begin);
        self.has_changed = found.is_some();
        let begun = &mut self.requests[found?];
        begun.waiting.take().map(|task| (begun.key, task))
    }

    /// Returns whether a request that has begun was canceled.
    pub fn is_canceled(&self, key: RequestKey) -> bool {
        let mut requests = self.requests.iter();
        requests.any(|request| request.key == key && request.is_canceled)
    }

    /// Removes a request that had begun and has ended; returns whether it was canceled.
    pub fn end(&mut self, key: RequestKey) -> bool {
        let Some(index) = self.requests.iter().position(|request| request.key == key) else {
            return false;
        };
        self.remove(index).is_some_and(|ended| ended.is_canceled)
    }

    /// Cancels a request. If it had not begun, removes it and returns its work.
    pub fn cancel(&mut self, id: u64) -> Option<T> {
        let index = self.requests.iter().position(|request| request.id == id)?;
        match self.requests[index].waiting.is_some() {
            true => self.remove(index)?.waiting,
            false => {
                let begun = &mut self.requests[index];
                begun.is_canceled = begun.is_read_only;
                None
            }
        }
    }

    fn remove(&mut self, index: usize) -> Option<ScheduledRequest<T>> {
        let removed = self.requests.remove(index)?;
        self.promised -= removed.promised;
        self.has_changed = true;
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
        Cancel(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => request().prop_map(Step::Come),
            4 => Just(Step::Begin),
            3 => any::<prop::sample::Index>().prop_map(Step::End),
            1 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        ]
    }

    /// Reference implementation of the rules: all requests in progress, in order.
    #[derive(Default)]
    struct Reference {
        in_progress: Vec<(u64, Order, bool)>,
    }

    impl Reference {
        fn may_begin(&self) -> Option<usize> {
            self.in_progress
                .iter()
                .enumerate()
                .position(|(index, (_, order, begun))| {
                    let free = self.in_progress[..index]
                        .iter()
                        .all(|(_, earlier, _)| !order.must_follow(earlier));
                    !begun && free
                })
        }
    }

    fn check_schedule(version: u16, steps: Vec<Step>) -> Result<(), TestCaseError> {
        let mut scheduler = Scheduler::new(version);
        let mut reference = Reference::default();
        let mut keys: Vec<(u64, RequestKey, bool)> = Vec::new();
        let mut looks = Vec::new();
        let mut id = 0;
        for step in steps {
            match step {
                Step::Come(request) if scheduler.has_room() => {
                    let order = Order::of(&request);
                    scheduler.add(NewRequest {
                        id,
                        order: order.clone(),
                        promised: 1,
                        is_read_only: request.is_read_only(),
                        task: id,
                    });
                    reference.in_progress.push((id, order, false));
                    looks.push(request.is_read_only());
                    id += 1;
                }
                Step::Come(_) => {
                    let capacity = if version == IN_ORDER {
                        1
                    } else {
                        MOST_REQUESTS as usize
                    };
                    prop_assert_eq!(reference.in_progress.len(), capacity);
                }
                Step::Begin => {
                    let expected = reference.may_begin();
                    let began = scheduler.next();
                    prop_assert_eq!(
                        began.as_ref().map(|(_, id)| *id),
                        expected.map(|index| reference.in_progress[index].0)
                    );
                    if let (Some((key, id)), Some(index)) = (began, expected) {
                        reference.in_progress[index].2 = true;
                        keys.push((id, key, false));
                    }
                }
                Step::End(which) if !keys.is_empty() => {
                    let (id, key, is_canceled) = keys.swap_remove(which.index(keys.len()));
                    prop_assert_eq!(scheduler.end(key), is_canceled);
                    reference.in_progress.retain(|&(other, ..)| other != id);
                }
                Step::Cancel(which) if id > 0 => {
                    let wanted = which.index(id as usize) as u64;
                    let there = reference
                        .in_progress
                        .iter()
                        .position(|&(id, ..)| id == wanted);
                    let waits = there.is_some_and(|index| !reference.in_progress[index].2);
                    prop_assert_eq!(scheduler.cancel(wanted), waits.then_some(wanted));
                    match there {
                        Some(index) if waits => drop(reference.in_progress.remove(index)),
                        _ => keys
                            .iter_mut()
                            .filter(|(id, ..)| *id == wanted)
                            .for_each(|(.., is_canceled)| *is_canceled = looks[wanted as usize]),
                    }
                }
                Step::End(_) | Step::Cancel(_) => {}
            }
            prop_assert_eq!(scheduler.promised(), reference.in_progress.len());
        }
        // All requests in progress come to their end: none waits for one that has ended.
        loop {
            while let Some((key, id)) = scheduler.next() {
                keys.push((id, key, false));
            }
            match keys.pop() {
                Some((_, key, _)) => drop(scheduler.end(key)),
                None => break,
            }
        }
        prop_assert!(scheduler.is_empty());
        Ok(())
    }

    proptest! {
        #[test]
        fn requests_begin_as_the_ordering_rules_allow(
            steps in proptest::collection::vec(step(), 0..300)) {
            check_schedule(ANY_ORDER, steps)?;
        }

        #[test]
        fn version_2_runs_one_request_at_a_time(steps in proptest::collection::vec(step(), 0..60)) {
            check_schedule(IN_ORDER, steps)?;
        }
    }
}
