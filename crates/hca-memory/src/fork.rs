//! fork(2) with registered memory.
//!
//! Registered pages are shared mappings, which fork would share. So they are never inherited
//! (MADV_DONTFORK), however the process forks. After ibv_fork_init(3) that is all, as its manual
//! page says. Otherwise the child gets a copy of each registered page, as kernels do for pinned
//! pages: before the fork the pages are copied to the shadows that adoption put aside, and in the
//! child the shadows are moved over the holes. A range that could not be copied is a hole in the
//! child.
//!
//! In the child, private empty memory replaces the adapter's own mappings and /dev/null its
//! sockets, so that objects that the child inherited can be dropped without harm while peers still
//! see the parent's death when it happens.

use crate::adopt::PIECE;
use crate::arena::Arena;
use crate::fork_mutex::GENERATION;
use crate::process_memory::ProcessMemory;
use crate::restore::mapped_parts;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock};
use verbena_hca_os::populate::{Use, populate};
use verbena_hca_os::{mm, remap};

/// A child's copy of registered pages.
struct Copy {
    address: u64,
    at: u64,
    length: u64,
    protection: libc::c_int,
    /// The memory serves this copy only: the parent unmaps it.
    for_the_copy: bool,
}

struct Plan {
    copies: Vec<Copy>,
    nothing: Vec<(usize, usize)>,
    sockets: Vec<RawFd>,
    null: Option<OwnedFd>,
}

/// The adapter, as the handlers of fork(2) see it.
#[derive(Clone, Copy)]
pub struct Adapter {
    /// Returns its memory, if there is an adapter.
    pub memory: fn() -> Option<Arc<ProcessMemory>>,
    /// Returns the ranges that a child must not touch.
    pub mappings: fn() -> Vec<(usize, usize)>,
    /// Returns the descriptors by whose closing peers notice this process's death.
    pub descriptors: fn() -> Vec<RawFd>,
    /// Forgets the adapter, in the child. Async-signal-safe.
    pub abandon: fn(),
}

static ADAPTER: OnceLock<Adapter> = OnceLock::new();
static PLAN: Mutex<Option<Plan>> = Mutex::new(None);
static HELD: AtomicBool = AtomicBool::new(false);
static LEFT_OUT: AtomicBool = AtomicBool::new(false);

/// Excludes registered memory from forked children from now on (ibv_fork_init(3)); a fork then
/// costs no more than without it.
pub fn leave_registered_out() {
    LEFT_OUT.store(true, Ordering::SeqCst);
}

/// Returns whether [`leave_registered_out`] was called, or the environment asks for it
/// (ibv_fork_init(3)).
pub fn is_registered_left_out() -> bool {
    static ASKED_FOR: OnceLock<bool> = OnceLock::new();
    let is_set = |name| std::env::var_os(name).is_some();
    let asked_for = || is_set("RDMAV_FORK_SAFE") || is_set("IBV_FORK_SAFE");
    LEFT_OUT.load(Ordering::SeqCst) || *ASKED_FOR.get_or_init(asked_for)
}

/// Makes forks of this process safe from now on.
pub fn watch(adapter: Adapter) {
    static ONCE: Once = Once::new();
    // Evaluated now, and not in the middle of a fork.
    is_registered_left_out();
    ONCE.call_once(|| {
        let _ = ADAPTER.set(adapter);
        // SAFETY: the handlers are functions of this library, which stays loaded (see `ibverbs`'
        // link flags).
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    });
}

extern "C" fn prepare() {
    let Some(adapter) = ADAPTER.get() else { return };
    let Some(memory) = (adapter.memory)() else {
        return;
    };
    // Held until after the fork, so that no range moves between the copy and the fork.
    let registration = memory.registration().lock();
    let plan = Plan {
        copies: match memory.arena() {
            Some(arena) if !is_registered_left_out() => copy_registered(arena),
            _ => Vec::new(),
        },
        nothing: (adapter.mappings)(),
        sockets: (adapter.descriptors)(),
        null: std::fs::File::open("/dev/null").ok().map(OwnedFd::from),
    };
    if let Ok(mut slot) = PLAN.lock() {
        *slot = Some(plan);
    }
    std::mem::forget(registration);
    HELD.store(true, Ordering::Relaxed);
    // Kept alive across the fork: the parent handler releases the lock through it.
    std::mem::forget(memory);
}

