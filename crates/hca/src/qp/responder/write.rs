//! RDMA writes whose bytes arrive through the channel.

use super::explain;
use super::failure::Failure;
use super::{Call, Delivered};
use crate::qp::Qp;
use crate::qp::ring_message::{Body, Extra, Message, Write};
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_memory::resolve::{Piece, ResolvedRange};
use verbena_hca_os::errno::Errno;
use verbena_hca_os::{copy, own_memory};
use verbena_transport::assembly::takes_receive_before_key;
use verbena_wire::opcode::Place;

impl<'a> Call<'a> {
    pub(super) fn serve_write(
        &self,
        queue_pair: &'a Arc<Qp>,
        write: &Write,
    ) -> Result<Option<Delivered<'a>>, Failure> {
        if self.is_dropped_write(queue_pair) {
            return Ok(None);
        }
        let consumes = write.immediate.filter(|_| write.place.ends());
        let takes_first = consumes.is_some() && self.awaits_receive(queue_pair, write)?;
        if let Err(failure) = self.place_write(queue_pair, write) {
            return Err(match takes_first {
                true => self.failed_with_receive(queue_pair, failure),
                false => failure,
            });
        }
        let Some(immediate) = consumes else {
            return Ok(None);
        };
        // The bytes are in place; the receive queue is notified of the whole message.
        let notice = Message {
            place: Place::Only,
            total: write.remote.length,
            body: Body::InPlace,
            extra: Extra::Immediate(immediate),
            solicited: write.solicited,
            shared: None,
        };
        self.serve_message(queue_pair, &notice)
    }

    /// Returns whether a write follows a refused message and is dropped.
    fn is_dropped_write(&self, queue_pair: &Qp) -> bool {
        queue_pair
            .lock_receive()
            .message_state
            .drops_write(self.route.source.incarnation, self.route.psn)
    }

    /// Returns whether a write takes its receive before its key is checked.
    ///
    /// # Errors
    /// It does, and none is posted; or the queue pair does not allow it, which is checked earlier.
    fn awaits_receive(&self, queue_pair: &Qp, write: &Write) -> Result<bool, Failure> {
        let mut guard = queue_pair.lock_receive();
        if !takes_receive_before_key(write.remote.length, guard.mtu) {
            return Ok(false);
        }
        self.check_right(queue_pair, &write.remote, IBV_ACCESS_REMOTE_WRITE)?;
        let next = match &queue_pair.srq {
            Some(srq) => srq.next_length(),
            None => guard.ring.next_length(),
        };
        if next.is_some() {
            return Ok(true);
        }
        if queue_pair.is_reliable() {
            let source = self.route.source.incarnation;
            if let Some(left) = guard.message_state.begin_incarnation(source) {
                match &queue_pair.srq {
                    Some(srq) => srq.put_back(left),
                    None => guard.ring.put_back(left),
                }
            }
            guard.message_state.await_again(self.route.psn);
        }
        Err(Failure::not_ready(guard.rnr_timer))
    }

    /// Returns the failure of a write with the receive that it has taken.
    fn failed_with_receive(&self, queue_pair: &Qp, failure: Failure) -> Failure {
        if !failure.ends_receive(queue_pair.responder_kind()) {
            return failure;
        }
        let taken = match &queue_pair.srq {
            Some(srq) => srq.take().inspect(|_| srq.note_used()),
            None => queue_pair.lock_receive().ring.take(),
        };
        match taken {
            Some(receive) => failure.with_receive(receive.wr_id),
            None => failure,
        }
    }

    fn place_write(&self, queue_pair: &Qp, write: &Write) -> Result<(), Failure> {
        let length = u64::from(self.record.header.length);
        let right = IBV_ACCESS_REMOTE_WRITE;
        if length == 0 {
            return self.check_right(queue_pair, &write.remote, right).map(drop);
        }
        let section = self.inbound.section(write.remote.key);
        // A write is allowed as a whole or not at all: with the first part, the whole range is
        // checked.
        let checked_length = if write.place.begins() {
            u64::from(write.remote.length).max(length)
        } else {
            length
        };
        let range = self.grant(&section, queue_pair, &write.remote, right, checked_length)?;
        self.store(range.part(0, length))
            .map_err(|_| explain::unmapped())
    }

    /// Stores into local memory. Memory outside the arena is written through the kernel, because
    /// the application may have unmapped it.
    fn store(&self, range: ResolvedRange<'_>) -> Result<(), Errno> {
        let mut from = self.record.payload;
        for piece in range.pieces() {
            let length = piece.length();
            // SAFETY: the pieces add up to the payload's length; arena offsets come from our own
            // key table.
            unsafe {
                match (piece, self.memory().arena()) {
                    (Piece::Null { .. }, _) => (),
                    (Piece::Arena { offset, .. }, Some(arena)) => {
                        copy::ordered_copy(from, arena.pointer(offset), length);
                    }
                    (Piece::Arena { .. }, None) => return Err(Errno::EIO),
                    (Piece::Mapping { address, .. }, _) => {
                        copy::ordered_copy(from, address as *mut u8, length);
                    }
                    (Piece::Address { address, .. }, _) => {
                        own_memory::store(address, from, length)?;
                    }
                }
                from = from.add(length);
            }
        }
        Ok(())
    }
}
