//! Small numbers for the threads of a process, which select a thread's part of shared structures.
//!
//! Where the compiler supports it, the number lies in the thread's *static* storage
//! (initial-exec): a load and an offset, where a shared library's thread-local variables otherwise
//! cost a call. Of the C libraries only glibc reserves space there for libraries that are loaded
//! later.

use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(1);

/// Returns the calling thread's number: from 0 on, in the order of first use. No two threads share
/// one unless 2^32 have been created.
#[inline]
pub fn current() -> u32 {
    own() - 1
}

/// As [`current`], counted from 1 on.
#[inline]
pub fn own() -> u32 {
    match storage::get() {
        0 => assign(),
        known => known,
    }
}

#[cold]
fn assign() -> u32 {
    // The compiler may have reused the result of an earlier look.
    let known = storage::look();
    if known != 0 {
        return known;
    }
    let mut number = NEXT.load(Ordering::Relaxed);
    while number < u32::MAX {
        let (relaxed, next) = (Ordering::Relaxed, number + 1);
        match NEXT.compare_exchange_weak(number, next, relaxed, relaxed) {
            Ok(_) => break,
            Err(now) => number = now,
        }
    }
    storage::set(number);
    number
}

/// A word for each thread, initially 0.
#[cfg(all(target_arch = "x86_64", target_env = "gnu", not(miri)))]
mod storage {
    use std::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.verbena_thread_number,\"awT\",@nobits",
        ".globl verbena_thread_number",
        ".hidden verbena_thread_number",
        ".type verbena_thread_number, @object",
        ".size verbena_thread_number, 4",
        ".balign 4",
        "verbena_thread_number:",
        ".zero 4",
        ".popsection",
    );

    /// Reads the calling thread's word, with options of `asm!`.
    macro_rules! read {
        ($($option:ident),*) => {{
            let mut word: u64;
            // SAFETY: reads the calling thread's own word, which lives as long as the thread.
            unsafe {
                asm!(
                    "mov {0}, qword ptr [rip + verbena_thread_number@GOTTPOFF]",
                    "mov {0:e}, dword ptr fs:[{0}]",
                    out(reg) word,
                    options($($option,)* nostack, preserves_flags),
                );
            }
            word as u32
        }};
    }

    /// Returns the word. One call may stand for several: after `set` it may still be 0.
    #[inline(always)]
    pub fn get() -> u32 {
        read!(pure, nomem)
    }

    /// Returns the word as it is now.
    pub fn look() -> u32 {
        read!(readonly)
    }

    pub fn set(number: u32) {
        // SAFETY: writes the calling thread's own word, which only this thread uses.
        unsafe {
            asm!(
                "mov {0}, qword ptr [rip + verbena_thread_number@GOTTPOFF]",
                "mov dword ptr fs:[{0}], {1:e}",
                out(reg) _,
                in(reg) number,
                options(nostack, preserves_flags),
            );
        }
    }
}

/// A word for each thread, initially 0.
#[cfg(not(all(target_arch = "x86_64", target_env = "gnu", not(miri))))]
mod storage {
    use std::cell::Cell;

    thread_local! {
        static NUMBER: Cell<u32> = const { Cell::new(0) };
    }

    #[inline]
    pub fn get() -> u32 {
        NUMBER.get()
    }

    pub fn look() -> u32 {
        get()
    }

    pub fn set(number: u32) {
        NUMBER.set(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_number_is_stable_and_unique() {
        let own = current();
        assert_eq!(current(), own);
        let other = std::thread::spawn(current).join().unwrap();
        assert_ne!(other, own);
    }
}
