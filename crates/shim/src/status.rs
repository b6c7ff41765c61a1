//! `stat` and kin. The `__xstat` names are what programs call that were built against a glibc
//! before 2.33; their first argument is the version of the structure, of which 64-bit Linux has
//! one, so they answer as their modern twins do.

use libc::{c_char, c_int, c_uint, stat as Stat, statx as Statx};

use crate::answer::{Answer, NODE, ROOT, answer, answer_at};
use crate::next::Next;

const FILE_MODE: libc::mode_t = libc::S_IFREG | 0o444;
/// What the kernel says of every sysfs file.
const FILE_SIZE: i64 = 4096;

type StatFn = unsafe extern "C" fn(*const c_char, *mut Stat) -> c_int;
type XStatFn = unsafe extern "C" fn(c_int, *const c_char, *mut Stat) -> c_int;
type StatAtFn = unsafe extern "C" fn(c_int, *const c_char, *mut Stat, c_int) -> c_int;
type XStatAtFn = unsafe extern "C" fn(c_int, c_int, *const c_char, *mut Stat, c_int) -> c_int;
type StatxFn = unsafe extern "C" fn(c_int, *const c_char, c_int, c_uint, *mut Statx) -> c_int;

/// The system call under them all, for when there is no function to pass a call on to.
unsafe fn system_call(
    directory: c_int,
    path: *const c_char,
    status: *mut Stat,
    flags: c_int,
) -> c_int {
    // SAFETY: the arguments are the caller's, passed on as they came; on 64-bit Linux the kernel's
    // structure and the C library's are the same.
    unsafe { libc::syscall(libc::SYS_newfstatat, directory, path, status, flags) as c_int }
}

/// Fills in the status of what stands in. `as_real` is the call itself, made on another path.
unsafe fn stand_in(
    answer: &Answer<'_>,
    status: *mut Stat,
    as_real: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    match answer {
        Answer::Node | Answer::ConnectionManager => as_real(NODE.as_ptr()),
        Answer::Directory(_) => as_real(ROOT.as_ptr()),
        Answer::File(_) => {
            let result = as_real(ROOT.as_ptr());
            if result == 0 {
                // SAFETY: the call succeeded, so `status` points to a filled-in structure.
                let status = unsafe { &mut *status };
                status.st_mode = FILE_MODE;
                status.st_nlink = 1;
                status.st_size = FILE_SIZE;
                status.st_blocks = 0;
            }
            result
        }
    }
}

macro_rules! stat_family {
    ($($name:ident, $symbol:literal, $flags:expr;)*) => {$(
        /// As in C, with our paths answered.
        ///
        /// # Safety
        /// As the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, status: *mut Stat) -> c_int {
            // SAFETY: this name has this signature in every C library.
            static NEXT: Next<StatFn> = unsafe { Next::new($symbol) };
            // SAFETY: both branches pass the caller's own arguments on.
            let real = |path| unsafe {
                match NEXT.get() {
                    Some(next) => next(path, status),
                    None => system_call(libc::AT_FDCWD, path, status, $flags),
                }
            };
            // SAFETY: the caller's promise about `path` and `status`.
            unsafe {
                match answer(path) {
                    None => real(path),
                    Some(answer) => stand_in(&answer, status, real),
                }
            }
        }
    )*};
}

stat_family! {
    stat, c"stat", 0;
    stat64, c"stat64", 0;
    lstat, c"lstat", libc::AT_SYMLINK_NOFOLLOW;
    lstat64, c"lstat64", libc::AT_SYMLINK_NOFOLLOW;
}

