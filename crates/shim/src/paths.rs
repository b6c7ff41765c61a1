//! `stat`, `access`, `readlink`, `chdir` and similar functions of a path. Programs built against a
//! glibc before 2.33 call the `__xstat` names; their first argument is the version of the
//! structure, of which 64-bit Linux has one. Programs built with _FORTIFY_SOURCE call the names
//! that end in `_chk`.

use libc::{c_char, c_int, c_uint, c_void, size_t, ssize_t, stat as Stat, statfs as Statfs};
use libc::{statvfs as Statvfs, statx as Statx};

use crate::errno;
use crate::forward::forward;
use crate::kernel::system_call;
use crate::next::Next;

/// The system call behind all of `stat`, for use if there is no next function.
unsafe fn status(directory: c_int, path: *const c_char, status: *mut Stat, flags: c_int) -> c_int {
    // SAFETY: the caller's arguments, which the kernel checks; on 64-bit Linux the kernel's
    // structure and the C library's are the same.
    unsafe { system_call!(libc::SYS_newfstatat, directory, path, status, flags) as c_int }
}

unsafe fn may_access(directory: c_int, path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: the caller's arguments, which the kernel checks.
    unsafe { system_call!(libc::SYS_faccessat, directory, path, mode) as c_int }
}

unsafe fn target_of(
    directory: c_int,
    path: *const c_char,
    buffer: *mut c_char,
    size: size_t,
) -> ssize_t {
    // SAFETY: the caller's arguments, which the kernel checks.
    unsafe { system_call!(libc::SYS_readlinkat, directory, path, buffer, size) as ssize_t }
}

const HERE: c_int = libc::AT_FDCWD;
const NOFOLLOW: c_int = libc::AT_SYMLINK_NOFOLLOW;

forward! {
    stat(@path, buffer: *mut Stat) -> c_int { status(HERE, path, buffer, 0) }
    stat64(@path, buffer: *mut Stat) -> c_int { status(HERE, path, buffer, 0) }
    lstat(@path, buffer: *mut Stat) -> c_int { status(HERE, path, buffer, NOFOLLOW) }
    lstat64(@path, buffer: *mut Stat) -> c_int { status(HERE, path, buffer, NOFOLLOW) }
    __xstat(_version: c_int, @path, buffer: *mut Stat) -> c_int { status(HERE, path, buffer, 0) }
    __xstat64(_version: c_int, @path, buffer: *mut Stat) -> c_int { status(HERE, path, buffer, 0) }
    __lxstat(_version: c_int, @path, buffer: *mut Stat) -> c_int {
        status(HERE, path, buffer, NOFOLLOW)
    }
    __lxstat64(_version: c_int, @path, buffer: *mut Stat) -> c_int {
        status(HERE, path, buffer, NOFOLLOW)
    }
    fstatat(directory: c_int, @path, buffer: *mut Stat, flags: c_int) -> c_int {
        status(directory, path, buffer, flags)
    }
    fstatat64(directory: c_int, @path, buffer: *mut Stat, flags: c_int) -> c_int {
        status(directory, path, buffer, flags)
    }
    __fxstatat(_version: c_int, directory: c_int, @path, buffer: *mut Stat, flags: c_int) -> c_int {
        status(directory, path, buffer, flags)
    }
    __fxstatat64(_version: c_int, directory: c_int, @path, buffer: *mut Stat,
        flags: c_int) -> c_int {
        status(directory, path, buffer, flags)
    }
    statx(directory: c_int, @path, flags: c_int, mask: c_uint, buffer: *mut Statx) -> c_int {
        system_call!(libc::SYS_statx, directory, path, flags, mask, buffer) as c_int
    }
    access(@path, mode: c_int) -> c_int { may_access(HERE, path, mode) }
    eaccess(@path, mode: c_int) -> c_int { may_access(HERE, path, mode) }
    euidaccess(@path, mode: c_int) -> c_int { may_access(HERE, path, mode) }
    faccessat(directory: c_int, @path, mode: c_int, flags: c_int) -> c_int {
        system_call!(libc::SYS_faccessat2, directory, path, mode, flags) as c_int
    }
    readlink(@path, buffer: *mut c_char, size: size_t) -> ssize_t {
        target_of(HERE, path, buffer, size)
    }
    readlinkat(directory: c_int, @path, buffer: *mut c_char, size: size_t) -> ssize_t {
        target_of(directory, path, buffer, size)
    }
    __readlink_chk(@path, buffer: *mut c_char, size: size_t, _room: size_t) -> ssize_t {
        target_of(HERE, path, buffer, size)
    }
    __readlinkat_chk(directory: c_int, @path, buffer: *mut c_char, size: size_t,
        _room: size_t) -> ssize_t {
        target_of(directory, path, buffer, size)
    }
    chdir(@path) -> c_int { system_call!(libc::SYS_chdir, path) as c_int }
    statfs(@path, buffer: *mut Statfs) -> c_int {
        system_call!(libc::SYS_statfs, path, buffer) as c_int
    }
    statfs64(@path, buffer: *mut Statfs) -> c_int {
        system_call!(libc::SYS_statfs, path, buffer) as c_int
    }
    statvfs(@path, _buffer: *mut Statvfs) -> c_int { errno::fail(libc::ENOSYS) }
    statvfs64(@path, _buffer: *mut Statvfs) -> c_int { errno::fail(libc::ENOSYS) }
    getxattr(@path, attribute: *const c_char, value: *mut c_void, size: size_t) -> ssize_t {
        system_call!(libc::SYS_getxattr, path, attribute, value, size) as ssize_t
    }
    lgetxattr(@path, attribute: *const c_char, value: *mut c_void, size: size_t) -> ssize_t {
        system_call!(libc::SYS_lgetxattr, path, attribute, value, size) as ssize_t
    }
    listxattr(@path, list: *mut c_char, size: size_t) -> ssize_t {
        system_call!(libc::SYS_listxattr, path, list, size) as ssize_t
    }
    llistxattr(@path, list: *mut c_char, size: size_t) -> ssize_t {
        system_call!(libc::SYS_llistxattr, path, list, size) as ssize_t
    }
}

/// The C function; files of sysfs cannot be watched, as they change without a write.
///
/// # Safety
/// That of the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn inotify_add_watch(queue: c_int, path: *const c_char, mask: u32) -> c_int {
    type Watch = unsafe extern "C" fn(c_int, *const c_char, u32) -> c_int;
    // SAFETY: this name has this signature in every C library.
    static NEXT: Next<Watch> = unsafe { Next::new(c"inotify_add_watch") };
    // SAFETY: the caller passes a valid path, as C requires.
    if unsafe { crate::tree::target(path) }.is_some_and(|target| target.is_of_tree()) {
        return errno::fail(libc::EACCES);
    }
    // SAFETY: passes on the caller's arguments, which are valid for the C function.
    unsafe {
        match NEXT.get() {
            Some(next) => next(queue, path, mask),
            None => system_call!(libc::SYS_inotify_add_watch, queue, path, mask) as c_int,
        }
    }
}
