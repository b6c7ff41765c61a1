//! Descriptors of the connection manager's device: `write`, `close` and `fstat`.
//!
//! librdmacm writes commands to such a descriptor and asks whether it is a character device. The
//! library that plays the device made it and carries the commands out; this knows only which
//! descriptors are meant, one bit each. Every `write` and `close` of a program comes by here, also
//! from signal handlers, so what is not ours goes on after a look at that bit, and nothing is
//! looked up on the way: the next functions in line are found when the shim is loaded.

use std::sync::atomic::{AtomicU64, Ordering};

use libc::{c_int, c_void, ssize_t, stat as Stat};

use crate::errno;
use crate::library::Function;
use crate::next::Next;

type WriteFn = unsafe extern "C" fn(c_int, *const c_void, usize) -> ssize_t;
type CloseFn = unsafe extern "C" fn(c_int) -> c_int;
type FstatFn = unsafe extern "C" fn(c_int, *mut Stat) -> c_int;
type FxstatFn = unsafe extern "C" fn(c_int, c_int, *mut Stat) -> c_int;

// SAFETY: Verbena's own functions have these signatures.
static OPEN: Function<unsafe extern "C" fn() -> c_int> =
    unsafe { Function::new(c"verbena_cm_open") };
// SAFETY: as above.
static CARRY_OUT: Function<WriteFn> = unsafe { Function::new(c"verbena_cm_write") };
// SAFETY: as above.
static END: Function<unsafe extern "C" fn(c_int)> = unsafe { Function::new(c"verbena_cm_close") };

/// Descriptors that can be channels: below this.
const MOST: usize = 1 << 16;
static OURS: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];

/// The word and the bit of a descriptor.
fn place(descriptor: c_int) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(descriptor).ok()?;
    Some((OURS.get(number / 64)?, 1 << (number % 64)))
}

#[inline]
fn is_ours(descriptor: c_int) -> bool {
    place(descriptor).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// Opens a channel. It is closed on exec whatever the flags say, for it means nothing to another
/// program.
pub fn open(flags: c_int) -> c_int {
    let Some(open) = OPEN.get() else {
        return errno::fail(libc::ENODEV);
    };
    // SAFETY: it takes nothing.
    let descriptor = unsafe { open() };
    if descriptor < 0 {
        return errno::fail(-descriptor);
    }
    let Some((word, bit)) = place(descriptor) else {
        // SAFETY: our own descriptor, which nobody has seen.
        unsafe { libc::close(descriptor) };
        return errno::fail(libc::EMFILE);
    };
    if flags & libc::O_NONBLOCK != 0 {
        // SAFETY: as above.
        unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_NONBLOCK) };
    }
    word.fetch_or(bit, Ordering::Relaxed);
    descriptor
}

// SAFETY: these names have these signatures in every C library.
static WRITE: Next<WriteFn> = unsafe { Next::new(c"write") };
// SAFETY: as above.
static CLOSE: Next<CloseFn> = unsafe { Next::new(c"close") };

/// Finds the next functions before the program runs.
#[used]
#[unsafe(link_section = ".init_array")]
static PREPARE: extern "C" fn() = {
    extern "C" fn prepare() {
        WRITE.get();
        CLOSE.get();
    }
    prepare
};

/// As in C; a write to the connection manager is a command.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(descriptor: c_int, buffer: *const c_void, count: usize) -> ssize_t {
    if is_ours(descriptor)
        && let Some(carry_out) = CARRY_OUT.get()
    {
        // SAFETY: passes the caller's own arguments on.
        let outcome = unsafe { carry_out(descriptor, buffer, count) };
        if outcome >= 0 {
            return outcome;
        }
        return errno::fail(-outcome as c_int) as ssize_t;
    }
    // SAFETY: passes the caller's own arguments on.
    unsafe {
        match WRITE.found() {
            Some(next) => next(descriptor, buffer, count),
            None => libc::syscall(libc::SYS_write, descriptor, buffer, count) as ssize_t,
        }
    }
}

/// As in C; a channel of the connection manager ends with its descriptor.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    if is_ours(descriptor) {
        if let Some(end) = END.get() {
            // SAFETY: it takes any number.
            errno::kept(|| unsafe { end(descriptor) });
        }
        // Not before: what another thread writes until the channel has ended is a command still.
        if let Some((word, bit)) = place(descriptor) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }
    // SAFETY: passes the caller's own argument on.
    unsafe {
        match CLOSE.found() {
            Some(next) => next(descriptor),
            None => libc::syscall(libc::SYS_close, descriptor) as c_int,
        }
    }
}

/// What `fstat` says of a channel: that it is a character device.
///
/// # Safety
/// `status` was filled in by a call that succeeded.
unsafe fn disguise(descriptor: c_int, status: *mut Stat) {
    if is_ours(descriptor) {
        // SAFETY: by the caller's promise.
        unsafe { (*status).st_mode = libc::S_IFCHR | 0o666 };
    }
}

macro_rules! fstat_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// As in C; a channel of the connection manager is a character device.
        ///
        /// # Safety
        /// As the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(descriptor: c_int, status: *mut Stat) -> c_int {
            // SAFETY: this name has this signature in every C library that has it.
            static NEXT: Next<FstatFn> = unsafe { Next::new($symbol) };
            // SAFETY: passes the caller's own arguments on.
            unsafe {
                let result = match NEXT.get() {
                    Some(next) => next(descriptor, status),
                    None => libc::syscall(libc::SYS_fstat, descriptor, status) as c_int,
                };
                if result == 0 {
                    disguise(descriptor, status);
                }
                result
            }
        }
    )*};
}

fstat_family! {
    fstat, c"fstat";
    fstat64, c"fstat64";
}

macro_rules! fxstat_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// As in C; a channel of the connection manager is a character device.
        ///
        /// # Safety
        /// As the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            version: c_int,
            descriptor: c_int,
            status: *mut Stat,
        ) -> c_int {
            // SAFETY: this name has this signature in every C library that has it.
            static NEXT: Next<FxstatFn> = unsafe { Next::new($symbol) };
            // SAFETY: passes the caller's own arguments on.
            unsafe {
                let result = match NEXT.get() {
                    Some(next) => next(version, descriptor, status),
                    None => libc::syscall(libc::SYS_fstat, descriptor, status) as c_int,
                };
                if result == 0 {
                    disguise(descriptor, status);
                }
                result
            }
        }
    )*};
}

fxstat_family! {
    __fxstat, c"__fxstat";
    __fxstat64, c"__fxstat64";
}
