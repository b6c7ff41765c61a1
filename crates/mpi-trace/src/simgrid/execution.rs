//! Executes a trace without times: each rank runs until it blocks, in order of ranks. Messages are
//! sent at once. The calls are written as they complete.

use super::action::{Action, COLLECTIVE, EXCHANGE_TAG, Key};
use super::arguments::MOST_TIME;
use super::collective::{Operation, disagreeing};
use super::error::Error;
use super::matching::{Mailbox, Message, Pattern};
use super::request::{Kind, Requests};
use super::step::Step;
use crate::part::Part;
use crate::writer::Writer;
use std::collections::{BTreeMap, VecDeque};

/// A trace in our format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The files of the ranks, in order.
    pub ranks: Vec<Vec<u8>>,
    /// Omitted content, and how often it occurred.
    pub left_out: BTreeMap<String, u64>,
    /// Number of receives from any rank or with any tag, whose message was found by executing the
    /// trace.
    pub found: u64,
}

/// Maximum number of blocked ranks in an error.
const TOLD_RANKS: usize = 4;
const NO_TEST: &str = "MPI_Test without completion";
const NO_REQUEST: &str = "wait for a request that had completed";
const NO_END: &str = "end of a request, which is assumed at MPI_Finalize";
const NULL: &str = "message to or from MPI_PROC_NULL";

/// Receiver of a message.
#[derive(Debug, Clone, Copy)]
enum Target {
    /// The blocking receive.
    Call,
    Request(u64),
}

struct Rank {
    steps: Vec<Step>,
    at: usize,
    /// Whether the step at `at` has taken effect and waits for its end.
    has_begun: bool,
    /// The message of the blocking receive.
    got: Option<Message>,
    mailbox: Mailbox<Target>,
    requests: Requests,
    writer: Writer,
    /// Computing since the last call in nanoseconds.
    computing: f64,
    /// Steps of its collective operations that some rank has not reached.
    collectives: VecDeque<usize>,
    /// Number of collective operations that it has reached.
    entered: u64,
    /// Nonblocking collective operations: their index among all, and the request.
    begun: VecDeque<(u64, u64)>,
    is_initialized: bool,
    is_finalized: bool,
    is_queued: bool,
}

pub(super) struct Execution {
    ranks: Vec<Rank>,
    files: Vec<String>,
    flops_per_second: Option<f64>,
    left_out: BTreeMap<String, u64>,
    found: u64,
    runnable: VecDeque<usize>,
    /// Number of collective operations that all ranks have reached.
    completed: u64,
    /// Number of ranks that have reached the next one.
    reached: usize,
}

impl Rank {
    fn new(rank: usize, size: usize, steps: Vec<Step>) -> Rank {
        let mut wildcards = (false, false);
        for step in &steps {
            match step.action {
                Action::Receive {
                    peer,
                    tag,
                    is_null: false,
                    ..
                } => {
                    wildcards.0 |= peer.is_none();
                    wildcards.1 |= tag.is_none();
                }
                Action::Exchange { from: None, .. } => wildcards.0 = true,
                _ => (),
            }
        }
        Rank {
            steps,
            at: 0,
            has_begun: false,
            got: None,
            mailbox: Mailbox::new(wildcards),
            requests: Requests::default(),
            writer: Writer::new(rank, size, "SimGrid"),
            computing: 0.0,
            collectives: VecDeque::new(),
            entered: 0,
            begun: VecDeque::new(),
            is_initialized: false,
            is_finalized: false,
            is_queued: true,
        }
    }

    fn call(&mut self, name: &str, parts: &[Part]) {
        let whole = self.computing.floor();
        self.computing -= whole;
        self.writer.call(name, parts, whole as u64, 0);
    }

    /// Posts a receive; returns its message if it has arrived.
    fn post(&mut self, pattern: Pattern, target: Target) -> Option<Message> {
        self.mailbox.post(pattern, target)
    }
}

/// Effect of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Done,
    Blocked,
}

impl Execution {
    pub fn new(
        ranks: Vec<Vec<Step>>,
        files: Vec<String>,
        flops_per_second: Option<f64>,
        left_out: BTreeMap<String, u64>,
    ) -> Execution {
        let size = ranks.len();
        let ranks = ranks.into_iter().enumerate();
        Execution {
            ranks: ranks
                .map(|(rank, steps)| Rank::new(rank, size, steps))
                .collect(),
            files,
            flops_per_second,
            left_out,
            found: 0,
            runnable: (0..size).collect(),
            completed: 0,
            reached: 0,
        }
    }

