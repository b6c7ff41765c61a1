//! Atomic operations on a word of registered memory, executed by the processor.

use std::sync::atomic::{AtomicU64, Ordering};
use verbena_abi::*;

/// An atomic operation with its operands in the processor's byte order, as on mlx5
/// (IBV_ATOMIC_GLOB: atomic with respect to the processors, too).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    /// IBV_WR_ATOMIC_*.
    pub opcode: ibv_wr_opcode,
    /// Value to compare with or to add.
    pub compare_add: u64,
    /// Value to store.
    pub operand: u64,
}

impl Atomic {
    /// Bytes of an operation in a payload.
    pub const LENGTH: usize = 24;

    const COMPARE_AND_SWAP: u64 = 1;
    const FETCH_AND_ADD: u64 = 2;
    const WRITE: u64 = 3;

    /// Encodes the operation.
    pub fn emit(&self) -> [u8; Atomic::LENGTH] {
        let code = match self.opcode {
            IBV_WR_ATOMIC_CMP_AND_SWP => Atomic::COMPARE_AND_SWAP,
            IBV_WR_ATOMIC_FETCH_AND_ADD => Atomic::FETCH_AND_ADD,
            _ => Atomic::WRITE,
        };
        let mut bytes = [0; Atomic::LENGTH];
        let words = [self.compare_add, self.operand, code];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// Decodes an operation; None for an unknown one.
    pub fn parse(bytes: &[u8; Atomic::LENGTH]) -> Option<Atomic> {
        let mut words = [0u64; 3];
        for (word, place) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*place);
        }
        let [compare_add, operand, code] = words;
        let opcode = match code {
            Atomic::COMPARE_AND_SWAP => IBV_WR_ATOMIC_CMP_AND_SWP,
            Atomic::FETCH_AND_ADD => IBV_WR_ATOMIC_FETCH_AND_ADD,
            Atomic::WRITE => IBV_WR_ATOMIC_WRITE,
            _ => return None,
        };
        Some(Atomic {
            opcode,
            compare_add,
            operand,
        })
    }

    /// Performs the operation and returns the original value.
    pub fn perform(&self, target: *mut u8) -> u64 {
        // SAFETY: the caller found an aligned, mapped word of registered memory, the peer's or
        // ours.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomic_operation_round_trips_and_invalid_ones_are_refused() {
        for opcode in [
            IBV_WR_ATOMIC_CMP_AND_SWP,
            IBV_WR_ATOMIC_FETCH_AND_ADD,
            IBV_WR_ATOMIC_WRITE,
        ] {
            let atomic = Atomic {
                opcode,
                compare_add: 0x0123_4567_89ab_cdef,
                operand: u64::MAX - 5,
            };
            assert_eq!(Atomic::parse(&atomic.emit()), Some(atomic));
        }
        assert_eq!(Atomic::parse(&[9; Atomic::LENGTH]), None);
    }
}
