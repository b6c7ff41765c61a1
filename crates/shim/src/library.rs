//! Functions of Verbena's libibverbs, looked up at first use.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use libc::c_void;

const LIBRARY: &CStr = c"libibverbs.so.1";

/// A function of the library.
pub struct Function<F> {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
    signature: PhantomData<F>,
}

impl<F: Copy> Function<F> {
    /// Returns the entry for the function called `name`.
    ///
    /// # Safety
    /// `F` must be an `unsafe extern "C" fn` pointer with the signature that `name` has.
    pub const unsafe fn new(name: &'static CStr) -> Self {
        assert!(mem::size_of::<F>() == mem::size_of::<*mut c_void>());
        Self {
            name,
            found: AtomicPtr::new(ptr::null_mut()),
            signature: PhantomData,
        }
    }

    /// Returns the function, or `None` if the library is not Verbena's.
    pub fn get(&self) -> Option<F> {
        static LOADING: AtomicBool = AtomicBool::new(false);

        let mut found = self.found.load(Ordering::Acquire);
        if found.is_null() {
            // Loading a library opens files; such a call must not recurse.
            if LOADING.swap(true, Ordering::Acquire) {
                return None;
            }
            // SAFETY: both are C strings. The library is the one that the program would load
            // itself, and it stays loaded.
            unsafe {
                let library = libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL);
                if !library.is_null() {
                    found = libc::dlsym(library, self.name.as_ptr());
                }
            }
            self.found.store(found, Ordering::Release);
            LOADING.store(false, Ordering::Release);
        }
        if found.is_null() {
            return None;
        }
        // SAFETY: the caller of `new` promises the signature, and `new` has compared the sizes.
        Some(unsafe { mem::transmute_copy::<*mut c_void, F>(&found) })
    }
}
