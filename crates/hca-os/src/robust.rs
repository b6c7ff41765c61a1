//! A word that the kernel marks when the thread that holds it ends in any way (robust futexes,
//! set_robust_list(2)). The mark is set before a wait for the process can return.

use std::ffi::c_long;
use std::sync::atomic::{AtomicU32, Ordering};

/// One lock of the list: the kernel follows `next`, and finds the word at [`Head::offset`] from
/// here.
#[repr(C)]
struct Lock {
    next: *const Lock,
}

/// The kernel's `struct robust_list_head`.
#[repr(C)]
struct Head {
    list: Lock,
    offset: c_long,
    pending: *const Lock,
}

/// Makes the calling thread hold the word until it ends. Returns whether the kernel accepted that:
/// otherwise the word is 0 and stays so. For a thread that takes no robust mutex of the C library,
/// whose list this replaces.
pub fn hold(word: &'static AtomicU32) -> bool {
    let lock = Box::leak(Box::new(Lock {
        next: std::ptr::null(),
    }));
    let at = std::ptr::from_ref(lock) as isize;
    let head = Box::leak(Box::new(Head {
        list: Lock { next: lock },
        offset: (word.as_ptr() as isize - at) as c_long,
        pending: std::ptr::null(),
    }));
    // The list is a ring.
    lock.next = &head.list;
    // SAFETY: gettid takes no arguments. The kernel keeps the address of the list, which is leaked,
    // and reads it when the thread ends; the word that it leads to is static.
    let is_known = unsafe {
        word.store(libc::gettid() as u32, Ordering::SeqCst);
        libc::syscall(libc::SYS_set_robust_list, head, size_of::<Head>()) == 0
    };
    if !is_known {
        word.store(0, Ordering::SeqCst);
    }
    is_known
}

/// Returns whether the thread that held a word has ended.
#[inline]
pub fn was_left(word: u32) -> bool {
    word & libc::FUTEX_OWNER_DIED != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn death_of_the_lock_holder_is_detected() {
        let word: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        let holder = std::thread::spawn(move || {
            let is_known = hold(word);
            (is_known, was_left(word.load(Ordering::SeqCst)))
        });
        let (is_known, was_left_then) = holder.join().unwrap();
        assert!(!was_left_then);
        // The C library joins when the kernel clears the thread's number, which it does after it
        // has marked the word.
        assert_eq!(was_left(word.load(Ordering::SeqCst)), is_known);
    }
}
