//! Copies of descriptors: `dup`, `dup2`, `dup3`, and for `blocking.c` those that `fcntl` makes and
//! those that `recvmsg` brings. A copy is of the same kind.

use std::mem;

use libc::{c_int, msghdr};

use crate::channel;
use crate::kernel::system_call;
use crate::kinds::{self, Kind};
use crate::next::Next;

type DupFn = unsafe extern "C" fn(c_int) -> c_int;
type Dup2Fn = unsafe extern "C" fn(c_int, c_int) -> c_int;
type Dup3Fn = unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;

// SAFETY: this name and those below have these signatures in every C library.
static DUP: Next<DupFn> = unsafe { Next::new(c"dup") };
// SAFETY: as above.
static DUP2: Next<Dup2Fn> = unsafe { Next::new(c"dup2") };
// SAFETY: as above.
static DUP3: Next<Dup3Fn> = unsafe { Next::new(c"dup3") };

/// Finds the next functions before the program runs.
#[used]
#[unsafe(link_section = ".init_array")]
static PREPARE: extern "C" fn() = {
    extern "C" fn prepare() {
        DUP.get();
        DUP2.get();
        DUP3.get();
    }
    prepare
};

/// `copy`, which a call has made of `original`, or a failure.
fn copied(original: c_int, copy: c_int) -> c_int {
    let kind = kinds::of(original);
    if copy >= 0 && copy != original {
        // What was there before has been closed by the call.
        channel::closed(copy);
        kinds::copy(original, copy);
        if kind == Kind::Channel {
            channel::copied(copy);
        }
    }
    copy
}

/// As in C.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(original: c_int) -> c_int {
    // SAFETY: passes the caller's own argument on.
    let copy = unsafe {
        match DUP.found() {
            Some(next) => next(original),
            None => system_call!(libc::SYS_dup, original) as c_int,
        }
    };
    copied(original, copy)
}

/// As in C.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(original: c_int, number: c_int) -> c_int {
    // SAFETY: passes the caller's own arguments on.
    let copy = unsafe {
        match DUP2.found() {
            Some(next) => next(original, number),
            // The system call that every architecture has refuses to copy a descriptor to itself.
            None if original == number => return without_copy(original),
            None => system_call!(libc::SYS_dup3, original, number, 0) as c_int,
        }
    };
    copied(original, copy)
}

/// What dup2 answers for one number twice: that, if it is open.
fn without_copy(number: c_int) -> c_int {
    // SAFETY: a plain system call.
    match unsafe { system_call!(libc::SYS_fcntl, number, libc::F_GETFD) } {
        -1 => -1,
        _ => number,
    }
}

/// As in C.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(original: c_int, number: c_int, flags: c_int) -> c_int {
    // SAFETY: passes the caller's own arguments on.
    let copy = unsafe {
        match DUP3.found() {
            Some(next) => next(original, number, flags),
            None => system_call!(libc::SYS_dup3, original, number, flags) as c_int,
        }
    };
    copied(original, copy)
}

/// `copy`, which fcntl has made of `original`, or a failure.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_shim_copied(original: c_int, copy: c_int) -> c_int {
    copied(original, copy)
}

/// Looks for channels of the connection manager that came with a message.
///
/// # Safety
/// `message` was filled in by recvmsg.
#[allow(clippy::unnecessary_cast)] // musl's `cmsg_len` has 32 bits
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbena_shim_received(message: *mut msghdr) {
    const SIZE: usize = mem::size_of::<c_int>();
    // SAFETY: walks what the kernel has filled in, by the macros for that.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(part) = header.as_ref() {
            if part.cmsg_level == libc::SOL_SOCKET && part.cmsg_type == libc::SCM_RIGHTS {
                let bytes = (part.cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                let first = libc::CMSG_DATA(header).cast::<c_int>();
                for at in 0..bytes / SIZE {
                    channel::received(first.add(at).read_unaligned());
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}
