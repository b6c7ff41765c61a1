//! Pointers become values here, and results become what C expects.

use std::ffi::{CStr, c_char, c_int, c_void};

use verbena_rfio::client::Error;

use crate::errors;

/// The argument of an argument error.
pub fn invalid(what: &str) -> Error {
    Error::Local(
        what.to_owned(),
        std::io::Error::from_raw_os_error(libc::EINVAL),
    )
}

/// The bytes of a C string that names a file.
///
/// # Safety
/// Null, or a string that ends with a NUL and lives.
pub unsafe fn name<'a>(pointer: *const c_char) -> Result<&'a [u8], Error> {
    if pointer.is_null() {
        return Err(Error::Local(
            "path".into(),
            std::io::Error::from_raw_os_error(libc::EFAULT),
        ));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// A C string that is text.
///
/// # Safety
/// See [`name`].
pub unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a str, Error> {
    // SAFETY: the caller's promise.
    str::from_utf8(unsafe { name(pointer) }?).map_err(|_| invalid("path"))
}

/// A buffer to fill.
///
/// # Safety
/// Null, or `size` writable bytes that nobody else uses meanwhile.
pub unsafe fn buffer_mut<'a>(pointer: *mut c_void, size: usize) -> Option<&'a mut [u8]> {
    if size == 0 {
        return Some(&mut []);
    }
    // SAFETY: the caller's promise; a C caller's buffer counts as initialised bytes.
    (!pointer.is_null() && size <= isize::MAX as usize)
        .then(|| unsafe { std::slice::from_raw_parts_mut(pointer.cast(), size) })
}

/// A buffer to read.
///
/// # Safety
/// Null, or `size` readable bytes that nobody changes meanwhile.
pub unsafe fn buffer<'a>(pointer: *const c_void, size: usize) -> Option<&'a [u8]> {
    if size == 0 {
        return Some(&[]);
    }
    // SAFETY: the caller's promise.
    (!pointer.is_null() && size <= isize::MAX as usize)
        .then(|| unsafe { std::slice::from_raw_parts(pointer.cast(), size) })
}

/// errno of this thread.
pub fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Sets errno of this thread.
pub fn set_errno(errno: c_int) {
    // SAFETY: glibc's errno of this thread is always there.
    unsafe { *libc::__errno_location() = errno };
}

/// 0, or -1 with the error noted.
pub fn status(result: Result<(), Error>) -> c_int {
    number(result.map(|()| 0)) as c_int
}

/// The number, or -1 with the error noted.
pub fn number(result: Result<i64, Error>) -> i64 {
    result.unwrap_or_else(|error| {
        errors::note(&error);
        -1
    })
}
