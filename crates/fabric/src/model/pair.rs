//! Queue pairs.

use super::core::Core;
use super::memory::{ModelRegion, held};
use super::pair_state::PairState;
use super::posted::Posted;
use super::process::ModelProcess;
use super::receive_posting::post;
use super::world::World;
use crate::completion::{Completion, CompletionKind, Status};
use crate::error::{Error, Result};
use crate::in_process::{Segment, refuse, segments};
use crate::operation::{Destination, Operation, Placement, ReceiveRequest, Signal, WorkRequest};
use crate::pair::{Endpoint, QueuePair, Transport};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use verbena_model::adapter as model;
use verbena_model::software::Receiver;

/// Queue key of all datagram pairs.
const QUEUE_KEY: u32 = 0x1111_1111;

/// A peer's address; empty, as the queue pair number suffices.
pub struct ModelAddress;

/// A queue pair.
pub struct ModelPair {
    pub(super) world: Rc<World>,
    pub(super) core: Core,
    pub(super) state: Rc<PairState>,
    /// Number of its shared receive queue, or 0.
    pub(super) shared_receive: u32,
}

impl Drop for ModelPair {
    fn drop(&mut self) {
        self.world.pairs.borrow_mut().remove(&self.state.number());
    }
}

impl ModelPair {
    /// Rejects meaningless requests, and those that the model does not support.
    fn check(&self, request: &WorkRequest<'_, ModelProcess>, ahead: usize) -> Result<Vec<Segment>> {
        const CALL: &str = "QueuePair::post_send";
        let wrong = |reason: String| Err(Error::invalid(CALL, reason));
        let state = &self.state;
        if let Some(what) = refuse(state.transport, &request.operation) {
            return Err(Error::invalid(CALL, what));
        }
        if request.local.len() > 1 {
            return Err(self.core.lacks("gather lists"));
        }
        let local = segments(CALL, request.local, held)?;
        let length = request.length();
        if request.placement == Placement::Inline && length > state.inline as usize {
            let most = state.inline;
            return wrong(format!("{length} bytes inline, {most} were asked for"));
        }
        if state.is_datagram() && length as u64 > self.core.mtu() {
            let most = self.core.mtu();
            return wrong(format!("a datagram of {length} bytes, at most {most} fit"));
        }
        if !state.connected.get() {
            return wrong("the queue pair is not connected".to_owned());
        }
        if state.outstanding.borrow().len() + ahead >= state.depth as usize {
            return wrong(format!("more than {} in flight", state.depth));
        }
        if let (Transport::XrcInitiator, Destination::SharedReceive(number)) =
            (state.transport, request.destination)
        {
            let pairs = self.world.pairs.borrow();
            let there = state.peer.get().and_then(|peer| pairs.get(&peer));
            let shared = self.world.shared.borrow();
            let same = match (there, shared.get(&number)) {
                (Some(there), Some(named)) => Rc::ptr_eq(&there.receives, named),
                _ => false,
            };
            if !same {
                let what = "XRC messages to another shared receive queue than the target's own";
                return Err(self.core.lacks(what));
            }
        }
        Ok(local)
    }

    fn request(&self, posted: &Rc<Posted>, placement: Placement) -> model::Request {
        let kind = match posted.operation {
            Operation::Write { .. } => model::Kind::Write,
            Operation::WriteImmediate { .. } => model::Kind::WriteNotify,
            Operation::Read { .. } => model::Kind::Read,
            Operation::Send | Operation::SendImmediate { .. } => model::Kind::Send,
            Operation::CompareSwap { .. } | Operation::FetchAdd { .. } => model::Kind::Atomic,
        };
        let placement = match placement {
            Placement::Inline => model::Placement::Inline,
            Placement::Reference => model::Placement::Reference,
        };
        let bytes = posted.local.iter().map(|s| s.length as u64).sum();
        let mut request = model::Request::new(kind, bytes, placement);
        if let Some(segment) = posted.local.first() {
            request.local = self.world.local_place(segment.key, segment.offset);
        }
        request.remote = match posted.operation {
            Operation::Write { to } | Operation::WriteImmediate { to, .. } => {
                self.world.remote_place(to)
            }
            Operation::Read { from: at }
            | Operation::CompareSwap { at, .. }
            | Operation::FetchAdd { at, .. } => self.world.remote_place(at),
            Operation::Send | Operation::SendImmediate { .. } => self.receive_place(posted),
        };
        if self.state.is_datagram() {
            let pairs = self.world.pairs.borrow();
            let there = posted.target.and_then(|number| pairs.get(&number));
            request.to = there.and_then(|there| there.wire.pair().cloned());
        }
        let done = |how: fn(&World, &PairState, &Posted)| -> Option<model::Action> {
            let (world, state, posted) = (self.world.clone(), self.state.clone(), posted.clone());
            Some(Box::new(move || how(&world, &state, &posted)))
        };
        request.placed = done(World::placed);
        if posted.signal != Signal::Silent {
            request.completed = done(World::completed);
        }
        request
    }

