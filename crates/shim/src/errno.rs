//! `errno`: set if a call fails, preserved if it succeeds.

use libc::c_int;

/// Returns the calling thread's `errno`.
pub fn get() -> c_int {
    // SAFETY: the C library returns a valid pointer to the calling thread's `errno`.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's `errno`.
pub fn set(value: c_int) {
    // SAFETY: the C library returns a valid pointer to the calling thread's `errno`.
    unsafe { *libc::__errno_location() = value }
}

/// Fails a call: sets `errno` and returns -1.
pub fn fail(value: c_int) -> c_int {
    set(value);
    -1
}

/// Runs `f` and restores `errno`.
pub fn kept<T>(f: impl FnOnce() -> T) -> T {
    let before = get();
    let result = f();
    set(before);
    result
}
