//! The state of a queue pair.

use super::completion_queue_state::Queue;
use super::machine::Wire;
use super::posted::Posted;
use super::receive_queue::Receives;
use super::waits::Waits;
use crate::completion::{Completion, CompletionKind, Status};
use crate::operation::{Operation, Signal};
use crate::pair::Transport;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Shared state of a queue pair.
pub(super) struct PairState {
    pub wire: Wire,
    number: u32,
    pub transport: Transport,
    pub rank: usize,
    pub depth: u32,
    pub inline: u32,
    pub send_queue: Rc<Queue>,
    pub receive_queue: Rc<Queue>,
    pub receives: Rc<Receives>,
    /// The peer's number.
    pub peer: Cell<Option<u32>>,
    pub connected: Cell<bool>,
    pub failed: Cell<bool>,
    /// Number of posted requests.
    pub posted: Cell<u64>,
    /// Requests that have not taken effect, in the order of posting (reliable transports).
    pub pending: RefCell<VecDeque<Rc<Posted>>>,
    /// Requests whose completion has not been reported, in the order of posting.
    pub outstanding: RefCell<VecDeque<Rc<Posted>>>,
}

pub(super) struct Parts {
    pub wire: Wire,
    pub number: u32,
    pub transport: Transport,
    pub rank: usize,
    pub depth: u32,
    pub inline: u32,
    pub send_queue: Rc<Queue>,
    pub receive_queue: Rc<Queue>,
    pub receives: Rc<Receives>,
}

impl PairState {
    pub fn new(parts: Parts) -> Rc<PairState> {
        Rc::new(PairState {
            wire: parts.wire,
            number: parts.number,
            transport: parts.transport,
            rank: parts.rank,
            depth: parts.depth,
            inline: parts.inline,
            send_queue: parts.send_queue,
            receive_queue: parts.receive_queue,
            receives: parts.receives,
            peer: Cell::new(None),
            connected: Cell::new(false),
            failed: Cell::new(false),
            posted: Cell::new(0),
            pending: RefCell::default(),
            outstanding: RefCell::default(),
        })
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns whether delivery is reliable and in order.
    pub fn is_reliable(&self) -> bool {
        !matches!(self.transport, Transport::Uc | Transport::Ud)
    }

    /// Returns whether each request names its receiver.
    pub fn is_datagram(&self) -> bool {
        self.transport == Transport::Ud
    }

    /// Removes and returns the oldest request up to `number` that has not taken effect.
    pub fn next_pending(&self, number: u64) -> Option<Rc<Posted>> {
        let mut pending = self.pending.borrow_mut();
        pending
            .front()
            .is_some_and(|posted| posted.number <= number)
            .then(|| pending.pop_front())
            .flatten()
    }

    /// Returns all requests up to `number` that have not taken effect.
    pub fn all_pending(&self, number: u64) -> Vec<Rc<Posted>> {
        let pending = self.pending.borrow();
        pending
            .iter()
            .take_while(|posted| posted.number <= number)
            .cloned()
            .collect()
    }

    /// Removes such a request, which is about to take effect.
    pub fn forget_pending(&self, number: u64) {
        self.pending
            .borrow_mut()
            .retain(|posted| posted.number != number);
    }

    /// Reports completions that are due, in the order of posting. A silent request is done when a
    /// later one is.
    pub fn report(&self, waits: &Waits) {
        loop {
            let mut outstanding = self.outstanding.borrow_mut();
            let blocking = |posted: &Rc<Posted>| posted.completed.get() || !is_silent(posted);
            let Some(first) = outstanding.iter().position(blocking) else {
                return;
            };
            if !outstanding[first].completed.get() {
                return;
            }
            let posted = outstanding.drain(..=first).next_back();
            drop(outstanding);
            let Some(posted) = posted else { return };
            let status = posted.status.get().unwrap_or(Status::SUCCESS);
            if is_silent(&posted) && status.is_success() {
                continue;
            }
            let length = match posted.operation {
                Operation::Read { .. } => posted.local.iter().map(|s| s.length as u32).sum(),
                _ => 0,
            };
            self.send_queue.push(
                waits,
                Completion {
                    id: posted.id,
                    status,
                    kind: CompletionKind::Initiated,
                    length,
                    immediate: None,
                    pair: self.number(),
                    source: 0,
                },
            );
        }
    }
}

fn is_silent(posted: &Posted) -> bool {
    posted.signal == Signal::Silent
}
