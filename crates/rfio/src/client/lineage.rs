//! Which process this is: a child of a fork must never use what its parent has open.
//!
//! A session is a place in a stream of bytes. Parent and child share the stream and not the place, so each takes replies
//! that are the other's. The mark lies in a page that the kernel wipes in the child (madvise(2), `MADV_WIPEONFORK`), however
//! it was forked; where there is no such page, the process's number tells.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// The mark of this process: different from its parent's and from that of any earlier ancestor.
pub fn mark() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let Some(page) = page() else {
        return std::process::id().into();
    };
    match page.load(Ordering::Acquire) {
        // A fresh process. What it inherits has lower marks than this counter, which it inherits too.
        0 => {
            let fresh = NEXT.fetch_add(1, Ordering::Relaxed);
            match page.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => fresh,
                Err(other) => other,
            }
        }
        mark => mark,
    }
}

#[allow(unsafe_code, reason = "a page that a fork wipes")]
fn page() -> Option<&'static AtomicU64> {
    static PAGE: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
    *PAGE.get_or_init(|| {
        const LENGTH: usize = 4096;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice replaces nothing.
        let start =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), LENGTH, protection, flags) }
                .ok()?;
        // SAFETY: the mapping made above, which nobody else knows.
        if unsafe { rustix::mm::madvise(start, LENGTH, Advice::LinuxWipeOnFork) }.is_err() {
            // SAFETY: as above.
            let _ = unsafe { rustix::mm::munmap(start, LENGTH) };
            return None;
        }
        // SAFETY: page-aligned, zeroed, as long as the process, and only ever used as this atomic.
        Some(unsafe { &*start.cast::<AtomicU64>() })
    })
}
