//! fork(2) with registered memory: the child gets its own copy of every registered page, as it would of any private
//! page, and none of the adapter's shared state.
//!
//! Registered pages are shared mappings, which fork would share. So before the fork they are copied, and in the child
//! the copies are moved over them (mremap(2), no second copy). The adapter's own mappings are replaced by private
//! nothing in the child, and its sockets by /dev/null, so that objects that the child inherited can be dropped without
//! harm while peers still see the parent's death when it comes.

use crate::memory::arena::Arena;
use crate::process::CURRENT;
use crate::sys::vma;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};

/// Counts forks on the child's side; an object made under another count belongs to an ancestor.
pub static GENERATION: AtomicU64 = AtomicU64::new(0);

struct Copy {
    address: usize,
    copy: usize,
    length: usize,
}

struct Plan {
    copies: Vec<Copy>,
    nothing: Vec<(usize, usize)>,
    sockets: Vec<i32>,
    null: Option<OwnedFd>,
}

static PLAN: Mutex<Option<Plan>> = Mutex::new(None);
static HELD: AtomicBool = AtomicBool::new(false);

/// Makes forks of this process safe from now on.
pub fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers are functions of this library, which stays loaded (see `ibverbs`' link flags).
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
}

extern "C" fn prepare() {
    let Some(process) = CURRENT.get() else { return };
    // Held until after the fork, so that no range moves between the copy and the fork.
    let registration = process.registration.lock();
    let plan = Plan {
        copies: process
            .arena
            .as_ref()
            .map_or_else(Vec::new, copy_registered),
        nothing: process.shared_mappings(),
        sockets: process.sockets(),
        null: std::fs::File::open("/dev/null").ok().map(OwnedFd::from),
    };
    if let Ok(mut slot) = PLAN.lock() {
        *slot = Some(plan);
    }
    std::mem::forget(registration);
    HELD.store(true, Ordering::Relaxed);
    // Kept alive across the fork: the parent handler releases the lock through it.
    std::mem::forget(process);
}

extern "C" fn parent() {
    if !HELD.swap(false, Ordering::Relaxed) {
        return;
    }
    let Some(plan) = PLAN.lock().ok().and_then(|mut slot| slot.take()) else {
        return;
    };
    for copy in &plan.copies {
        // SAFETY: the copy is ours and the child has its own.
        unsafe { libc::munmap(copy.copy as *mut _, copy.length) };
    }
    release_registration();
}

fn release_registration() {
    let Some(process) = CURRENT.get() else { return };
    // SAFETY: `prepare` on this very thread took the lock and forgot its guard, and a count of the process.
    unsafe {
        process.registration.force_unlock();
        Arc::decrement_strong_count(Arc::as_ptr(&process));
    }
}

/// Only async-signal-safe calls: another thread may have held the allocator's lock when the process forked.
extern "C" fn child() {
    if !HELD.swap(false, Ordering::Relaxed) {
        return;
    }
    if let Ok(slot) = PLAN.try_lock()
        && let Some(plan) = slot.as_ref()
    {
        for copy in &plan.copies {
            // SAFETY: moves our private copy over the shared mapping that it is a copy of.
            unsafe {
                libc::mremap(
                    copy.copy as *mut _,
                    copy.length,
                    copy.length,
                    libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
                    copy.address as *mut libc::c_void,
                )
            };
        }
        for (base, length) in &plan.nothing {
            // SAFETY: these ranges were not inherited (MADV_DONTFORK); what inherited objects still do to them then
            // happens to private memory of the child.
            unsafe {
                libc::mmap(
                    *base as *mut _,
                    *length,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                    -1,
                    0,
                )
            };
        }
        if let Some(null) = &plan.null {
            for socket in &plan.sockets {
                // SAFETY: replaces a descriptor of the adapter by /dev/null; its number stays taken.
                unsafe { libc::dup3(null.as_raw_fd(), *socket, libc::O_CLOEXEC) };
            }
        }
    }
    GENERATION.fetch_add(1, Ordering::SeqCst);
    // The parent's adapter is not ours. What is left of it is never freed: threads that would do so are gone.
    CURRENT.abandon();
}

fn copy_registered(arena: &Arena) -> Vec<Copy> {
    let Ok(mappings) = vma::all() else {
        return Vec::new();
    };
    let mut copies = Vec::new();
    for vma in mappings
        .iter()
        .filter(|vma| arena.is_behind(vma) && vma.readable)
    {
        let length = (vma.end - vma.start) as usize;
        // SAFETY: a fresh private mapping.
        let copy = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if copy == libc::MAP_FAILED {
            continue;
        }
        // SAFETY: the source is mapped and readable, the copy is as long, and they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(vma.start as *const u8, copy.cast::<u8>(), length) };
        copies.push(Copy {
            address: vma.start as usize,
            copy: copy as usize,
            length,
        });
    }
    copies
}

/// A mutex that can be unlocked by whoever knows that it is locked: std's cannot be held across a fork.
pub struct ForkMutex {
    raw: std::sync::atomic::AtomicU32,
}

/// Holds a [`ForkMutex`].
pub struct ForkGuard<'a>(&'a ForkMutex);

impl ForkMutex {
    /// Unlocked.
    pub const fn new() -> ForkMutex {
        ForkMutex {
            raw: std::sync::atomic::AtomicU32::new(0),
        }
    }

    /// Waits for the lock. Registration is slow and rare, so waiting yields instead of queueing.
    pub fn lock(&self) -> ForkGuard<'_> {
        while self.raw.swap(1, Ordering::Acquire) != 0 {
            std::thread::yield_now();
        }
        ForkGuard(self)
    }

    /// Unlocks without a guard.
    ///
    /// # Safety
    /// The caller holds the lock through a guard that it forgot.
    pub unsafe fn force_unlock(&self) {
        self.raw.store(0, Ordering::Release);
    }
}

impl Default for ForkMutex {
    fn default() -> ForkMutex {
        ForkMutex::new()
    }
}

impl Drop for ForkGuard<'_> {
    fn drop(&mut self) {
        self.0.raw.store(0, Ordering::Release);
    }
}
