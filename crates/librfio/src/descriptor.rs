//! Functions on descriptors. A descriptor of a local file is passed to the system's function.

use std::ffi::{CString, c_char, c_int, c_long, c_void};

use verbena_rfio_client::Error;
use verbena_rfio_protocol::request::{ChangeModeOf, ChangeOwnerOf, Lock, LockAction, Request};
use verbena_rfio_protocol::types::{Attributes, Range};

use crate::core::file::OpenFile;
use crate::core::resolve::{self, ResolvedPath};
use crate::core::table::{self, Removed};
use crate::ffi;

/// Converts attributes to the system's `struct stat`.
pub fn stat_of(about: &Attributes) -> libc::stat {
    // SAFETY: `stat` has only integers, for which zero is valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let split = |time: i64| {
        (
            time.div_euclid(1_000_000_000),
            time.rem_euclid(1_000_000_000),
        )
    };
    stat.st_dev = about.device;
    stat.st_ino = about.inode;
    stat.st_mode = about.mode;
    stat.st_nlink = about.links as _;
    stat.st_uid = about.owner;
    stat.st_gid = about.group;
    stat.st_size = about.size as i64;
    stat.st_blocks = about.blocks as i64;
    stat.st_blksize = 1 << 20;
    (stat.st_atime, stat.st_atime_nsec) = split(about.accessed);
    (stat.st_mtime, stat.st_mtime_nsec) = split(about.modified);
    (stat.st_ctime, stat.st_ctime_nsec) = split(about.changed);
    stat
}

// `struct stat` and `struct stat64` are the same on all supported platforms.
const _: () = assert!(size_of::<libc::stat>() == size_of::<libc::stat64>());

/// A range of `rfio_preseek64`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct iovec64 {
    pub(crate) iov_base: i64,
    pub(crate) iov_len: c_int,
}
const _: () = assert!(size_of::<iovec64>() == 16);

/// Opens a local or remote file.
///
/// # Errors
/// Those of the server or of open(2).
pub fn open(path: &[u8], flags: c_int, mode: u32) -> Result<c_int, Error> {
    match resolve::find(path)? {
        ResolvedPath::Remote(address, path) => {
            let file = OpenFile::open(&address, &path, flags, mode, table::reading())?;
            table::insert(file)
        }
        ResolvedPath::Local(path) => {
            use std::os::unix::ffi::OsStrExt;
            let path =
                CString::new(path.as_os_str().as_bytes()).map_err(|_| ffi::invalid("path"))?;
            // SAFETY: `path` is a C string that outlives the call.
            let descriptor = unsafe { libc::open(path.as_ptr(), flags, mode) };
            local(descriptor.into()).map(|descriptor| descriptor as c_int)
        }
    }
}

/// Returns the result of a system call, or its error.
pub fn local(result: i64) -> Result<i64, Error> {
    if result < 0 {
        Err(Error::Local(
            "local file".into(),
            std::io::Error::last_os_error(),
        ))
    } else {
        Ok(result)
    }
}

/// Opens a file. `rfio_open` and `rfio_open64` are variadic and defined in `variadic.c`, which
/// calls this; `mode` is 0 unless `flags` require one.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verbena_rfio_open(
    path: *const c_char,
    flags: c_int,
    mode: libc::mode_t,
) -> c_int {
    let mode = if mode == 0 { 0 } else { mode & !umask() };
    // SAFETY: the crate's contract promises valid pointers.
    let opened = unsafe { ffi::name(path) }.and_then(|path| open(path, flags, mode));
    ffi::number(opened.map(i64::from)) as c_int
}

/// Returns the process's umask, which the server does not know (proc(5), since Linux 4.7).
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let value = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    value
        .and_then(|value| u32::from_str_radix(value.trim(), 8).ok())
        .unwrap_or(0o022)
}

/// Closes a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_close(descriptor: c_int) -> c_int {
    match table::remove(descriptor) {
        Some(Removed::Own(file)) => ffi::status(file.close()),
        Some(Removed::Inherited) => 0,
        // SAFETY: the call takes only an integer.
        None => unsafe { libc::close(descriptor) },
    }
}

