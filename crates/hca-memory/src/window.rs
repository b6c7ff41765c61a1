//! Memory windows: ibv_alloc_mw(3), ibv_bind_mw(3), and the bind work request.

use crate::domain::Pd;
use crate::explain::{access_names, range_name};
use crate::key::{KeyEntry, KeyKind, next_tag, with_chosen_tag};
use crate::process_memory::Invalidate;
use crate::region::{Narrow, Region};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use verbena_abi::*;
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

/// Rights that a window may grant (ibv_bind_mw(3)); IBV_ACCESS_FLUSH_GLOBAL as for regions.
const WINDOW_ACCESS: u32 = IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_ZERO_BASED
    | IBV_ACCESS_FLUSH_GLOBAL;
/// Flags of regions without meaning for a window; providers ignore them.
const NO_RIGHT_OF_A_WINDOW: u32 =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | IBV_ACCESS_OPTIONAL_RANGE;

/// A window onto part of a region, with its own key that changes with each binding.
///
/// Its lock is never held while a thread waits for peers: such a thread sets `changing` and
/// releases the lock first.
pub struct Window {
    pd: Arc<Pd>,
    kind: ibv_mw_type,
    state: Mutex<WindowState>,
    changed: Condvar,
}

struct WindowState {
    key: u32,
    /// The region it is bound to, and the queue pair that it is bound through (0 for type 1).
    binding: Option<(Arc<Region>, u32)>,
    /// A thread waits for peers to leave the old binding.
    changing: bool,
    freed: bool,
}

impl Window {
    /// Allocates an unbound window.
    ///
    /// # Errors
    /// EINVAL for an unknown type; ENOMEM at the device's limit.
    pub fn allocate(pd: &Arc<Pd>, kind: ibv_mw_type) -> Result<Arc<Window>> {
        if kind != IBV_MW_TYPE_1 && kind != IBV_MW_TYPE_2 {
            return Err(refused!(
                EINVAL,
                "type is {kind}: give IBV_MW_TYPE_1 or IBV_MW_TYPE_2"
            ));
        }
        let key = pd.memory().keys().allocate(KeyKind::Window)?;
        pd.retain();
        let state = WindowState {
            key,
            binding: None,
            changing: false,
            freed: false,
        };
        let window = Arc::new(Window {
            pd: pd.clone(),
            kind,
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        pd.memory()
            .windows()
            .insert(key, &(window.clone() as Arc<dyn Invalidate>));
        Ok(window)
    }

    /// Returns type 1 (bound by ibv_bind_mw) or type 2 (bound by a work request, to one queue
    /// pair).
    pub fn kind(&self) -> ibv_mw_type {
        self.kind
    }

    /// Returns the present key.
    pub fn key(&self) -> u32 {
        self.lock().key
    }

    /// Returns the key that the next [`Window::bind`] of a type 1 window gives it (ibv_bind_mw
    /// returns it before the work request is done).
    pub fn next_key(&self) -> u32 {
        next_tag(self.lock().key)
    }

    /// Returns the key of a type 2 window after a bind work request with `chosen`, of which the low
    /// eight bits count.
    pub fn key_with(&self, chosen: u32) -> u32 {
        with_chosen_tag(self.lock().key, chosen)
    }

    /// Binds the window under `key`, of which the low eight bits count. `queue_pair` is the queue
    /// pair that may use it, 0 for any in the protection domain. A length of 0 unbinds a type 1
    /// window.
    ///
    /// # Errors
    /// EINVAL for a deallocated window, a type 2 window that is already bound or has length 0, a
    /// missing or deregistered region, unknown flags and a range outside the region; EPERM for
    /// another protection domain and rights that the region does not have.
    pub fn bind(
        &self,
        key: u32,
        region: Option<&Arc<Region>>,
        address: u64,
        length: u64,
        access: u32,
        queue_pair: u32,
    ) -> Result<()> {
        let memory = self.pd.memory();
        let mut state = self.lock_when_unchanging();
        let unbinds = length == 0;
        if state.freed || (self.kind == IBV_MW_TYPE_2 && (state.binding.is_some() || unbinds)) {
            return Err(refused!(
                EINVAL,
                "the window is deallocated, or of type 2 and already bound, or the bind has \
                 length 0: invalidate it first (IBV_WR_LOCAL_INV), and bind at least 1 byte"
            ));
        }
        let pd = self.pd.number();
        let narrow: Narrow = Arc::new(move |region: &KeyEntry| {
            narrow(region, pd, address, length, access, queue_pair)
        });
        let wanted = match unbinds {
            true => None,
            false => {
                // Refused before anything is changed: an old binding stays as it is.
                let region = region.ok_or_else(|| {
                    refused!(EINVAL, "bind_info.mr is NULL: give the region to bind to")
                })?;
                region.reserve(&narrow)?;
                Some(region.clone())
            }
        };
        let old_key = state.key;
        let old = state.binding.take();
        if let Some((region, _)) = &old {
            region.revoke_window(old_key);
            state = self.wait_for_peers(state);
        }
        let key = with_chosen_tag(old_key, key);
        memory.windows().rename(old_key, key);
        state.key = key;
        let mut bound = Ok(());
        if let Some(region) = wanted {
            bound = region.publish_window(key, &narrow);
            match bound {
                Ok(()) => state.binding = Some((region, queue_pair)),
                Err(_) => region.unbind(),
            }
        }
        drop(state);
        release(old);
        bound
    }

    /// Deallocates the window; its key stops working at once.
    pub fn free(&self) {
        let mut state = self.lock_when_unchanging();
        if std::mem::replace(&mut state.freed, true) {
            return;
        }
        let memory = self.pd.memory();
        let old = state.binding.take();
        if let Some((region, _)) = &old {
            region.revoke_window(state.key);
            state = self.wait_for_peers(state);
        }
        let key = state.key;
        drop(state);
        memory.windows().remove(key);
        memory.keys().release(key, KeyKind::Window);
        release(old);
        self.pd.release();
    }

    /// Returns the number of the protection domain.
    pub fn pd(&self) -> u32 {
        self.pd.number()
    }

    /// Waits for accesses by a revoked key, without the lock; no other thread changes the window
    /// meanwhile. The key's memory stays registered, so a peer that is stopped there writes only to
    /// the region.
    fn wait_for_peers<'a>(
        &'a self,
        mut state: MutexGuard<'a, WindowState>,
    ) -> MutexGuard<'a, WindowState> {
        state.changing = true;
        drop(state);
        self.pd.memory().fence();
        let mut state = self.lock();
        state.changing = false;
        self.changed.notify_all();
        state
    }

