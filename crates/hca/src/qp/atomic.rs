//! Atomic operations on a word of registered memory, as a processor does them.

use crate::qp::message::{ATOMIC_WRITE, COMPARE_AND_SWAP, FETCH_AND_ADD};
use std::sync::atomic::{AtomicU64, Ordering};
use verbena_abi::*;

/// An atomic operation with its operands in the processor's order, as mlx5 has it (IBV_ATOMIC_GLOB: atomic with respect
/// to the processors too).
#[derive(Clone, Copy)]
pub struct Atomic {
    /// IBV_WR_ATOMIC_*.
    pub opcode: ibv_wr_opcode,
    /// What to compare with or to add.
    pub compare_add: u64,
    /// What to store.
    pub operand: u64,
}

impl Atomic {
    /// The code that a record carries for it.
    pub fn code(&self) -> u64 {
        match self.opcode {
            IBV_WR_ATOMIC_CMP_AND_SWP => COMPARE_AND_SWAP,
            IBV_WR_ATOMIC_FETCH_AND_ADD => FETCH_AND_ADD,
            _ => ATOMIC_WRITE,
        }
    }

    /// The operation that a code stands for.
    pub fn of_code(code: u64, compare_add: u64, operand: u64) -> Option<Atomic> {
        let opcode = match code {
            COMPARE_AND_SWAP => IBV_WR_ATOMIC_CMP_AND_SWP,
            FETCH_AND_ADD => IBV_WR_ATOMIC_FETCH_AND_ADD,
            ATOMIC_WRITE => IBV_WR_ATOMIC_WRITE,
            _ => return None,
        };
        Some(Atomic {
            opcode,
            compare_add,
            operand,
        })
    }

    /// Performs it; returns what was there before.
    pub fn perform(&self, target: *mut u8) -> u64 {
        // SAFETY: the caller found an aligned, mapped word of the peer's or our registered memory.
        let word = unsafe { &*target.cast::<AtomicU64>() };
        match self.opcode {
            IBV_WR_ATOMIC_FETCH_AND_ADD => word.fetch_add(self.compare_add, Ordering::SeqCst),
            IBV_WR_ATOMIC_CMP_AND_SWP => {
                let (old, new) = (self.compare_add, self.operand);
                word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst)
                    .unwrap_or_else(|found| found)
            }
            _ => word.swap(self.operand, Ordering::SeqCst),
        }
    }
}
