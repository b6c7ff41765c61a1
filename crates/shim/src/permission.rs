//! `access` and kin.

use libc::{c_char, c_int};

use crate::answer::{Answer, NODE, ROOT, answer, answer_at};
use crate::errno;
use crate::next::Next;

type AccessFn = unsafe extern "C" fn(*const c_char, c_int) -> c_int;
type AccessAtFn = unsafe extern "C" fn(c_int, *const c_char, c_int, c_int) -> c_int;

/// What `access` says of a place that stands in: nobody writes sysfs files, nobody executes them.
fn permitted(
    answer: &Answer<'_>,
    mode: c_int,
    as_real: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    let forbidden = match answer {
        Answer::Node | Answer::ConnectionManager => return as_real(NODE.as_ptr()),
        Answer::Directory(_) => libc::W_OK,
        Answer::File(_) => libc::W_OK | libc::X_OK,
    };
    if mode & forbidden != 0 {
        return errno::fail(libc::EACCES);
    }
    // Lets the C library judge the mode itself: an invalid one is EINVAL.
    as_real(ROOT.as_ptr())
}

macro_rules! access_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// As in C, with our paths answered.
        ///
        /// # Safety
        /// As the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, mode: c_int) -> c_int {
            // SAFETY: this name has this signature in every C library.
            static NEXT: Next<AccessFn> = unsafe { Next::new($symbol) };
            // SAFETY: both branches pass the caller's own arguments on.
            let real = |path: *const c_char| unsafe {
                match NEXT.get() {
                    Some(next) => next(path, mode),
                    None => {
                        libc::syscall(libc::SYS_faccessat, libc::AT_FDCWD, path, mode) as c_int
                    }
                }
            };
            // SAFETY: the caller's promise about `path`.
            match unsafe { answer(path) } {
                None => real(path),
                Some(answer) => permitted(&answer, mode, real),
            }
        }
    )*};
}

access_family! {
    access, c"access";
    eaccess, c"eaccess";
    euidaccess, c"euidaccess";
}

/// As in C, with our paths answered.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn faccessat(
    directory: c_int,
    path: *const c_char,
    mode: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: this name has this signature in every C library.
    static NEXT: Next<AccessAtFn> = unsafe { Next::new(c"faccessat") };
    // SAFETY: both branches pass the caller's own arguments on.
    let real = |path: *const c_char| unsafe {
        match NEXT.get() {
            Some(next) => next(directory, path, mode, flags),
            None => libc::syscall(libc::SYS_faccessat2, directory, path, mode, flags) as c_int,
        }
    };
    // SAFETY: the caller's promise about `path`.
    match unsafe { answer_at(directory, path) } {
        None => real(path),
        Some(answer) => permitted(&answer, mode, real),
    }
}