    /// Locks the state, once no thread is changing it.
    fn lock_when_unchanging(&self) -> MutexGuard<'_, WindowState> {
        let mut state = self.lock();
        while state.changing {
            state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, WindowState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Invalidate for Window {
    /// Ends the binding of a type 2 window (local invalidate, send with invalidate).
    fn invalidate(&self, key: u32, pd: u32, queue_pair: u32) -> Result<()> {
        let mut state = self.lock_when_unchanging();
        let Some((region, bound_through)) = &state.binding else {
            return Err(refused!(
                EINVAL,
                "rkey {key:#x} belongs to a window that is not bound"
            ));
        };
        if self.kind != IBV_MW_TYPE_2 || state.key != key {
            return Err(refused!(
                EINVAL,
                "rkey {key:#x} is not the current one of a type 2 window: use mw->rkey as it is \
                 after the bind"
            ));
        }
        if self.pd() != pd || *bound_through != queue_pair {
            return Err(refused!(
                EPERM,
                "rkey {key:#x} belongs to a window of another protection domain, or one bound \
                 through queue pair {bound_through:#x} and not {queue_pair:#x}"
            ));
        }
        region.revoke_window(key);
        let old = state.binding.take();
        drop(self.wait_for_peers(state));
        release(old);
        Ok(())
    }
}

fn release(binding: Option<(Arc<Region>, u32)>) {
    if let Some((region, _)) = binding {
        region.unbind();
    }
}

fn narrow(
    region: &KeyEntry,
    pd: u32,
    address: u64,
    length: u64,
    access: u32,
    queue_pair: u32,
) -> Result<KeyEntry> {
    let remote_changes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if region.pd != pd {
        return Err(refused!(
            EPERM,
            "the region belongs to another protection domain than the window: create both in one"
        ));
    }
    if region.access & IBV_ACCESS_MW_BIND == 0 {
        return Err(refused!(
            EPERM,
            "the region allows {} and not IBV_ACCESS_MW_BIND: register it with that",
            access_names(region.access)
        ));
    }
    if access & remote_changes != 0 && region.access & IBV_ACCESS_LOCAL_WRITE == 0 {
        return Err(refused!(
            EPERM,
            "mw_access_flags {} need IBV_ACCESS_LOCAL_WRITE of the region, which allows {}",
            access_names(access),
            access_names(region.access)
        ));
    }
    let unknown = access & !(WINDOW_ACCESS | NO_RIGHT_OF_A_WINDOW);
    if unknown != 0 {
        return Err(refused!(
            EINVAL,
            "mw_access_flags {}: a window takes {}",
            access_names(access),
            access_names(WINDOW_ACCESS)
        ));
    }
    let from = address.checked_sub(region.iova);
    let inside = |from: &u64| {
        from.checked_add(length)
            .is_some_and(|to| to <= region.length)
    };
    let Some(from) = from.filter(inside) else {
        return Err(refused!(
            EINVAL,
            "bind_info names {}, and the region covers {}",
            range_name(address, length),
            range_name(region.iova, region.length)
        ));
    };
    let zero_based = access & IBV_ACCESS_ZERO_BASED != 0;
    Ok(KeyEntry {
        pd: region.pd,
        access: access & WINDOW_ACCESS,
        queue_pair,
        iova: if zero_based { 0 } else { address },
        length,
        address: region.address + from,
        segments: region.segments.clone(),
        hold: region.hold,
    })
}
