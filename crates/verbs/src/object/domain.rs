//! Protection domains and XRC domains: `ibv_alloc_pd(3)`, `ibv_open_xrcd(3)`.

use crate::error::{Error, Result};
use crate::object::context::Context;
use crate::object::thread_safe;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use verbena_abi as abi;

/// A protection domain.
pub struct ProtectionDomain {
    pub(crate) raw: NonNull<abi::ibv_pd>,
    pub(crate) context: Arc<Context>,
}
thread_safe!(ProtectionDomain, XrcDomain);

impl Context {
    /// Allocates a protection domain (`ibv_alloc_pd(3)`).
    ///
    /// # Errors
    ///
    /// The call fails.
    pub fn protection_domain(self: &Arc<Self>) -> Result<Arc<ProtectionDomain>> {
        // SAFETY: the context is open.
        let raw = unsafe { (self.library.functions.alloc_pd)(self.raw.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_alloc_pd", self.name()))?;
        Ok(Arc::new(ProtectionDomain {
            raw,
            context: Arc::clone(self),
        }))
    }

    /// Opens an XRC domain (`ibv_open_xrcd(3)`). Processes that pass a descriptor of the same file
    /// share the domain; without a descriptor it is private to the process.
    ///
    /// # Errors
    ///
    /// The call fails or is not supported.
    pub fn xrc_domain(self: &Arc<Self>, file: Option<OwnedFd>) -> Result<Arc<XrcDomain>> {
        let open = self.extended().and_then(|extended| extended.open_xrcd);
        let Some(open) = open else {
            return Err(Error::call("ibv_open_xrcd", self.name(), libc::EOPNOTSUPP));
        };
        let mut attributes = abi::ibv_xrcd_init_attr {
            comp_mask: abi::IBV_XRCD_INIT_ATTR_FD | abi::IBV_XRCD_INIT_ATTR_OFLAGS,
            fd: file.as_ref().map_or(-1, |file| file.as_raw_fd()),
            oflags: libc::O_CREAT,
        };
        // SAFETY: the context is open and the function is its own, the attributes are valid during
        // the call.
        let raw = unsafe { open(self.raw.as_ptr(), &mut attributes) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_open_xrcd", self.name()))?;
        Ok(Arc::new(XrcDomain {
            raw,
            context: Arc::clone(self),
            _file: file,
        }))
    }
}

impl ProtectionDomain {
    /// Returns the open device.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: every object of the domain keeps it alive, so none is left.
        unsafe { (self.context.library.functions.dealloc_pd)(self.raw.as_ptr()) };
    }
}

/// An XRC domain.
pub struct XrcDomain {
    pub(crate) raw: NonNull<abi::ibv_xrcd>,
    context: Arc<Context>,
    _file: Option<OwnedFd>,
}

impl Drop for XrcDomain {
    fn drop(&mut self) {
        if let Some(close) = self
            .context
            .extended()
            .and_then(|extended| extended.close_xrcd)
        {
            // SAFETY: every object of the domain keeps it alive, so none is left.
            unsafe { close(self.raw.as_ptr()) };
        }
    }
}
