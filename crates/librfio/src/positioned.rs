//! Reads and writes at an offset, and operations on a whole open file: extensions of the classic
//! interface.

use std::ffi::{c_int, c_void};

use verbena_rfio_client::Error;

use crate::core::table;
use crate::ffi;

fn offset_of(offset: i64) -> Result<u64, Error> {
    u64::try_from(offset).map_err(|_| ffi::invalid("offset"))
}

/// Reads at an offset.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_pread64(
    descriptor: c_int,
    buffer: *mut c_void,
    size: usize,
    offset: i64,
) -> isize {
    let read = table::with(descriptor, |file| {
        // SAFETY: the crate's contract promises valid pointers.
        let bytes =
            unsafe { ffi::buffer_mut(buffer, size) }.ok_or_else(|| ffi::invalid("buffer"))?;
        let read = file.read_positioned(offset_of(offset)?, bytes)?;
        Ok(read as i64)
    });
    match read {
        Some(result) => ffi::number(result) as isize,
        // SAFETY: the crate's contract promises valid pointers.
        None => unsafe { libc::pread64(descriptor, buffer, size, offset) },
    }
}

/// Writes at an offset.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_pwrite64(
    descriptor: c_int,
    buffer: *const c_void,
    size: usize,
    offset: i64,
) -> isize {
    let written = table::with(descriptor, |file| {
        // SAFETY: the crate's contract promises valid pointers.
        let bytes = unsafe { ffi::buffer(buffer, size) }.ok_or_else(|| ffi::invalid("buffer"))?;
        let written = file.write_positioned(offset_of(offset)?, bytes)?;
        Ok(written as i64)
    });
    match written {
        Some(result) => ffi::number(result) as isize,
        // SAFETY: the crate's contract promises valid pointers.
        None => unsafe { libc::pwrite64(descriptor, buffer, size, offset) },
    }
}

/// Copies between open files like copy_file_range(2) with offsets; within one server, without
/// transferring data.
///
/// # Safety
/// See the crate's safety contract.
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
            // SAFETY: the call takes integers and two locals.
            return unsafe { libc::copy_file_range(from, &mut offset, to, &mut at, size, 0) };
        }
        (Some(source), Some(sink)) => (source, sink),
        _ => return ffi::number(Err(elsewhere())) as isize,
    };
    let copied = source.and_then(|source| {
        let sink = sink?;
        let (offset, at) = (offset_of(offset)?, offset_of(at)?);
        let (source, written) = (source.async_file()?, sink.async_file()?);
        let copied = source.copy_to(offset, &written, at, size as u64);
        // Also after an error, which may have come after a partial copy.
        sink.has_changed();
        copied?.map(|copied| copied as i64).ok_or_else(elsewhere)
    });
    ffi::number(copied) as isize
}

/// Returns the error for files that are not on the same server.
fn elsewhere() -> Error {
    let error = std::io::Error::from_raw_os_error(libc::EXDEV);
    Error::Local("a copy between places".into(), error)
}

/// Sets the length.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_ftruncate64(descriptor: c_int, size: i64) -> c_int {
    match table::with(descriptor, |file| file.truncate(offset_of(size)?)) {
        Some(result) => ffi::status(result),
        // SAFETY: the call takes only integers.
        None => unsafe { libc::ftruncate64(descriptor, size) },
    }
}

/// Flushes written data to stable storage.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_fsync(descriptor: c_int) -> c_int {
    match table::with(descriptor, |file| file.remote().synchronise()) {
        Some(result) => ffi::status(result),
        // SAFETY: the call takes only an integer.
        None => unsafe { libc::fsync(descriptor) },
    }
}

/// Returns the CRC32C of the whole file, computed by the server.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_checksum(descriptor: c_int, crc32c: *mut u32) -> c_int {
    let sum = table::with(descriptor, |file| file.remote().checksum()).unwrap_or_else(|| {
        let error = std::io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        Err(Error::Local("checksum of a local file".into(), error))
    });
    ffi::status(sum.and_then(|sum| {
        if crc32c.is_null() {
            return Err(ffi::invalid("crc32c"));
        }
        // SAFETY: not null, and valid by the crate's contract.
        unsafe { crc32c.write(sum) };
        Ok(())
    }))
}