    pub fn run(mut self) -> Result<Imported, Error> {
        while let Some(rank) = self.runnable.pop_front() {
            self.ranks[rank].is_queued = false;
            while self.ranks[rank].at < self.ranks[rank].steps.len() {
                if self.step(rank)? == Effect::Blocked {
                    break;
                }
                self.ranks[rank].at += 1;
                self.ranks[rank].has_begun = false;
            }
        }
        self.check_end()?;
        let ranks = self.ranks.into_iter();
        Ok(Imported {
            ranks: ranks.map(|rank| rank.writer.finish()).collect(),
            left_out: self.left_out,
            found: self.found,
        })
    }

    fn leave_out(&mut self, what: &str) {
        *self.left_out.entry(what.to_owned()).or_default() += 1;
    }

    fn fault(&self, rank: usize, step: usize, reason: impl Into<String>) -> Error {
        self.ranks[rank].steps[step].line.fault(&self.files, reason)
    }

    fn wake(&mut self, rank: usize) {
        if !self.ranks[rank].is_queued {
            self.ranks[rank].is_queued = true;
            self.runnable.push_back(rank);
        }
    }

    fn step(&mut self, number: usize) -> Result<Effect, Error> {
        let at = self.ranks[number].at;
        if self.ranks[number].is_finalized {
            return Err(self.fault(number, at, "it follows finalize"));
        }
        let action = self.ranks[number].steps[at].action.clone();
        if !self.ranks[number].is_initialized {
            self.initialize(number);
        }
        match action {
            Action::Init | Action::Omitted => Ok(Effect::Done),
            Action::Finalize => Ok(self.finalize(number)),
            Action::Compute(flops) => self.compute(number, flops),
            Action::Sleep(seconds) => self.spend(number, seconds * 1e9),
            Action::Send {
                name,
                peer,
                tag,
                bytes,
                key,
            } => {
                self.send(number, name, peer, (tag, bytes), key);
                Ok(Effect::Done)
            }
            Action::Receive {
                peer,
                tag,
                bytes,
                key: Some(key),
                is_null,
            } => {
                self.begin_receive(number, (peer, tag), bytes, key, is_null);
                Ok(Effect::Done)
            }
            Action::Receive {
                peer,
                tag,
                key: None,
                ..
            } => Ok(self.receive(number, (peer, tag), None)),
            Action::Exchange { to, sent, from } => {
                Ok(self.receive(number, (from, Some(EXCHANGE_TAG)), Some((to, sent))))
            }
            Action::Wait(key) => Ok(self.wait(number, "MPI_Wait", key)),
            Action::Test { key, ends: true } => Ok(self.wait(number, "MPI_Test", key)),
            Action::Test { .. } => {
                self.leave_out(NO_TEST);
                Ok(Effect::Done)
            }
            Action::WaitAny => Ok(self.wait_any(number)),
            Action::WaitAll(_) => Ok(self.wait_all(number, "MPI_Waitall", None)),
            Action::Collective(operation) => self.collective(number, &operation),
        }
    }

    fn initialize(&mut self, number: usize) {
        let members = (0..self.ranks.len()).collect();
        let rank = &mut self.ranks[number];
        rank.is_initialized = true;
        let world = Part::Communicator {
            number: 0,
            members,
            remote: Vec::new(),
        };
        rank.call("MPI_Init", &[world]);
    }

    /// Ends the requests whose end is not in the trace.
    fn finalize(&mut self, number: usize) -> Effect {
        let effect = self.wait_all(number, "MPI_Finalize", Some(Part::Finalized));
        self.ranks[number].is_finalized = effect == Effect::Done;
        effect
    }

    fn compute(&mut self, number: usize, flops: f64) -> Result<Effect, Error> {
        match self.flops_per_second {
            _ if flops == 0.0 => Ok(Effect::Done),
            Some(rate) => self.spend(number, flops / rate * 1e9),
            None => Err(Error::NoRate),
        }
    }

    fn spend(&mut self, number: usize, nanoseconds: f64) -> Result<Effect, Error> {
        let rank = &mut self.ranks[number];
        rank.computing += nanoseconds;
        match rank.computing < MOST_TIME {
            true => Ok(Effect::Done),
            false => Err(self.fault(number, self.ranks[number].at, "it takes more than 18 years")),
        }
    }

