//! The threads of this process, and keeping signal handlers from running on the calling one.

use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;

const TASKS: &str = "/proc/self/task";

/// Whether the calling thread is the only one.
pub fn is_alone() -> bool {
    count() == 1
}

/// Threads of this process. The directory of them has a link for each, and two of its own (proc(5)); where it has not,
/// they are counted.
fn count() -> usize {
    match std::fs::metadata(TASKS).map(|tasks| tasks.nlink()) {
        Ok(links) if links > 2 => links as usize - 2,
        _ => std::fs::read_dir(TASKS).map_or(usize::MAX, |tasks| tasks.count()),
    }
}

/// No signal handler runs on this thread until this is dropped.
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
    fn a_second_thread_is_seen() {
        let (there, here) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || here.recv().is_err());
        assert!(count() >= 2 && !is_alone());
        let listed = std::fs::read_dir(TASKS).unwrap().count();
        assert!(listed >= 2);
        drop(there);
        thread.join().unwrap();
    }
}
