//! The function of the same name in the next object, looked up once.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::c_void;

/// A function pointer of type `F`, found by `dlsym(RTLD_NEXT, name)` at first use.
pub struct Next<F> {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
    signature: PhantomData<F>,
}

impl<F: Copy> Next<F> {
    /// Returns the entry for the next function called `name`.
    ///
    /// # Safety
    /// `F` must be an `unsafe extern "C" fn` pointer with the signature that `name` has in C.
    pub const unsafe fn new(name: &'static CStr) -> Self {
        assert!(mem::size_of::<F>() == mem::size_of::<*mut c_void>());
        Self {
            name,
            found: AtomicPtr::new(ptr::null_mut()),
            signature: PhantomData,
        }
    }

    /// Returns the function, if it has been looked up.
    pub fn found(&self) -> Option<F> {
        let found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            return None;
        }
        // SAFETY: the caller of `new` promises the signature, and `new` has compared the sizes.
        Some(unsafe { mem::transmute_copy::<*mut c_void, F>(&found) })
    }

    /// Returns the function, or `None` if no later object has it (the caller then makes the system
    /// call itself). If two threads look it up, they find the same.
    pub fn get(&self) -> Option<F> {
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: the name is a C string; RTLD_NEXT is valid in any object.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.found.store(found, Ordering::Relaxed);
        }
        self.found()
    }
}
