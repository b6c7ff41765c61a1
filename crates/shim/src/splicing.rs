//! `vmsplice`: notes that pages of this process were put into a pipe, for the adapter, which then
//! leaves pages in place.
//!
//! The call itself goes on untouched. Who has spliced once may do so again, and how long pages stay
//! in a pipe is for its
//! readers to say, so the mark stays; a forked child has it too.

use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, c_uint, iovec, size_t, ssize_t};

use crate::kernel::system_call;
use crate::next::Next;

type SpliceFn = unsafe extern "C" fn(c_int, *const iovec, size_t, c_uint) -> ssize_t;

static HAS_SPLICED: AtomicBool = AtomicBool::new(false);

/// Whether the process has called vmsplice: asked by the adapter.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_has_spliced() -> c_int {
    HAS_SPLICED.load(Ordering::SeqCst).into()
}

/// As in C.
///
/// # Safety
/// As the C function.
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
    // SAFETY: both branches pass the caller's own arguments on.
    unsafe {
        match NEXT.get() {
            Some(next) => next(pipe, parts, count, flags),
            None => system_call!(libc::SYS_vmsplice, pipe, parts, count, flags) as ssize_t,
        }
    }
}
