//! The return conventions of the verbs, one function each, from a `Result` to C.
//!
//! A failing call also sets `errno` to its reason, for any return value, because some programs
//! print `errno` after a call that returns the error as its value. And it reports the reason on
//! request ([`verbena_hca_os::refusal`]), for which each function takes the call's name.

use std::ptr;

use libc::{c_int, ssize_t};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refusal;

/// Returns 0, or the value of `errno`: most verbs.
#[inline]
pub fn errno_value(call: &str, result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            fail(call, error);
            error.0
        }
    }
}

/// Returns a pointer, or NULL with `errno` set: calls that create an object.
#[inline]
pub fn pointer<T>(call: &str, result: Result<*mut T>) -> *mut T {
    result.unwrap_or_else(|error| {
        fail(call, error);
        ptr::null_mut()
    })
}

/// Returns 0, or -1 with `errno` set: the queries and the event calls.
#[inline]
pub fn minus_one(call: &str, result: Result<()>) -> c_int {
    number(call, result.map(|()| 0))
}

/// Returns a number that is not negative, or -1 with `errno` set.
#[inline]
pub fn number(call: &str, result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|error| {
        fail(call, error);
        -1
    })
}

/// Returns a count, or `-errno`.
#[inline]
pub fn count_or_negative(call: &str, result: Result<ssize_t>) -> ssize_t {
    result.unwrap_or_else(|error| {
        fail(call, error);
        -(error.0 as ssize_t)
    })
}

/// Returns a number that is not negative, or `-errno`.
#[inline]
pub fn negative(call: &str, result: Result<c_int>) -> c_int {
    result.unwrap_or_else(|error| {
        fail(call, error);
        -error.0
    })
}

/// Sets `errno` for a result that callers expect and handle, without reporting a refusal.
pub fn absent(error: Errno) {
    // SAFETY: the C library returns a valid pointer to the calling thread's `errno`.
    unsafe { *libc::__errno_location() = error.0 }
}

#[cold]
#[inline(never)]
fn fail(call: &str, error: Errno) {
    refusal::report_call(call, error);
    absent(error);
}
