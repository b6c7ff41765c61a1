//! Detection of vmsplice(2), which leaves pages in pipes that other processes may hold. The
//! preloaded shim records it.

use std::ffi::c_int;
use std::sync::OnceLock;

/// Returns whether the process, or the one that it was forked from, has spliced pages.
type HasSpliced = extern "C" fn() -> c_int;

/// Returns whether this process has spliced pages; false in a program without the shim.
pub fn has_spliced() -> bool {
    static SHIM: OnceLock<Option<HasSpliced>> = OnceLock::new();
    let shim = SHIM.get_or_init(|| {
        // SAFETY: the name is a C string; RTLD_DEFAULT searches all loaded objects.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"verbena_has_spliced".as_ptr()) };
        // SAFETY: only the shim has this name, with this signature.
        (!found.is_null())
            .then(|| unsafe { std::mem::transmute::<*mut libc::c_void, HasSpliced>(found) })
    });
    shim.is_some_and(|has_spliced| has_spliced() != 0)
}
