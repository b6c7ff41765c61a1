//! Directories: `opendir`, `scandir`, `glob`, `ftw`; and the calls that return paths: `realpath`,
//! `getcwd`. A returned path is below `/sys`, like the path that the program passed.

use std::cell::Cell;
use std::ffi::CStr;
use std::ptr;

use libc::{DIR, c_char, c_int, dirent64, glob_t, size_t, stat as Stat};

use crate::errno;
use crate::next::Next;
use crate::place::LONGEST;
use crate::tree::{self, Target};

/// Returns the replacement for a path that is about to be opened or listed, updated.
///
/// # Safety
/// `path` must be null or a C string.
unsafe fn fresh(path: *const c_char) -> Option<Target> {
    // SAFETY: the caller promises null or a C string.
    let target = unsafe { tree::target(path) };
    match &target {
        Some(target) => target.refresh(),
        // SAFETY: the caller promises null or a C string.
        None => unsafe { tree::refresh_relative(libc::AT_FDCWD, path) },
    }
    target
}

fn path_for(target: &Option<Target>, path: *const c_char) -> *const c_char {
    target.as_ref().map_or(path, Target::as_ptr)
}

/// The C function, with Verbena's directories redirected.
///
/// # Safety
/// That of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    type Open = unsafe extern "C" fn(*const c_char) -> *mut DIR;
    // SAFETY: this name has this signature in every C library.
    static NEXT: Next<Open> = unsafe { Next::new(c"opendir") };
    let Some(next) = NEXT.get() else {
        errno::set(libc::ENOSYS);
        return ptr::null_mut();
    };
    // SAFETY: the caller passes a valid path, as C requires.
    unsafe {
        let target = fresh(path);
        next(path_for(&target, path))
    }
}

type Filter = Option<unsafe extern "C" fn(*const dirent64) -> c_int>;
type Order = Option<unsafe extern "C" fn(*mut *const dirent64, *mut *const dirent64) -> c_int>;
type Names = *mut *mut *mut dirent64;

macro_rules! scandir_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// The C function, with Verbena's directories redirected. (On 64-bit systems both
        /// structures are the same.)
        ///
        /// # Safety
        /// That of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, names: Names, filter: Filter,
            order: Order) -> c_int {
            type Scan = unsafe extern "C" fn(*const c_char, Names, Filter, Order) -> c_int;
            // SAFETY: this name has this signature in every C library.
            static NEXT: Next<Scan> = unsafe { Next::new($symbol) };
            let Some(next) = NEXT.get() else {
                return errno::fail(libc::ENOSYS);
            };
            // SAFETY: the caller passes valid arguments, as C requires.
            unsafe {
                let target = fresh(path);
                next(path_for(&target, path), names, filter, order)
            }
        }
    )*};
}

scandir_family! {
    scandir, c"scandir";
    scandir64, c"scandir64";
}

macro_rules! scandirat_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// The C function, with Verbena's directories redirected.
        ///
        /// # Safety
        /// That of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            directory: c_int,
            path: *const c_char,
            names: Names,
            filter: Filter,
            order: Order,
        ) -> c_int {
            type Scan = unsafe extern "C" fn(c_int, *const c_char, Names, Filter, Order) -> c_int;
            // SAFETY: this name has this signature in every C library that has it.
            static NEXT: Next<Scan> = unsafe { Next::new($symbol) };
            let Some(next) = NEXT.get() else {
                return errno::fail(libc::ENOSYS);
            };
            // SAFETY: the caller passes valid arguments, as C requires.
            unsafe {
                let target = fresh(path);
                next(directory, path_for(&target, path), names, filter, order)
            }
        }
    )*};
}

scandirat_family! {
    scandirat, c"scandirat";
    scandirat64, c"scandirat64";
}

type Failed = Option<unsafe extern "C" fn(*const c_char, c_int) -> c_int>;

