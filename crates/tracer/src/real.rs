//! The functions of the real libraries, each looked up once.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::c_void;

/// A library, loaded by the program.
pub struct Library {
    file: &'static CStr,
    handle: OnceLock<usize>,
}

/// The verbs.
pub static VERBS: Library = Library::new(c"libibverbs.so.1");
/// The connection manager.
pub static CM: Library = Library::new(c"librdmacm.so.1");

impl Library {
    const fn new(file: &'static CStr) -> Library {
        Library {
            file,
            handle: OnceLock::new(),
        }
    }

    /// Returns a function, or null if the library lacks it.
    pub fn find(&self, name: &CStr) -> *mut c_void {
        // SAFETY: a handle from dlopen(3), and a C string.
        unsafe { libc::dlsym(self.handle(), name.as_ptr()) }
    }

    fn handle(&self) -> *mut c_void {
        *self.handle.get_or_init(|| {
            // SAFETY: a C string. The caller has loaded the library already, so no initialisation
            // runs.
            let handle = unsafe { libc::dlopen(self.file.as_ptr(), libc::RTLD_LAZY) };
            if handle.is_null() {
                eprintln!("verbena trace: cannot load {}", self.file.to_string_lossy());
                std::process::abort();
            }
            handle as usize
        }) as *mut c_void
    }
}

/// A function of a library.
pub struct Real<F> {
    library: &'static Library,
    name: &'static CStr,
    found: AtomicPtr<c_void>,
    signature: PhantomData<F>,
}

impl<F: Copy> Real<F> {
    /// Returns the entry for the function called `name`.
    ///
    /// # Safety
    /// `F` must be an `unsafe extern "C" fn` pointer with the signature that `name` has in C.
    pub const unsafe fn new(library: &'static Library, name: &'static CStr) -> Self {
        assert!(size_of::<F>() == size_of::<*mut c_void>());
        Real {
            library,
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
            found = self.library.find(self.name);
            if found.is_null() {
                let (file, name) = (self.library.file, self.name);
                let (file, name) = (file.to_string_lossy(), name.to_string_lossy());
                eprintln!("verbena trace: {file} has no {name}");
                std::process::abort();
            }
            self.found.store(found, Ordering::Relaxed);
        }
        // SAFETY: the caller of `new` promises the signature, and `new` has compared the sizes.
        unsafe { mem::transmute_copy::<*mut c_void, F>(&found) }
    }
}

/// Returns the real function of a name: `real!(ibv_alloc_pd: unsafe extern "C" fn(...) -> ...)`,
/// of the verbs or of another library: `real!(CM, rdma_connect: ...)`.
macro_rules! real {
    ($verb:ident: $signature:ty) => {
        crate::real::real!(VERBS, $verb: $signature)
    };
    ($library:ident, $verb:ident: $signature:ty) => {{
        static REAL: crate::real::Real<$signature> =
            // SAFETY: the signature is that of the header.
            unsafe {
                crate::real::Real::new(
                    &crate::real::$library,
                    crate::real::c_string(concat!(stringify!($verb), "\0")),
                )
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
