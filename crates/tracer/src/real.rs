//! The functions of the real library, each looked up once.

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
    /// Returns the entry for the function called `name`.
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

    /// Returns the function.
    ///
    /// A plug-in may have loaded the library where RTLD_NEXT does not find it; its name does.
    /// Aborts if the library or the function is missing, as the program's call has no possible
    /// result then.
    pub fn get(&self) -> F {
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: a C string, and a handle from dlopen(3) or null, which stands for the whole
            // program.
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
        // SAFETY: the caller of `new` promises the signature, and `new` has compared the sizes.
        unsafe { mem::transmute_copy::<*mut c_void, F>(&found) }
    }
}

fn library() -> *mut c_void {
    static LIBRARY: OnceLock<usize> = OnceLock::new();
    *LIBRARY.get_or_init(|| {
        // SAFETY: a C string. The caller has loaded the library already, so no initialisation runs.
        let handle = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_LAZY) };
        if handle.is_null() {
            eprintln!("verbena trace: cannot load libibverbs.so.1");
            std::process::abort();
        }
        handle as usize
    }) as *mut c_void
}

/// Returns the real function of a name: `real!(ibv_alloc_pd: unsafe extern "C" fn(...) -> ...)`.
macro_rules! real {
    ($verb:ident: $signature:ty) => {{
        static REAL: crate::real::Real<$signature> =
            // SAFETY: the signature is that of the header.
            unsafe {
                crate::real::Real::new(crate::real::c_string(concat!(stringify!($verb), "\0")))
            };
        REAL.get()
    }};
}
pub(crate) use real;

/// Converts a literal that ends with a zero to a C string.
pub const fn c_string(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("it has one zero, at its end"),
    }
}