    fn send(
        &mut self,
        number: usize,
        name: &str,
        peer: Option<usize>,
        (tag, bytes): (u32, u64),
        key: Option<Key>,
    ) {
        let kind = if peer.is_some() {
            Kind::Send
        } else {
            Kind::Null
        };
        let request = key.map(|key| self.ranks[number].requests.begin(key, kind));
        let Some(peer) = peer else {
            self.leave_out(NULL);
            return;
        };
        let comm = 0;
        let part = match request {
            None => Part::Send {
                comm,
                peer,
                tag,
                bytes,
            },
            Some((_, slot)) => Part::BeginSend {
                slot,
                comm,
                peer,
                tag,
                bytes,
            },
        };
        self.ranks[number].call(name, &[part]);
        self.deliver(number, peer, tag, bytes);
    }

    fn deliver(&mut self, from: usize, to: usize, tag: u32, bytes: u64) {
        let message = Message {
            from,
            tag,
            bytes,
            step: self.ranks[from].at,
        };
        match self.ranks[to].mailbox.deliver(message) {
            None => return,
            Some(Target::Call) => self.ranks[to].got = Some(message),
            Some(Target::Request(request)) => {
                self.ranks[to].requests.make_ready(request, Some(message));
            }
        }
        self.wake(to);
    }

    fn begin_receive(
        &mut self,
        number: usize,
        (peer, tag): Pattern,
        bytes: u64,
        key: Key,
        is_null: bool,
    ) {
        let rank = &mut self.ranks[number];
        if is_null {
            rank.requests.begin(key, Kind::Null);
            self.leave_out(NULL);
            return;
        }
        let (request, slot) = rank.requests.begin(key, Kind::Receive);
        let begun = Part::BeginReceive {
            slot,
            comm: 0,
            peer,
            tag,
            bytes,
        };
        rank.call("MPI_Irecv", &[begun]);
        if let Some(message) = rank.post((peer, tag), Target::Request(request)) {
            rank.requests.make_ready(request, Some(message));
        }
        self.found += u64::from(peer.is_none() || tag.is_none());
    }

    /// Receives a message, and sends one to a rank before.
    fn receive(&mut self, number: usize, pattern: Pattern, sent: Option<(usize, u64)>) -> Effect {
        if !self.ranks[number].has_begun {
            self.ranks[number].has_begun = true;
            self.ranks[number].got = self.ranks[number].post(pattern, Target::Call);
            self.found += u64::from(pattern.0.is_none() || pattern.1.is_none());
            if let Some((to, bytes)) = sent {
                self.deliver(number, to, EXCHANGE_TAG, bytes);
            }
        }
        let rank = &mut self.ranks[number];
        let Some(message) = rank.got.take() else {
            return Effect::Blocked;
        };
        let comm = 0;
        let received = Part::Receive {
            comm,
            peer: message.from,
            tag: message.tag,
            bytes: message.bytes,
        };
        match sent {
            None => rank.call("MPI_Recv", &[received]),
            Some((peer, bytes)) => {
                let send = Part::Send {
                    comm,
                    peer,
                    tag: EXCHANGE_TAG,
                    bytes,
                };
                rank.call("MPI_Sendrecv", &[send, received]);
            }
        }
        Effect::Done
    }

    /// Waits for the oldest request with a key. The trace's program may have completed it before,
    /// by a call that is not in the trace.
    fn wait(&mut self, number: usize, name: &str, key: Key) -> Effect {
        let rank = &mut self.ranks[number];
        let Some(request) = rank.requests.find(key) else {
            self.leave_out(NO_REQUEST);
            return Effect::Done;
        };
        if !rank.requests.is_ready(request) {
            return Effect::Blocked;
        }
        if let Some(part) = rank.requests.end(request) {
            rank.call(name, &[part]);
        }
        Effect::Done
    }

    fn wait_any(&mut self, number: usize) -> Effect {
        let rank = &mut self.ranks[number];
        if rank.requests.is_empty() {
            self.leave_out(NO_REQUEST);
            return Effect::Done;
        }
        let Some(request) = rank.requests.first_ready() else {
            return Effect::Blocked;
        };
        if let Some(part) = rank.requests.end(request) {
            rank.call("MPI_Waitany", &[part]);
        }
        Effect::Done
    }

