//! Descriptors of the connection manager's device: `write`, `close` and `fstat`.
//!
//! librdmacm writes commands to such a descriptor and checks that it is a character device.
//! Verbena's library opens it and carries out the commands; this module only knows which
//! descriptors are meant ([`kinds`]). It intercepts every `write` and `close` of a program, also in
//! signal handlers. A descriptor of another kind is passed on after one check without lookups: the
//! next functions are found when the shim is loaded.

use std::mem;

use libc::{c_int, c_void, sockaddr_un, socklen_t, ssize_t, stat as Stat};

use crate::errno;
use crate::kernel::system_call;
use crate::kinds::{self, DescriptorKind};
use crate::library::Function;
use crate::management;
use crate::next::Next;

type WriteFn = unsafe extern "C" fn(c_int, *const c_void, usize) -> ssize_t;
type CloseFn = unsafe extern "C" fn(c_int) -> c_int;
type FstatFn = unsafe extern "C" fn(c_int, *mut Stat) -> c_int;
type FxstatFn = unsafe extern "C" fn(c_int, c_int, *mut Stat) -> c_int;

// SAFETY: Verbena's own functions have these signatures.
static OPEN: Function<unsafe extern "C" fn() -> c_int> =
    unsafe { Function::new(c"verbena_cm_open") };
// SAFETY: Verbena's own function has this signature.
static CARRY_OUT: Function<WriteFn> = unsafe { Function::new(c"verbena_cm_write") };
// SAFETY: Verbena's own function has this signature.
static END: Function<unsafe extern "C" fn(c_int)> = unsafe { Function::new(c"verbena_cm_close") };

// SAFETY: Verbena's own function has this signature.
static COPIED: Function<unsafe extern "C" fn(c_int)> =
    unsafe { Function::new(c"verbena_cm_copied") };

#[inline]
fn is_ours(descriptor: c_int) -> bool {
    kinds::of(descriptor) == DescriptorKind::Channel
}

