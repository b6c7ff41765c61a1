//! The return conventions of the verbs, one function each: from a `Result` to what C expects.
//!
//! A failing call also leaves its reason in `errno`, whatever it returns: programs that print
//! `errno` after a call which returns the error as its value then print something true.

use std::ptr;

use libc::{c_int, ssize_t};
use verbena_hca::errno::{Errno, Result};

/// 0, or the value of `errno`: most verbs.
pub fn errno_value(result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            set_errno(error);
            error.0
        }
    }
}

/// A pointer, or NULL with `errno` set: whatever makes an object.
pub fn pointer<T>(result: Result<*mut T>) -> *mut T {
    result.unwrap_or_else(|error| {
        set_errno(error);
        ptr::null_mut()
    })
}

/// 0, or -1 with `errno` set: the queries and the event calls.
pub fn minus_one(result: Result<()>) -> c_int {
    number(result.map(|()| 0))
}

/// A number that is not negative, or -1 with `errno` set.
pub fn number(result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|error| {
        set_errno(error);
        -1
    })
}

/// A count, or `-errno`.
pub fn count_or_negative(result: Result<ssize_t>) -> ssize_t {
    result.unwrap_or_else(|error| {
        set_errno(error);
        -(error.0 as ssize_t)
    })
}

fn set_errno(error: Errno) {
    // SAFETY: the C library returns a valid pointer to the calling thread's `errno`.
    unsafe { *libc::__errno_location() = error.0 }
}