macro_rules! xstat_family {
    ($($name:ident, $symbol:literal, $flags:expr;)*) => {$(
        /// As in C, with our paths answered.
        ///
        /// # Safety
        /// As the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            version: c_int,
            path: *const c_char,
            status: *mut Stat,
        ) -> c_int {
            // SAFETY: this name has this signature in every C library that has it.
            static NEXT: Next<XStatFn> = unsafe { Next::new($symbol) };
            // SAFETY: both branches pass the caller's own arguments on.
            let real = |path| unsafe {
                match NEXT.get() {
                    Some(next) => next(version, path, status),
                    None => system_call(libc::AT_FDCWD, path, status, $flags),
                }
            };
            // SAFETY: the caller's promise about `path` and `status`.
            unsafe {
                match answer(path) {
                    None => real(path),
                    Some(answer) => stand_in(&answer, status, real),
                }
            }
        }
    )*};
}

xstat_family! {
    __xstat, c"__xstat", 0;
    __xstat64, c"__xstat64", 0;
    __lxstat, c"__lxstat", libc::AT_SYMLINK_NOFOLLOW;
    __lxstat64, c"__lxstat64", libc::AT_SYMLINK_NOFOLLOW;
}

macro_rules! stat_at_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// As in C, with our paths answered.
        ///
        /// # Safety
        /// As the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            directory: c_int,
            path: *const c_char,
            status: *mut Stat,
            flags: c_int,
        ) -> c_int {
            // SAFETY: this name has this signature in every C library.
            static NEXT: Next<StatAtFn> = unsafe { Next::new($symbol) };
            // SAFETY: both branches pass the caller's own arguments on.
            let real = |path| unsafe {
                match NEXT.get() {
                    Some(next) => next(directory, path, status, flags),
                    None => system_call(directory, path, status, flags),
                }
            };
            // SAFETY: the caller's promise about `path` and `status`.
            unsafe {
                match answer_at(directory, path) {
                    None => real(path),
                    Some(answer) => stand_in(&answer, status, real),
                }
            }
        }
    )*};
}

stat_at_family! {
    fstatat, c"fstatat";
    fstatat64, c"fstatat64";
}

macro_rules! xstat_at_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// As in C, with our paths answered.
        ///
        /// # Safety
        /// As the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            version: c_int,
            directory: c_int,
            path: *const c_char,
            status: *mut Stat,
            flags: c_int,
        ) -> c_int {
            // SAFETY: this name has this signature in every C library that has it.
            static NEXT: Next<XStatAtFn> = unsafe { Next::new($symbol) };
            // SAFETY: both branches pass the caller's own arguments on.
            let real = |path| unsafe {
                match NEXT.get() {
                    Some(next) => next(version, directory, path, status, flags),
                    None => system_call(directory, path, status, flags),
                }
            };
            // SAFETY: the caller's promise about `path` and `status`.
            unsafe {
                match answer_at(directory, path) {
                    None => real(path),
                    Some(answer) => stand_in(&answer, status, real),
                }
            }
        }
    )*};
}

xstat_at_family! {
    __fxstatat, c"__fxstatat";
    __fxstatat64, c"__fxstatat64";
}

/// As in C, with our paths answered.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    status: *mut Statx,
) -> c_int {
    // SAFETY: this name has this signature in every C library that has it.
    static NEXT: Next<StatxFn> = unsafe { Next::new(c"statx") };
    // SAFETY: both branches pass the caller's own arguments on.
    let real = |path: *const c_char| unsafe {
        match NEXT.get() {
            Some(next) => next(directory, path, flags, mask, status),
            None => libc::syscall(libc::SYS_statx, directory, path, flags, mask, status) as c_int,
        }
    };
    // SAFETY: the caller's promise about `path`.
    match unsafe { answer_at(directory, path) } {
        None => real(path),
        Some(Answer::Node | Answer::ConnectionManager) => real(NODE.as_ptr()),
        Some(Answer::Directory(_)) => real(ROOT.as_ptr()),
        Some(Answer::File(_)) => {
            let result = real(ROOT.as_ptr());
            if result == 0 {
                // SAFETY: the call succeeded, so `status` points to a filled-in structure.
                let status = unsafe { &mut *status };
                status.stx_mode = FILE_MODE as u16;
                status.stx_nlink = 1;
                status.stx_size = FILE_SIZE as u64;
                status.stx_blocks = 0;
            }
            result
        }
    }
}
