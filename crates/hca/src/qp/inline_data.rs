//! Inline data: bytes that a request carries, read from the buffers while it is posted.

use verbena_abi::ibv_sge;
use verbena_hca_os::copy;

/// Copies part of inline data.
///
/// # Safety
/// The buffers hold `offset + length` readable bytes, and `target` has space for `length`.
#[inline]
pub(super) unsafe fn gather_inline(
    sges: &[ibv_sge],
    offset: usize,
    target: *mut u8,
    length: usize,
) {
    if let [one] = sges {
        // SAFETY: the buffer holds `offset + length` bytes, and `target` has space for `length`.
        unsafe { copy::copy((one.addr as *const u8).wrapping_add(offset), target, length) };
        return;
    }
    if let ([one, other], 0) = (sges, offset) {
        let first = (one.length as usize).min(length);
        let second = (other.length as usize).min(length - first);
        // SAFETY: inside the buffers, and inside the space of `length` bytes.
        unsafe {
            copy::copy(one.addr as *const u8, target, first);
            copy::copy(other.addr as *const u8, target.add(first), second);
        }
        return;
    }
    let (mut skip, mut copied) = (offset, 0);
    for sge in sges {
        let skipped = skip.min(sge.length as usize);
        skip -= skipped;
        let part = (sge.length as usize - skipped).min(length - copied);
        // SAFETY: inside the buffer, and inside the remaining space.
        unsafe {
            let from = (sge.addr as *const u8).wrapping_add(skipped);
            copy::copy(from, target.add(copied), part);
        }
        copied += part;
    }
}
