//! The functions of the library behind the tracer, looked up once each.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::c_void;

/// A function of `libibverbs.so.1`.
pub struct Real<F> {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
    signature: PhantomData<F>,
}

impl<F: Copy> Real<F> {
    /// The function called `name`.
    ///
    /// # Safety
    /// `F` must be an `unsafe extern "C" fn` pointer with the signature that `name` has in C.
    pub const unsafe fn new(name: &'static CStr) -> Self {
        assert!(size_of::<F>() == size_of::<*mut c_void>());
        Real {
            name,
            found: AtomicPtr::new(ptr::null_mut()),
            signature: PhantomData,
        }
    }

    /// The function.
    ///
    /// The library may have been loaded by a plug-in, out of sight of RTLD_NEXT; by its name it is found wherever it is.
    /// What calls us without it, or names a function that it does not have, has no way to go on.
    pub fn get(&self) -> F {
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: a C string and a handle from dlopen, or null, which dlsym takes for the whole program.
            found = unsafe { libc::dlsym(library(), self.name.as_ptr()) };
            if found.is_null() {
                eprintln!(
                    "verbena trace: libibverbs.so.1 has no {}",
                    self.name.to_string_lossy()
                );
                std::process::abort();
            }
            self.found.store(found, Ordering::Relaxed);
        }
        // SAFETY: `new` promises the signature, and the sizes were compared there.
        unsafe { mem::transmute_copy::<*mut c_void, F>(&found) }
    }
}

fn library() -> *mut c_void {
    static LIBRARY: OnceLock<usize> = OnceLock::new();
    *LIBRARY.get_or_init(|| {
        // SAFETY: a C string. It is loaded already by whoever called us, and stays.
        let handle = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_LAZY) };
        if handle.is_null() {
            eprintln!("verbena trace: libibverbs.so.1 cannot be loaded");
            std::process::abort();
        }
        handle as usize
    }) as *mut c_void
}

/// The real function of this name: `real!(ibv_alloc_pd: unsafe extern "C" fn(...) -> ...)`.
macro_rules! real {
    ($verb:ident: $signature:ty) => {{
        static REAL: crate::real::Real<$signature> =
            // SAFETY: the signature is the header's.
            unsafe {
                crate::real::Real::new(crate::real::c_string(concat!(stringify!($verb), "\0")))
            };
        REAL.get()
    }};
}
pub(crate) use real;

/// A literal that ends with a zero, as C has it.
pub const fn c_string(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("it has one zero, at its end"),
    }
}
