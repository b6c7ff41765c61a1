//! While pages move, no other thread may touch them, or a write would be lost.
//!
//! Nor may the thread that moves them. UCX registers whole pages around buffers of malloc(3), so
//! the pages may hold the heap's own data, the adapter's data, or a lock. Therefore, while pages
//! are held: nothing is allocated or freed; no lock is taken whose holder may be waiting for a held
//! page; and only the stack and memory of [`crate::sys::apart`] is used, where the arena lies with
//! all it needs. In the crate's tests an allocation during a hold ends the process.
//!
//! In a process of one thread it is enough that no signal handler runs; in others userfaultfd makes
//! their accesses wait.

use crate::errno::{Errno, Result};
use crate::memory::arena::Arena;
use crate::sys::threads::SignalsBlocked;
use crate::sys::userfault::{Held, Rights, UserFault};

/// No signal handler runs on this thread while it lives, so none runs into a held range and waits for ever.
pub struct Quiet<'a> {
    others: Option<&'a UserFault>,
    _signals: SignalsBlocked,
}

impl<'a> Quiet<'a> {
    /// Makes ready for replacing pages.
    ///
    /// # Errors
    /// EPERM when there are other threads and they cannot be held.
    pub fn begin(arena: &'a Arena) -> Result<Quiet<'a>> {
        let others = match arena.is_of_one_thread() {
            true => None,
            false => Some(arena.userfault().ok_or(Errno::EPERM)?),
        };
        Ok(Quiet {
            others,
            _signals: SignalsBlocked::new(),
        })
    }

    /// Whether pages may be missing for a moment without anybody noticing: not when the kernel's accesses for other
    /// threads would fail then, for that is what waiting for a futex is.
    pub fn may_miss_pages(&self) -> bool {
        self.others
            .is_none_or(|fault| fault.rights() == Rights::Full)
    }

    /// Holds whoever touches private pages once they are taken away.
    pub fn hold_missing(&self, start: u64, length: u64) -> Result<Option<Held<'a>>> {
        self.others
            .map(|fault| fault.hold_missing(start, length))
            .transpose()
    }

    /// Holds whoever writes to pages that are there.
    pub fn hold_writes(&self, start: u64, length: u64) -> Result<Option<Held<'a>>> {
        self.others
            .map(|fault| fault.hold_writes(start, length))
            .transpose()
    }
}
