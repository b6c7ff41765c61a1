//! The state shared by all processes of an in-process job, and its progress.

use super::timing::{Posted, Timing};
use crate::completion::{Completion, CompletionKind, Status};
use crate::in_process::{DATAGRAM_HEADER, Registered, Segment};
use crate::operation::{Operation, Signal};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

/// Page size passed to timing policies.
const PAGE: usize = 4096;
/// Number of rounds without change or future event after which the job is stuck.
const STUCK_ROUNDS: u32 = 3;

pub(super) struct Request {
    pub id: u64,
    pub operation: Operation,
    pub local: Vec<Segment>,
    pub inline: Option<Vec<u8>>,
    pub signal: Signal,
    /// The receiving queue pair of a datagram, or the shared receive queue of XRC.
    pub target: Option<u32>,
    pub ready: u64,
}

#[derive(Default)]
pub(super) struct PairState {
    pub rank: usize,
    pub datagram: bool,
    pub target_half: bool,
    pub send_queue: usize,
    pub receive_queue: usize,
    pub shared_receive: Option<u32>,
    pub peer: Option<u32>,
    pub failed: bool,
    pub depth: usize,
    pub outgoing: VecDeque<Request>,
    pub receives: VecDeque<(u64, Vec<Segment>)>,
    pub last_ready: u64,
}

#[derive(Default)]
pub(super) struct SharedState {
    pub receives: VecDeque<(u64, Vec<Segment>)>,
    pub completions: Option<usize>,
}

/// The shared state of an in-process job.
pub struct World {
    pub(super) now: u64,
    pub(super) size: usize,
    pub(super) stuck: bool,
    changes: u64,
    seen: u64,
    idle_rounds: u32,
    wake_ups: BTreeSet<u64>,
    busy: Vec<u64>,
    pub(super) registered: Registered,
    pub(super) pairs: BTreeMap<u32, PairState>,
    pub(super) shared: HashMap<u32, SharedState>,
    pub(super) queues: Vec<VecDeque<Completion>>,
    pub(super) gathers: HashMap<u64, Vec<Option<Vec<u8>>>>,
    pub(super) barriers: HashMap<Vec<usize>, u64>,
    pub(super) timing: Box<dyn Timing>,
    next: u32,
}

enum Outcome {
    Done(Status, u32),
    NotReady,
}

impl World {
    pub(super) fn shared(size: usize, timing: impl Timing + 'static) -> Rc<RefCell<World>> {
        Rc::new(RefCell::new(World {
            now: 0,
            size,
            stuck: false,
            changes: 0,
            seen: 0,
            idle_rounds: 0,
            wake_ups: BTreeSet::new(),
            busy: vec![0; size],
            registered: Registered::default(),
            pairs: BTreeMap::new(),
            shared: HashMap::new(),
            queues: Vec::new(),
            gathers: HashMap::new(),
            barriers: HashMap::new(),
            timing: Box::new(timing),
            next: 1,
        }))
    }

    /// Records a change that a waiting process may observe.
    pub(super) fn changed(&mut self) {
        self.changes += 1;
    }

    /// Returns an unused number.
    pub(super) fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    pub(super) fn wake_at(&mut self, time: u64) {
        self.wake_ups.insert(time);
    }

    /// Executes due requests; if nothing changed since the last call, advances time to the next
    /// event.
    pub(super) fn advance(&mut self) {
        if self.changes != self.seen {
            self.seen = self.changes;
            self.idle_rounds = 0;
            return;
        }
        if self.execute_due() {
            return;
        }
        let due = self
            .pairs
            .values()
            .filter_map(|pair| pair.outgoing.front().map(|r| r.ready));
        let next = due
            .chain(self.wake_ups.iter().copied())
            .filter(|&time| time > self.now)
            .min();
        match next {
            Some(time) => {
                self.now = time;
                self.wake_ups = self.wake_ups.split_off(&(time + 1));
                self.execute_due();
                self.changed();
            }
            None => {
                self.idle_rounds += 1;
                self.stuck |= self.idle_rounds >= STUCK_ROUNDS;
            }
        }
    }

