//! Atomics: fetch-and-add, compare-and-swap, atomic write.

use super::Call;
use super::explain;
use super::failure::Failure;
use crate::process::Serving;
use crate::qp::Qp;
use crate::qp::atomic::Atomic;
use crate::qp::ring_message::{Answer, Remote};
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_memory::process_memory::ProcessMemory;
use verbena_hca_memory::resolve::{Piece, ResolvedRange};
use verbena_hca_os::errno::Errno;
use verbena_hca_os::own_memory;
use verbena_hca_os::refusal;
use verbena_transport::assembly;
use verbena_transport::fault::Fault;

impl Call<'_> {
    pub(super) fn serve_atomic(
        &self,
        queue_pair: &Arc<Qp>,
        remote: &Remote,
        serving: &mut Serving,
    ) -> Result<(), Failure> {
        if self.is_dropped(queue_pair) {
            return Ok(());
        }
        self.check_fetch(queue_pair)?;
        let operation = self
            .operation()
            .ok_or_else(|| Failure::by(Fault::UnsupportedOpcode))?;
        assembly::aligned(remote.address).map_err(|fault| {
            refusal::note(format_args!(
                "an atomic at {:#x}, which is not a multiple of 8",
                remote.address
            ));
            Failure::by(fault)
        })?;
        let right = if operation.opcode == IBV_WR_ATOMIC_WRITE {
            IBV_ACCESS_REMOTE_WRITE
        } else {
            IBV_ACCESS_REMOTE_ATOMIC
        };
        let found = {
            let section = self.inbound.section(remote.key);
            let range = self.grant(&section, queue_pair, remote, right, 8)?;
            perform(self.memory(), operation, range).map_err(|_| explain::unmapped())?
        };
        self.answer(serving, Answer::Atomic(found));
        Ok(())
    }

    fn operation(&self) -> Option<Atomic> {
        let mut bytes = [0u8; Atomic::LENGTH];
        if usize::from(self.record.header.length) != bytes.len() {
            return None;
        }
        // SAFETY: record and array both hold that many bytes; the record's length was just checked.
        unsafe {
            bytes
                .as_mut_ptr()
                .copy_from_nonoverlapping(self.record.payload, bytes.len());
        }
        Atomic::parse(&bytes)
    }
}

/// Performs an atomic on the word at a resolved range. Returns the original value.
///
/// # Errors
/// EFAULT if the range is not one word of 8 bytes, EINVAL if it is not aligned; the kernel's error
/// if the memory is not mapped.
pub(super) fn perform(
    memory: &ProcessMemory,
    operation: Atomic,
    range: ResolvedRange<'_>,
) -> Result<u64, Errno> {
    let piece = range.pieces().next().ok_or(Errno::EFAULT)?;
    let target = match (piece, memory.arena()) {
        (Piece::Arena { offset, length: 8 }, Some(arena)) => arena.pointer(offset),
        (Piece::Mapping { address, length: 8 }, _) => address as *mut u8,
        (Piece::Address { address, length: 8 }, _) => {
            let mut probe = [0u8; 8];
            // SAFETY: `probe` has 8 writable bytes; the kernel checks the address, which the
            // application may have unmapped.
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
