//! Small numbers for the threads of a process, by which each finds what is its own among what all share.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

static NEXT: AtomicU32 = AtomicU32::new(1);

thread_local! {
    /// 0 until it is asked for: so there is nothing to set up when it is looked at.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

/// That of the calling thread: from 0 on, in the order of asking. No two threads have the same unless 2^32 have been.
#[inline]
pub fn current() -> u32 {
    let number = match NUMBER.get() {
        0 => assign(),
        known => known,
    };
    number - 1
}

#[cold]
fn assign() -> u32 {
    let next = |number: u32| (number < u32::MAX).then_some(number + 1);
    let number = NEXT
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
        .unwrap_or(u32::MAX);
    NUMBER.set(number);
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_number_and_shares_it_with_none() {
        let own = current();
        assert_eq!(current(), own);
        let other = std::thread::spawn(current).join().unwrap();
        assert_ne!(other, own);
    }
}
