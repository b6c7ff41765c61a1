//! `read` of a descriptor of events: fewer bytes than an event has are refused, and the event stays,
//! as by the kernel's `ib_uverbs_event_read`. The descriptor is the reading end of a pipe of
//! packets, of which a short read would lose the rest.

use libc::{c_int, c_void, ssize_t};

use crate::errno;
use crate::kinds::{self, Kind};
use crate::next::Next;

type ReadFn = unsafe extern "C-unwind" fn(c_int, *mut c_void, usize) -> ssize_t;
type ReadCheckedFn = unsafe extern "C-unwind" fn(c_int, *mut c_void, usize, usize) -> ssize_t;

// SAFETY: this name has this signature in every C library.
static READ: Next<ReadFn> = unsafe { Next::new(c"read") };
// SAFETY: this name has this signature in every C library that has it.
static READ_CHECKED: Next<ReadCheckedFn> = unsafe { Next::new(c"__read_chk") };

/// Finds the next functions before the program runs.
#[used]
#[unsafe(link_section = ".init_array")]
static PREPARE: extern "C" fn() = {
    extern "C" fn prepare() {
        READ.get();
        READ_CHECKED.get();
    }
    prepare
};

/// The longest record.
const LONGEST: usize = 16;

/// Notes that events of `record` bytes each are read from `descriptor`: told by the adapter.
#[unsafe(no_mangle)]
pub extern "C" fn verbena_event_descriptor(descriptor: c_int, record: usize) {
    let kind = match record {
        8 => Kind::Completions,
        LONGEST => Kind::Asynchronous,
        _ => return,
    };
    errno::kept(|| kinds::set_events(descriptor, kind));
}

/// As in C.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(
    descriptor: c_int,
    buffer: *mut c_void,
    count: usize,
) -> ssize_t {
    if count < LONGEST && is_too_short(descriptor, count) {
        return refuse(descriptor);
    }
    // SAFETY: passes the caller's own arguments on.
    unsafe {
        match READ.found() {
            Some(next) => next(descriptor, buffer, count),
            None => libc::syscall(libc::SYS_read, descriptor, buffer, count) as ssize_t,
        }
    }
}

/// As in C: `read` of a program that is compiled with checks of its buffers.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(
    descriptor: c_int,
    buffer: *mut c_void,
    count: usize,
    room: usize,
) -> ssize_t {
    // SAFETY: passes the caller's own arguments on; what exceeds the room is for the next function.
    unsafe {
        match READ_CHECKED.found() {
            Some(next) if count > room || !is_too_short(descriptor, count) => {
                next(descriptor, buffer, count, room)
            }
            _ => read(descriptor, buffer, count),
        }
    }
}

/// Whether `count` bytes are fewer than a record of the descriptor.
#[inline]
fn is_too_short(descriptor: c_int, count: usize) -> bool {
    let record = match kinds::of(descriptor) {
        Kind::Completions => 8,
        Kind::Asynchronous => LONGEST,
        _ => return false,
    };
    count < record && errno::kept(|| kinds::is_still(descriptor))
}

/// Fails when there is an event, and not before, unless the descriptor does not block.
#[cold]
fn refuse(descriptor: c_int) -> ssize_t {
    // SAFETY: a plain system call.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, descriptor, libc::F_GETFL) };
    let blocks = flags as c_int & libc::O_NONBLOCK == 0;
    let mut wait = libc::pollfd {
        fd: descriptor,
        events: libc::POLLIN,
        revents: 0,
    };
    let patience = if blocks { -1 } else { 0 };
    // SAFETY: one valid pollfd.
    let result = match unsafe { libc::poll(&mut wait, 1, patience) } {
        0 => errno::fail(libc::EAGAIN),
        // A signal: poll has said so.
        -1 => -1,
        _ => errno::fail(libc::EINVAL),
    };
    result as ssize_t
}
