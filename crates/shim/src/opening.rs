//! `open`, `fopen` and their variants. `open` and `openat` are variadic in C and defined there, in
//! `variadic.c`, which reads the mode and calls the functions with fixed arguments below.

use std::ffi::CStr;
use std::ptr;

use libc::{FILE, c_char, c_int, c_void, mode_t};

use crate::answer::{Answer, NODE, answer, answer_at};
use crate::channel;
use crate::errno;
use crate::next::Next;
use crate::sysfs;

type OpenFn = unsafe extern "C" fn(*const c_char, c_int, ...) -> c_int;
type Open2Fn = unsafe extern "C" fn(*const c_char, c_int) -> c_int;
type OpenAtFn = unsafe extern "C" fn(c_int, *const c_char, c_int, ...) -> c_int;
type OpenAt2Fn = unsafe extern "C" fn(c_int, *const c_char, c_int) -> c_int;
type FopenFn = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut FILE;

unsafe fn system_call(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the arguments are the caller's, passed on as they came.
    unsafe { libc::syscall(libc::SYS_openat, directory, path, flags, mode) as c_int }
}

/// Opens what stands in. Directories can be listed ([`crate::listing`]), not opened.
fn stand_in(
    answer: Answer<'_>,
    flags: c_int,
    as_real: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    match answer {
        Answer::Node => as_real(NODE.as_ptr()),
        Answer::ConnectionManager => channel::open(flags),
        Answer::Directory(_) => errno::fail(libc::ENOENT),
        Answer::File(_) if flags & libc::O_ACCMODE != libc::O_RDONLY => errno::fail(libc::EACCES),
        Answer::File(_) if flags & libc::O_DIRECTORY != 0 => errno::fail(libc::ENOTDIR),
        Answer::File(path) => file(path, flags),
    }
}

/// An anonymous file with the content of the sysfs file at `path`, at its beginning.
fn file(path: &[u8], flags: c_int) -> c_int {
    const NAME: &CStr = c"verbena-sysfs";
    let Some(content) = sysfs::content(path) else {
        return errno::fail(libc::ENOENT);
    };
    let close_on_exec = if flags & libc::O_CLOEXEC != 0 {
        libc::MFD_CLOEXEC
    } else {
        0
    };
    let bytes = content.bytes();
    // SAFETY: the name is a C string, the buffer is `bytes`, the descriptor is our own.
    unsafe {
        let descriptor = libc::memfd_create(NAME.as_ptr(), close_on_exec);
        if descriptor < 0 {
            return -1;
        }
        let written = libc::pwrite(descriptor, bytes.as_ptr().cast::<c_void>(), bytes.len(), 0);
        if usize::try_from(written) != Ok(bytes.len()) {
            libc::close(descriptor);
            return errno::fail(libc::EIO);
        }
        descriptor
    }
}

macro_rules! open_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// The C function of this name, with Verbena's paths answered. `mode` is 0 unless `flags`
        /// ask for one.
        ///
        /// # Safety
        /// As the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            // SAFETY: this name has this signature in every C library.
            static NEXT: Next<OpenFn> = unsafe { Next::new($symbol) };
            // SAFETY: both branches pass the caller's own arguments on.
            let real = |path| unsafe {
                match NEXT.get() {
                    Some(next) => next(path, flags, mode),
                    None => system_call(libc::AT_FDCWD, path, flags, mode),
                }
            };
            // SAFETY: the caller's promise about `path`.
            match unsafe { answer(path) } {
                None => real(path),
                Some(answer) => stand_in(answer, flags, real),
            }
        }
    )*};
}

open_family! {
    verbena_shim_open, c"open";
    verbena_shim_open64, c"open64";
}

macro_rules! open_at_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// The C function of this name, with Verbena's paths answered. `mode` is 0 unless `flags`
        /// ask for one.
        ///
        /// # Safety
        /// As the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            directory: c_int,
            path: *const c_char,
            flags: c_int,
            mode: mode_t,
        ) -> c_int {
            // SAFETY: this name has this signature in every C library.
            static NEXT: Next<OpenAtFn> = unsafe { Next::new($symbol) };
            // SAFETY: both branches pass the caller's own arguments on.
            let real = |path| unsafe {
                match NEXT.get() {
                    Some(next) => next(directory, path, flags, mode),
                    None => system_call(directory, path, flags, mode),
                }
            };
            // SAFETY: the caller's promise about `path`.
            match unsafe { answer_at(directory, path) } {
                None => real(path),
                Some(answer) => stand_in(answer, flags, real),
            }
        }
    )*};
}

