//! IP hosts: the programs of a user that share addresses and ports.
//!
//! All programs of a user on a machine share them, except in two places. Those in the network
//! namespace of an interface of IP over InfiniBand (`verbena ipoib`) are a host with the addresses
//! of that interface, which reaches the interfaces of its partition; `verbena ipoib` publishes them
//! in the runtime directory ([`verbena_fabric_protocol::interface`]). Each node of a fabric has a
//! separate port space.

use crate::address;
use crate::path::Path;
use rustix::fs::readlinkat;
use std::fmt;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use verbena_fabric_protocol::interface::{self, Entry};
use verbena_hca_net::fabric::Fabric;
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

    fn of_node(fabric: u64, node: u32) -> Host {
        Host(format!("f{fabric:x}n{node}-"))
    }
}

/// The hosts of a runtime directory, as this process reaches them.
pub struct Hosts {
    directory: File,
    /// The network namespace of this process; 0 if unknown.
    namespace: u64,
    /// The host of this process.
    local: Host,
    /// Whether that is the namespace of an interface.
    has_interface: bool,
}

impl Hosts {
    /// Opens the hosts of a runtime directory.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn open(directory: &std::path::Path) -> Result<Hosts> {
        let namespace = std::fs::metadata("/proc/self/ns/net");
        let mut hosts = Hosts {
            directory: File::open(directory)?,
            namespace: namespace.map_or(0, |file| file.ino()),
            local: Host::default(),
            has_interface: false,
        };
        if let Some(interface) = hosts.local_interface() {
            hosts.local = Host::of_namespace(interface.namespace);
            // Over RoCE the addresses are those of the Ethernet interfaces.
            hosts.has_interface = !link::is_ethernet();
        } else if let Some(fabric) = link::fabric() {
            hosts.local = Host::of_node(fabric.number(), fabric.node());
        }
        Ok(hosts)
    }

    /// Returns the host of this process.
    pub fn local(&self) -> &Host {
        &self.local
    }

    /// Returns whether this process is in the namespace of an interface.
    pub fn has_interface(&self) -> bool {
        self.has_interface
    }

    /// Returns the path from an address of this host to that of a peer, on this host or one that
    /// its interface reaches, and the peer's host; `None` if it is not reached.
    pub fn reach(&self, local: SocketAddr, peer: SocketAddr) -> Option<(Path, Host)> {
        if !self.has_interface || local.ip().is_loopback() {
            return Some((Path::local(local, peer), self.local.clone()));
        }
        let here = self.local_interface()?;
        // An address of this host leads to this host, even if another interface has it too.
        if address::is_ours(peer) {
            return Some((Path::between(&here, &here)?, self.local.clone()));
        }
        let fabric = link::fabric().map_or(0, Fabric::number);
        let name = interface::of_address(fabric, here.partition, peer.ip().to_canonical());
        let there = self.entry(&name)?;
        let path = Path::between(&here, &there)?;
        Some((path, Host::of_namespace(there.namespace)))
    }

    fn local_interface(&self) -> Option<Entry> {
        self.entry(&interface::of_namespace(self.namespace))
    }

    /// Reads an entry whose process lives.
    fn entry(&self, name: &str) -> Option<Entry> {
        let target = readlinkat(&self.directory, name, Vec::new()).ok()?;
        let entry = Entry::of(target.to_str().ok()?)?;
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", entry.process)).ok()?;
        (interface::start_of(&stat) == Some(entry.start)).then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A runtime directory, removed at the end.
    struct Directory(std::path::PathBuf);

    impl Directory {
        fn new(name: &str) -> Directory {
            let name = format!("verbena-hosts-{}-{name}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir(&path).unwrap();
            Directory(path)
        }

        fn publish(&self, name: String, entry: Entry) {
            let _ = std::fs::remove_file(self.0.join(&name));
            symlink(entry.to_string(), self.0.join(name)).unwrap();
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn entry(namespace: u64, partition: u16) -> Entry {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        Entry {
            namespace,
            process: std::process::id(),
            start: interface::start_of(&stat).unwrap(),
            partition,
            lid: 5,
            gid: [9; 16],
        }
    }

    fn socket(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn without_an_interface_all_addresses_are_of_this_host() {
        let directory = Directory::new("none");
        let hosts = Hosts::open(&directory.0).unwrap();
        let (local, peer) = (socket("127.0.0.1:1"), socket("240.0.0.1:1"));
        assert_eq!(*hosts.local(), Host::default());
        let reached = hosts.reach(local, peer).unwrap();
        assert_eq!(reached, (Path::local(local, peer), Host::default()));
    }

    #[test]
    fn addresses_of_living_interfaces_of_the_partition_are_reached() {
        let directory = Directory::new("some");
        let namespace = std::fs::metadata("/proc/self/ns/net").unwrap().ino();
        directory.publish(interface::of_namespace(namespace), entry(namespace, 0xffff));
        let hosts = Hosts::open(&directory.0).unwrap();
        assert_eq!(*hosts.local(), Host::of_namespace(namespace));
        let (local, peer) = (socket("240.0.0.1:1"), socket("240.0.0.2:1"));
        let other = |partition| interface::of_address(0, partition, peer.ip());
        assert_eq!(hosts.reach(local, peer), None);
        directory.publish(other(0x8010), entry(70, 0x8010));
        assert_eq!(hosts.reach(local, peer), None, "of another partition");

        directory.publish(other(0xffff), entry(70, 0xffff));
        let (path, host) = hosts.reach(local, peer).unwrap();
        assert_eq!((path.lid, path.destination), (5, [9; 16]));
        assert_eq!(host, Host::of_namespace(70));
        let as_v6 = hosts.reach(local, socket("[::ffff:240.0.0.2]:1"));
        assert_eq!(as_v6, Some((path, host)));

        // An address of this host leads to this host, whichever interface was published last.
        let loopback = socket("127.0.0.1:1");
        let shared = interface::of_address(0, 0xffff, loopback.ip());
        directory.publish(shared, entry(70, 0xffff));
        let (_, host) = hosts.reach(local, loopback).unwrap();
        assert_eq!(host, *hosts.local());

        let mut ended = entry(70, 0xffff);
        ended.start += 1;
        directory.publish(other(0xffff), ended);
        assert_eq!(hosts.reach(local, peer), None, "its process has ended");
    }
}