/// Reads; sizes are of type ssize_t.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_read64(descriptor: c_int, buffer: *mut c_void, size: usize) -> isize {
    let read = table::with(descriptor, |file| {
        // SAFETY: the crate's contract promises valid pointers.
        let bytes =
            unsafe { ffi::buffer_mut(buffer, size) }.ok_or_else(|| ffi::invalid("buffer"))?;
        file.read(bytes).map(|read| read as i64)
    });
    match read {
        Some(result) => ffi::number(result) as isize,
        // SAFETY: the crate's contract promises valid pointers.
        None => unsafe { libc::read(descriptor, buffer, size) },
    }
}

/// Reads.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_read(descriptor: c_int, buffer: *mut c_void, size: c_int) -> c_int {
    match usize::try_from(size) {
        // SAFETY: the crate's contract promises valid pointers.
        Ok(size) => unsafe { rfio_read64(descriptor, buffer, size) as c_int },
        Err(_) => ffi::status(Err(ffi::invalid("size"))),
    }
}

/// Writes; sizes are of type ssize_t.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_write64(
    descriptor: c_int,
    buffer: *const c_void,
    size: usize,
) -> isize {
    let written = table::with(descriptor, |file| {
        // SAFETY: the crate's contract promises valid pointers.
        let bytes = unsafe { ffi::buffer(buffer, size) }.ok_or_else(|| ffi::invalid("buffer"))?;
        file.write(bytes).map(|written| written as i64)
    });
    match written {
        Some(result) => ffi::number(result) as isize,
        // SAFETY: the crate's contract promises valid pointers.
        None => unsafe { libc::write(descriptor, buffer, size) },
    }
}

/// Writes.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_write(
    descriptor: c_int,
    buffer: *const c_void,
    size: c_int,
) -> c_int {
    match usize::try_from(size) {
        // SAFETY: the crate's contract promises valid pointers.
        Ok(size) => unsafe { rfio_write64(descriptor, buffer, size) as c_int },
        Err(_) => ffi::status(Err(ffi::invalid("size"))),
    }
}

/// Moves the position.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_lseek64(descriptor: c_int, offset: i64, whence: c_int) -> i64 {
    match table::with(descriptor, |file| file.seek(offset, whence)) {
        Some(result) => ffi::number(result),
        // SAFETY: the call takes only integers.
        None => unsafe { libc::lseek64(descriptor, offset, whence) },
    }
}

/// Moves the position.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_lseek(descriptor: c_int, offset: libc::off_t, whence: c_int) -> libc::off_t {
    rfio_lseek64(descriptor, offset, whence)
}

fn announce(descriptor: c_int, ranges: impl Iterator<Item = (i64, i64)>) -> c_int {
    let ranges: Result<Vec<Range>, Error> = ranges
        .map(
            |(offset, length)| match (u64::try_from(offset), u32::try_from(length)) {
                (Ok(offset), Ok(length)) => Ok(Range { offset, length }),
                _ => Err(ffi::invalid("range")),
            },
        )
        .collect();
    // For a local file the system reads ahead by itself.
    table::with(descriptor, |file| file.announce(&ranges?)).map_or(0, ffi::status)
}

/// Announces the ranges that will be read: one request fetches them all.
///
/// # Safety
/// See the crate's safety contract; `ranges` has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_preseek64(
    descriptor: c_int,
    ranges: *const iovec64,
    count: c_int,
) -> c_int {
    let Some(count) = usize::try_from(count)
        .ok()
        .filter(|&count| count == 0 || !ranges.is_null())
    else {
        return ffi::status(Err(ffi::invalid("ranges")));
    };
    // SAFETY: `ranges` has `count` elements, as the caller promises.
    announce(
        descriptor,
        (0..count)
            .map(|index| unsafe { *ranges.add(index) })
            .map(|r| (r.iov_base, r.iov_len.into())),
    )
}

/// The same with the system's `struct iovec`, whose pointer is the offset here.
///
/// # Safety
/// See the crate's safety contract; `ranges` has `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_preseek(
    descriptor: c_int,
    ranges: *const libc::iovec,
    count: c_int,
) -> c_int {
    let Some(count) = usize::try_from(count)
        .ok()
        .filter(|&count| count == 0 || !ranges.is_null())
    else {
        return ffi::status(Err(ffi::invalid("ranges")));
    };
    // SAFETY: `ranges` has `count` elements, as the caller promises.
    let range = |index| unsafe { *ranges.add(index) };
    announce(
        descriptor,
        (0..count)
            .map(range)
            .map(|r| (r.iov_base as i64, r.iov_len as i64)),
    )
}

