//! Descriptors of the connection manager's device: `write`, `close` and `fstat`.
//!
//! librdmacm writes commands to such a descriptor and asks whether it is a character device. The
//! library that plays the device made it and carries the commands out; this knows only which
//! descriptors are meant ([`kinds`]). Every `write` and `close` of a program comes by here, also
//! from signal handlers, so what is not ours goes on after a look at that, and nothing is looked up
//! on the way: the next functions in line are found when the shim is loaded.

use std::mem;

use libc::{c_int, c_void, sockaddr_un, socklen_t, ssize_t, stat as Stat};

use crate::errno;
use crate::kernel::system_call;
use crate::kinds::{self, Kind};
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

// SAFETY: as above.
static COPIED: Function<unsafe extern "C" fn(c_int)> =
    unsafe { Function::new(c"verbena_cm_copied") };

#[inline]
fn is_ours(descriptor: c_int) -> bool {
    kinds::of(descriptor) == Kind::Channel
}

/// Whether the file is a channel, of whichever process: the library gives the other end of its
/// sockets such a name.
#[cold]
fn is_a_channel(descriptor: c_int) -> bool {
    const NAME: &[u8] = b"\0verbena-cm/";
    errno::kept(|| {
        // SAFETY: all zeros are a socket address; `length` bytes of it may be written.
        let (result, peer) = unsafe {
            let mut peer: sockaddr_un = mem::zeroed();
            let mut length = mem::size_of::<sockaddr_un>() as socklen_t;
            let to = (&raw mut peer).cast();
            (libc::getpeername(descriptor, to, &mut length), peer)
        };
        let begins = peer.sun_path.iter().zip(NAME);
        result == 0
            && c_int::from(peer.sun_family) == libc::AF_UNIX
            && begins.into_iter().all(|(one, other)| *one as u8 == *other)
    })
}

/// Another descriptor of a channel: the library counts them, for the channel ends with the last.
pub fn copied(descriptor: c_int) {
    if let Some(copied) = COPIED.get() {
        // SAFETY: it takes any number.
        errno::kept(|| unsafe { copied(descriptor) });
    }
}

/// A descriptor that a process has sent.
pub fn received(descriptor: c_int) {
    if is_a_channel(descriptor) && kinds::set(descriptor, Kind::Channel) {
        copied(descriptor);
    }
}

/// A descriptor is closed.
pub fn closed(descriptor: c_int) {
    let kind = kinds::of(descriptor);
    if kind == Kind::None {
        return;
    }
    if kind == Kind::Channel
        && let Some(end) = END.get()
    {
        // SAFETY: it takes any number.
        errno::kept(|| unsafe { end(descriptor) });
    }
    // Not before: what another thread writes until the channel has ended is a command still.
    kinds::set(descriptor, Kind::None);
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
    if !kinds::set(descriptor, Kind::Channel) {
        // SAFETY: our own descriptor, which nobody has seen.
        unsafe { libc::close(descriptor) };
        return errno::fail(libc::EMFILE);
    }
    if flags & libc::O_NONBLOCK != 0 {
        // SAFETY: as above.
        unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_NONBLOCK) };
    }
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
        if outcome != -(libc::EBADF as ssize_t) {
            return errno::fail(-outcome as c_int) as ssize_t;
        }
        // No channel of this process. A kernel takes commands from who has opened it alone
        // (ib_safe_file_access), and not from a child or from whom it was sent to.
        if is_a_channel(descriptor) {
            return errno::fail(libc::EACCES) as ssize_t;
        }
        // Another file by now.
        kinds::set(descriptor, Kind::None);
    }
    // SAFETY: passes the caller's own arguments on.
    unsafe {
        match WRITE.found() {
            Some(next) => next(descriptor, buffer, count),
            None => system_call!(libc::SYS_write, descriptor, buffer, count) as ssize_t,
        }
    }
}

/// As in C; a channel of the connection manager ends with its descriptor.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    closed(descriptor);
    // SAFETY: passes the caller's own argument on.
    unsafe {
        match CLOSE.found() {
            Some(next) => next(descriptor),
            None => system_call!(libc::SYS_close, descriptor) as c_int,
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
                    None => system_call!(libc::SYS_fstat, descriptor, status) as c_int,
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
                    None => system_call!(libc::SYS_fstat, descriptor, status) as c_int,
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
