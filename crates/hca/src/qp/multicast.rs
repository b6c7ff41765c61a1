//! Multicast groups: ibv_attach_mcast(3), ibv_detach_mcast(3).

use crate::errno::{Errno, Result};
use crate::qp::Qp;
use std::collections::HashMap;
use std::sync::{Arc, RwLock};

/// Which queue pairs of this process are attached to which group.
#[derive(Default)]
pub struct Groups {
    members: RwLock<HashMap<[u8; 16], Vec<Arc<Qp>>>>,
}

impl Groups {
    /// Attaches. Attaching twice is attaching once.
    ///
    /// # Errors
    /// EINVAL when the GID is no multicast GID.
    pub fn attach(&self, group: [u8; 16], queue_pair: &Arc<Qp>) -> Result<()> {
        if group[0] != 0xff {
            return Err(Errno::EINVAL);
        }
        let mut members = self.members.write().unwrap_or_else(|e| e.into_inner());
        let list = members.entry(group).or_default();
        if !list
            .iter()
            .any(|member| member.number() == queue_pair.number())
        {
            list.push(queue_pair.clone());
        }
        Ok(())
    }

    /// Detaches.
    ///
    /// # Errors
    /// EINVAL when it was not attached.
    pub fn detach(&self, group: [u8; 16], number: u32) -> Result<()> {
        let mut members = self.members.write().unwrap_or_else(|e| e.into_inner());
        let list = members.get_mut(&group).ok_or(Errno::EINVAL)?;
        let before = list.len();
        list.retain(|member| member.number() != number);
        let detached = list.len() < before;
        if list.is_empty() {
            members.remove(&group);
        }
        if detached { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// Whether a queue pair is attached to any group.
    pub fn has(&self, number: u32) -> bool {
        let members = self.members.read().unwrap_or_else(|e| e.into_inner());
        members
            .values()
            .flatten()
            .any(|member| member.number() == number)
    }

    /// Whether anybody is attached to anything.
    pub fn is_empty(&self) -> bool {
        self.members
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .is_empty()
    }

    /// Who gets a datagram to a group.
    pub fn members(&self, group: &[u8; 16]) -> Vec<Arc<Qp>> {
        let members = self.members.read().unwrap_or_else(|e| e.into_inner());
        members.get(group).cloned().unwrap_or_default()
    }
}
