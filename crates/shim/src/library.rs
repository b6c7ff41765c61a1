//! Functions of Verbena's libibverbs, looked up at first use.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_void;

use crate::symbol::Symbol;

const LIBRARY: &CStr = c"libibverbs.so.1";

/// A function of the library.
pub struct Function<F>(Symbol<F>);

impl<F: Copy> Function<F> {
    /// Returns the entry for the function called `name`.
    ///
    /// # Safety
    /// `F` must be an `unsafe extern "C" fn` pointer with the signature that `name` has.
    pub const unsafe fn new(name: &'static CStr) -> Self {
        // SAFETY: the caller promises the signature.
        Self(unsafe { Symbol::new(name) })
    }

    /// Returns the function, or `None` if the library is not Verbena's.
    pub fn get(&self) -> Option<F> {
        static LOADING: AtomicBool = AtomicBool::new(false);

        self.0.get(|name| {
            // Loading a library opens files; such a call must not recurse.
            if LOADING.swap(true, Ordering::Acquire) {
                return ptr::null_mut();
            }
            let found = in_library(name);
            LOADING.store(false, Ordering::Release);
            found
        })
    }
}

fn in_library(name: &CStr) -> *mut c_void {
    // SAFETY: both are C strings. The library is the one that the program would load itself, and it
    // stays loaded.
    unsafe {
        let library = libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL);
        if library.is_null() {
            return ptr::null_mut();
        }
        libc::dlsym(library, name.as_ptr())
    }
}
