//! RDMA reads whose bytes go through the channel of answers.

use super::{Call, Failure, Progress};
use crate::errno::Errno;
use crate::memory::place::{Piece, Place};
use crate::process::link::Serving;
use crate::qp::Qp;
use crate::qp::message::*;
use crate::shm::channel::MAX_PAYLOAD;
use crate::shm::ring::Header;
use crate::sys::{copy, own_memory};
use std::sync::Arc;
use verbena_abi::*;

impl Call<'_> {
    /// Out of our own memory, as writes are stored into it.
    fn load(&self, place: Place<'_>, target: *mut u8) -> Result<(), Errno> {
        let mut to = target;
        for piece in place.pieces() {
            let length = piece.length();
            // SAFETY: the pieces add up to the room that the caller has; arena offsets come from our own table.
            unsafe {
                match (piece, &self.process.arena) {
                    (Piece::Null { .. }, _) => to.write_bytes(0, length),
                    (Piece::Arena { offset, .. }, Some(arena)) => {
                        copy::copy(arena.pointer(offset), to, length);
                    }
                    (Piece::Arena { .. }, None) => return Err(Errno::EIO),
                    (Piece::Address { address, .. }, _) => {
                        own_memory::load(address, to, length)?;
                    }
                }
                to = to.add(length);
            }
        }
        Ok(())
    }

    pub(super) fn serve_read(
        &self,
        queue_pair: &Arc<Qp>,
        serving: &mut Serving,
    ) -> Result<Progress<'static>, Failure> {
        let header = &self.record.header;
        if self.is_discarded(queue_pair) {
            return Ok(Progress::Done(None));
        }
        let (total, key) = (header.word, header.immediate);
        let answers = self.inbound.channel.answers();
        loop {
            let offset = serving.read_progress;
            let length = total.saturating_sub(offset).min(MAX_PAYLOAD as u64);
            if !serving.answers.has_room(&answers, length as usize) {
                return Ok(Progress::Blocked);
            }
            let mut loaded = Ok(());
            let answer = Header {
                kind: READ_DATA,
                word: offset,
                ..self.answer()
            };
            if length > 0 {
                let begun = self.grant(
                    queue_pair,
                    key,
                    IBV_ACCESS_REMOTE_READ,
                    header.address.wrapping_add(offset),
                    total - offset,
                );
                let place = match begun {
                    Ok(_) => self.grant(
                        queue_pair,
                        key,
                        IBV_ACCESS_REMOTE_READ,
                        header.address.wrapping_add(offset),
                        length,
                    )?,
                    Err(failure) => {
                        serving.read_progress = 0;
                        return Err(failure);
                    }
                };
                serving
                    .answers
                    .push(&answers, answer, length as usize, |target| {
                        loaded = self.load(place, target);
                    });
            } else {
                serving.answers.push(&answers, answer, 0, |_| ());
            }
            if loaded.is_err() {
                // What was pushed is not whole, so the requester still waits and takes the refusal.
                serving.read_progress = 0;
                return Err(Failure::fatal(REMOTE_OPERATION, IBV_EVENT_QP_FATAL));
            }
            serving.read_progress = offset + length;
            if serving.read_progress >= total {
                serving.read_progress = 0;
                return Ok(Progress::Done(None));
            }
        }
    }
}