    /// Waits for all requests, in a call with another part.
    fn wait_all(&mut self, number: usize, name: &str, last: Option<Part>) -> Effect {
        let rank = &mut self.ranks[number];
        if !rank.requests.are_all_ready() {
            return Effect::Blocked;
        }
        let mut parts = rank.requests.end_all();
        if last.is_some() && !parts.is_empty() {
            *self.left_out.entry(NO_END.to_owned()).or_default() += parts.len() as u64;
        }
        parts.extend(last);
        self.ranks[number].call(name, &parts);
        Effect::Done
    }

    fn collective(&mut self, number: usize, operation: &Operation) -> Result<Effect, Error> {
        let rank = &mut self.ranks[number];
        if !rank.has_begun {
            rank.has_begun = true;
            let which = rank.entered;
            rank.entered += 1;
            rank.collectives.push_back(rank.at);
            if !operation.is_blocking {
                let (request, slot) = rank.requests.begin(COLLECTIVE, Kind::Collective);
                rank.begun.push_back((which, request));
                rank.call(operation.name, &[operation.part(Some(slot))]);
            }
            if which == self.completed {
                self.reached += 1;
            }
            self.complete_collectives()?;
        }
        if !operation.is_blocking {
            return self.compute(number, operation.flops);
        }
        let rank = &mut self.ranks[number];
        if rank.entered > self.completed {
            return Ok(Effect::Blocked);
        }
        rank.call(operation.name, &[operation.part(None)]);
        self.compute(number, operation.flops)
    }

    /// Completes the operations that all ranks have reached.
    fn complete_collectives(&mut self) -> Result<(), Error> {
        while self.reached == self.ranks.len() {
            let steps: Vec<usize> = self
                .ranks
                .iter_mut()
                .filter_map(|rank| rank.collectives.pop_front())
                .collect();
            self.check_agreement(&steps)?;
            self.completed += 1;
            let completed = self.completed;
            for number in 0..self.ranks.len() {
                let rank = &mut self.ranks[number];
                while let Some(&(which, request)) = rank.begun.front()
                    && which < completed
                {
                    rank.begun.pop_front();
                    rank.requests.make_ready(request, None);
                }
                self.wake(number);
            }
            let reached = |rank: &&Rank| rank.entered > completed;
            self.reached = self.ranks.iter().filter(reached).count();
        }
        Ok(())
    }

    fn check_agreement(&self, steps: &[usize]) -> Result<(), Error> {
        let all: Option<Vec<&Operation>> = steps
            .iter()
            .zip(&self.ranks)
            .map(|(&step, rank)| match &rank.steps[step].action {
                Action::Collective(operation) => Some(&**operation),
                _ => None,
            })
            .collect();
        let Some((one, other)) = all.as_deref().and_then(disagreeing) else {
            return Ok(());
        };
        let line = &self.ranks[other].steps[steps[other]].line;
        let reason = format!(
            "it does not agree with {}, line {}, the same collective operation of rank {other}; \
             the program may have several communicators, which SimGrid's format does not record",
            self.files[line.file as usize], line.number
        );
        Err(self.fault(one, steps[one], reason))
    }

    fn check_end(&self) -> Result<(), Error> {
        let is_blocked = |rank: &&Rank| rank.at < rank.steps.len();
        let blocked: Vec<&Rank> = self.ranks.iter().filter(is_blocked).collect();
        if !blocked.is_empty() {
            let told = blocked.iter().take(TOLD_RANKS).map(|rank| {
                let line = &rank.steps[rank.at].line;
                let file = &self.files[line.file as usize];
                let text = line.told();
                format!("{file}, line {}: {text}", line.number)
            });
            let more = match blocked.len().saturating_sub(TOLD_RANKS) {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            return Err(Error::Lacking(format!(
                "the trace cannot be executed: {} of {} ranks wait forever ({}{more}); SimGrid's \
                 format lacks communicators, the tags of MPI_Sendrecv, and MPI_Sendrecv with \
                 MPI_PROC_NULL",
                blocked.len(),
                self.ranks.len(),
                told.collect::<Vec<String>>().join("; ")
            )));
        }
        for (number, rank) in self.ranks.iter().enumerate() {
            if let Some(message) = rank.mailbox.unreceived() {
                let reason = format!("rank {number} never receives this message");
                return Err(self.fault(message.from, message.step, reason));
            }
        }
        Ok(())
    }
}
