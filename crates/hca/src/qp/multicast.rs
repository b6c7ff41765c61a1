//! Multicast groups: ibv_attach_mcast(3), ibv_detach_mcast(3).

use crate::errno::{Errno, Result};
use crate::qp::Qp;
use std::collections::HashMap;
use std::sync::{Arc, RwLock};

/// Whether what a queue pair sends to a group comes to members on this host, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loopback {
    /// It does.
    #[default]
    Wanted,
    /// It does not: IBV_QP_CREATE_BLOCK_SELF_MCAST_LB.
    Blocked,
}

/// Which queue pairs of this process are attached to which group.
#[derive(Default)]
pub struct Groups {
    members: RwLock<HashMap<[u8; 16], Vec<Arc<Qp>>>>,
}

impl Groups {
    /// Attaches; with the first queue pair the process joins. Attaching twice is attaching once.
    ///
    /// # Errors
    /// As `join`; then nothing is attached.
    pub fn attach(
        &self,
        group: [u8; 16],
        queue_pair: &Arc<Qp>,
        join: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut members = self.members.write().unwrap_or_else(|e| e.into_inner());
        let Some(list) = members.get_mut(&group) else {
            join()?;
            members.insert(group, vec![queue_pair.clone()]);
            return Ok(());
        };
        if !list
            .iter()
            .any(|member| member.number() == queue_pair.number())
        {
            list.push(queue_pair.clone());
        }
        Ok(())
    }

    /// Detaches; with the last queue pair the process leaves.
    ///
    /// # Errors
    /// EINVAL when it was not attached.
    pub fn detach(&self, group: [u8; 16], number: u32, leave: impl FnOnce()) -> Result<()> {
        let mut members = self.members.write().unwrap_or_else(|e| e.into_inner());
        let list = members.get_mut(&group).ok_or(Errno::EINVAL)?;
        let before = list.len();
        list.retain(|member| member.number() != number);
        let detached = list.len() < before;
        if list.is_empty() {
            members.remove(&group);
            leave();
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
