//! A fence that other threads of the process pass (membarrier(2)), so that they need none where they do not expect it.

use std::ffi::c_long;
use std::sync::OnceLock;
use std::time::Duration;

const PRIVATE_EXPEDITED: c_long = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: c_long = 1 << 4;

fn membarrier(command: c_long) -> bool {
    // SAFETY: the call takes numbers only, and touches no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Whether the kernel has it.
pub fn is_there() -> bool {
    static IS_THERE: OnceLock<bool> = OnceLock::new();
    *IS_THERE.get_or_init(|| membarrier(REGISTER_PRIVATE_EXPEDITED))
}

/// Every thread of this process passes a full fence between the call and its return. Only where [`is_there`].
pub fn pass_by_all() {
    // A forked child is a process of its own, and may have to say again that it wants this.
    if membarrier(PRIVATE_EXPEDITED)
        || membarrier(REGISTER_PRIVATE_EXPEDITED) && membarrier(PRIVATE_EXPEDITED)
    {
        return;
    }
    // Forbidden since. What a thread has stored is seen by all when it is switched, or long before.
    std::thread::sleep(Duration::from_millis(20));
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_passed_whenever_the_kernel_has_it() {
        if super::is_there() {
            super::pass_by_all();
        }
    }
}
