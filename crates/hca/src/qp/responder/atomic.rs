//! Atomics: fetch-and-add, compare-and-swap, the atomic write.

use super::{Call, Failure};
use crate::errno::Errno;
use crate::memory::place::{Piece, Place};
use crate::process::link::Serving;
use crate::qp::Qp;
use crate::qp::atomic::Atomic;
use crate::qp::message::*;
use crate::shm::ring::Header;
use crate::sys::own_memory;
use std::sync::Arc;
use verbena_abi::*;

impl Call<'_> {
    pub(super) fn serve_atomic(
        &self,
        queue_pair: &Arc<Qp>,
        serving: &mut Serving,
    ) -> Result<(), Failure> {
        let header = &self.record.header;
        if self.is_discarded(queue_pair) {
            return Ok(());
        }
        let invalid = || Failure::fatal(INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR);
        let mut words = [0u64; 3];
        if header.length as usize != size_of_val(&words) || !header.address.is_multiple_of(8) {
            return Err(invalid());
        }
        // SAFETY: the record holds 24 bytes of payload (just checked), and so does the array.
        unsafe {
            words
                .as_mut_ptr()
                .cast::<u8>()
                .copy_from_nonoverlapping(self.record.payload, 24);
        }
        let [compare_add, operand, code] = words.map(u64::from_le);
        let operation = Atomic::of_code(code, compare_add, operand).ok_or_else(invalid)?;
        let right = if code == ATOMIC_WRITE {
            IBV_ACCESS_REMOTE_WRITE
        } else {
            IBV_ACCESS_REMOTE_ATOMIC
        };
        let place = self.grant(queue_pair, header.immediate, right, header.address, 8)?;
        let found = self
            .perform(operation, place)
            .map_err(|_| Failure::fatal(REMOTE_OPERATION, IBV_EVENT_QP_FATAL))?;
        let answer = Header {
            kind: ATOMIC_RESULT,
            word: found,
            ..self.answer()
        };
        serving
            .answers
            .push(&self.inbound.channel.answers(), answer, 0, |_| ());
        Ok(())
    }

    fn perform(&self, operation: Atomic, place: Place<'_>) -> Result<u64, Errno> {
        let piece = place.pieces().next().ok_or(Errno::EFAULT)?;
        let target = match (piece, &self.process.arena) {
            (
                Piece::Arena {
                    offset, length: 8, ..
                },
                Some(arena),
            ) => arena.pointer(offset),
            (Piece::Address { address, length: 8 }, _) => {
                let mut probe = [0u8; 8];
                // SAFETY: 8 writable bytes; the kernel checks the address, which the application may have unmapped.
                unsafe {
                    own_memory::load(address, probe.as_mut_ptr(), 8)?;
                }
                address as *mut u8
            }
            _ => return Err(Errno::EFAULT),
        };
        if !(target as usize).is_multiple_of(8) {
            return Err(Errno::EINVAL);
        }
        Ok(operation.perform(target))
    }
}
