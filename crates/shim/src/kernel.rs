//! The shim's own system calls, by the C library's syscall(2); the one in `system.c` would consult
//! the shim again.

use libc::c_long;

use crate::next::Next;

type SyscallFn = unsafe extern "C" fn(c_long, ...) -> c_long;

// SAFETY: this name has this signature in every C library.
static NEXT: Next<SyscallFn> = unsafe { Next::new(c"syscall") };

/// Returns the next `syscall`. Every C library has one.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_shim_next_syscall() -> Option<SyscallFn> {
    NEXT.get()
}

/// Makes a system call by `libc::syscall`, bypassing the shim.
macro_rules! system_call {
    ($number:expr $(, $argument:expr)* $(,)?) => {
        match $crate::kernel::verbena_shim_next_syscall() {
            Some(next) => next($number $(, $argument)*),
            None => $crate::errno::fail(libc::ENOSYS).into(),
        }
    };
}

pub(crate) use system_call;
