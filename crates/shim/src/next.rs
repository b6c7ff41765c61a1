//! The function of the same name in the next object, looked up once.

use std::ffi::CStr;

use crate::symbol::Symbol;

/// A function pointer of type `F`, found by `dlsym(RTLD_NEXT, name)` at first use.
pub struct Next<F>(Symbol<F>);

impl<F: Copy> Next<F> {
    /// Returns the entry for the next function called `name`.
    ///
    /// # Safety
    /// `F` must be an `unsafe extern "C" fn` pointer with the signature that `name` has in C.
    pub const unsafe fn new(name: &'static CStr) -> Self {
        // SAFETY: the caller promises the signature.
        Self(unsafe { Symbol::new(name) })
    }

    /// Returns the function, if it has been looked up.
    pub fn found(&self) -> Option<F> {
        self.0.found()
    }

    /// Returns the function, or `None` if no later object has it (the caller then makes the system
    /// call itself).
    pub fn get(&self) -> Option<F> {
        // SAFETY: the name is a C string; RTLD_NEXT is valid in any object.
        self.0
            .get(|name| unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) })
    }
}
