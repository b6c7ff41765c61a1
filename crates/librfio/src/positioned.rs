//! Reads and writes at an offset, and what else is done to a whole open file: beyond the classic interface.

use std::ffi::{c_int, c_void};

use verbena_rfio::client::Error;

use crate::core::table;
use crate::door;

fn offset_of(offset: i64) -> Result<u64, Error> {
    u64::try_from(offset).map_err(|_| door::invalid("offset"))
}

/// Reads at an offset.
///
/// # Safety
/// See the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_pread64(
    descriptor: c_int,
    buffer: *mut c_void,
    size: usize,
    offset: i64,
) -> isize {
    let read = table::with(descriptor, |file| {
        // SAFETY: the caller's promise.
        let bytes =
            unsafe { door::buffer_mut(buffer, size) }.ok_or_else(|| door::invalid("buffer"))?;
        let read = file.read_positioned(offset_of(offset)?, bytes)?;
        Ok(read as i64)
    });
    match read {
        Some(result) => door::number(result) as isize,
        // SAFETY: the caller's promise.
        None => unsafe { libc::pread64(descriptor, buffer, size, offset) },
    }
}

/// Writes at an offset.
///
/// # Safety
/// See the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_pwrite64(
    descriptor: c_int,
    buffer: *const c_void,
    size: usize,
    offset: i64,
) -> isize {
    let written = table::with(descriptor, |file| {
        // SAFETY: the caller's promise.
        let bytes = unsafe { door::buffer(buffer, size) }.ok_or_else(|| door::invalid("buffer"))?;
        let written = file.write_positioned(offset_of(offset)?, bytes)?;
        Ok(written as i64)
    });
    match written {
        Some(result) => door::number(result) as isize,
        // SAFETY: the caller's promise.
        None => unsafe { libc::pwrite64(descriptor, buffer, size, offset) },
    }
}

/// Copies between open files as copy_file_range(2) does with offsets, on one server without moving data here.
///
/// # Safety
/// See the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_copy_range(
    from: c_int,
    offset: i64,
    to: c_int,
    at: i64,
    size: usize,
) -> isize {
    let (source, sink) = match (table::find(from), table::find(to)) {
        (None, None) => {
            let (mut offset, mut at) = (offset, at);
            // SAFETY: integers, and two places on this stack.
            return unsafe { libc::copy_file_range(from, &mut offset, to, &mut at, size, 0) };
        }
        (Some(source), Some(sink)) => (source, sink),
        _ => return door::number(Err(elsewhere())) as isize,
    };
    let copied = source.and_then(|source| {
        let sink = sink?;
        let (offset, at) = (offset_of(offset)?, offset_of(at)?);
        let (source, written) = (source.beside()?, sink.beside()?);
        let copied = source.copy_to(offset, &written, at, size as u64);
        // Also by one that failed on its way.
        sink.has_changed();
        copied?.map(|copied| copied as i64).ok_or_else(elsewhere)
    });
    door::number(copied) as isize
}

/// The error for files that are not in one place.
fn elsewhere() -> Error {
    let error = std::io::Error::from_raw_os_error(libc::EXDEV);
    Error::Local("a copy between places".into(), error)
}

/// Sets the length.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_ftruncate64(descriptor: c_int, size: i64) -> c_int {
    match table::with(descriptor, |file| file.truncate(offset_of(size)?)) {
        Some(result) => door::status(result),
        // SAFETY: integers.
        None => unsafe { libc::ftruncate64(descriptor, size) },
    }
}

/// Puts what was written on stable storage.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_fsync(descriptor: c_int) -> c_int {
    match table::with(descriptor, |file| file.remote().synchronise()) {
        Some(result) => door::status(result),
        // SAFETY: an integer.
        None => unsafe { libc::fsync(descriptor) },
    }
}

/// The CRC32C of the whole file, which the server computes.
///
/// # Safety
/// See the crate.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_checksum(descriptor: c_int, crc32c: *mut u32) -> c_int {
    let sum = table::with(descriptor, |file| file.remote().checksum()).unwrap_or_else(|| {
        let error = std::io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        Err(Error::Local("checksum of a local file".into(), error))
    });
    door::status(sum.and_then(|sum| {
        if crc32c.is_null() {
            return Err(door::invalid("crc32c"));
        }
        // SAFETY: not null, and the caller's promise.
        unsafe { crc32c.write(sum) };
        Ok(())
    }))
}
