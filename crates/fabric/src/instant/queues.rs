//! Completion queues, queue pairs and shared receive queues of the in-process fabric.

use super::memory::InstantRegion;
use super::process::InstantProcess;
use super::world::{Request, World};
use crate::completion::{Completion, CompletionKind, CompletionQueue, Status, Wait};
use crate::error::{Error, Result};
use crate::executor::until;
use crate::in_process::{Bytes, Segment, refuse, segments};
use crate::operation::{Destination, Placement, ReceiveRequest, WorkRequest};
use crate::pair::{Endpoint, QueuePair, SharedReceive, Transport};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Cost of an empty poll in nanoseconds, so that a loop of polls advances time.
const EMPTY_POLL: u64 = 5;

/// A completion queue.
pub struct InstantCompletions {
    pub(super) world: Rc<RefCell<World>>,
    pub(super) index: usize,
    pub(super) wait: Wait,
}

impl InstantCompletions {
    fn take(&self, into: &mut [Completion]) -> usize {
        let mut world = self.world.borrow_mut();
        let queue = &mut world.queues[self.index];
        let count = queue.len().min(into.len());
        for (place, completion) in into.iter_mut().zip(queue.drain(..count)) {
            *place = completion;
        }
        if count > 0 {
            world.changed();
        }
        count
    }
}

impl CompletionQueue for InstantCompletions {
    async fn poll(&self, into: &mut [Completion]) -> Result<usize> {
        let count = self.take(into);
        if count > 0 {
            return Ok(count);
        }
        let wake = self.world.borrow().now + EMPTY_POLL;
        self.world.borrow_mut().wake_at(wake);
        until(|| (self.world.borrow().now >= wake).then_some(())).await;
        Ok(self.take(into))
    }

    async fn wait(&self, into: &mut [Completion], how: Wait) -> Result<usize> {
        if how == Wait::Event && self.wait != Wait::Event {
            let reason = "the queue was created without events";
            return Err(Error::invalid("CompletionQueue::wait", reason));
        }
        until(|| {
            let count = self.take(into);
            if count > 0 {
                return Some(Ok(count));
            }
            let world = self.world.borrow();
            let waited = Duration::from_nanos(world.now);
            world
                .stuck
                .then_some(Err(Error::stalled("a completion", waited)))
        })
        .await
    }
}

/// A peer's address; empty, as the queue pair number suffices.
pub struct InstantAddress;

/// A queue pair.
pub struct InstantPair {
    pub(super) world: Rc<RefCell<World>>,
    pub(super) number: u32,
    pub(super) transport: Transport,
    pub(super) inline: u32,
    pub(super) shared_receive: u32,
}

impl Drop for InstantPair {
    fn drop(&mut self) {
        self.world.borrow_mut().pairs.remove(&self.number);
    }
}

fn held(region: &InstantRegion) -> (u32, &Bytes) {
    (region.key, &region.bytes)
}

impl InstantPair {
    fn check(&self, request: &WorkRequest<'_, InstantProcess>) -> Result<Vec<Segment>> {
        const CALL: &str = "QueuePair::post_send";
        if let Some(what) = refuse(self.transport, &request.operation) {
            return Err(Error::invalid(CALL, what));
        }
        let local = segments(CALL, request.local, held)?;
        if request.placement == Placement::Inline && request.length() > self.inline as usize {
            let reason = format!(
                "{} bytes inline, {} were asked for",
                request.length(),
                self.inline
            );
            return Err(Error::invalid(CALL, reason));
        }
        let world = self.world.borrow();
        let pair = &world.pairs[&self.number];
        if pair.peer.is_none() {
            return Err(Error::invalid(CALL, "the queue pair is not connected"));
        }
        if pair.outgoing.len() >= pair.depth {
            return Err(Error::invalid(
                CALL,
                format!("more than {} in flight", pair.depth),
            ));
        }
        Ok(local)
    }
}

impl QueuePair<InstantProcess> for InstantPair {
    fn endpoint(&self) -> Endpoint {
        Endpoint {
            pair: self.number,
            queue_key: 0x1111,
            shared_receive: self.shared_receive,
            ..Endpoint::default()
        }
    }

    async fn connect(&self, remote: &Endpoint) -> Result<()> {
        let mut world = self.world.borrow_mut();
        let pair = world
            .pairs
            .get_mut(&self.number)
            .expect("pair of a handle exists");
        pair.peer = Some(remote.pair);
        world.changed();
        Ok(())
    }

    async fn post_send(&self, list: &[WorkRequest<'_, InstantProcess>]) -> Result<()> {
        for request in list {
            let local = self.check(request)?;
            let inline = match request.placement {
                Placement::Reference => None,
                Placement::Inline => {
                    let world = self.world.borrow();
                    world.registered.gather(&local).ok()
                }
            };
            let target = match request.destination {
                Destination::Connected => None,
                Destination::Datagram { pair, .. } => Some(pair),
                Destination::SharedReceive(number) => Some(number),
            };
            let request = Request {
                id: request.id,
                operation: request.operation,
                local,
                inline,
                signal: request.signal,
                target,
                ready: 0,
            };
            self.world.borrow_mut().enqueue(self.number, request);
        }
        Ok(())
    }

    async fn post_receive(&self, list: &[ReceiveRequest<'_, InstantRegion>]) -> Result<()> {
        for request in list {
            let local = segments("QueuePair::post_receive", request.local, held)?;
            let mut world = self.world.borrow_mut();
            let pair = world
                .pairs
                .get_mut(&self.number)
                .expect("pair of a handle exists");
            if pair.failed {
                let (queue, id) = (pair.receive_queue, request.id);
                world.queues[queue].push_back(Completion {
                    id,
                    status: Status::FLUSHED,
                    kind: CompletionKind::Received,
                    pair: self.number,
                    ..Completion::default()
                });
            } else {
                pair.receives.push_back((request.id, local));
            }
            world.changed();
        }
        Ok(())
    }
}

/// A shared receive queue.
pub struct InstantSharedReceive {
    pub(super) world: Rc<RefCell<World>>,
    pub(super) number: u32,
}

impl SharedReceive<InstantRegion> for InstantSharedReceive {
    fn number(&self) -> u32 {
        self.number
    }

    async fn post_receive(&self, list: &[ReceiveRequest<'_, InstantRegion>]) -> Result<()> {
        for request in list {
            let local = segments("SharedReceive::post_receive", request.local, held)?;
            let mut world = self.world.borrow_mut();
            let shared = world
                .shared
                .get_mut(&self.number)
                .expect("queue of a handle exists");
            shared.receives.push_back((request.id, local));
            world.changed();
        }
        Ok(())
    }
}
