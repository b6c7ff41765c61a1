//! Membership in multicast groups: ibv_attach_mcast(3), ibv_detach_mcast(3).

use super::{Qp, check};
use crate::device;
use crate::link;
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

impl Qp {
    /// Attaches to a multicast group at the queue pair's port, which cannot change while it is
    /// attached.
    ///
    /// # Errors
    /// EINVAL if the GID is not a multicast GID, if this is not a datagram queue pair, or if it has
    /// no port yet on a device with several; as [`Memberships::join`].
    ///
    /// [`Memberships::join`]: crate::roce::group::Memberships::join
    pub fn attach(self: &Arc<Qp>, gid: ibv_gid) -> Result<()> {
        if self.kind != IBV_QPT_UD {
            return Err(refused!(
                EINVAL,
                "the queue pair has type {}, but only datagram queue pairs (IBV_QPT_UD) can join \
                 groups",
                self.kind
            ));
        }
        let group = link::group(gid).ok_or_else(check::no_group)?;
        let port = match self.lock_attributes().port_num {
            0 if device::Device::ports() == 1 => *self.device.host_ports().start(),
            0 => {
                return Err(refused!(
                    EINVAL,
                    "the device has {} ports, and the queue pair has none yet: move it to INIT \
                     first",
                    device::Device::ports()
                ));
            }
            port => port,
        };
        let join = || match self.process.ports.roce() {
            Some(udp) => udp.groups.join(port, group.into()),
            None => Ok(()),
        };
        self.process.groups.attach(port, group, self, join)?;
        self.show_multicast();
        Ok(())
    }

    /// Detaches from a multicast group.
    ///
    /// # Errors
    /// EINVAL if it was not attached.
    pub fn detach(&self, gid: ibv_gid) -> Result<()> {
        let group = link::group(gid).ok_or_else(check::no_group)?;
        let leave = |port| {
            if let Some(udp) = self.process.ports.roce() {
                udp.groups.leave(port, group.into());
            }
        };
        self.process.groups.detach(group, self.number, leave)?;
        self.show_multicast();
        Ok(())
    }

    fn show_multicast(&self) {
        if let Some(member) = self.process.membership.get() {
            let flags = if self.process.groups.is_empty() {
                0
            } else {
                verbena_hca_shm::registry::MULTICAST
            };
            member.registry.set_flags(member.identity, flags);
        }
    }
}