    /// Queues a request behind earlier ones of its pair, at the time given by its cost.
    pub(super) fn enqueue(&mut self, number: u32, mut request: Request) {
        let rank = self.pairs[&number].rank;
        let pages = request.local.iter().flat_map(|s| {
            let last = (s.offset + s.length.max(1) - 1) / PAGE;
            (s.offset / PAGE..=last).map(|page| (s.key, page))
        });
        let returns = matches!(
            request.operation,
            Operation::Read { .. } | Operation::CompareSwap { .. } | Operation::FetchAdd { .. }
        );
        let posted = Posted {
            rank,
            pair: number,
            length: request.local.iter().map(|s| s.length).sum(),
            pages: pages.collect(),
            returns,
        };
        let cost = self.timing.cost(&posted);
        let start = self.now.max(self.busy[rank]);
        self.busy[rank] = start + cost.occupancy;
        let pair = self
            .pairs
            .get_mut(&number)
            .expect("pair of a handle exists");
        request.ready = (start + cost.occupancy + cost.latency).max(pair.last_ready);
        pair.last_ready = request.ready;
        pair.outgoing.push_back(request);
        self.changed();
    }

    fn execute_due(&mut self) -> bool {
        let numbers: Vec<u32> = self.pairs.keys().copied().collect();
        let mut any = false;
        for number in numbers {
            while let Some(pair) = self.pairs.get_mut(&number) {
                let failed = pair.failed;
                let Some(request) = pair.outgoing.front() else {
                    break;
                };
                if request.ready > self.now && !failed {
                    break;
                }
                let request = pair.outgoing.pop_front().expect("front was there");
                let outcome = if failed {
                    Outcome::Done(Status::FLUSHED, 0)
                } else {
                    self.execute(number, &request)
                };
                match outcome {
                    Outcome::NotReady => {
                        let pair = self.pairs.get_mut(&number).expect("still there");
                        pair.outgoing.push_front(request);
                        break;
                    }
                    Outcome::Done(status, length) => {
                        any = true;
                        self.finish(number, &request, status, length);
                    }
                }
            }
        }
        if any {
            self.changed();
        }
        any
    }

    fn finish(&mut self, number: u32, request: &Request, status: Status, length: u32) {
        let pair = self
            .pairs
            .get_mut(&number)
            .expect("pair of a request exists");
        if !status.is_success() {
            pair.failed = true;
        }
        if request.signal != Signal::Silent || !status.is_success() {
            let completion = Completion {
                id: request.id,
                status,
                kind: CompletionKind::Initiated,
                length,
                immediate: None,
                pair: number,
                source: 0,
            };
            let queue = pair.send_queue;
            self.queues[queue].push_back(completion);
        }
    }

    fn execute(&mut self, number: u32, request: &Request) -> Outcome {
        let payload = match self.gather(request) {
            Ok(payload) => payload,
            Err(status) => return Outcome::Done(status, 0),
        };
        let length = payload.len() as u32;
        match request.operation {
            Operation::Write { to } => {
                let status = self.registered.place(to, &payload);
                Outcome::Done(status, length)
            }
            Operation::WriteImmediate { to, immediate } => {
                if !self.receiver_ready(number, request) {
                    return Outcome::NotReady;
                }
                let status = self.registered.place(to, &payload);
                if status.is_success() {
                    self.deliver(number, request, &[], Some(immediate), Some(length));
                }
                Outcome::Done(status, length)
            }
            Operation::Send | Operation::SendImmediate { .. } => {
                let immediate = match request.operation {
                    Operation::SendImmediate { immediate } => Some(immediate),
                    _ => None,
                };
                if !self.receiver_ready(number, request) {
                    // A datagram without a receive request is lost, which is success for its
                    // sender.
                    return if self.pairs[&number].datagram {
                        Outcome::Done(Status::SUCCESS, length)
                    } else {
                        Outcome::NotReady
                    };
                }
                Outcome::Done(
                    self.deliver(number, request, &payload, immediate, None),
                    length,
                )
            }
            Operation::Read { from } => {
                let total: usize = request.local.iter().map(|s| s.length).sum();
                let status = match self.registered.fetch(from, total) {
                    Err(status) => status,
                    Ok(data) => self.registered.scatter(&request.local, &data),
                };
                Outcome::Done(status, total as u32)
            }
            Operation::CompareSwap { at, compare, swap } => {
                let status =
                    self.atomic(request, at, |old| if old == compare { swap } else { old });
                Outcome::Done(status, 8)
            }
            Operation::FetchAdd { at, add } => {
                let status = self.atomic(request, at, |old| old.wrapping_add(add));
                Outcome::Done(status, 8)
            }
        }
    }

