//! Address handles: ibv_create_ah(3).

use crate::context::Pd;
use crate::device::{PORT, gid_at};
use crate::errno::{Errno, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use verbena_abi::ibv_ah_attr;

/// Where a datagram goes.
pub struct AddressHandle {
    pd: Arc<Pd>,
    attributes: ibv_ah_attr,
    destroyed: AtomicBool,
}

impl AddressHandle {
    /// A handle for the attributes.
    ///
    /// # Errors
    /// EINVAL for a port or source GID that the device does not have.
    pub fn create(pd: &Arc<Pd>, attributes: &ibv_ah_attr) -> Result<Arc<AddressHandle>> {
        check(attributes)?;
        pd.retain();
        let destroyed = AtomicBool::new(false);
        Ok(Arc::new(AddressHandle {
            pd: pd.clone(),
            attributes: *attributes,
            destroyed,
        }))
    }

    /// What it was made of.
    pub fn attributes(&self) -> &ibv_ah_attr {
        &self.attributes
    }

    /// Whether datagrams carry a global route header.
    pub(crate) fn is_global(&self) -> bool {
        self.attributes.is_global != 0
    }

    /// Whether the destination is a multicast group.
    pub(crate) fn is_multicast(&self) -> bool {
        self.is_global() && self.attributes.grh.dgid.bytes()[0] == 0xff
    }

    /// Ends the handle's life for the application.
    pub fn destroy(&self) {
        if !self.destroyed.swap(true, Ordering::Relaxed) {
            self.pd.release();
        }
    }
}

/// Whether the device can send to these attributes.
pub fn check(attributes: &ibv_ah_attr) -> Result<()> {
    let wrong_gid = attributes.is_global != 0 && gid_at(attributes.grh.sgid_index.into()).is_none();
    if attributes.port_num != PORT || wrong_gid {
        Err(Errno::EINVAL)
    } else {
        Ok(())
    }
}
