//! Copies of descriptors: `dup`, `dup2`, `dup3`, and for `blocking.c` those made by `fcntl` and
//! received by `recvmsg`. A copy is of the same kind.

use std::mem;

use libc::{c_int, msghdr};

use crate::channel;
use crate::kernel::system_call;
use crate::kinds::{self, DescriptorKind};
use crate::management;
use crate::next::Next;

type DupFn = unsafe extern "C" fn(c_int) -> c_int;
type Dup2Fn = unsafe extern "C" fn(c_int, c_int) -> c_int;
type Dup3Fn = unsafe extern "C" fn(c_int, c_int, c_int) -> c_int;

// SAFETY: this name has this signature in every C library.
static DUP: Next<DupFn> = unsafe { Next::new(c"dup") };
// SAFETY: this name has this signature in every C library.
static DUP2: Next<Dup2Fn> = unsafe { Next::new(c"dup2") };
// SAFETY: this name has this signature in every C library.
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

/// Handles `copy`, the result of a call that copies `original`, and returns it.
fn copied(original: c_int, copy: c_int) -> c_int {
    let kind = kinds::of(original);
    if copy >= 0 && copy != original {
        // The call has closed the previous file.
        channel::closed(copy);
        kinds::copy(original, copy);
        match kind {
            DescriptorKind::Datagrams => management::copied(original, copy),
            DescriptorKind::Channel => channel::copied(copy),
            _ => {}
        }
    }
    copy
}

/// The C function.
///
/// # Safety
/// That of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup(original: c_int) -> c_int {
    // SAFETY: passes on the caller's arguments, which are valid for the C function.
    let copy = unsafe {
        match DUP.found() {
            Some(next) => next(original),
            None => system_call!(libc::SYS_dup, original) as c_int,
        }
    };
    copied(original, copy)
}

/// The C function.
///
/// # Safety
/// That of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(original: c_int, number: c_int) -> c_int {
    // SAFETY: passes on the caller's arguments, which are valid for the C function.
    let copy = unsafe {
        match DUP2.found() {
            Some(next) => next(original, number),
            // The system call that exists on every architecture (dup3) does not copy a descriptor
            // to itself.
            None if original == number => return without_copy(original),
            None => system_call!(libc::SYS_dup3, original, number, 0) as c_int,
        }
    };
    copied(original, copy)
}

/// Returns dup2's result for two equal numbers: the number, if it is open.
fn without_copy(number: c_int) -> c_int {
    // SAFETY: the call takes only integers.
    match unsafe { system_call!(libc::SYS_fcntl, number, libc::F_GETFD) } {
        -1 => -1,
        _ => number,
    }
}

/// The C function.
///
/// # Safety
/// That of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(original: c_int, number: c_int, flags: c_int) -> c_int {
    // SAFETY: passes on the caller's arguments, which are valid for the C function.
    let copy = unsafe {
        match DUP3.found() {
            Some(next) => next(original, number, flags),
            None => system_call!(libc::SYS_dup3, original, number, flags) as c_int,
        }
    };
    copied(original, copy)
}

/// Handles `copy`, the result of an fcntl that copies `original`, and returns it.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_shim_copied(original: c_int, copy: c_int) -> c_int {
    copied(original, copy)
}

/// Looks for channels of the connection manager that a message has brought.
///
/// # Safety
/// `message` must be filled in by recvmsg.
#[allow(clippy::unnecessary_cast)] // musl's `cmsg_len` has 32 bits
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbena_shim_received(message: *mut msghdr) {
    const SIZE: usize = mem::size_of::<c_int>();
    // SAFETY: the caller promises a message from recvmsg; the macros walk it within its bounds.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(part) = header.as_ref() {
            if part.cmsg_level == libc::SOL_SOCKET && part.cmsg_type == libc::SCM_RIGHTS {
                let bytes = (part.cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                let first = libc::CMSG_DATA(header).cast::<c_int>();
                for at in 0..bytes / SIZE {
                    let descriptor = first.add(at).read_unaligned();
                    channel::received(descriptor);
                    management::received(descriptor);
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}
