//! The threads of this process, and blocking of signals on the calling one.

use crate::errno::Result;
use rustix::fs::{Stat, fstat, stat};
use std::fs::File;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

const TASKS: &str = "/proc/self/task";

/// Returns whether the calling thread is the only one.
pub fn is_alone() -> bool {
    count() == 1
}

/// The threads of the process that opened it, for frequent queries; a forked child opens its own.
#[derive(Debug)]
pub struct Threads(File);

impl AsFd for Threads {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Threads {
    /// Opens the directory of threads.
    ///
    /// # Errors
    /// The system's.
    pub fn open() -> Result<Threads> {
        Ok(Threads(File::open(TASKS)?))
    }

    /// Returns whether the calling thread is the only one.
    pub fn are_one(&self) -> bool {
        count_by(fstat(&self.0)) == 1
    }
}

fn count() -> usize {
    count_by(stat(TASKS))
}

/// Returns the number of threads. Their directory has a link for each, and two of its own
/// (proc(5)); where it has not, they are counted.
fn count_by(directory: rustix::io::Result<Stat>) -> usize {
    match directory.map(|tasks| tasks.st_nlink) {
        Ok(links) if links > 2 => links as usize - 2,
        _ => std::fs::read_dir(TASKS).map_or(usize::MAX, |tasks| tasks.count()),
    }
}

/// Keeps signal handlers from running on this thread until it is dropped.
pub struct SignalsBlocked {
    before: libc::sigset_t,
}

impl SignalsBlocked {
    /// Blocks all signals that can be blocked.
    pub fn new() -> SignalsBlocked {
        let mut all = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: both sets are valid out-parameters; sigfillset and pthread_sigmask fill them.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            SignalsBlocked {
                before: before.assume_init(),
            }
        }
    }
}

impl Default for SignalsBlocked {
    fn default() -> SignalsBlocked {
        SignalsBlocked::new()
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set that was in force before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_thread_is_detected() {
        let (there, here) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || here.recv().is_err());
        assert!(count() >= 2 && !is_alone());
        assert!(!Threads::open().unwrap().are_one());
        let listed = std::fs::read_dir(TASKS).unwrap().count();
        assert!(listed >= 2);
        drop(there);
        thread.join().unwrap();
    }
}
