//! `open`, `fopen` and their variants. `open` and `openat` are variadic in C; `variadic.c` defines
//! them, reads the mode and calls the functions with fixed arguments below.

use std::ffi::CStr;
use std::ptr;

use libc::{FILE, c_char, c_int, c_long, mode_t, open_how, size_t};

use crate::channel;
use crate::errno;
use crate::kernel::system_call;
use crate::management;
use crate::next::Next;
use crate::tree::{self, Target};

type OpenFn = unsafe extern "C" fn(*const c_char, c_int, ...) -> c_int;
type Open2Fn = unsafe extern "C" fn(*const c_char, c_int) -> c_int;
type OpenAtFn = unsafe extern "C" fn(c_int, *const c_char, c_int, ...) -> c_int;
type OpenAt2Fn = unsafe extern "C" fn(c_int, *const c_char, c_int) -> c_int;
type FopenFn = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut FILE;

unsafe fn open_by_kernel(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: the caller's arguments, which the kernel checks.
    unsafe { system_call!(libc::SYS_openat, directory, path, flags, mode) as c_int }
}

/// Opens the replacement of a path, or the path itself. sysfs files are never written.
///
/// # Safety
/// `path` must be null or a C string.
unsafe fn open_at(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    as_real: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    // SAFETY: the caller promises null or a C string.
    let Some(target) = (unsafe { tree::target(path) }) else {
        // SAFETY: the caller promises null or a C string.
        unsafe { tree::refresh_relative(directory, path) };
        return as_real(path);
    };
    if target.is_connection_manager {
        return channel::open(flags);
    }
    if let Some(node) = target.management {
        return management::open(node, flags);
    }
    let is_for_reading = flags & libc::O_ACCMODE == libc::O_RDONLY;
    if target.is_of_tree() && (!is_for_reading || flags & (libc::O_CREAT | libc::O_TRUNC) != 0) {
        return errno::fail(libc::EACCES);
    }
    target.refresh();
    as_real(target.as_ptr())
}

macro_rules! open_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// The C function of this name, with Verbena's paths redirected. `mode` is 0 unless `flags`
        /// require one.
        ///
        /// # Safety
        /// That of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            // SAFETY: this name has this signature in every C library.
            static NEXT: Next<OpenFn> = unsafe { Next::new($symbol) };
            // SAFETY: both branches pass on the caller's arguments, valid for the C function.
            let real = |path| unsafe {
                match NEXT.get() {
                    Some(next) => next(path, flags, mode),
                    None => open_by_kernel(libc::AT_FDCWD, path, flags, mode),
                }
            };
            // SAFETY: the caller passes a valid `path`, as C requires.
            unsafe { open_at(libc::AT_FDCWD, path, flags, real) }
        }
    )*};
}

open_family! {
    verbena_shim_open, c"open";
    verbena_shim_open64, c"open64";
}

macro_rules! open_at_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// The C function of this name, with Verbena's paths redirected. `mode` is 0 unless `flags`
        /// require one.
        ///
        /// # Safety
        /// That of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            directory: c_int,
            path: *const c_char,
            flags: c_int,
            mode: mode_t,
        ) -> c_int {
            // SAFETY: this name has this signature in every C library.
            static NEXT: Next<OpenAtFn> = unsafe { Next::new($symbol) };
            // SAFETY: both branches pass on the caller's arguments, valid for the C function.
            let real = |path| unsafe {
                match NEXT.get() {
                    Some(next) => next(directory, path, flags, mode),
                    None => open_by_kernel(directory, path, flags, mode),
                }
            };
            // SAFETY: the caller passes a valid `path`, as C requires.
            unsafe { open_at(directory, path, flags, real) }
        }
    )*};
}

open_at_family! {
    verbena_shim_openat, c"openat";
    verbena_shim_openat64, c"openat64";
}

// Variants of `open` and `openat` in programs built with _FORTIFY_SOURCE.

macro_rules! fortified_open_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// The C function, with Verbena's paths redirected.
        ///
        /// # Safety
        /// That of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int) -> c_int {
            // SAFETY: this name has this signature in every C library that has it.
            static NEXT: Next<Open2Fn> = unsafe { Next::new($symbol) };
            // SAFETY: both branches pass on the caller's arguments, valid for the C function.
            let real = |path| unsafe {
                match NEXT.get() {
                    Some(next) => next(path, flags),
                    None => open_by_kernel(libc::AT_FDCWD, path, flags, 0),
                }
            };
            // SAFETY: the caller passes a valid `path`, as C requires.
            unsafe { open_at(libc::AT_FDCWD, path, flags, real) }
        }
    )*};
}

