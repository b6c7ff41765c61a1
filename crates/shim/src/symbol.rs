//! A function that is looked up once, by its name.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::c_void;

/// A function pointer of type `F`.
pub struct Symbol<F> {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
    signature: PhantomData<F>,
}

impl<F: Copy> Symbol<F> {
    /// Returns the entry for the function called `name`.
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
        let found = self.found.load(Ordering::Acquire);
        // SAFETY: the caller of `new` promises the signature, and `new` has compared the sizes.
        (!found.is_null()).then(|| unsafe { mem::transmute_copy::<*mut c_void, F>(&found) })
    }

    /// Returns the function, or looks it up with `find`, which returns null if there is none. If
    /// two threads look it up, they find the same.
    pub fn get(&self, find: impl FnOnce(&CStr) -> *mut c_void) -> Option<F> {
        if let Some(found) = self.found() {
            return Some(found);
        }
        let found = find(self.name);
        if !found.is_null() {
            self.found.store(found, Ordering::Release);
        }
        self.found()
    }
}
