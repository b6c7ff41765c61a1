//! Effects of requests at the times given by the model: bytes are transferred, receive requests
//! consumed, completions generated.

use super::pair_state::PairState;
use super::posted::Posted;
use super::world::World;
use crate::completion::{Completion, CompletionKind, Status};
use crate::in_process::DATAGRAM_HEADER;
use crate::operation::{Operation, Remote, Signal};

impl World {
    /// Handles the placement of a request's last byte.
    pub fn placed(&self, pair: &PairState, posted: &Posted) {
        if pair.is_reliable() {
            self.take_effect(pair, posted.number);
        }
        if posted.status.get().is_none() {
            self.execute(pair, posted);
        }
        // Wakes memory polling now, even if an early completion has already transferred the bytes.
        if let Operation::Write { to } | Operation::WriteImmediate { to, .. } = posted.operation {
            self.wake_owner(to);
        }
    }

    /// Handles a request's completion entry.
    pub fn completed(&self, pair: &PairState, posted: &Posted) {
        posted.completed.set(true);
        if pair.is_reliable() {
            self.settle(pair, posted.number);
        }
        if posted.status.get().is_none() {
            self.capture(posted);
        }
        pair.report(&self.waits);
    }

    /// Executes all requests up to `number`, in the order of posting.
    fn take_effect(&self, pair: &PairState, number: u64) {
        while let Some(posted) = pair.next_pending(number) {
            self.execute(pair, &posted);
        }
    }

    /// Executes writes and reads before a completion, as they must have transferred their bytes
    /// (rule 2); the data of messages, which reach their receiver at placement, are captured
    /// instead.
    fn settle(&self, pair: &PairState, number: u64) {
        for posted in pair.all_pending(number) {
            if posted.is_received() {
                self.capture(&posted);
            } else {
                pair.forget_pending(posted.number);
                self.execute(pair, &posted);
            }
        }
    }

    fn capture(&self, posted: &Posted) {
        let mut payload = posted.payload.borrow_mut();
        if payload.is_none() && posted.is_received() {
            *payload = self.registered.borrow().gather(&posted.local).ok();
        }
    }

    fn wake_owner(&self, at: Remote) {
        let owner = self.registered.borrow().region(at.key).map(|r| r.owner);
        if let Some(owner) = owner {
            self.waits.changed(owner);
        }
    }

    fn execute(&self, pair: &PairState, posted: &Posted) {
        let status = match pair.failed.get() {
            true => Status::FLUSHED,
            false => self.effect(pair, posted),
        };
        posted.status.set(Some(status));
        if status.is_success() {
            return;
        }
        pair.failed.set(true);
        // The model writes no completion entry for a silent request; its failure is reported
        // nevertheless.
        if posted.signal == Signal::Silent {
            posted.completed.set(true);
            pair.report(&self.waits);
        }
    }

    fn effect(&self, pair: &PairState, posted: &Posted) -> Status {
        let registered = self.registered.borrow();
        let payload = || match posted.payload.borrow_mut().take() {
            Some(payload) => Ok(payload),
            None => registered.gather(&posted.local),
        };
        let atomic = |at, change: &dyn Fn(u64) -> u64| match registered.atomic(at, change) {
            Ok(old) => registered.scatter(&posted.local, &old.to_ne_bytes()),
            Err(status) => status,
        };
        let arrived = match posted.operation {
            Operation::Read { from } => {
                let length = posted.local.iter().map(|s| s.length).sum();
                return match registered.fetch(from, length) {
                    Ok(data) => registered.scatter(&posted.local, &data),
                    Err(status) => status,
                };
            }
            Operation::CompareSwap { at, compare, swap } => {
                return atomic(at, &|old| if old == compare { swap } else { old });
            }
            Operation::FetchAdd { at, add } => {
                return atomic(at, &|old| old.wrapping_add(add));
            }
            _ => match payload() {
                Ok(payload) => payload,
                Err(status) => return status,
            },
        };
        drop(registered);
        match posted.operation {
            Operation::Write { to } => self.registered.borrow().place(to, &arrived),
            Operation::WriteImmediate { to, immediate } => {
                let status = self.registered.borrow().place(to, &arrived);
                match status.is_success() {
                    true => {
                        let written = ArrivedData::Written(arrived.len() as u32);
                        self.deliver(pair, posted, written, Some(immediate))
                    }
                    false => status,
                }
            }
            Operation::SendImmediate { immediate } => self.deliver(
                pair,
                posted,
                ArrivedData::Message(&arrived),
                Some(immediate),
            ),
            _ => self.deliver(pair, posted, ArrivedData::Message(&arrived), None),
        }
    }

    /// Consumes a receive request at the peer and completes it.
    fn deliver(
        &self,
        pair: &PairState,
        posted: &Posted,
        arrival: ArrivedData<'_>,
        immediate: Option<u32>,
    ) -> Status {
        let number = match pair.is_datagram() {
            true => posted.target,
            false => pair.peer.get(),
        };
        let pairs = self.pairs.borrow();
        let Some(there) = number.and_then(|number| pairs.get(&number)) else {
            return Status::RETRY_EXCEEDED;
        };
        let receives = &there.receives;
        let Some((id, local)) = receives.list.borrow_mut().pop_front() else {
            return Status::RNR_RETRY_EXCEEDED;
        };
        let (status, kind, length) = match arrival {
            ArrivedData::Written(length) => {
                (Status::SUCCESS, CompletionKind::ReceivedWrite, length)
            }
            ArrivedData::Message(bytes) => {
                let header = if pair.is_datagram() {
                    DATAGRAM_HEADER
                } else {
                    0
                };
                let mut message = vec![0; header];
                message.extend_from_slice(bytes);
                let status = self.registered.borrow().scatter(&local, &message);
                (status, CompletionKind::Received, message.len() as u32)
            }
        };
        let queue = receives.completions.as_ref();
        queue.unwrap_or(&there.receive_queue).push(
            &self.waits,
            Completion {
                id,
                status,
                kind,
                length,
                immediate,
                pair: there.number(),
                source: pair.number(),
            },
        );
        if status.is_success() {
            return status;
        }
        // A message longer than its receive request puts both sides of a connection into the error
        // state.
        there.failed.set(true);
        match pair.is_reliable() {
            true => Status::REMOTE_INVALID,
            false => Status::SUCCESS,
        }
    }
}

/// Data that arrive at a receiver.
enum ArrivedData<'a> {
    /// A message for the receive request's memory.
    Message(&'a [u8]),
    /// Number of bytes written elsewhere.
    Written(u32),
}