    fn atomic(
        &mut self,
        request: &Request,
        at: crate::Remote,
        change: impl Fn(u64) -> u64,
    ) -> Status {
        match self.registered.atomic(at, change) {
            Err(status) => status,
            Ok(old) => self.registered.scatter(&request.local, &old.to_ne_bytes()),
        }
    }

    fn gather(&self, request: &Request) -> Result<Vec<u8>, Status> {
        if matches!(
            request.operation,
            Operation::Read { .. } | Operation::CompareSwap { .. } | Operation::FetchAdd { .. }
        ) {
            return Ok(Vec::new());
        }
        match &request.inline {
            Some(bytes) => Ok(bytes.clone()),
            None => self.registered.gather(&request.local),
        }
    }

    /// Returns the receiving queue pair of the request's message, and its shared receive queue, if
    /// any.
    fn receiver(&self, number: u32, request: &Request) -> Option<(u32, Option<u32>)> {
        let pair = &self.pairs[&number];
        let peer = if pair.datagram {
            request.target
        } else {
            pair.peer
        }?;
        let there = self.pairs.get(&peer)?;
        let shared = if there.target_half {
            request.target
        } else {
            there.shared_receive
        };
        Some((peer, shared))
    }

    fn receiver_ready(&self, number: u32, request: &Request) -> bool {
        match self.receiver(number, request) {
            Some((_, Some(shared))) => self
                .shared
                .get(&shared)
                .is_some_and(|s| !s.receives.is_empty()),
            Some((peer, None)) => !self.pairs[&peer].receives.is_empty(),
            None => false,
        }
    }

    fn deliver(
        &mut self,
        number: u32,
        request: &Request,
        payload: &[u8],
        immediate: Option<u32>,
        written: Option<u32>,
    ) -> Status {
        let (peer, shared) = self
            .receiver(number, request)
            .expect("caller checked readiness");
        let (taken, shared_queue) = match shared {
            Some(shared) => {
                let state = self
                    .shared
                    .get_mut(&shared)
                    .expect("caller checked readiness");
                (state.receives.pop_front(), state.completions)
            }
            None => {
                let pair = self.pairs.get_mut(&peer).expect("caller checked readiness");
                (pair.receives.pop_front(), None)
            }
        };
        let (id, local) = taken.expect("caller checked readiness");
        let datagram = self.pairs[&number].datagram;
        let header = if datagram { DATAGRAM_HEADER } else { 0 };
        let mut message = vec![0; header];
        message.extend_from_slice(payload);
        let status = self.registered.scatter(&local, &message);
        let queue = shared_queue.unwrap_or(self.pairs[&peer].receive_queue);
        let kind = match written {
            Some(_) => CompletionKind::ReceivedWrite,
            None => CompletionKind::Received,
        };
        self.queues[queue].push_back(Completion {
            id,
            status,
            kind,
            length: written.unwrap_or(message.len() as u32),
            immediate,
            pair: peer,
            source: number,
        });
        if status.is_success() {
            return status;
        }
        // A message longer than its receive request puts both sides of a connection into the error
        // state.
        self.pairs.get_mut(&peer).expect("receiver exists").failed = true;
        if datagram {
            Status::SUCCESS
        } else {
            Status::REMOTE_INVALID
        }
    }
}
