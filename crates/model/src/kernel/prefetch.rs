//! Memory that is asked for before it is needed.

use std::mem::size_of_val;

/// Bytes of a line of the processor's caches.
const LINE: usize = 64;

/// Has the processor fetch `value` while it does something else.
pub(super) fn of<T: ?Sized>(value: &T) {
    let (start, bytes) = (std::ptr::from_ref(value).cast::<u8>(), size_of_val(value));
    for offset in (0..bytes).step_by(LINE) {
        line(start.wrapping_add(offset));
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the processor's hint has no safe form")]
fn line(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch is a hint: it neither faults nor changes anything, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
fn line(_: *const u8) {}