macro_rules! glob_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// The C function, with Verbena's directories redirected.
        ///
        /// # Safety
        /// That of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            pattern: *const c_char,
            flags: c_int,
            failed: Failed,
            found: *mut glob_t,
        ) -> c_int {
            type Glob = unsafe extern "C" fn(*const c_char, c_int, Failed, *mut glob_t) -> c_int;
            // SAFETY: this name has this signature in every C library.
            static NEXT: Next<Glob> = unsafe { Next::new($symbol) };
            let Some(next) = NEXT.get() else {
                return errno::fail(libc::ENOSYS);
            };
            // SAFETY: the caller passes valid arguments, as C requires; the results are C strings
            // that may be written.
            unsafe {
                let target = fresh(pattern);
                let result = next(path_for(&target, pattern), flags, failed, found);
                if target.is_some() && result == 0 {
                    let first = (*found).gl_offs * usize::from(flags & libc::GLOB_DOOFFS != 0);
                    for at in first..first + (*found).gl_pathc {
                        tree::give_back(*(*found).gl_pathv.add(at));
                    }
                }
                result
            }
        }
    )*};
}

glob_family! {
    glob, c"glob";
    glob64, c"glob64";
}

/// `struct FTW`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Visit {
    /// Where the name begins in the path.
    base: c_int,
    level: c_int,
}

type Visitor = unsafe extern "C" fn(*const c_char, *const Stat, c_int, *mut Visit) -> c_int;
type Simple = unsafe extern "C" fn(*const c_char, *const Stat, c_int) -> c_int;

thread_local! {
    /// The program's function, while one of Verbena's trees is walked: the C interface has no
    /// argument for it.
    static VISITOR: Cell<Option<Visitor>> = const { Cell::new(None) };
    static SIMPLE: Cell<Option<Simple>> = const { Cell::new(None) };
}

/// Calls `visit` with the path as the program knows it, and the number of bytes that it is shorter.
///
/// # Safety
/// `path` must be a C string.
unsafe fn known_as(
    path: *const c_char,
    visit: impl FnOnce(*const c_char, usize) -> c_int,
) -> c_int {
    let mut room = [0 as c_char; LONGEST];
    // SAFETY: the caller promises a C string; it is copied into a buffer that is large enough.
    unsafe {
        let text = CStr::from_ptr(path).to_bytes_with_nul();
        if text.len() > LONGEST {
            return visit(path, 0);
        }
        ptr::copy_nonoverlapping(text.as_ptr().cast(), room.as_mut_ptr(), text.len());
        let shorter = tree::give_back(room.as_mut_ptr());
        visit(room.as_ptr(), shorter)
    }
}

unsafe extern "C" fn visit(
    path: *const c_char,
    status: *const Stat,
    kind: c_int,
    at: *mut Visit,
) -> c_int {
    let Some(visitor) = VISITOR.get() else {
        return -1;
    };
    // SAFETY: the C library passes valid pointers.
    unsafe {
        known_as(path, |path, shorter| {
            let mut known = *at;
            known.base -= shorter as c_int;
            visitor(path, status, kind, &mut known)
        })
    }
}

unsafe extern "C" fn visit_simply(path: *const c_char, status: *const Stat, kind: c_int) -> c_int {
    let Some(visitor) = SIMPLE.get() else {
        return -1;
    };
    // SAFETY: the C library passes valid pointers.
    unsafe { known_as(path, |path, _| visitor(path, status, kind)) }
}

macro_rules! nftw_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// The C function, with Verbena's directories redirected.
        ///
        /// # Safety
        /// That of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            path: *const c_char,
            visitor: Option<Visitor>,
            descriptors: c_int,
            flags: c_int,
        ) -> c_int {
            type Walk = unsafe extern "C" fn(*const c_char, Option<Visitor>, c_int, c_int) -> c_int;
            // SAFETY: this name has this signature in every C library.
            static NEXT: Next<Walk> = unsafe { Next::new($symbol) };
            let Some(next) = NEXT.get() else {
                return errno::fail(libc::ENOSYS);
            };
            // SAFETY: the caller passes valid arguments, as C requires.
            unsafe {
                match fresh(path) {
                    None => next(path, visitor, descriptors, flags),
                    Some(target) => {
                        let before = VISITOR.replace(visitor);
                        let result = next(target.as_ptr(), Some(visit), descriptors, flags);
                        VISITOR.set(before);
                        result
                    }
                }
            }
        }
    )*};
}

