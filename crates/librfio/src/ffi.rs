//! Conversion of C pointers to values, and of results to C's return conventions.

use std::ffi::{CStr, c_char, c_int, c_void};

use verbena_rfio_client::Error;

use crate::errors;

/// Returns EINVAL for the argument `what`.
pub fn invalid(what: &str) -> Error {
    Error::Local(
        what.to_owned(),
        std::io::Error::from_raw_os_error(libc::EINVAL),
    )
}

/// Returns the bytes of a C string that names a file.
///
/// # Errors
/// EFAULT for a null pointer.
///
/// # Safety
/// `pointer` must be null, or a valid string that ends with a NUL.
pub unsafe fn name<'a>(pointer: *const c_char) -> Result<&'a [u8], Error> {
    if pointer.is_null() {
        return Err(Error::Local(
            "path".into(),
            std::io::Error::from_raw_os_error(libc::EFAULT),
        ));
    }
    // SAFETY: not null, and the caller promises a valid string.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// Returns a C string as text.
///
/// # Errors
/// Those of [`name`], and EINVAL if it is not UTF-8.
///
/// # Safety
/// That of [`name`].
pub unsafe fn text<'a>(pointer: *const c_char) -> Result<&'a str, Error> {
    // SAFETY: the caller promises null or a valid string.
    str::from_utf8(unsafe { name(pointer) }?).map_err(|_| invalid("path"))
}

/// Returns a buffer to fill.
///
/// # Safety
/// `pointer` must be null, or have `size` writable bytes that nothing else uses meanwhile.
pub unsafe fn buffer_mut<'a>(pointer: *mut c_void, size: usize) -> Option<&'a mut [u8]> {
    if size == 0 {
        return Some(&mut []);
    }
    // SAFETY: not null, and the caller promises `size` writable bytes; C buffers count as
    // initialised.
    (!pointer.is_null() && size <= isize::MAX as usize)
        .then(|| unsafe { std::slice::from_raw_parts_mut(pointer.cast(), size) })
}

/// Returns a buffer to read.
///
/// # Safety
/// `pointer` must be null, or have `size` readable bytes that do not change meanwhile.
pub unsafe fn buffer<'a>(pointer: *const c_void, size: usize) -> Option<&'a [u8]> {
    if size == 0 {
        return Some(&[]);
    }
    // SAFETY: not null, and the caller promises `size` readable bytes.
    (!pointer.is_null() && size <= isize::MAX as usize)
        .then(|| unsafe { std::slice::from_raw_parts(pointer.cast(), size) })
}

/// Returns errno of this thread.
pub fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Sets errno of this thread.
pub fn set_errno(errno: c_int) {
    // SAFETY: glibc returns a valid pointer to this thread's errno.
    unsafe { *libc::__errno_location() = errno };
}

/// Returns 0, or -1 with the error recorded.
pub fn status(result: Result<(), Error>) -> c_int {
    number(result.map(|()| 0)) as c_int
}

/// Returns the number, or -1 with the error recorded.
pub fn number(result: Result<i64, Error>) -> i64 {
    result.unwrap_or_else(|error| {
        errors::note(&error);
        -1
    })
}
