//! RDMA writes whose bytes arrive through the channel.

use super::failure::Failure;
use super::why;
use super::{Call, Delivered};
use crate::qp::Qp;
use crate::qp::ring_message::{Body, Extra, Message, Part, Write};
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_memory::resolve::{Piece, ResolvedRange};
use verbena_hca_os::errno::Errno;
use verbena_hca_os::{copy, own_memory};

impl<'a> Call<'a> {
    pub(super) fn serve_write(
        &self,
        queue_pair: &'a Arc<Qp>,
        write: &Write,
    ) -> Result<Option<Delivered<'a>>, Failure> {
        if self.is_dropped_write(queue_pair) {
            return Ok(None);
        }
        let placed = self.place_write(queue_pair, write);
        if let Err(failure) = placed {
            return Err(match self.receive_of(queue_pair, write) {
                // A write with immediate data fails its receive, too (ibv_poll_cq(3),
                // IBV_WC_LOC_ACCESS_ERR).
                Some(wr_id) => failure.with_receive(wr_id, IBV_WC_LOC_ACCESS_ERR),
                None => failure,
            });
        }
        let (Some(immediate), true) = (write.immediate, write.part.is_last) else {
            return Ok(None);
        };
        // The bytes are in place; the receive queue is notified of the whole message.
        let notice = Message {
            part: Part::ONLY,
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

    /// Takes the receive that fails with a refused write with immediate data.
    fn receive_of(&self, queue_pair: &Qp, write: &Write) -> Option<u64> {
        write.immediate?;
        if !queue_pair.is_reliable() {
            return None;
        }
        let taken = match &queue_pair.srq {
            Some(srq) => srq.take().inspect(|_| srq.note_used()),
            None => queue_pair.lock_receive().ring.take(),
        };
        taken.map(|receive| receive.wr_id)
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
        let checked_length = if write.part.is_first {
            u64::from(write.remote.length).max(length)
        } else {
            length
        };
        let range = self.grant(&section, queue_pair, &write.remote, right, checked_length)?;
        self.store(range.part(0, length))
            .map_err(|_| why::unmapped())
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