fortified_open_family! {
    __open_2, c"__open_2";
    __open64_2, c"__open64_2";
}

macro_rules! fortified_open_at_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// The C function, with Verbena's paths redirected.
        ///
        /// # Safety
        /// That of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            directory: c_int,
            path: *const c_char,
            flags: c_int,
        ) -> c_int {
            // SAFETY: this name has this signature in every C library that has it.
            static NEXT: Next<OpenAt2Fn> = unsafe { Next::new($symbol) };
            // SAFETY: both branches pass on the caller's arguments, valid for the C function.
            let real = |path| unsafe {
                match NEXT.get() {
                    Some(next) => next(directory, path, flags),
                    None => open_by_kernel(directory, path, flags, 0),
                }
            };
            // SAFETY: the caller passes a valid `path`, as C requires.
            unsafe { open_at(directory, path, flags, real) }
        }
    )*};
}

fortified_open_at_family! {
    __openat_2, c"__openat_2";
    __openat64_2, c"__openat64_2";
}

/// The system call, for C libraries without a function for it (glibc before 2.43), and for
/// `syscall`. An absolute path that is resolved below a directory (RESOLVE_IN_ROOT) is not
/// redirected.
///
/// # Safety
/// That of openat2(2): `how` must have `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat2(
    directory: c_int,
    path: *const c_char,
    how: *const open_how,
    size: size_t,
) -> c_int {
    // SAFETY: the caller's own arguments, which the kernel checks.
    let as_real = |path: *const c_char| unsafe {
        let result: c_long = system_call!(libc::SYS_openat2, directory, path, how, size);
        result as c_int
    };
    // The first version of the structure; the kernel refuses smaller ones.
    if how.is_null() || size < size_of::<open_how>() {
        return as_real(path);
    }
    // SAFETY: not null, and the caller promises `size` bytes.
    let (flags, resolve) = unsafe { ((*how).flags, (*how).resolve) };
    if resolve & libc::RESOLVE_IN_ROOT != 0 {
        return as_real(path);
    }
    // SAFETY: the caller passes a valid `path`, as C requires.
    unsafe { open_at(directory, path, flags as c_int, as_real) }
}

macro_rules! fopen_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// The C function, with Verbena's paths redirected. (Inside the C library `fopen` does not
        /// call `open` by name, so it is interposed separately.)
        ///
        /// # Safety
        /// That of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, mode: *const c_char) -> *mut FILE {
            // SAFETY: this name has this signature in every C library.
            static NEXT: Next<FopenFn> = unsafe { Next::new($symbol) };
            let real = |path| match NEXT.get() {
                // SAFETY: passes on the caller's arguments, which are valid for the C function.
                Some(next) => unsafe { next(path, mode) },
                None => {
                    errno::set(libc::ENOSYS);
                    ptr::null_mut()
                }
            };
            // SAFETY: the caller passes valid strings, as C requires.
            unsafe {
                match tree::target(path) {
                    None => {
                        tree::refresh_relative(libc::AT_FDCWD, path);
                        real(path)
                    }
                    Some(target) if target.is_connection_manager => {
                        stream(channel::open(libc::O_RDWR | libc::O_CLOEXEC), mode)
                    }
                    Some(Target { management: Some(node), .. }) => {
                        stream(management::open(node, libc::O_RDWR | libc::O_CLOEXEC), mode)
                    }
                    Some(target) if target.is_of_tree() && !reads_only(mode) => {
                        errno::set(libc::EACCES);
                        ptr::null_mut()
                    }
                    Some(target) => {
                        target.refresh();
                        real(target.as_ptr())
                    }
                }
            }
        }
    )*};
}

fopen_family! {
    fopen, c"fopen";
    fopen64, c"fopen64";
}

/// Returns whether a mode of fopen(3) is for reading only.
///
/// # Safety
/// `mode` must be a C string.
unsafe fn reads_only(mode: *const c_char) -> bool {
    // SAFETY: the caller promises a C string.
    let text = unsafe { CStr::from_ptr(mode) }.to_bytes();
    text.first() == Some(&b'r') && !text.contains(&b'+')
}

/// Returns a stream over a descriptor, which it closes; NULL if the descriptor was not opened.
///
/// # Safety
/// `mode` must be a C string.
unsafe fn stream(descriptor: c_int, mode: *const c_char) -> *mut FILE {
    if descriptor < 0 {
        return ptr::null_mut();
    }
    // SAFETY: the descriptor is handed over; the caller promises a C string.
    unsafe {
        let stream = libc::fdopen(descriptor, mode);
        if stream.is_null() {
            libc::close(descriptor);
        }
        stream
    }
}
