//! Address handles: `ibv_create_ah(3)`.

use crate::error::{Error, Result};
use crate::object::domain::ProtectionDomain;
use crate::object::thread_safe;
use crate::qp::attributes::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use verbena_abi as abi;

/// The address of a datagram.
pub struct AddressHandle {
    pub(crate) raw: NonNull<abi::ibv_ah>,
    domain: Arc<ProtectionDomain>,
}
thread_safe!(AddressHandle);

impl ProtectionDomain {
    /// Creates an address handle (`ibv_create_ah(3)`).
    ///
    /// # Errors
    ///
    /// The library refuses the path.
    pub fn address_handle(self: &Arc<Self>, path: &Path) -> Result<Arc<AddressHandle>> {
        let mut attributes = path.to_raw();
        // SAFETY: the domain is alive, the attributes are valid during the call.
        let raw = unsafe {
            (self.context.library.functions.create_ah)(self.raw.as_ptr(), &mut attributes)
        };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let object = format!("{} to LID {}", self.context.name(), path.lid);
            Error::last("ibv_create_ah", object)
        })?;
        Ok(Arc::new(AddressHandle {
            raw,
            domain: Arc::clone(self),
        }))
    }
}

impl Drop for AddressHandle {
    fn drop(&mut self) {
        // SAFETY: the adapter copied the address into each request that was posted with it.
        unsafe { (self.domain.context.library.functions.destroy_ah)(self.raw.as_ptr()) };
    }
}