extern "C" fn parent() {
    if !HELD.swap(false, Ordering::Relaxed) {
        return;
    }
    let Some(plan) = PLAN.lock().ok().and_then(|mut slot| slot.take()) else {
        return;
    };
    for copy in &plan.copies {
        match copy.for_the_copy {
            true => remap::unmap(copy.at, copy.length),
            false => remap::drop_pages(copy.at, copy.length),
        }
    }
    release_registration();
}

fn release_registration() {
    let Some(memory) = ADAPTER.get().and_then(|adapter| (adapter.memory)()) else {
        return;
    };
    // SAFETY: `prepare` on this very thread took the lock and forgot its guard, and a count of the
    // memory.
    unsafe {
        memory.registration().force_unlock();
        Arc::decrement_strong_count(Arc::as_ptr(&memory));
    }
}

/// Only async-signal-safe calls: another thread may have held the allocator's lock when the process
/// forked.
extern "C" fn child() {
    if !HELD.swap(false, Ordering::Relaxed) {
        return;
    }
    if let Ok(slot) = PLAN.try_lock()
        && let Some(plan) = slot.as_ref()
    {
        for copy in &plan.copies {
            if remap::move_over(copy.at, copy.length, copy.address).is_ok() {
                let _ = remap::protect(copy.address, copy.length, copy.protection);
            }
        }
        for (base, length) in &plan.nothing {
            // SAFETY: these ranges were not inherited (MADV_DONTFORK); accesses by inherited
            // objects then reach private memory of the child.
            let _ = unsafe {
                mm::map(
                    *base as u64,
                    *length as u64,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                    -1,
                    0,
                )
            };
        }
        if let Some(null) = &plan.null {
            for socket in &plan.sockets {
                // SAFETY: replaces a descriptor of the adapter by /dev/null; its number stays
                // taken.
                unsafe { libc::dup3(null.as_raw_fd(), *socket, libc::O_CLOEXEC) };
            }
        }
    }
    GENERATION.fetch_add(1, Ordering::SeqCst);
    // The parent's adapter is unusable here. Its remains are never freed: the threads that would do
    // so do not exist in the child.
    if let Some(adapter) = ADAPTER.get() {
        (adapter.abandon)();
    }
}

/// Copies the registered pages that the application has mapped to the shadows. Pages that fail are
/// left out.
fn copy_registered(arena: &Arena) -> Vec<Copy> {
    let pinned: Vec<_> = {
        let pins = arena.pins();
        let all = pins.all().map(|(offsets, pin)| (offsets, pin.clone()));
        all.collect()
    };
    let mut copies = Vec::new();
    for (offsets, pin) in pinned {
        for part in mapped_parts(arena, &offsets, pin.home).unwrap_or_default() {
            let mut done = 0;
            while done < part.length {
                let length = PIECE.min(part.length - done);
                let offset = part.offset + done;
                let shadow = pin.shadow.map(|shadow| shadow + (offset - offsets.start));
                let address = part.at + done;
                done += length;
                let Ok(at) = shadow.map_or_else(|| remap::private(length, address), Ok) else {
                    continue;
                };
                // In one call instead of a fault for each page.
                let copied =
                    populate(at, length, Use::Write).and_then(|()| arena.fetch(offset, at, length));
                match copied {
                    Ok(()) => copies.push(Copy {
                        address,
                        at,
                        length,
                        protection: part.protection,
                        for_the_copy: shadow.is_none(),
                    }),
                    Err(_) if shadow.is_none() => remap::unmap(at, length),
                    Err(_) => remap::drop_pages(at, length),
                }
            }
        }
    }
    copies
}
