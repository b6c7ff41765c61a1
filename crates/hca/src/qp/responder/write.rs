//! RDMA writes whose bytes came through the channel.

use super::{Call, Delivered, Failure};
use crate::errno::Errno;
use crate::memory::place::{Piece, Place};
use crate::qp::Qp;
use crate::qp::message::*;
use crate::shm::ring::{Header, Record};
use crate::sys::{copy, own_memory};
use std::sync::Arc;
use verbena_abi::*;

impl Call<'_> {
    pub(super) fn serve_write<'q>(
        &self,
        queue_pair: &'q Arc<Qp>,
    ) -> Result<Option<Delivered<'q>>, Failure> {
        let header = &self.record.header;
        let key = header.word as u32;
        let length = u64::from(header.length);
        {
            let receive = queue_pair.lock_receive();
            if receive
                .arrival
                .discard_until
                .is_some_and(|awaited| awaited != header.psn)
            {
                return Ok(None);
            }
        }
        if length > 0 {
            let place = self.grant(
                queue_pair,
                key,
                IBV_ACCESS_REMOTE_WRITE,
                header.address,
                length,
            )?;
            self.store(place)
                .map_err(|_| Failure::fatal(REMOTE_OPERATION, IBV_EVENT_QP_FATAL))?;
        }
        if header.flags & IMMEDIATE == 0 || header.flags & LAST == 0 {
            return Ok(None);
        }
        // The bytes are in place; the receive queue learns of the whole message.
        let notice = Header {
            flags: header.flags | FIRST,
            word: header.word >> 32,
            ..*header
        };
        let record = Record {
            header: notice,
            payload: self.record.payload,
        };
        Call {
            record: &record,
            ..*self
        }
        .serve_message(queue_pair)
    }

    /// Into our own memory. What lies outside the arena goes through the kernel: the application may have unmapped it.
    fn store(&self, place: Place<'_>) -> Result<(), Errno> {
        let mut from = self.record.payload;
        for piece in place.pieces() {
            let length = piece.length();
            // SAFETY: the pieces add up to the payload's length; arena offsets come from our own table.
            unsafe {
                match (piece, &self.process.arena) {
                    (Piece::Null { .. }, _) => (),
                    (Piece::Arena { offset, .. }, Some(arena)) => {
                        copy::deposit(from, arena.pointer(offset), length);
                    }
                    (Piece::Arena { .. }, None) => return Err(Errno::EIO),
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
