//! Objects that a call has created, or the reason why not.

use std::io;

/// Returns the error number of the last call of the C library.
pub(super) fn errno() -> i32 {
    io::Error::last_os_error()
        .raw_os_error()
        .unwrap_or(libc::EIO)
}

/// Enters a new object into its table, or returns the errno value if it was not created.
pub(super) fn keep<K: std::hash::Hash + Eq, T>(
    table: &mut std::collections::HashMap<K, *mut T>,
    id: K,
    created: *mut T,
) -> i32 {
    if created.is_null() {
        return errno();
    }
    table.insert(id, created);
    0
}
