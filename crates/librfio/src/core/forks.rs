//! Forks: whatever another thread does at that moment, the child finds the library's tables whole and unlocked.
//!
//! What the child finds in them is the parent's: `table` and `sessions` open anew what is used.

use std::cell::RefCell;
use std::sync::Once;

use super::{beside, place, sessions, table};

/// Everything that is held over a fork.
type Held = (table::Guard, sessions::Guard, beside::Guard, place::Guard);

thread_local! {
    static HELD: RefCell<Option<Held>> = const { RefCell::new(None) };
}

/// From now on, forks are prepared for (pthread_atfork(3)).
pub fn prepare() {
    static ONCE: Once = Once::new();
    // SAFETY: functions without arguments that live as long as the library, which is never unloaded while they are needed.
    ONCE.call_once(|| unsafe {
        libc::pthread_atfork(Some(before), Some(after), Some(after));
    });
}

unsafe extern "C" fn before() {
    let held = (
        table::hold(),
        sessions::hold(),
        beside::hold(),
        place::hold(),
    );
    let _ = HELD.try_with(|place| place.borrow_mut().replace(held));
}

unsafe extern "C" fn after() {
    let _ = HELD.try_with(|place| place.borrow_mut().take());
}