nftw_family! {
    nftw, c"nftw";
    nftw64, c"nftw64";
}

macro_rules! ftw_family {
    ($($name:ident, $symbol:literal;)*) => {$(
        /// The C function, with Verbena's directories redirected.
        ///
        /// # Safety
        /// That of the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, visitor: Option<Simple>,
            descriptors: c_int) -> c_int {
            type Walk = unsafe extern "C" fn(*const c_char, Option<Simple>, c_int) -> c_int;
            // SAFETY: this name has this signature in every C library that has it.
            static NEXT: Next<Walk> = unsafe { Next::new($symbol) };
            let Some(next) = NEXT.get() else {
                return errno::fail(libc::ENOSYS);
            };
            // SAFETY: the caller passes valid arguments, as C requires.
            unsafe {
                match fresh(path) {
                    None => next(path, visitor, descriptors),
                    Some(target) => {
                        let before = SIMPLE.replace(visitor);
                        let result = next(target.as_ptr(), Some(visit_simply), descriptors);
                        SIMPLE.set(before);
                        result
                    }
                }
            }
        }
    )*};
}

ftw_family! {
    ftw, c"ftw";
    ftw64, c"ftw64";
}

/// Returns whether a path is relative to the working directory, which may be in the tree. The
/// library that owns the tree uses absolute paths in it, and gets those.
///
/// # Safety
/// `path` must be null or a C string.
unsafe fn is_relative(path: *const c_char) -> bool {
    // SAFETY: not null, so a C string.
    !path.is_null() && unsafe { *path } != b'/' as c_char
}

/// The C function, with Verbena's paths redirected.
///
/// # Safety
/// That of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char {
    type Resolve = unsafe extern "C" fn(*const c_char, *mut c_char) -> *mut c_char;
    // SAFETY: this name has this signature in every C library. glibc has a second version of it,
    // for programs built before 2.3, which does not accept null; dlsym finds the newer one.
    static NEXT: Next<Resolve> = unsafe { Next::new(c"realpath") };
    let Some(next) = NEXT.get() else {
        errno::set(libc::ENOSYS);
        return ptr::null_mut();
    };
    // SAFETY: the caller passes valid arguments, as C requires.
    unsafe {
        let target = tree::target(path);
        let result = next(path_for(&target, path), resolved);
        if target.is_some() || is_relative(path) {
            tree::give_back(result);
        }
        result
    }
}

/// The C function, with Verbena's paths redirected.
///
/// # Safety
/// That of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __realpath_chk(
    path: *const c_char,
    resolved: *mut c_char,
    room: size_t,
) -> *mut c_char {
    type Resolve = unsafe extern "C" fn(*const c_char, *mut c_char, size_t) -> *mut c_char;
    // SAFETY: this name has this signature in every C library that has it.
    static NEXT: Next<Resolve> = unsafe { Next::new(c"__realpath_chk") };
    // SAFETY: the caller passes valid arguments, as C requires.
    unsafe {
        let Some(next) = NEXT.get() else {
            return realpath(path, resolved);
        };
        let target = tree::target(path);
        let result = next(path_for(&target, path), resolved, room);
        if target.is_some() || is_relative(path) {
            tree::give_back(result);
        }
        result
    }
}

/// The C function, with Verbena's paths redirected.
///
/// # Safety
/// That of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn canonicalize_file_name(path: *const c_char) -> *mut c_char {
    // SAFETY: the caller passes a valid path, as C requires.
    unsafe { realpath(path, ptr::null_mut()) }
}

/// The C function, with Verbena's paths redirected.
///
/// # Safety
/// That of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getcwd(buffer: *mut c_char, size: size_t) -> *mut c_char {
    type Get = unsafe extern "C" fn(*mut c_char, size_t) -> *mut c_char;
    // SAFETY: this name has this signature in every C library.
    static NEXT: Next<Get> = unsafe { Next::new(c"getcwd") };
    let Some(next) = NEXT.get() else {
        errno::set(libc::ENOSYS);
        return ptr::null_mut();
    };
    // SAFETY: the caller passes valid arguments, as C requires.
    unsafe {
        let result = next(buffer, size);
        tree::give_back(result);
        result
    }
}
