//! System calls of the shim's own: by the C library's syscall(2), past the one that `system.c`
//! defines, which would ask the shim again.

use libc::c_long;

use crate::next::Next;

type SyscallFn = unsafe extern "C" fn(c_long, ...) -> c_long;

// SAFETY: this name has this signature in every C library.
static NEXT: Next<SyscallFn> = unsafe { Next::new(c"syscall") };

/// The next `syscall` in line. Every C library has one.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_shim_next_syscall() -> Option<SyscallFn> {
    NEXT.get()
}

/// Makes a system call: `libc::syscall`, past the shim.
macro_rules! system_call {
    ($number:expr $(, $argument:expr)* $(,)?) => {
        match $crate::kernel::verbena_shim_next_syscall() {
            Some(next) => next($number $(, $argument)*),
            None => $crate::errno::fail(libc::ENOSYS).into(),
        }
    };
}

pub(crate) use system_call;
