//! Synchronised starts (rule 11): a page shared by the processes of a node, with barriers that cost
//! one cache line.
//!
//! The paper's authors used System V shared memory for the same purpose (connectx_multicore,
//! section 3.1). The page is a file mapped by all processes of the node. Every barrier has a
//! counter of arrivals and is complete when a multiple of its members has arrived. Counters only
//! grow, and each process counts its own arrivals, so a barrier needs no reset.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of counters in a page, each on its own cache lines.
pub const COUNTERS: usize = 48;
const SPACING: usize = 128;
const LENGTH: usize = COUNTERS * SPACING;

/// A page of counters shared by the processes of a node.
pub struct SharedPage {
    start: NonNull<u8>,
}
// SAFETY: the mapping is accessed only through atomics and belongs to no thread.
unsafe impl Send for SharedPage {}
// SAFETY: the mapping is accessed only through atomics, which may be shared between threads.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    /// Maps the file at `path`, creating and sizing it if necessary.
    ///
    /// # Errors
    ///
    /// Returns the error of opening, resizing or mapping the file.
    pub fn open(path: &Path) -> io::Result<SharedPage> {
        use std::os::unix::fs::OpenOptionsExt;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        file.set_len(LENGTH as u64)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: maps a file of at least LENGTH bytes at an address that the kernel chooses, so no
        // existing memory is affected.
        let start = unsafe {
            let none = std::ptr::null_mut();
            libc::mmap(
                none,
                LENGTH,
                protection,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(start.cast::<u8>()).filter(|_| start != libc::MAP_FAILED) {
            Some(start) => Ok(SharedPage { start }),
            None => Err(io::Error::last_os_error()),
        }
    }

    /// Returns the counter at `index`.
    ///
    /// # Panics
    ///
    /// Panics if `index` is not below [`COUNTERS`].
    pub fn counter(&self, index: usize) -> &AtomicU64 {
        assert!(index < COUNTERS, "counter {index} of {COUNTERS}");
        // SAFETY: the address is within the mapping (`index` is below COUNTERS) and aligned
        // (SPACING is a multiple of 8), and all processes access it atomically.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(index * SPACING).cast()) }
    }

    /// Arrives at a barrier for the `turn`-th time (from 1) and returns the count at which it is
    /// complete.
    pub fn arrive(&self, index: usize, turn: u64, members: usize) -> u64 {
        self.counter(index).fetch_add(1, Ordering::AcqRel);
        turn * members as u64
    }

    /// Returns whether a barrier is complete.
    #[inline]
    pub fn complete(&self, index: usize, count: u64) -> bool {
        self.counter(index).load(Ordering::Acquire) >= count
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // SAFETY: `open` mapped exactly these LENGTH bytes, and references to the counters do not
        // outlive `self`.
        unsafe { libc::munmap(self.start.as_ptr().cast(), LENGTH) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_barrier_releases_after_all_arrived() {
        let path = std::env::temp_dir().join(format!("verbena-start-test-{}", std::process::id()));
        let inside = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                let (path, inside) = (&path, &inside);
                scope.spawn(move || {
                    let page = SharedPage::open(path).unwrap();
                    for turn in 1..=50u64 {
                        inside.fetch_add(1, Ordering::SeqCst);
                        let count = page.arrive(0, turn, 3);
                        while !page.complete(0, count) {
                            std::thread::yield_now();
                        }
                        assert!(inside.load(Ordering::SeqCst) >= 3 * turn);
                    }
                });
            }
        });
        std::fs::remove_file(path).unwrap();
    }
}
