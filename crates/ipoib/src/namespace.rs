//! The namespace of a command: a user and a network namespace with one interface, which another
//! process serves.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{
    CapabilitySet, UnshareFlags, capabilities, configure_capability_in_ambient_set,
    set_capabilities,
};
use verbena_run::namespace::{self, Refusal};

use crate::address::Prefixed;
use crate::netlink::{Changes, Netlink};
use crate::proc_file;
use crate::sysfs::{self, Link};
use crate::tun;

/// Shortest MTU with which the kernel has IPv6 on an interface.
pub const IPV6_MTU: u32 = 1280;
/// The network namespace of this process.
const NAMESPACE: &str = "/proc/self/ns/net";
/// Rights in the namespace that a command keeps which does not run as root: configuration of
/// interfaces, raw sockets (`ping`), ports below 1024.
const RIGHTS: [CapabilitySet; 3] = [
    CapabilitySet::NET_ADMIN,
    CapabilitySet::NET_RAW,
    CapabilitySet::NET_BIND_SERVICE,
];

/// The interface to make.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// Its MTU.
    pub mtu: u32,
    /// Its addresses.
    pub addresses: Vec<Prefixed>,
    /// Its link-local address; left out if the kernel has no IPv6.
    pub link_local: Option<Prefixed>,
    /// Its properties on InfiniBand, for sysfs.
    pub link: Option<Link>,
}

/// The reason why there is no namespace or interface.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Namespaces are forbidden.
    #[error(
        "cannot create a user and network namespace: {0}; allow user namespaces (sysctl \
         user.max_user_namespaces, user.max_net_namespaces, kernel.unprivileged_userns_clone, \
         kernel.apparmor_restrict_unprivileged_userns; in a container its seccomp profile), or \
         run as root"
    )]
    Namespace(#[source] io::Error),

    /// The identity of the user cannot be kept.
    #[error(
        "cannot map the user into the new user namespace: {0}; on Ubuntu AppArmor forbids it by \
         default (sysctl kernel.apparmor_restrict_unprivileged_userns=0 permits it), or run as root"
    )]
    Identity(#[source] io::Error),

    /// There is no TUN device.
    #[error(
        "cannot open {node}: {0}; load the module (`modprobe tun`), or give the container the \
         device (`--device {node}`)",
        node = tun::NODE
    )]
    NoTun(#[source] io::Error),

    /// The interface cannot be made.
    #[error(
        "cannot create the interface {name} by {node}: {source}; a security module may forbid it \
         in user namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns)",
        node = tun::NODE
    )]
    Interface {
        /// Its name.
        name: String,
        /// The system's error.
        source: io::Error,
    },

    /// The interface cannot be configured.
    #[error("cannot {doing}: {source}")]
    Configuration {
        /// The attempted action, as a verb phrase.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
}

/// An interface that was made.
pub struct Made {
    /// Its index.
    pub index: u32,
    /// Its TUN device, connections with the kernel, the files with memberships in groups, those
    /// with TCP connections, and that of its network namespace: as the process that serves it takes
    /// them.
    pub descriptors: [OwnedFd; 8],
}

/// Moves this process into new namespaces and makes the interface there. The process must have one
/// thread.
///
/// # Errors
///
/// The first step that fails.
pub fn enter(plan: &Plan) -> Result<Made, Failure> {
    // Without this right root could not configure the namespace.
    namespace::enter(UnshareFlags::NEWNET, CapabilitySet::NET_ADMIN).map_err(|refusal| {
        match refusal {
            Refusal::Namespaces(error) => Failure::Namespace(error),
            Refusal::Identity(error) => Failure::Identity(error),
        }
    })?;
    // The device belongs to the network namespace of the process that opens the node.
    let node = tun::open().map_err(Failure::NoTun)?;
    let interface = |source| Failure::Interface {
        name: plan.name.clone(),
        source,
    };
    tun::make_interface(&node, &plan.name).map_err(interface)?;
    let index = configure(plan)?;
    // Where it is forbidden, programs see the host's.
    if let (Ok(()), Some(link)) = (sysfs::show_interfaces(), &plan.link) {
        let _ = sysfs::show_link(&plan.name, link);
    }
    keep_rights().map_err(|source| Failure::Configuration {
        doing: "keep the rights in the network namespace".to_owned(),
        source,
    })?;
    let general = |source| Failure::Configuration {
        doing: "watch the network namespace".to_owned(),
        source,
    };
    let file = |name| proc_file::open(name).map(OwnedFd::from).map_err(general);
    let namespace = fs::File::open(NAMESPACE).map_err(general)?;
    let changes = Changes::open().map_err(general)?;
    let kernel = Netlink::open().map_err(general)?;
    Ok(Made {
        index,
        descriptors: [
            node.into(),
            changes.into(),
            kernel.into(),
            file("igmp")?,
            file("igmp6")?,
            file("tcp")?,
            file("tcp6")?,
            namespace.into(),
        ],
    })
}

/// Configures the interfaces. Returns the index of the interface.
fn configure(plan: &Plan) -> Result<u32, Failure> {
    let doing = |doing: String| move |source| Failure::Configuration { doing, source };
    let general = || doing(format!("configure the interface {}", plan.name));
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)
        .map_err(|error| general()(error.into()))?;
    let index = |name: &str| name_to_index(&socket, name).map_err(io::Error::from);
    let own = index(&plan.name).map_err(general())?;
    let loopback = index("lo").map_err(general())?;
    let mut kernel = Netlink::open().map_err(general())?;
    kernel
        .take_up(loopback)
        .map_err(doing("take lo up".to_owned()))?;
    kernel
        .set_mtu(own, plan.mtu)
        .map_err(doing(format!("set the MTU {} of {}", plan.mtu, plan.name)))?;
    // Without IPv6 it makes none.
    let _ = kernel.make_no_link_local(own);
    // There is no network manager that adds them again. Without IPv6 there is no such file, and in
    // some containers it is read-only.
    let kept = format!("/proc/sys/net/ipv6/conf/{}/keep_addr_on_down", plan.name);
    let _ = fs::write(kept, "1");
    kernel
        .take_up(own)
        .map_err(doing(format!("take {} up", plan.name)))?;
    for prefixed in &plan.addresses {
        kernel
            .add_address(own, prefixed)
            .map_err(doing(format!("give {} the address {prefixed}", plan.name)))?;
    }
    if let Some(prefixed) = &plan.link_local {
        // Without IPv6 in the kernel there is none.
        let _ = kernel.add_address(own, prefixed);
    }
    Ok(own)
}

/// Keeps some rights of the namespace over exec(2).
fn keep_rights() -> io::Result<()> {
    let mut sets = capabilities(None)?;
    for right in RIGHTS {
        sets.inheritable |= right & sets.permitted;
    }
    set_capabilities(None, sets)?;
    for right in RIGHTS {
        if sets.permitted.contains(right) {
            configure_capability_in_ambient_set(right, true)?;
        }
    }
    Ok(())
}
