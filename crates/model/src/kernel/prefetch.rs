//! Prefetching of memory into the processor's caches.

use std::mem::size_of_val;

/// Bytes per cache line.
const LINE: usize = 64;

/// Prefetches the cache lines of `value` without waiting for them.
pub(crate) fn of<T: ?Sized>(value: &T) {
    let (start, bytes) = (std::ptr::from_ref(value).cast::<u8>(), size_of_val(value));
    let mut offset = 0;
    while offset < bytes {
        line(start.wrapping_add(offset));
        offset += LINE;
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the processor's hint has no safe form")]
fn line(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch is a hint: it neither faults nor changes memory, for any address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
fn line(_: *const u8) {}
