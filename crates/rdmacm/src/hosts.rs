//! IP hosts: which programs of this user share addresses and ports.
//!
//! All programs of a machine do, with two exceptions. Those in the network namespace of an
//! interface of IP over InfiniBand (`verbena ipoib`) are a host with the addresses of that
//! interface, which reaches the interfaces of its partition; `verbena ipoib` publishes them in the
//! runtime directory ([`verbena_fabric_protocol::interface`]). And the programs of each node of a
//! fabric share the node's ports only.

use crate::path::Path;
use rustix::fs::readlinkat;
use rustix::process::{Pid, test_kill_process};
use std::fmt;
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use verbena_fabric_protocol::interface::{self, Entry};
use verbena_hca_net::link;
use verbena_hca_os::errno::Result;

/// A host, as it appears in names of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host(String);

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Host {
    fn of_namespace(namespace: u64) -> Host {
        Host(format!("ib{namespace}-"))
    }

    fn of_node(node: u32) -> Host {
        Host(format!("node{node}-"))
    }
}

/// The hosts of a runtime directory, as this process reaches them.
pub struct Hosts {
    directory: File,
    /// The network namespace of this process; 0 if the system does not tell.
    namespace: u64,
}

impl Hosts {
    /// Opens the hosts of a runtime directory.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn open(directory: &std::path::Path) -> Result<Hosts> {
        let namespace = std::fs::metadata("/proc/self/ns/net");
        Ok(Hosts {
            directory: File::open(directory)?,
            namespace: namespace.map_or(0, |file| file.ino()),
        })
    }

    /// Returns the host of this process.
    pub fn own(&self) -> Host {
        match (self.own_interface(), link::fabric()) {
            (Some(interface), _) => Host::of_namespace(interface.namespace),
            (None, Some(fabric)) => Host::of_node(fabric.node()),
            (None, None) => Host::default(),
        }
    }

    /// Returns the path between an address of this host and one of a host that its interface
    /// reaches, which may be the same, and that host; `None` without such an interface.
    pub fn reach(&self, own: SocketAddr, peer: SocketAddr) -> Option<(Path, Host)> {
        if own.ip().is_loopback() || link::is_ethernet() {
            return None;
        }
        let here = self.own_interface()?;
        let there = self.entry(&interface::of_address(here.partition, canonical(peer.ip())))?;
        let path = Path::between(&here, &there);
        Some((path, Host::of_namespace(there.namespace)))
    }

    /// Returns the path between two addresses, the first of this host, the second of this host or
    /// one that its interface reaches.
    pub fn path(&self, own: SocketAddr, peer: SocketAddr) -> Path {
        let reached = self.reach(own, peer);
        reached.map_or_else(|| Path::local(own, peer), |(path, _)| path)
    }

    /// Returns the host that an address leads to from one of this host.
    pub fn host(&self, own: SocketAddr, peer: SocketAddr) -> Host {
        let reached = self.reach(own, peer);
        reached.map_or_else(|| self.own(), |(_, host)| host)
    }

    /// Returns whether this process is in the namespace of an interface.
    pub fn has_interface(&self) -> bool {
        !link::is_ethernet() && self.own_interface().is_some()
    }

    fn own_interface(&self) -> Option<Entry> {
        self.entry(&interface::of_namespace(self.namespace))
    }

    /// Reads an entry whose process lives.
    fn entry(&self, name: &str) -> Option<Entry> {
        let target = readlinkat(&self.directory, name, Vec::new()).ok()?;
        let entry = Entry::of(target.to_str().ok()?)?;
        let process = Pid::from_raw(entry.process.try_into().ok()?)?;
        let lives = matches!(
            test_kill_process(process),
            Ok(()) | Err(rustix::io::Errno::PERM)
        );
        lives.then_some(entry)
    }
}

/// Returns an IPv4 address that is written as an IPv6 one.
fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    #[test]
    fn addresses_of_living_interfaces_of_the_partition_are_reached() {
        let path = std::env::temp_dir().join(format!("verbena-hosts-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let hosts = Hosts::open(&path).unwrap();
        let [own, peer]: [SocketAddr; 2] = ["10.0.0.1:1", "10.0.0.2:1"].map(|a| a.parse().unwrap());
        assert_eq!(hosts.own(), Host::default());
        assert_eq!(hosts.reach(own, peer), None);

        let entry = |namespace, partition, process| Entry {
            namespace,
            process,
            partition,
            lid: 5,
            gid: [9; 16],
        };
        let publish = |name: String, entry: Entry| {
            let _ = std::fs::remove_file(path.join(&name));
            symlink(entry.to_string(), path.join(name)).unwrap();
        };
        let process = std::process::id();
        let here = entry(hosts.namespace, 0xffff, process);
        publish(interface::of_namespace(here.namespace), here);
        publish(
            interface::of_address(0x8010, peer.ip()),
            entry(70, 0x8010, process),
        );
        assert_eq!(hosts.own(), Host::of_namespace(here.namespace));
        assert_eq!(hosts.reach(own, peer), None, "of another partition");

        publish(
            interface::of_address(0xffff, peer.ip()),
            entry(70, 0xffff, process),
        );
        let (reached, host) = hosts.reach(own, peer).unwrap();
        assert_eq!((reached.lid, reached.destination), (5, [9; 16]));
        assert_eq!(host, Host::of_namespace(70));
        let as_v6 = "[::ffff:10.0.0.2]:1".parse().unwrap();
        assert_eq!(hosts.host(own, as_v6), host);

        let mut ended = Command::new("true").spawn().unwrap();
        let dead = entry(70, 0xffff, ended.id());
        ended.wait().unwrap();
        publish(interface::of_address(0xffff, peer.ip()), dead);
        assert_eq!(hosts.reach(own, peer), None, "its process has ended");
        std::fs::remove_dir_all(path).unwrap();
    }
}
