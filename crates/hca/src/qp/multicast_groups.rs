//! Table of the process's multicast groups, and their members on this host.

use crate::roce::adapter::QueuePair;
use std::collections::HashMap;
use std::sync::{Arc, RwLock};
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

/// Delivery of a queue pair's multicast datagrams to members on this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loopback {
    /// Delivered.
    #[default]
    Wanted,
    /// Not delivered: IBV_QP_CREATE_BLOCK_SELF_MCAST_LB.
    Blocked,
}

/// A group at a port; memberships at different ports are separate.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Joined {
    port: u8,
    group: [u8; 16],
}

/// Queue pairs of this process by the group and port that they are attached to.
pub struct Groups<Q> {
    members: RwLock<HashMap<Joined, Vec<Arc<Q>>>>,
}

impl<Q> Default for Groups<Q> {
    fn default() -> Groups<Q> {
        Groups {
            members: RwLock::default(),
        }
    }
}

impl<Q: QueuePair> Groups<Q> {
    /// Attaches a queue pair; the first one makes the process join. Attaching again has no effect.
    ///
    /// # Errors
    /// As `join`; then the queue pair is not attached.
    pub fn attach(
        &self,
        port: u8,
        group: [u8; 16],
        queue_pair: &Arc<Q>,
        join: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut members = self.members.write().unwrap_or_else(|e| e.into_inner());
        let joined = Joined { port, group };
        let Some(list) = members.get_mut(&joined) else {
            join()?;
            members.insert(joined, vec![queue_pair.clone()]);
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

    /// Detaches a queue pair; the last one of a port makes the process leave there.
    ///
    /// # Errors
    /// EINVAL if it was not attached.
    pub fn detach(&self, group: [u8; 16], number: u32, leave: impl FnOnce(u8)) -> Result<()> {
        let mut members = self.members.write().unwrap_or_else(|e| e.into_inner());
        let has_it = |list: &[Arc<Q>]| list.iter().any(|member| member.number() == number);
        let found = members
            .iter_mut()
            .find(|(joined, list)| joined.group == group && has_it(list));
        let (joined, list) = found.ok_or_else(|| {
            refused!(
                EINVAL,
                "the queue pair is not attached to the group of this GID: detach groups that \
                 ibv_attach_mcast attached"
            )
        })?;
        let joined = *joined;
        list.retain(|member| member.number() != number);
        if list.is_empty() {
            members.remove(&joined);
            leave(joined.port);
        }
        Ok(())
    }

    /// Returns the port at which a queue pair is attached to groups, if any.
    pub fn port_of(&self, number: u32) -> Option<u8> {
        let members = self.members.read().unwrap_or_else(|e| e.into_inner());
        members
            .iter()
            .find(|(_, list)| list.iter().any(|member| member.number() == number))
            .map(|(joined, _)| joined.port)
    }

    /// Returns whether no queue pair is attached to a group.
    pub fn is_empty(&self) -> bool {
        self.members
            .read()
            .unwrap_or_else(|e| e.into_inner())
            .is_empty()
    }

    /// Returns the queue pairs that receive a datagram to a group at a port.
    pub fn members(&self, port: u8, group: &[u8; 16]) -> Vec<Arc<Q>> {
        let members = self.members.read().unwrap_or_else(|e| e.into_inner());
        let joined = Joined {
            port,
            group: *group,
        };
        members.get(&joined).cloned().unwrap_or_default()
    }
}
