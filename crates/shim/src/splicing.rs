//! `vmsplice`: records for the adapter that pages of this process were put into a pipe; the adapter
//! then leaves pages in place.
//!
//! The call itself is passed on unchanged. The mark is permanent, as the process may splice again,
//! and the pipe's readers decide how long pages stay in it; a child of fork(2) inherits it.

use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, c_uint, iovec, size_t, ssize_t};

use crate::kernel::system_call;
use crate::next::Next;

type SpliceFn = unsafe extern "C" fn(c_int, *const iovec, size_t, c_uint) -> ssize_t;

static HAS_SPLICED: AtomicBool = AtomicBool::new(false);

/// Returns whether the process has called vmsplice. Called by the adapter.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_has_spliced() -> c_int {
    HAS_SPLICED.load(Ordering::SeqCst).into()
}

/// The C function.
///
/// # Safety
/// That of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vmsplice(
    pipe: c_int,
    parts: *const iovec,
    count: size_t,
    flags: c_uint,
) -> ssize_t {
    // SAFETY: this name has this signature in every C library.
    static NEXT: Next<SpliceFn> = unsafe { Next::new(c"vmsplice") };
    HAS_SPLICED.store(true, Ordering::SeqCst);
    // SAFETY: both branches pass on the caller's arguments, valid for the C function.
    unsafe {
        match NEXT.get() {
            Some(next) => next(pipe, parts, count, flags),
            None => system_call!(libc::SYS_vmsplice, pipe, parts, count, flags) as ssize_t,
        }
    }
}
