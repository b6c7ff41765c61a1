//! Copies that another process may be watching.
//!
//! **Races.** A peer, a thread of the program or a device may write to the same memory during a
//! copy. Bounds do not exclude that: the keys of both memories permit it, and verbs leave the order
//! to the programs, as with an adapter's DMA. The copies are sound nevertheless:
//!
//! - They access the memory by raw pointers only. No reference to it exists, so the compiler may
//!   not assume that it stays unchanged.
//! - The bytes are moved, never used: no address, length, index or branch depends on them.
//!   Addresses and lengths come from checked requests in private memory. So a racing write changes
//!   at most the bytes that arrive, each of which is an old or a new one.
//! - `ptr::copy` compiles to moves of the processor, for which a write of another process at the
//!   same time is no different from DMA: it is outside of the program that the compiler sees. The
//!   moves may read or write a byte more than once and in any order.
//! - Where the order matters, that is for the last bytes, on which programs poll, the store is
//!   atomic and follows a release fence.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// Ordered copy: stores the last bytes last.
///
/// Programs poll on the last byte of an RDMA write, because adapters place a message in order of
/// address; a plain memory copy may store its end first. So the last (at most 8, aligned) bytes are
/// stored by one instruction after a release fence. Messages of 1, 2, 4 and 8 aligned bytes are
/// stored atomically.
///
/// # Safety
/// `source` must be readable and `target` writable for `length` bytes during the call. Both may
/// change meanwhile; if they overlap, the copied bytes are those of a racing DMA.
#[inline(always)]
pub unsafe fn ordered_copy(source: *const u8, target: *mut u8, length: usize) {
    if length == size_of::<u64>() && target.cast::<AtomicU64>().is_aligned() {
        // SAFETY: 8 bytes at each address, and the target is aligned; others may write to both at
        // the same time (see the header).
        unsafe {
            (*target.cast::<AtomicU64>())
                .store(source.cast::<u64>().read_unaligned(), Ordering::Release);
        }
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        if (FEWEST..=MOST).contains(&length) {
            copy_some_in_order(source, target, length);
        } else {
            copy_any_in_order(source, target, length);
        }
    }
}

/// Lengths of short messages, of more than a word: a call of the copy function takes longer than
/// copying them.
const FEWEST: usize = size_of::<u64>() + 1;
const MOST: usize = 4 * size_of::<u64>() + 1;

/// [`ordered_copy`] for [`FEWEST`] to [`MOST`] bytes.
#[inline(always)]
unsafe fn copy_some_in_order(source: *const u8, target: *mut u8, length: usize) {
    // The last bytes, as in `copy_any_in_order`.
    let tail = match (target as usize + length) % 8 {
        0 => 8,
        4 => 4,
        2 | 6 => 2,
        _ => 1,
    };
    let body = length - tail;
    // SAFETY: `body + tail == length`, so all ranges are inside the caller's; the tail is aligned
    // as computed. Others may write to both ranges at the same time (see the header).
    unsafe {
        copy_few(source, target, body);
        fence(Ordering::Release);
        store_tail(source.add(body), target.add(body), tail);
    }
}

/// Copies 1 to 32 bytes, by words that overlap.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
unsafe fn copy_few(source: *const u8, target: *mut u8, length: usize) {
    /// Copies the first and the last bytes: `length` is at least the size of `T`, at most twice
    /// that.
    #[inline(always)]
    unsafe fn copy_ends<T>(source: *const u8, target: *mut u8, length: usize) {
        let last = length - size_of::<T>();
        // SAFETY: both words lie inside the ranges that the caller describes.
        unsafe {
            let first_word = source.cast::<T>().read_unaligned();
            let last_word = source.add(last).cast::<T>().read_unaligned();
            target.cast::<T>().write_unaligned(first_word);
            target.add(last).cast::<T>().write_unaligned(last_word);
        }
    }
    // SAFETY: the caller's promise; each word is no longer than the range.
    unsafe {
        match length {
            16.. => copy_ends::<u128>(source, target, length),
            8.. => copy_ends::<u64>(source, target, length),
            4.. => copy_ends::<u32>(source, target, length),
            2.. => copy_ends::<u16>(source, target, length),
            _ => copy_ends::<u8>(source, target, length),
        }
    }
}

/// Stores the last 1, 2, 4 or 8 bytes, which are aligned at the target, by one instruction.
#[inline(always)]
unsafe fn store_tail(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller promises so many bytes, aligned at the target.
    unsafe {
        match length {
            8 => (*to.cast::<AtomicU64>())
                .store(from.cast::<u64>().read_unaligned(), Ordering::Release),
            4 => (*to.cast::<AtomicU32>())
                .store(from.cast::<u32>().read_unaligned(), Ordering::Release),
            2 => (*to.cast::<AtomicU16>())
                .store(from.cast::<u16>().read_unaligned(), Ordering::Release),
            _ => (*to.cast::<AtomicU8>()).store(*from, Ordering::Release),
        }
    }
}

/// [`ordered_copy`] for any length.
unsafe fn copy_any_in_order(source: *const u8, target: *mut u8, length: usize) {
    if length == 0 {
        return;
    }
    let end = target as usize + length;
    let tail = match length {
        1 => 1,
        _ if end.is_multiple_of(8) && length >= 8 => 8,
        _ if end.is_multiple_of(4) && length >= 4 => 4,
        _ if end.is_multiple_of(2) => 2,
        _ => 1,
    };
    let body = length - tail;
    // SAFETY: `body + tail == length`, so all ranges are inside the caller's; the tail is aligned
    // as computed. Others may write to both ranges at the same time (see the header).
    unsafe {
        if body > 0 {
            std::ptr::copy(source, target, body);
            fence(Ordering::Release);
        }
        store_tail(source.add(body), target.add(body), tail);
    }
}

/// Copies without regard to order, for memory that no program polls.
///
/// # Safety
/// As [`ordered_copy`].
#[inline]
pub unsafe fn copy(source: *const u8, target: *mut u8, length: usize) {
    // SAFETY: the caller promises `length` readable bytes at `source` and writable ones at
    // `target`. Others may write to both at the same time (see the header).
    unsafe {
        if length == size_of::<u64>() {
            // The smallest messages are frequent, and a call of the copy function takes longer than
            // the copy.
            let word = source.cast::<u64>().read_unaligned();
            target.cast::<u64>().write_unaligned(word);
        } else if (9..=32).contains(&length) {
            // Headers of MPI libraries.
            copy_few(source, target, length);
        } else {
            std::ptr::copy(source, target, length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_every_length_and_alignment_are_whole() {
        let source: Vec<u8> = (0..100).collect();
        for start in 0..16 {
            for length in 0..70 {
                let mut target = [0xffu8; 100];
                // SAFETY: both are 100 bytes long and start + length <= 85.
                unsafe {
                    ordered_copy(
                        source.as_ptr().add(3),
                        target.as_mut_ptr().add(start),
                        length,
                    )
                };
                let mut unordered = [0xffu8; 100];
                // SAFETY: as above.
                unsafe {
                    copy(
                        source.as_ptr().add(3),
                        unordered.as_mut_ptr().add(start),
                        length,
                    )
                };
                assert_eq!(&target[start..start + length], &source[3..3 + length]);
                assert!(target[..start].iter().all(|byte| *byte == 0xff));
                assert!(target[start + length..].iter().all(|byte| *byte == 0xff));
                assert_eq!(unordered, target);
            }
        }
    }
}
