//! Memory windows of type 2: `ibv_alloc_mw(3)`, and the work requests that bind and invalidate
//! them.
//!
//! A bound window gives the peer of one queue pair access to part of a region, under its own key,
//! until it is invalidated; then the adapter refuses the key. Registering a region costs a system
//! call, a window two work requests.

use crate::error::{Error, Result};
use crate::object::domain::ProtectionDomain;
use crate::object::post::SendFlags;
use crate::object::queue_pair::QueuePair;
use crate::object::region::{AccessFlags, Region};
use crate::object::thread_safe;
use std::ptr::NonNull;
use std::sync::Arc;
use verbena_abi as abi;

/// A memory window. It must be freed before the region that it is bound to.
pub struct Window {
    raw: NonNull<abi::ibv_mw>,
    key: u32,
    domain: Arc<ProtectionDomain>,
}
thread_safe!(Window);

impl ProtectionDomain {
    /// Allocates an unbound window of type 2 (`ibv_alloc_mw(3)`).
    ///
    /// # Errors
    ///
    /// The call fails or is not supported.
    pub fn window(self: &Arc<Self>) -> Result<Window> {
        let name = self.context().name();
        // SAFETY: the context is open; its operations do not change.
        let allocate = unsafe { (*self.context.raw.as_ptr()).ops.alloc_mw };
        let Some(allocate) = allocate else {
            return Err(Error::call("ibv_alloc_mw", name, libc::EOPNOTSUPP));
        };
        // SAFETY: the domain is alive.
        let raw = unsafe { allocate(self.raw.as_ptr(), abi::IBV_MW_TYPE_2) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_alloc_mw", name))?;
        Ok(Window {
            raw,
            // SAFETY: just allocated; the library filled the structure.
            key: unsafe { (*raw.as_ptr()).rkey },
            domain: Arc::clone(self),
        })
    }
}

impl Window {
    /// Returns the remote key of the last posted bind.
    pub fn remote_key(&self) -> u32 {
        self.key
    }
}

impl QueuePair {
    /// Posts a bind: after its completion this queue pair's peer has `access` to the range under a
    /// new key, [`Window::remote_key`]. The region must allow binding, and the window must be
    /// unbound.
    ///
    /// # Errors
    ///
    /// The range is empty or exceeds the region, or posting fails.
    pub fn bind_window(
        &self,
        id: u64,
        window: &mut Window,
        region: &Region,
        range: std::ops::Range<usize>,
        access: AccessFlags,
        flags: SendFlags,
    ) -> Result<()> {
        if range.start >= range.end || range.end > region.length() {
            let reason = format!("bytes {range:?} of a region of {}", region.length());
            return Err(Error::invalid("QueuePair::bind_window", reason));
        }
        // ibv_inc_rkey(3): the consumer owns the lowest eight bits, and a key must not be used
        // twice in succession.
        let key = (window.key & !0xff) | (window.key.wrapping_add(1) & 0xff);
        let mut work = abi::ibv_send_wr {
            wr_id: id,
            opcode: abi::IBV_WR_BIND_MW,
            send_flags: flags.bits(),
            ..Default::default()
        };
        work.extra.bind_mw = abi::ibv_send_wr_bind_mw {
            mw: window.raw.as_ptr(),
            rkey: key,
            bind_info: abi::ibv_mw_bind_info {
                mr: region.raw_pointer(),
                addr: region.address() + range.start as u64,
                length: range.len() as u64,
                // Access of the peer only; the adapter's local write access is the region's.
                mw_access_flags: access.0 & !abi::IBV_ACCESS_LOCAL_WRITE,
            },
        };
        self.post_raw(&mut work)?;
        window.key = key;
        Ok(())
    }

    /// Posts the invalidation of a bound window: after its completion the key is invalid.
    ///
    /// # Errors
    ///
    /// Posting fails.
    pub fn invalidate_window(&self, id: u64, window: &Window, flags: SendFlags) -> Result<()> {
        let mut work = abi::ibv_send_wr {
            wr_id: id,
            opcode: abi::IBV_WR_LOCAL_INV,
            send_flags: flags.bits(),
            ..Default::default()
        };
        work.imm = abi::ibv_send_wr_imm {
            invalidate_rkey: window.key,
        };
        self.post_raw(&mut work)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the context is open; its operations do not change.
        let free = unsafe { (*self.domain.context.raw.as_ptr()).ops.dealloc_mw };
        if let Some(free) = free {
            // SAFETY: allocated by this library, and not used after this.
            unsafe { free(self.raw.as_ptr()) };
        }
    }
}
