//! Macros that define constants (and register them for the comparison with the official headers)
//! and give plain structures an all-zero default.

/// Defines public constants of one type. In tests it also defines `fn $group()`, which returns
/// their names and values. A group marked `newer than v44` is excluded from the comparison.
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

/// Implements `Default` as all-zero, like `memset(.., 0, ..)` in C.
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
