//! The fork guard: identifies the process, since a child of a fork must never use its parent's
//! connections.
//!
//! A session is a position in a byte stream. Parent and child would share the stream but not the
//! position, so each would receive replies meant for the other. The generation is in a page that
//! the kernel zeroes in the child (madvise(2), `MADV_WIPEONFORK`), however it was forked; if there
//! is no such page, the process id is used.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Returns the generation of this process: different from that of its parent and of any earlier
/// ancestor.
pub fn generation() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let Some(page) = page() else {
        return std::process::id().into();
    };
    match page.load(Ordering::Acquire) {
        // A new process. Inherited generations are lower than this counter, which is inherited too.
        0 => {
            let fresh = NEXT.fetch_add(1, Ordering::Relaxed);
            match page.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => fresh,
                Err(other) => other,
            }
        }
        generation => generation,
    }
}

#[allow(unsafe_code, reason = "a page that a fork wipes")]
fn page() -> Option<&'static AtomicU64> {
    static PAGE: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
    *PAGE.get_or_init(|| {
        const LENGTH: usize = 4096;
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new anonymous mapping at an address of the kernel's choice replaces nothing.
        let start =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), LENGTH, protection, flags) }
                .ok()?;
        // SAFETY: the mapping made above, which is not shared yet.
        if unsafe { rustix::mm::madvise(start, LENGTH, Advice::LinuxWipeOnFork) }.is_err() {
            // SAFETY: the mapping made above, which is not shared yet and not used afterwards.
            let _ = unsafe { rustix::mm::munmap(start, LENGTH) };
            return None;
        }
        // SAFETY: page-aligned, zeroed, mapped for the life of the process, and only ever used as
        // this atomic.
        Some(unsafe { &*start.cast::<AtomicU64>() })
    })
}