open_at_family! {
    verbena_shim_openat, c"openat";
    verbena_shim_openat64, c"openat64";
}

// What `open` and `openat` become in programs that were built with _FORTIFY_SOURCE.

macro_rules! fortified_open_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// As in C, with our paths answered.
        ///
        /// # Safety
        /// As the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int) -> c_int {
            // SAFETY: this name has this signature in every C library that has it.
            static NEXT: Next<Open2Fn> = unsafe { Next::new($symbol) };
            // SAFETY: both branches pass the caller's own arguments on.
            let real = |path| unsafe {
                match NEXT.get() {
                    Some(next) => next(path, flags),
                    None => system_call(libc::AT_FDCWD, path, flags, 0),
                }
            };
            // SAFETY: the caller's promise about `path`.
            match unsafe { answer(path) } {
                None => real(path),
                Some(answer) => stand_in(answer, flags, real),
            }
        }
    )*};
}

fortified_open_family! {
    __open_2, c"__open_2";
    __open64_2, c"__open64_2";
}

macro_rules! fortified_open_at_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// As in C, with our paths answered.
        ///
        /// # Safety
        /// As the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            directory: c_int,
            path: *const c_char,
            flags: c_int,
        ) -> c_int {
            // SAFETY: this name has this signature in every C library that has it.
            static NEXT: Next<OpenAt2Fn> = unsafe { Next::new($symbol) };
            // SAFETY: both branches pass the caller's own arguments on.
            let real = |path| unsafe {
                match NEXT.get() {
                    Some(next) => next(directory, path, flags),
                    None => system_call(directory, path, flags, 0),
                }
            };
            // SAFETY: the caller's promise about `path`.
            match unsafe { answer_at(directory, path) } {
                None => real(path),
                Some(answer) => stand_in(answer, flags, real),
            }
        }
    )*};
}

fortified_open_at_family! {
    __openat_2, c"__openat_2";
    __openat64_2, c"__openat64_2";
}

macro_rules! fopen_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// As in C, with our paths answered. (Inside the C library `fopen` does not call `open`
        /// by name, so it needs its own answer.)
        ///
        /// # Safety
        /// As the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, mode: *const c_char) -> *mut FILE {
            // SAFETY: this name has this signature in every C library.
            static NEXT: Next<FopenFn> = unsafe { Next::new($symbol) };
            let real = |path| match NEXT.get() {
                // SAFETY: passes the caller's own arguments on.
                Some(next) => unsafe { next(path, mode) },
                None => {
                    errno::set(libc::ENOSYS);
                    ptr::null_mut()
                }
            };
            // SAFETY: the caller's promise about `path` and `mode`.
            unsafe {
                match answer(path) {
                    None => real(path),
                    Some(Answer::Node) => real(NODE.as_ptr()),
                    Some(answer) => stream(answer, mode),
                }
            }
        }
    )*};
}

fopen_family! {
    fopen, c"fopen";
    fopen64, c"fopen64";
}

/// A stream over what stands in.
///
/// # Safety
/// `mode` is a C string.
unsafe fn stream(answer: Answer<'_>, mode: *const c_char) -> *mut FILE {
    // SAFETY: a C string by the caller's promise.
    let text = unsafe { CStr::from_ptr(mode) }.to_bytes();
    let reads_only = text.first() == Some(&b'r') && !text.contains(&b'+');
    let access = if reads_only {
        libc::O_RDONLY
    } else {
        libc::O_RDWR
    };
    let close_on_exec = if text.contains(&b'e') {
        libc::O_CLOEXEC
    } else {
        0
    };
    let descriptor = stand_in(answer, access | close_on_exec, |_| {
        errno::fail(libc::ENOENT)
    });
    if descriptor < 0 {
        return ptr::null_mut();
    }
    // SAFETY: our own descriptor, handed over; `mode` as promised.
    unsafe {
        let stream = libc::fdopen(descriptor, mode);
        if stream.is_null() {
            libc::close(descriptor);
        }
        stream
    }
}
