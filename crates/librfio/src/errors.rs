//! Error numbers of a thread, in RFIO's order of precedence: the server's, RFIO's own, errno.

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_char, c_int};

use verbena_rfio_client::Error;
use verbena_rfio_protocol::Status;

use crate::ffi;

thread_local! {
    static SERRNO: Cell<c_int> = const { Cell::new(0) };
    static REMOTE: Cell<c_int> = const { Cell::new(0) };
    static TEXT: RefCell<CString> = RefCell::default();
    static REASON: RefCell<CString> = RefCell::default();
}

/// Records an error of this thread.
pub fn note(error: &Error) {
    let words = error.to_string().replace('\0', " ");
    REASON.set(CString::new(words).unwrap_or_default());
    let status = error.status();
    let number = status.0 as c_int;
    match (error, status.as_errno()) {
        (Error::Refused(_) | Error::NotLetIn(..), Some(errno)) => {
            REMOTE.set(errno);
            SERRNO.set(0);
            ffi::set_errno(errno);
        }
        (_, Some(errno)) => {
            REMOTE.set(0);
            SERRNO.set(0);
            ffi::set_errno(errno);
        }
        (_, None) => {
            REMOTE.set(0);
            SERRNO.set(number);
            ffi::set_errno(libc::EIO);
        }
    }
}

/// Returns the effective error: the server's, else RFIO's own, else errno.
fn current() -> Status {
    let numbers = [REMOTE.get(), SERRNO.get(), ffi::errno()];
    numbers
        .into_iter()
        .find(|&number| number != 0)
        .map_or(Status::OK, |number| Status(number as u32))
}

/// Returns the address of this thread's `serrno`.
#[unsafe(no_mangle)]
pub extern "C" fn C__serrno() -> *mut c_int {
    SERRNO.with(Cell::as_ptr)
}

/// Returns the address of this thread's `rfio_errno`.
#[unsafe(no_mangle)]
pub extern "C" fn C__rfio_errno() -> *mut c_int {
    REMOTE.with(Cell::as_ptr)
}

/// Returns the number of the effective error.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_serrno() -> c_int {
    current().0 as c_int
}

/// Returns its message; valid until this thread's next call.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_serror() -> *mut c_char {
    let text = CString::new(current().to_string()).unwrap_or_default();
    TEXT.with(|kept| {
        kept.replace(text);
        kept.borrow().as_ptr().cast_mut()
    })
}

/// Returns a description of the last error, with the server's message; valid until this thread's
/// next error.
#[unsafe(no_mangle)]
pub extern "C" fn rfio_reason() -> *const c_char {
    REASON.with(|kept| kept.borrow().as_ptr())
}

/// Copies the message of the effective error to a buffer.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_serror_r(buffer: *mut c_char, size: libc::size_t) -> c_int {
    // SAFETY: the crate's contract promises valid pointers.
    let Some(buffer) = (unsafe { ffi::buffer_mut(buffer.cast(), size) }) else {
        return -1;
    };
    let text = current().to_string();
    let Some(room) = buffer.len().checked_sub(1) else {
        return -1;
    };
    let length = text.len().min(room);
    buffer[..length].copy_from_slice(&text.as_bytes()[..length]);
    buffer[length] = 0;
    0
}

/// Writes the effective error to standard error.
///
/// # Safety
/// See the crate's safety contract.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rfio_perror(prefix: *const c_char) {
    // SAFETY: the crate's contract promises valid pointers.
    match unsafe { ffi::text(prefix) } {
        Ok(prefix) => eprintln!("{prefix} : {}", current()),
        Err(_) => eprintln!("{}", current()),
    }
}
