//! Fork handling: the child finds the library's tables consistent and unlocked, regardless of the
//! activity of other threads.
//!
//! The tables hold the parent's entries: `table` and `sessions` open again the ones that are used.

use std::cell::RefCell;
use std::sync::Once;

use super::{async_connections, resolve, sessions, table};

/// The locks that are held during a fork.
type Held = (
    table::Guard,
    sessions::Guard,
    async_connections::Guard,
    resolve::Guard,
);

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// Registers the fork handlers (pthread_atfork(3)), once.
pub fn prepare() {
    static ONCE: Once = Once::new();
    // SAFETY: the functions take no arguments and live as long as the library, which is not
    // unloaded while they are registered.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(after), Some(after));
    });
}

unsafe extern "C" fn before() {
    let held = (
        table::lock(),
        sessions::lock(),
        async_connections::lock(),
        resolve::lock(),
    );
    let _ = HELD.try_with(|place| place.borrow_mut().replace(held));
}

unsafe extern "C" fn after() {
    let _ = HELD.try_with(|place| place.borrow_mut().take());
}