    /// On the software adapter, returns the receiver of a request that needs the peer.
    fn receiver(&self, posted: &Posted) -> Option<Receiver> {
        let pairs = self.world.pairs.borrow();
        let number = match self.state.is_datagram() {
            true => posted.target,
            false => self.state.peer.get(),
        };
        let there = pairs.get(&number?)?;
        let process = self.world.processor(there.rank);
        process.receiver(&there.receives.model)
    }

    /// Returns the location of a message's receive buffer: the peer's oldest receive request, if
    /// known.
    fn receive_place(&self, posted: &Posted) -> model::MemoryLocation {
        let number = match self.state.is_datagram() {
            true => posted.target,
            false => self.state.peer.get(),
        };
        let pairs = self.world.pairs.borrow();
        let there = number.and_then(|number| pairs.get(&number));
        let segment = there.and_then(|there| {
            let list = there.receives.list.borrow();
            list.front().and_then(|(_, local)| local.first().copied())
        });
        segment.map_or(model::MemoryLocation::default(), |segment| {
            self.world.local_place(segment.key, segment.offset)
        })
    }

    fn posted(
        &self,
        request: &WorkRequest<'_, ModelProcess>,
        local: Vec<Segment>,
        ahead: u64,
    ) -> Rc<Posted> {
        let inline = (request.placement == Placement::Inline)
            .then(|| self.world.registered.borrow().gather(&local).ok())
            .flatten();
        let target = match request.destination {
            Destination::Connected => None,
            Destination::Datagram { pair, .. } => Some(pair),
            Destination::SharedReceive(number) => Some(number),
        };
        Rc::new(Posted {
            number: self.state.posted.get() + ahead,
            id: request.id,
            operation: request.operation,
            local,
            payload: RefCell::new(inline),
            signal: request.signal,
            target,
            status: Cell::new(None),
            completed: Cell::new(false),
        })
    }

    /// Posts checked requests; after an error they are flushed.
    async fn hand_over(&self, list: Vec<(Rc<Posted>, Placement)>) {
        if list.is_empty() {
            return;
        }
        let state = &self.state;
        state.posted.set(state.posted.get() + list.len() as u64);
        let all = || list.iter().map(|(posted, _)| posted.clone());
        state.outstanding.borrow_mut().extend(all());
        if state.failed.get() {
            for (posted, _) in &list {
                posted.status.set(Some(Status::FLUSHED));
                posted.completed.set(true);
            }
            state.report(&self.world.waits);
            return;
        }
        if state.is_reliable() {
            state.pending.borrow_mut().extend(all());
        }
        let requests = list
            .iter()
            .map(|(posted, placement)| (self.request(posted, *placement), self.receiver(posted)))
            .collect();
        self.core.process.post(&state.wire, requests).await;
    }
}

impl QueuePair<ModelProcess> for ModelPair {
    fn endpoint(&self) -> Endpoint {
        Endpoint {
            pair: self.state.number(),
            queue_key: QUEUE_KEY,
            shared_receive: self.shared_receive,
            lid: (self.world.nodes[self.core.rank] + 1) as u16,
            ..Endpoint::default()
        }
    }

    async fn connect(&self, remote: &Endpoint) -> Result<()> {
        self.state.connected.set(true);
        if self.state.is_datagram() {
            return Ok(());
        }
        let pairs = self.world.pairs.borrow();
        let Some(there) = pairs.get(&remote.pair) else {
            let reason = format!("no queue pair has number {}", remote.pair);
            return Err(Error::invalid("QueuePair::connect", reason));
        };
        self.state.peer.set(Some(remote.pair));
        self.state.wire.connect_to(&there.wire);
        Ok(())
    }

    async fn post_send(&self, list: &[WorkRequest<'_, ModelProcess>]) -> Result<()> {
        let mut accepted = Vec::with_capacity(list.len());
        let mut refused = Ok(());
        for request in list {
            match self.check(request, accepted.len()) {
                Ok(local) => {
                    let posted = self.posted(request, local, accepted.len() as u64);
                    accepted.push((posted, request.placement));
                }
                Err(error) => {
                    refused = Err(error);
                    break;
                }
            }
        }
        self.hand_over(accepted).await;
        refused
    }

    async fn post_receive(&self, list: &[ReceiveRequest<'_, ModelRegion>]) -> Result<()> {
        if self.shared_receive != 0 || self.state.transport == Transport::XrcInitiator {
            let reason = "the queue pair has no receive queue of its own";
            return Err(Error::invalid("QueuePair::post_receive", reason));
        }
        if self.state.failed.get() {
            for request in list {
                let flushed = Completion {
                    id: request.id,
                    status: Status::FLUSHED,
                    kind: CompletionKind::Received,
                    pair: self.state.number(),
                    ..Completion::default()
                };
                self.state.receive_queue.push(&self.world.waits, flushed);
            }
            return Ok(());
        }
        let receives = &self.state.receives;
        post(receives, "QueuePair::post_receive", &self.core, list).await
    }
}
