//! The allocator of this crate's tests. It ends a process that allocates or frees while pages are
//! held ([`crate::quiet`]).
//!
//! Such an allocation deadlocks only sometimes: when another thread waits for a held page with the
//! heap's lock, or when a held page is the heap's. This allocator detects every one.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HOLDS: Cell<u32> = const { Cell::new(0) };
}

struct Watched;

#[global_allocator]
static WATCHED: Watched = Watched;

/// While it lives, its thread must not allocate.
pub struct AllocationBan(());

impl AllocationBan {
    /// Begins a ban for the calling thread.
    pub fn begin() -> AllocationBan {
        HOLDS.set(HOLDS.get() + 1);
        AllocationBan(())
    }
}

impl Drop for AllocationBan {
    fn drop(&mut self) {
        HOLDS.set(HOLDS.get() - 1);
    }
}

fn check() {
    if HOLDS.get() > 0 {
        const WORDS: &str = "memory is allocated or freed while pages are held\n";
        // SAFETY: a buffer with its length, and an abort without unwinding.
        unsafe {
            libc::write(libc::STDERR_FILENO, WORDS.as_ptr().cast(), WORDS.len());
            libc::abort();
        }
    }
}

// SAFETY: forwards to the system's allocator after a check of a number.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check();
        // SAFETY: the caller promises a valid layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        check();
        // SAFETY: the caller promises a block of this allocator with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        check();
        // SAFETY: the caller promises a block of this allocator with this layout, and a valid size.
        unsafe { System.realloc(pointer, layout, size) }
    }
}
