//! Macros that define constants (and register them for the comparison with the official headers)
//! and give plain structures an all-zero default.

/// Defines public constants of one type. Under test it also makes `fn $group()` return their
/// names and values. A group marked `newer than v44` is left out of the comparison.
macro_rules! constants {
    ($(#[$meta:meta])* $group:ident: $type:ty { $($name:ident = $value:expr,)* }) => {
        $(pub const $name: $type = $value;)*

        #[cfg(test)]
        pub(crate) fn $group() -> &'static [(&'static str, i128)] {
            &[$((stringify!($name), $name as i128),)*]
        }
    };
    (newer than v44: $type:ty { $($name:ident = $value:expr,)* }) => {
        $(pub const $name: $type = $value;)*
    };
}

/// Gives C structures the value that `memset(.., 0, ..)` gives them in C.
macro_rules! zero_default {
    ($($type:ty),* $(,)?) => {
        $(impl Default for $type {
            fn default() -> Self {
                // SAFETY: every field is an integer, a raw pointer, an `Option` of a function
                // pointer, or an array, structure or union of those; all-zero is valid for each.
                unsafe { core::mem::zeroed() }
            }
        })*
    };
}
