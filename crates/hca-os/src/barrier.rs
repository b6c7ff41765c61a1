//! A fence that all other threads of the process pass (membarrier(2)), so that they need none on
//! their fast path.

use crate::start::start;
use crate::threads;
use std::ffi::c_long;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const PRIVATE_EXPEDITED: c_long = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: c_long = 1 << 4;

fn membarrier(command: c_long) -> bool {
    // SAFETY: the call takes numbers only, and touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

static IS_AVAILABLE: AtomicBool = AtomicBool::new(false);

/// Registers for the barrier, if the kernel has it. In a process of several threads that takes
/// until every processor has been through the scheduler, some tens of milliseconds: a separate
/// thread waits for it.
pub fn prepare() {
    let register = || IS_AVAILABLE.store(membarrier(REGISTER_PRIVATE_EXPEDITED), Ordering::Release);
    if threads::is_alone() {
        register();
        return;
    }
    // Without the thread there is no barrier, which only costs time.
    let _ = start(c"verbena barrier", 64 << 10, register);
}

/// Returns whether the barrier can be used now.
pub fn is_available() -> bool {
    IS_AVAILABLE.load(Ordering::Acquire)
}

/// Makes every thread of this process pass a full fence between call and return. Only where
/// [`is_available`] is true.
pub fn fence_all_threads() {
    // A forked child is a new process, and may have to register again.
    if membarrier(PRIVATE_EXPEDITED)
        || membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED)
    {
        return;
    }
    // Forbidden in the meantime. Stores of a thread are visible to all when it is switched, or long
    // before.
    std::thread::sleep(Duration::from_millis(20));
}

#[cfg(test)]
mod tests {
    #[test]
    fn barrier_is_passed_when_the_kernel_supports_it() {
        super::prepare();
        for _ in 0..2000 {
            if super::is_available() {
                super::fence_all_threads();
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
