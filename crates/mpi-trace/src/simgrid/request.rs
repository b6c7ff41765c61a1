//! The active requests of a rank.

use super::action::Key;
use super::matching::Message;
use crate::part::Part;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// To or from `MPI_PROC_NULL`.
    Null,
    Send,
    Receive,
    Collective,
}

#[derive(Debug)]
struct Request {
    kind: Kind,
    slot: usize,
    got: Option<Message>,
}

/// Requests in order of their beginning.
#[derive(Debug, Default)]
pub(super) struct Requests {
    active: BTreeMap<u64, Request>,
    /// Numbers by key; some have ended since.
    by_key: HashMap<Key, VecDeque<u64>>,
    /// Requests that can end without blocking.
    ready: BTreeSet<u64>,
    free: Vec<usize>,
    next: u64,
}

impl Requests {
    /// Begins a request; returns its number and slot.
    pub fn begin(&mut self, key: Key, kind: Kind) -> (u64, usize) {
        // Used and free slots together are all slots so far.
        let slot = self.free.pop().unwrap_or(self.active.len());
        let number = self.next;
        self.next += 1;
        let got = None;
        self.active.insert(number, Request { kind, slot, got });
        self.by_key.entry(key).or_default().push_back(number);
        if matches!(kind, Kind::Null | Kind::Send) {
            self.ready.insert(number);
        }
        (number, slot)
    }

    /// Makes a request ready, with the message of a receive.
    pub fn make_ready(&mut self, number: u64, message: Option<Message>) {
        if let Some(request) = self.active.get_mut(&number) {
            request.got = message;
            self.ready.insert(number);
        }
    }

    /// Returns the oldest active request with a key.
    pub fn find(&mut self, key: Key) -> Option<u64> {
        let queue = self.by_key.get_mut(&key)?;
        while let Some(&number) = queue.front() {
            if self.active.contains_key(&number) {
                return Some(number);
            }
            queue.pop_front();
        }
        None
    }

    pub fn is_ready(&self, number: u64) -> bool {
        self.ready.contains(&number)
    }

    pub fn are_all_ready(&self) -> bool {
        self.ready.len() == self.active.len()
    }

    pub fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Returns the oldest request that can end.
    pub fn first_ready(&self) -> Option<u64> {
        self.ready.first().copied()
    }

    /// Ends a request that is ready; returns its part of the call.
    pub fn end(&mut self, number: u64) -> Option<Part> {
        let Request { kind, slot, got } = self.active.remove(&number)?;
        self.ready.remove(&number);
        self.free.push(slot);
        match (kind, got) {
            (Kind::Null, _) => None,
            (Kind::Receive, Some(message)) => Some(Part::Received {
                slot,
                peer: message.from,
                tag: message.tag,
                bytes: message.bytes,
            }),
            _ => Some(Part::Done { slot }),
        }
    }

    /// Ends all requests, which are ready; returns their parts.
    pub fn end_all(&mut self) -> Vec<Part> {
        let numbers: Vec<u64> = self.active.keys().copied().collect();
        let parts = numbers.into_iter().filter_map(|number| self.end(number));
        let parts = parts.collect();
        self.by_key.clear();
        parts
    }
}
