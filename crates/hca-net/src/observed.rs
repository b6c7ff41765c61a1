//! Whether the requests of this process are observed: captured, or counted for the ports of a
//! fabric. One word for both, so that a request that is not observed costs one read.

use std::sync::atomic::{AtomicU8, Ordering};

/// They are captured ([`crate::capture`]).
pub const CAPTURED: u8 = 1;
/// They are counted ([`crate::fabric`]).
pub const COUNTED: u8 = 2;

/// Read on every data path.
static BY: AtomicU8 = AtomicU8::new(0);

/// Returns whether requests are observed.
#[inline(always)]
pub fn is_any() -> bool {
    BY.load(Ordering::Relaxed) != 0
}

/// Returns whether requests are observed by this.
#[inline(always)]
pub fn is(by: u8) -> bool {
    BY.load(Ordering::Relaxed) & by != 0
}

/// Begins or ends to observe requests by this.
pub fn set(by: u8, is_on: bool) {
    match is_on {
        true => BY.fetch_or(by, Ordering::Relaxed),
        false => BY.fetch_and(!by, Ordering::Relaxed),
    };
}
