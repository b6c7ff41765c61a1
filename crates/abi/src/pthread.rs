//! Placeholders for the C library's types inside verbs objects. Only size and alignment matter
//! here; code that creates such an object initialises them with the C library's functions.

use core::ffi::{c_long, c_longlong};

const MUTEX_WORDS: usize = if cfg!(target_arch = "aarch64") { 6 } else { 5 };

/// `pthread_mutex_t` of a 64-bit glibc.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pthread_mutex_t {
    opaque: [c_long; MUTEX_WORDS],
}

/// `pthread_cond_t` of a 64-bit glibc.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct pthread_cond_t {
    opaque: [c_longlong; 6],
}

/// `struct timespec`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct timespec {
    pub tv_sec: i64,
    pub tv_nsec: c_long,
}

zero_default!(pthread_mutex_t, pthread_cond_t, timespec);
