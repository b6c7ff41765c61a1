//! Memory windows: ibv_alloc_mw(3), ibv_bind_mw(3), and the bind work request.

use crate::context::Pd;
use crate::errno::{Errno, Result};
use crate::memory::key::{KeyEntry, next_tag};
use crate::memory::region::Region;
use std::sync::{Arc, Mutex};
use verbena_abi::*;

/// A window onto part of a region, with a key of its own that changes with each binding.
pub struct Window {
    pd: Arc<Pd>,
    kind: ibv_mw_type,
    state: Mutex<State>,
}

struct State {
    key: u32,
    /// Queue pair that may use it, 0 for any.
    queue_pair: u32,
    /// What it is bound to.
    region: Option<Arc<Region>>,
    freed: bool,
}

impl State {
    fn release_region(&mut self) {
        if let Some(region) = self.region.take() {
            region.unbind();
        }
    }
}

impl Window {
    /// A window that is bound to nothing.
    pub fn allocate(pd: &Arc<Pd>, kind: ibv_mw_type) -> Result<Arc<Window>> {
        if kind != IBV_MW_TYPE_1 && kind != IBV_MW_TYPE_2 {
            return Err(Errno::EINVAL);
        }
        let key = pd.process().keys.allocate()?;
        pd.retain();
        let state = Mutex::new(State {
            key,
            queue_pair: 0,
            region: None,
            freed: false,
        });
        let window = Arc::new(Window {
            pd: pd.clone(),
            kind,
            state,
        });
        pd.process().windows.insert(key, &window);
        Ok(window)
    }

    /// Type 1 or type 2.
    pub fn kind(&self) -> ibv_mw_type {
        self.kind
    }

    /// The key now.
    pub fn key(&self) -> u32 {
        self.lock().key
    }

    /// The key that the next [`Window::bind`] of a type 1 window gives it (ibv_bind_mw returns it before the work
    /// request is done).
    pub fn next_key(&self) -> u32 {
        next_tag(self.lock().key)
    }

    /// Binds the window, or unbinds it when `length` is 0. `queue_pair` is the queue pair that may use it, 0 for any in
    /// the protection domain. A type 2 window must not be bound already.
    pub fn bind(
        &self,
        key: u32,
        region: Option<&Arc<Region>>,
        address: u64,
        length: u64,
        access: u32,
        queue_pair: u32,
    ) -> Result<()> {
        let mut state = self.lock();
        let binds = length != 0;
        if state.freed || (self.kind == IBV_MW_TYPE_2 && state.region.is_some() && binds) {
            return Err(Errno::EINVAL);
        }
        let bound = if binds {
            let region = region.ok_or(Errno::EINVAL)?;
            let whole = region.bind()?;
            match narrow(&whole, &self.pd, address, length, access, queue_pair) {
                Ok(entry) => Some((region.clone(), entry)),
                Err(error) => {
                    region.unbind();
                    return Err(error);
                }
            }
        } else {
            None
        };
        let process = self.pd.process();
        process.keys.revoke(state.key);
        process.fence();
        process.windows.rename(state.key, key);
        state.key = key;
        state.release_region();
        if let Some((region, entry)) = bound {
            process.keys.publish(key, &entry);
            state.region = Some(region);
            state.queue_pair = queue_pair;
        }
        Ok(())
    }

    /// Ends the binding of a type 2 window (local invalidate, send with invalidate), as asked for through a queue pair of
    /// a protection domain: a window is bound to one of each (architecture specification, 10.6.7.2).
    ///
    /// # Errors
    /// EINVAL when it is not bound, or not there.
    pub fn invalidate(&self, key: u32, pd: u32, queue_pair: u32) -> Result<()> {
        let mut state = self.lock();
        if self.kind != IBV_MW_TYPE_2
            || self.pd.number() != pd
            || state.queue_pair != queue_pair
            || state.key != key
            || state.region.is_none()
        {
            return Err(Errno::EINVAL);
        }
        self.pd.process().keys.revoke(key);
        self.pd.process().fence();
        state.release_region();
        Ok(())
    }

    /// Gives the window back; its key stops working at once.
    pub fn free(&self) {
        let mut state = self.lock();
        if std::mem::replace(&mut state.freed, true) {
            return;
        }
        let process = self.pd.process();
        process.keys.revoke(state.key);
        process.fence();
        process.windows.remove(state.key);
        process.keys.release(state.key);
        state.release_region();
        self.pd.release();
    }

    /// Number of the protection domain.
    pub fn pd(&self) -> u32 {
        self.pd.number()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn narrow(
    region: &KeyEntry,
    pd: &Arc<Pd>,
    address: u64,
    length: u64,
    access: u32,
    queue_pair: u32,
) -> Result<KeyEntry> {
    let remote_changes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if region.pd != pd.number()
        || region.access & IBV_ACCESS_MW_BIND == 0
        || (access & remote_changes != 0 && region.access & IBV_ACCESS_LOCAL_WRITE == 0)
    {
        return Err(Errno::EPERM);
    }
    let from = address.checked_sub(region.iova).ok_or(Errno::EINVAL)?;
    let to = from.checked_add(length).ok_or(Errno::EINVAL)?;
    if to > region.length {
        return Err(Errno::EINVAL);
    }
    let zero_based = access & IBV_ACCESS_ZERO_BASED != 0;
    Ok(KeyEntry {
        pd: region.pd,
        access,
        queue_pair,
        iova: if zero_based { 0 } else { address },
        length,
        address: region.address + from,
        segments: region.segments.clone(),
    })
}
