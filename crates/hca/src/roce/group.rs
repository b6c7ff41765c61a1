//! Multicast groups (annex A17.9.1): the IP group of a GID, and the memberships of this process.
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
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use verbena_abi::ibv_gid;
use verbena_hca_os::errno::Result;
use verbena_hca_os::readiness::Readiness;
use verbena_hca_os::udp::Udp;
use verbena_wire::udp;

/// Returns the IP group of a GID: an IPv6 group itself, or an IPv4 group mapped as in RoCEv2
/// (`::ffff:239.1.2.3`) or as in its predecessor (`ff0e::ffff:239.1.2.3`).
pub fn address(gid: ibv_gid) -> Option<Ipv6Addr> {
    let ip = Ipv6Addr::from(gid.bytes());
    if let Some(v4) = ip.to_ipv4_mapped() {
        return v4.is_multicast().then_some(ip);
    }
    if !ip.is_multicast() {
        return None;
    }
    let [0xff0e, 0, 0, 0, 0, 0xffff, high, low] = ip.segments() else {
        return Some(ip);
    };
    let v4 = Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    Some(if v4.is_multicast() {
        v4.to_ipv6_mapped()
    } else {
        ip
    })
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multicast_gid_maps_to_ipv4_or_ipv6_group() {
        let of = |text: &str| {
            let ip: Ipv6Addr = text.parse().unwrap();
            address(ibv_gid::from_bytes(ip.octets())).map(|ip| ip.to_string())
        };
        let v4 = Some("::ffff:239.1.2.3".to_owned());
        assert_eq!(of("::ffff:239.1.2.3"), v4);
        assert_eq!(of("ff0e::ffff:239.1.2.3"), v4);
        for v6 in [
            "ff15::7",
            "ff0e::ffff:10.0.0.1",
            "ff0e:0:0:1:0:ffff:ef01:203",
        ] {
            let ip: Ipv6Addr = v6.parse().unwrap();
            assert_eq!(of(v6), Some(ip.to_string()));
        }
        for unicast in ["::ffff:10.9.0.1", "fd09::1", "fe80::1", "::239.1.2.3"] {
            assert_eq!(of(unicast), None, "{unicast}");
        }
    }
}