/// Returns the file's attributes.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_fstat64(descriptor: c_int, status: *mut libc::stat) -> c_int {
    match table::with(descriptor, |file| file.examine()) {
        Some(result) => ffi::status(result.and_then(|about| {
            if status.is_null() {
                return Err(ffi::invalid("status"));
            }
            // SAFETY: not null, and valid by the crate's contract.
            unsafe { status.write(stat_of(&about)) };
            Ok(())
        })),
        // SAFETY: the crate's contract promises valid pointers.
        None => unsafe { libc::fstat(descriptor, status) },
    }
}

/// Returns the file's attributes.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_fstat(descriptor: c_int, status: *mut libc::stat) -> c_int {
    // SAFETY: the crate's contract promises valid pointers.
    unsafe { rfio_fstat64(descriptor, status) }
}

/// Changes the permission bits.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_fchmod(descriptor: c_int, mode: c_int) -> c_int {
    let change = |file: &mut OpenFile| {
        let handle = file.remote().handle();
        let mode = mode as u32;
        let request = Request::ChangeModeOf(ChangeModeOf { handle, mode });
        file.remote().call(request).map(|_| ())
    };
    // SAFETY: the call takes only integers.
    table::with(descriptor, change).map_or_else(
        || unsafe { libc::fchmod(descriptor, mode as u32) },
        ffi::status,
    )
}

/// Changes owner and group.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_fchown(descriptor: c_int, owner: c_int, group: c_int) -> c_int {
    let (owner, group) = (owner as u32, group as u32);
    let change = |file: &mut OpenFile| {
        let handle = file.remote().handle();
        let request = Request::ChangeOwnerOf(ChangeOwnerOf {
            handle,
            owner,
            group,
        });
        file.remote().call(request).map(|_| ())
    };
    // SAFETY: the call takes only integers.
    table::with(descriptor, change).map_or_else(
        || unsafe { libc::fchown(descriptor, owner, group) },
        ffi::status,
    )
}

/// Locks from the position on, like lockf(3).
#[unsafe(no_mangle)]
pub extern "C" fn rfio_lockf(descriptor: c_int, operation: c_int, size: c_long) -> c_int {
    let lock = |file: &mut OpenFile| {
        let action = match operation {
            libc::F_ULOCK => LockAction::Unlock,
            libc::F_LOCK | libc::F_TLOCK => LockAction::TryLock,
            libc::F_TEST => LockAction::Test,
            _ => return Err(ffi::invalid("operation")),
        };
        let length = u64::try_from(size).map_err(|_| ffi::invalid("size"))?;
        let (handle, offset) = (file.remote().handle(), file.position());
        let request = Request::Lock(Lock {
            handle,
            action: action.to_wire(),
            offset,
            length,
        });
        let mut pause = std::time::Duration::from_millis(1);
        loop {
            match file.remote().call(request.clone()).map(|_| ()) {
                // The server never waits for a lock, so F_LOCK polls with growing intervals.
                Err(error) if operation == libc::F_LOCK && error.errno() == Some(libc::EAGAIN) => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(std::time::Duration::from_millis(250));
                }
                other => return other,
            }
        }
    };
    // SAFETY: the call takes only integers.
    table::with(descriptor, lock).map_or_else(
        || unsafe { libc::lockf(descriptor, operation, size) },
        ffi::status,
    )
}

/// Returns the reading option.
#[unsafe(no_mangle)]
pub extern "C" fn rfioreadopt(_descriptor: c_int) -> c_int {
    table::read_option()
}

/// Sets the reading option, the only option.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfiosetopt(option: c_int, value: *const c_int, _length: c_int) -> c_int {
    const READOPT: c_int = 1;
    // SAFETY: not null, and valid by the crate's contract.
    match (option, (!value.is_null()).then(|| unsafe { *value })) {
        (READOPT, Some(value @ (0 | 1 | 2 | 3 | 16 | 17 | 18 | 19))) => {
            table::set_read_option(value);
            0
        }
        _ => ffi::status(Err(ffi::invalid("option"))),
    }
}

/// Does nothing. Old programs initialised their threads by this call.
#[unsafe(no_mangle)]
pub extern "C" fn Cthread_init() -> c_int {
    0
}
