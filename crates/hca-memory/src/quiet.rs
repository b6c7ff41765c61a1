//! Keeps other threads from touching pages while they move; otherwise a write would be lost.
//!
//! The moving thread must not touch them either. UCX registers whole pages around buffers of
//! malloc(3), so the pages may contain the heap's own data, the adapter's data, or a lock.
//! Therefore, while pages are held: nothing is allocated or freed; no lock is taken whose holder
//! may be waiting for a held page; and only the stack and memory of [`verbena_hca_os::page_box`] is
//! used, where the arena lies with everything it needs. In the crate's tests an allocation during a
//! hold ends the process.
//!
//! In a process with one thread it is enough that no signal handler runs; in others userfaultfd
//! makes their accesses wait.

#[cfg(test)]
use crate::allocation_ban::AllocationBan;
use crate::arena::Arena;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::threads::SignalsBlocked;
use verbena_hca_os::userfault::{Held, Rights, UserFault};

/// While it lives, no signal handler runs on this thread, so none enters a held range and waits for
/// ever.
pub struct Quiet<'a> {
    others: Option<&'a UserFault>,
    _signals: SignalsBlocked,
}

impl<'a> Quiet<'a> {
    /// Prepares the replacement of pages.
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

    /// Returns whether pages may be missing for a moment. Not if system calls of other threads that
    /// access them would fail meanwhile: futex(2), for example, reads the program's word.
    pub fn tolerates_missing_pages(&self) -> bool {
        self.others
            .is_none_or(|fault| fault.rights() == Rights::Full)
    }

    /// Holds accesses to private pages once they are moved away.
    ///
    /// # Errors
    /// The system's.
    pub fn hold_missing(&self, start: u64, length: u64) -> Result<Option<HeldRange<'a>>> {
        self.others
            .map(|fault| HeldRange::of(|| fault.hold_missing(start, length)))
            .transpose()
    }

    /// Holds writes to present pages.
    ///
    /// # Errors
    /// As [`UserFault::hold_writes`].
    pub fn hold_writes(&self, start: u64, length: u64) -> Result<Option<HeldRange<'a>>> {
        self.others
            .map(|fault| HeldRange::of(|| fault.hold_writes(start, length)))
            .transpose()
    }
}

/// A range that is held until this is dropped.
pub struct HeldRange<'a> {
    held: Held<'a>,
    #[cfg(test)]
    _ban: AllocationBan,
}

impl<'a> HeldRange<'a> {
    fn of(hold: impl FnOnce() -> Result<Held<'a>>) -> Result<HeldRange<'a>> {
        #[cfg(test)]
        let _ban = AllocationBan::begin();
        Ok(HeldRange {
            held: hold()?,
            #[cfg(test)]
            _ban,
        })
    }

    /// As [`Held::replaced`].
    pub fn replaced(self) {
        self.held.replaced();
    }
}
