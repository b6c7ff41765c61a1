//! Multicast groups: `ibv_attach_mcast(3)`, `ibv_detach_mcast(3)`.

use crate::error::{Error, Result};
use crate::library::Functions;
use crate::object::gid::Gid;
use crate::object::queue_pair::QueuePair;
use verbena_abi as abi;

type Call = unsafe extern "C" fn(*mut abi::ibv_qp, *const abi::ibv_gid, u16) -> i32;

impl QueuePair {
    /// Attaches a datagram pair to a multicast group (`ibv_attach_mcast(3)`).
    ///
    /// # Errors
    ///
    /// The GID is no multicast GID, or the call fails.
    pub fn attach_multicast(&self, group: Gid, lid: u16) -> Result<()> {
        self.multicast(
            "ibv_attach_mcast",
            |functions| functions.attach_mcast,
            group,
            lid,
        )
    }

    /// Detaches the pair from a multicast group (`ibv_detach_mcast(3)`).
    ///
    /// # Errors
    ///
    /// The pair is not attached, or the call fails.
    pub fn detach_multicast(&self, group: Gid, lid: u16) -> Result<()> {
        self.multicast(
            "ibv_detach_mcast",
            |functions| functions.detach_mcast,
            group,
            lid,
        )
    }

    fn multicast(
        &self,
        name: &'static str,
        call: impl Fn(&Functions) -> Call,
        group: Gid,
        lid: u16,
    ) -> Result<()> {
        let gid = abi::ibv_gid { raw: group.0 };
        // SAFETY: the pair is alive, the GID is valid during the call.
        let errno = unsafe { call(self.functions())(self.raw_pointer(), &gid, lid) };
        match errno {
            0 => Ok(()),
            errno => {
                let object = format!("pair {} and group {group}", self.number());
                Err(Error::call(name, object, errno.abs()))
            }
        }
    }
}