/// Returns whether the file is a channel, of any process: the library gives its end of the socket
/// pair such a name.
#[cold]
fn is_a_channel(descriptor: c_int) -> bool {
    const NAME: &[u8] = b"\0verbena-cm/";
    errno::kept(|| {
        // SAFETY: zeros are a valid socket address, and `length` bytes of it may be written.
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

/// Reports another descriptor of a channel to the library, which counts them, as the channel ends
/// with the last one.
pub fn copied(descriptor: c_int) {
    if let Some(copied) = COPIED.get() {
        // SAFETY: the function accepts any number.
        errno::kept(|| unsafe { copied(descriptor) });
    }
}

/// Handles a descriptor received from another process.
pub fn received(descriptor: c_int) {
    if is_a_channel(descriptor) && kinds::set(descriptor, DescriptorKind::Channel) {
        copied(descriptor);
    }
}

/// Handles the closing of a descriptor.
pub fn closed(descriptor: c_int) {
    let kind = kinds::of(descriptor);
    if kind == DescriptorKind::None {
        return;
    }
    if kind == DescriptorKind::Channel
        && let Some(end) = END.get()
    {
        // SAFETY: the function accepts any number.
        errno::kept(|| unsafe { end(descriptor) });
    }
    // After the call: a write of another thread is a command until the channel has ended.
    kinds::set(descriptor, DescriptorKind::None);
}

/// Opens a channel. It is always close-on-exec, as it is useless to another program.
pub fn open(flags: c_int) -> c_int {
    let Some(open) = OPEN.get() else {
        return errno::fail(libc::ENODEV);
    };
    // SAFETY: the function takes no arguments.
    let descriptor = unsafe { open() };
    if descriptor < 0 {
        return errno::fail(-descriptor);
    }
    if !kinds::set(descriptor, DescriptorKind::Channel) {
        // SAFETY: the descriptor was opened here and is not known elsewhere.
        unsafe { libc::close(descriptor) };
        return errno::fail(libc::EMFILE);
    }
    if flags & libc::O_NONBLOCK != 0 {
        // SAFETY: the descriptor was opened here, and the call takes only integers.
        unsafe { libc::fcntl(descriptor, libc::F_SETFL, libc::O_NONBLOCK) };
    }
    descriptor
}

// SAFETY: this name has this signature in every C library.
static WRITE: Next<WriteFn> = unsafe { Next::new(c"write") };
// SAFETY: this name has this signature in every C library.
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

/// The C function; a write to the connection manager is a command.
///
/// # Safety
/// That of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(descriptor: c_int, buffer: *const c_void, count: usize) -> ssize_t {
    if is_ours(descriptor)
        && let Some(carry_out) = CARRY_OUT.get()
    {
        // SAFETY: passes on the caller's arguments, which are valid for the C function.
        let outcome = unsafe { carry_out(descriptor, buffer, count) };
        if outcome >= 0 {
            return outcome;
        }
        if outcome != -(libc::EBADF as ssize_t) {
            return errno::fail(-outcome as c_int) as ssize_t;
        }
        // Not a channel of this process. A kernel accepts commands only from the process that
        // opened the file (ib_safe_file_access), not from a child or a receiver of the descriptor.
        if is_a_channel(descriptor) {
            return errno::fail(libc::EACCES) as ssize_t;
        }
        // The number refers to another file now.
        kinds::set(descriptor, DescriptorKind::None);
    }
    if kinds::of(descriptor) == DescriptorKind::Datagrams {
        // SAFETY: passes on the caller's arguments, which are valid for the C function.
        return unsafe { management::write(descriptor, buffer, count) };
    }
    // SAFETY: passes on the caller's arguments, which are valid for the C function.
    unsafe {
        match WRITE.found() {
            Some(next) => next(descriptor, buffer, count),
            None => system_call!(libc::SYS_write, descriptor, buffer, count) as ssize_t,
        }
    }
}

/// The C function; the last descriptor of a channel of the connection manager ends the channel.
///
/// # Safety
/// That of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(descriptor: c_int) -> c_int {
    closed(descriptor);
    // SAFETY: passes on the caller's arguments, which are valid for the C function.
    unsafe {
        match CLOSE.found() {
            Some(next) => next(descriptor),
            None => system_call!(libc::SYS_close, descriptor) as c_int,
        }
    }
}

/// Makes the status of a channel that of a character device.
///
/// # Safety
/// `status` must be filled in by a successful call.
unsafe fn disguise(descriptor: c_int, status: *mut Stat) {
    // SAFETY: the caller promises a valid, filled-in status.
    let inode = unsafe { (*status).st_ino };
    let is_datagrams =
        kinds::of(descriptor) == DescriptorKind::Datagrams && kinds::has_inode(descriptor, inode);
    if is_ours(descriptor) || is_datagrams {
        // SAFETY: the caller promises a valid, filled-in status.
        unsafe { (*status).st_mode = libc::S_IFCHR | 0o666 };
    }
}

macro_rules! fstat_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// The C function; shows a channel of the connection manager as a character device.
        ///
        /// # Safety
        /// That of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(descriptor: c_int, status: *mut Stat) -> c_int {
            // SAFETY: this name has this signature in every C library that has it.
            static NEXT: Next<FstatFn> = unsafe { Next::new($symbol) };
            // SAFETY: passes on the caller's arguments, which are valid for the C function.
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
        /// The C function; shows a channel of the connection manager as a character device.
        ///
        /// # Safety
        /// That of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            version: c_int,
            descriptor: c_int,
            status: *mut Stat,
        ) -> c_int {
            // SAFETY: this name has this signature in every C library that has it.
            static NEXT: Next<FxstatFn> = unsafe { Next::new($symbol) };
            // SAFETY: passes on the caller's arguments, which are valid for the C function.
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
