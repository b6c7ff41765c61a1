//! Functions that take a path and are called with the path that replaces it.

macro_rules! forward {
    ($($(#[$attribute:meta])* $name:ident($($before:ident: $bt:ty,)* @$path:ident $(,
        $after:ident: $at:ty)*) -> $result:ty
        { $otherwise:expr })*) => {$(
        /// The C function, with Verbena's paths redirected.
        ///
        /// # Safety
        /// That of the C function.
        $(#[$attribute])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($before: $bt,)* $path: *const c_char $(,
            $after: $at)*) -> $result {
            type Function = unsafe extern "C" fn($($bt,)* *const c_char $(, $at)*) -> $result;
            // SAFETY: this name has this signature in every C library that has it.
            static NEXT: Next<Function> = unsafe {
                Next::new($crate::forward::name(concat!(stringify!($name), "\0")))
            };
            // SAFETY: the caller passes a valid path, as C requires.
            let target = unsafe { $crate::tree::target($path) };
            let $path = target.as_ref().map_or($path, |target| target.as_ptr());
            // SAFETY: both branches pass on the caller's arguments, with a valid C string as the
            // path.
            unsafe {
                match NEXT.get() {
                    Some(next) => next($($before,)* $path $(, $after)*),
                    None => $otherwise,
                }
            }
        }
    )*};
}

pub(crate) use forward;

/// Converts a name with its final zero to a C string.
pub const fn name(text: &str) -> &std::ffi::CStr {
    match std::ffi::CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name without a final zero"),
    }
}
