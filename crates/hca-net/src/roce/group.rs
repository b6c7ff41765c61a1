//! Multicast groups (annex A17.9.1): the memberships of this process.
//!
//! A process that attaches a queue pair to a group joins it with its own socket, bound to the
//! group's address and port 4791. So the kernel delivers a copy to every member process, the filter
//! that divides the port among processes is not involved, and a membership ends with its process,
//! however that ends.
//!
//! Datagrams that this host sends to a group do not return through these sockets: local members
//! receive them through shared memory.

use crate::link;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use verbena_hca_os::errno::Result;
use verbena_hca_os::readiness::Readiness;
use verbena_hca_os::udp::Udp;
use verbena_wire::udp;

#[derive(Debug)]
struct Membership {
    port: u8,
    group: Ipv6Addr,
    socket: Arc<Udp>,
}

/// The groups that this process has joined.
#[derive(Debug)]
pub struct Memberships {
    ready: Readiness,
    sockets: Mutex<BTreeMap<u64, Membership>>,
    /// Number of groups, so that checking is free without any.
    count: AtomicU32,
}

impl Memberships {
    /// Creates an empty set.
    ///
    /// # Errors
    /// The system's error when no descriptors or memory are left.
    pub fn new() -> Result<Memberships> {
        Ok(Memberships {
            ready: Readiness::new()?,
            sockets: Mutex::default(),
            count: AtomicU32::new(0),
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Membership>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins a group at a port. The process must not be a member of it there.
    ///
    /// # Errors
    /// As [`Udp::member`].
    pub fn join(&self, port: u8, group: Ipv6Addr) -> Result<()> {
        let socket = Udp::member(group, udp::PORT, link::interface_number(port))?;
        let mut sockets = self.lock();
        let number = sockets.last_key_value().map_or(0, |(last, _)| last + 1);
        self.ready.add(&socket, number)?;
        let socket = Arc::new(socket);
        sockets.insert(
            number,
            Membership {
                port,
                group,
                socket,
            },
        );
        self.count.store(sockets.len() as u32, Ordering::Release);
        Ok(())
    }

    /// Leaves a group at a port.
    pub fn leave(&self, port: u8, group: Ipv6Addr) {
        let mut sockets = self.lock();
        sockets.retain(|_, membership| {
            let stays = (membership.port, membership.group) != (port, group);
            if !stays {
                self.ready.remove(&*membership.socket);
            }
            stays
        });
        self.count.store(sockets.len() as u32, Ordering::Release);
    }

    /// Returns sockets with received datagrams, possibly not all.
    #[inline]
    pub(super) fn ready(&self) -> Vec<Arc<Udp>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let sockets = self.lock();
        let socket = |number| {
            sockets
                .get(&number)
                .map(|membership| membership.socket.clone())
        };
        self.ready.now().filter_map(socket).collect()
    }

    pub(super) fn descriptors(&self) -> Vec<RawFd> {
        let sockets = self.lock();
        let sockets = sockets.values().map(|membership| membership.socket.as_fd());
        let all = std::iter::once(self.ready.as_fd()).chain(sockets);
        all.map(|fd| fd.as_raw_fd()).collect()
    }
}

/// Readable while datagrams wait.
impl AsFd for Memberships {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}
