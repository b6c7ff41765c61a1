//! Requests that wait for an answer.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::{Duration, Instant};

use verbena_subnet::{End, Packet};

use crate::files::FileId;
use crate::header::Header;

/// Names a request: transaction ID with the agent's number, and class.
pub type Key = (u64, u8);

/// A request that waits.
#[derive(Debug, Clone)]
pub struct Request {
    /// The file that it was written to.
    pub file: FileId,
    /// The port that it leaves by.
    pub from: End,
    /// Its header as written.
    pub header: Header,
    /// The packet, to be sent again.
    pub packet: Packet,
    /// Number of times that it may be sent again.
    pub retries: u32,
    /// Tells this request from earlier ones of the same key.
    number: u64,
}

/// The requests that wait, by key and by time.
#[derive(Debug, Default)]
pub struct Pending {
    requests: HashMap<Key, Request>,
    deadlines: BinaryHeap<Reverse<(Instant, u64, Key)>>,
    number: u64,
}

impl Pending {
    /// Returns whether a request of this key waits.
    pub fn has(&self, key: Key) -> bool {
        self.requests.contains_key(&key)
    }

    /// Returns the number of requests that wait.
    pub fn count(&self) -> usize {
        self.requests.len()
    }

    /// Adds a request, which waits from now on.
    pub fn add(&mut self, key: Key, file: FileId, from: End, header: Header, packet: Packet) {
        let request = Request {
            file,
            from,
            header,
            packet,
            retries: header.retries,
            number: 0,
        };
        self.wait(key, request, Instant::now());
    }

    fn wait(&mut self, key: Key, mut request: Request, now: Instant) {
        self.number += 1;
        request.number = self.number;
        let timeout = Duration::from_millis(request.header.timeout.into());
        let deadline = now + timeout;
        self.deadlines.push(Reverse((deadline, self.number, key)));
        self.requests.insert(key, request);
        // Answered requests leave their deadlines behind.
        if self.deadlines.len() > 1024 && self.deadlines.len() > 4 * self.requests.len() {
            let requests = &self.requests;
            self.deadlines.retain(|Reverse((_, number, key))| {
                requests
                    .get(key)
                    .is_some_and(|request| request.number == *number)
            });
        }
    }

    /// Returns the request that an answer is for, which waits no more.
    pub fn answered(&mut self, key: Key) -> Option<Request> {
        self.requests.remove(&key)
    }

    /// Forgets the requests of a file.
    pub fn forget(&mut self, file: FileId, agent: Option<u32>) {
        self.requests.retain(|_, request| {
            request.file != file || agent.is_some_and(|agent| agent != request.header.agent)
        });
    }

    /// Returns the time of the next deadline.
    pub fn next(&mut self) -> Option<Instant> {
        while let Some(Reverse((deadline, number, key))) = self.deadlines.peek().copied() {
            if self
                .requests
                .get(&key)
                .is_some_and(|request| request.number == number)
            {
                return Some(deadline);
            }
            self.deadlines.pop();
        }
        None
    }

    /// Returns a request whose time is over: with `true` if it is to be sent again, for which it
    /// waits anew.
    pub fn expired(&mut self, now: Instant) -> Option<(Request, bool)> {
        if self.next()? > now {
            return None;
        }
        let Reverse((_, _, key)) = self.deadlines.pop()?;
        let mut request = self.requests.remove(&key)?;
        if request.retries == 0 {
            return Some((request, false));
        }
        request.retries -= 1;
        self.wait(key, request.clone(), now);
        Some((request, true))
    }
}
