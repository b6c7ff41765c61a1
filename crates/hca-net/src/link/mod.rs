//! Link layer of the ports: InfiniBand or RoCE.
//!
//! - `infiniband` (the default): a subnet of one host, made of shared memory; each device has one
//!   port, with a LID and a GID.
//! - `roce`: Ethernet interfaces, each of which is a port; its addresses are the GIDs, and other
//!   hosts are reached by RoCEv2 packets ([`crate::roce`]).
//!
//! `VERBENA_LINK` chooses the link. `VERBENA_INTERFACE` names the interfaces, separated by commas,
//! each by its name or one of its addresses: the first is port 1. `VERBENA_DEVICES` is the number
//! of devices that share the ports ([`crate::device`]). All are read once. State and addresses of
//! an interface are followed as long as the device is open ([`follow`]).
//!
//! Ports are isolated from each other. State, GIDs and events of a port are those of its interface;
//! packets of its queue pairs and address handles leave from its addresses; a queue pair receives
//! only packets sent to its port, and a member of a multicast group only packets sent to the group
//! there. In shared memory, where no interface is visible, the kernel's index of the interface
//! identifies the port ([`interface_number`]), because processes may number their ports
//! differently.

mod down;
mod interface;
mod latest;
mod multicast;

pub use down::{
    bit, forget_planted, has_failed, is_down, learn_down, learn_inactive, plant_down, plant_failure,
};
pub use interface::{GIDS, GidEntry, Interface, is_link_local};
pub use latest::{Latest, PortChange};
pub use multicast::{group, ip_group};

use crate::fabric::Fabric;
use crate::observed;
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;
use std::sync::OnceLock;
use verbena_abi::ibv_gid;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::interfaces::{self, Description};

/// The link layer of the ports.
#[derive(Debug)]
pub enum Link {
    /// A subnet of this host alone, to which each device is attached by one port.
    InfiniBand,
    /// One Ethernet interface per port, the first port's first; at least one.
    Roce(Vec<Latest>),
}

/// Port and index of a GID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidLocation {
    /// The port.
    pub port: u8,
    /// Its index in the port's table.
    pub index: u8,
}

/// The first port. [`ports`] returns their number.
pub const FIRST_PORT: u8 = 1;

/// Largest number of ports of a device: a byte numbers them from 1, and can be one past the last.
const MOST_PORTS: usize = 254;

/// Largest number of devices of a host: the number of device nodes that a kernel has
/// (IB_UVERBS_NUM_FIXED_MINOR).
pub const MOST_DEVICES: u8 = 32;

/// The choices of the environment.
#[derive(Debug)]
pub struct Choice {
    link: Link,
    devices: u8,
    is_shared_out: bool,
    fabric: Option<Fabric>,
}

static INFINIBAND: Choice = Choice {
    link: Link::InfiniBand,
    devices: 1,
    is_shared_out: false,
    fabric: None,
};

/// Advice for a program that expects RoCE and meets an InfiniBand port, for the end of a message.
pub const ROCE_HINT: &str =
    "this port is InfiniBand; `verbena run --link roce` (VERBENA_LINK=roce) makes it RoCE";

/// Returns the choices of the environment.
///
/// # Errors
/// EINVAL for an unknown link, an invalid number of devices, and for interfaces that cannot be
/// shared out among them; ENODEV for an interface that does not exist. A line on standard error
/// gives the details.
#[inline]
pub fn chosen() -> Result<&'static Choice> {
    static CHOSEN: OnceLock<Result<Choice>> = OnceLock::new();
    match CHOSEN.get_or_init(from_environment) {
        Ok(choice) => Ok(choice),
        Err(error) => Err(*error),
    }
}

#[inline]
fn choice() -> &'static Choice {
    chosen().unwrap_or(&INFINIBAND)
}

/// Returns the link of this process; InfiniBand where the environment is invalid.
#[inline]
pub fn current() -> &'static Link {
    &choice().link
}

/// Returns the fabric that the program is on, if there is one; its node is the only device.
#[inline]
pub fn fabric() -> Option<&'static Fabric> {
    choice().fabric.as_ref()
}

/// Returns the number of devices; at least one. All have the same number of ports.
#[inline]
pub fn devices() -> u8 {
    choice().devices
}

/// Returns whether the environment sets the number of devices.
#[inline]
pub fn is_shared_out() -> bool {
    choice().is_shared_out
}

/// Returns whether the ports are Ethernet interfaces.
#[inline]
pub fn is_ethernet() -> bool {
    matches!(current(), Link::Roce(_))
}

/// Returns the number of ports. They are numbered from 1.
#[inline]
pub fn ports() -> u8 {
    match current() {
        Link::InfiniBand => fabric().map_or_else(devices, Fabric::ports),
        // At most [`MOST_PORTS`].
        Link::Roce(ports) => ports.len() as u8,
    }
}

/// Returns whether there is a port of this number.
#[inline]
pub fn has_port(port: u32) -> bool {
    (1..=u32::from(ports())).contains(&port)
}

/// Returns the Ethernet interface of a port in its present state; None for a port that does not
/// exist, and for InfiniBand.
#[inline]
pub fn interface(port: u8) -> Option<&'static Interface> {
    let latest = latest().get(usize::from(port).checked_sub(1)?)?;
    Some(latest.get())
}

/// Returns all ports that are Ethernet interfaces, with their interfaces.
#[inline]
pub fn interfaces() -> impl Iterator<Item = (u8, &'static Interface)> {
    (1..).zip(latest().iter().map(Latest::get))
}

/// Returns the identification of the network that a port is attached to, the same in all processes:
/// for Ethernet the kernel's index of the interface, for InfiniBand the number of ports before it.
#[inline]
pub fn interface_number(port: u8) -> u32 {
    if let Some(port) = fabric().and_then(|fabric| fabric.port(port)) {
        return port.network;
    }
    interface(port).map_or_else(
        || u32::from(port.max(FIRST_PORT) - FIRST_PORT),
        |interface| interface.index,
    )
}

/// Returns the ports that receive multicast packets sent to a network: for InfiniBand all ports, as
/// they share one subnet.
#[inline]
pub fn ports_that_receive(number: u32) -> Option<RangeInclusive<u8>> {
    if let Some(fabric) = fabric() {
        return (number == fabric.state().groups).then(|| FIRST_PORT..=ports());
    }
    let port = port_of(number)?;
    Some(match current() {
        Link::InfiniBand => FIRST_PORT..=ports(),
        Link::Roce(_) => port..=port,
    })
}

/// Returns the port with the given [`interface_number`], if there is one.
#[inline]
pub fn port_of(number: u32) -> Option<u8> {
    (1..=ports()).find(|port| interface_number(*port) == number)
}

/// Returns port and index of a GID that is an address of the ports' interfaces. A link-local
/// address that several have is taken for the first one's.
#[inline]
pub fn locate_gid(gid: ibv_gid) -> Option<GidLocation> {
    interfaces().find_map(|(port, interface)| {
        let index = interface.index_of(gid)? as u8;
        Some(GidLocation { port, index })
    })
}

/// As [`locate_gid`], for a GID that may belong to another host: a link-local address is looked up
/// only at `port`, because other links may have the same address.
#[inline]
pub fn locate_gid_from(port: u8, gid: ibv_gid) -> Option<GidLocation> {
    if !is_link_local(&Ipv6Addr::from(gid.bytes())) {
        return locate_gid(gid);
    }
    let index = interface(port)?.index_of(gid)? as u8;
    Some(GidLocation { port, index })
}

#[inline]
fn latest() -> &'static [Latest] {
    match current() {
        Link::InfiniBand => &[],
        Link::Roce(ports) => ports,
    }
}

/// Reads the state of the interfaces. Returns the changes since the last call, each with its port.
pub fn follow() -> Vec<(u8, PortChange)> {
    // If the query fails, the next call makes up for it.
    let Ok(all) = interfaces::all() else {
        return Vec::new();
    };
    let mut changes = Vec::new();
    for (port, latest) in (1..).zip(latest()) {
        let of_port = latest.learn(&all).into_iter();
        changes.extend(of_port.map(|change| (port, change)));
    }
    changes
}

fn from_environment() -> Result<Choice> {
    let devices = std::env::var("VERBENA_DEVICES").unwrap_or_default();
    let is_shared_out = !devices.is_empty();
    let devices = match devices.as_str() {
        "" => 1,
        text => text
            .parse()
            .ok()
            .filter(|number| (1..=MOST_DEVICES).contains(number))
            .ok_or_else(|| {
                eprintln!(
                    "verbena: VERBENA_DEVICES is `{text}`; use a number from 1 to {MOST_DEVICES}"
                );
                Errno::EINVAL
            })?,
    };
    let link = match std::env::var("VERBENA_LINK").as_deref() {
        Err(_) | Ok("" | "infiniband") => Link::InfiniBand,
        Ok("roce") => {
            let wanted = std::env::var("VERBENA_INTERFACE").unwrap_or_default();
            let ports = interfaces_for(&interfaces::all()?, &wanted, devices)?;
            Link::Roce(ports.into_iter().map(Latest::new).collect())
        }
        Ok(other) => {
            eprintln!("verbena: VERBENA_LINK is `{other}`; use infiniband or roce");
            return Err(Errno::EINVAL);
        }
    };
    let fabric = match link {
        Link::InfiniBand => Fabric::of_environment()?,
        Link::Roce(_) => {
            if std::env::var_os("VERBENA_FABRIC").is_some_and(|place| !place.is_empty()) {
                eprintln!("verbena: the link is RoCE, so this program is not on the fabric");
            }
            None
        }
    };
    if fabric.is_some() && devices > 1 {
        eprintln!("verbena: VERBENA_DEVICES is {devices}; a node of a fabric is one device");
        return Err(Errno::EINVAL);
    }
    if let Some(fabric) = &fabric {
        observed::set(observed::COUNTED, true);
        down::begin_inactive(fabric.inactive());
    }
    Ok(Choice {
        link,
        devices,
        is_shared_out,
        fabric,
    })
}

/// Returns the interfaces of all devices, in the order of their ports: the named ones, or as many
/// as there are devices.
fn interfaces_for(all: &[Description], wanted: &str, devices: u8) -> Result<Vec<Interface>> {
    let each = usize::from(devices);
    if wanted.is_empty() && devices > 1 {
        return Interface::preferred(all, each);
    }
    let ports = named(all, wanted)?;
    if ports.len() % each != 0 {
        eprintln!(
            "verbena: VERBENA_INTERFACE is `{wanted}`, and VERBENA_DEVICES {devices}; \
             name an interface for each device, or several for each"
        );
        return Err(Errno::EINVAL);
    }
    Ok(ports)
}

/// Returns the named interfaces, in that order.
fn named(all: &[Description], wanted: &str) -> Result<Vec<Interface>> {
    let mut ports: Vec<Interface> = Vec::new();
    for one in wanted.split(',') {
        if one.is_empty() && !wanted.is_empty() {
            eprintln!(
                "verbena: VERBENA_INTERFACE is `{wanted}`; a name is missing next to a comma"
            );
            return Err(Errno::EINVAL);
        }
        let found = Interface::find(all, one)?;
        if ports.iter().any(|port| port.index == found.index) {
            eprintln!(
                "verbena: VERBENA_INTERFACE is `{wanted}`, which names {} twice; each port needs \
                 its own interface",
                found.name
            );
            return Err(Errno::EINVAL);
        }
        ports.push(found);
    }
    if ports.len() > MOST_PORTS {
        eprintln!(
            "verbena: {} interfaces are named, more than the maximum of {MOST_PORTS} ports",
            ports.len()
        );
        return Err(Errno::EINVAL);
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::interface::tests::description;

    #[test]
    fn ports_follow_the_order_of_named_interfaces() {
        let mut all = [
            description("eth0", &["10.0.0.1"]),
            description("eth1", &["10.0.1.1", "fd00::1"]),
        ];
        all[1].index += 1;
        let names = |wanted: &str| -> Result<Vec<String>> {
            let ports = named(&all, wanted)?;
            Ok(ports.into_iter().map(|port| port.name).collect())
        };
        assert_eq!(names(""), Ok(vec!["eth0".to_owned()]));
        let both = ["eth1".to_owned(), "eth0".to_owned()];
        assert_eq!(names("eth1,eth0"), Ok(both.to_vec()));
        assert_eq!(names("fd00::1,10.0.0.1"), Ok(both.to_vec()));
        for twice in ["eth0,eth0", "eth1,10.0.1.1"] {
            assert_eq!(names(twice), Err(Errno::EINVAL), "{twice}");
        }
        for missing in [",eth0", "eth0,", "eth0,,eth1", ","] {
            assert_eq!(names(missing), Err(Errno::EINVAL), "{missing}");
        }
        assert_eq!(names("eth0,eth2"), Err(Errno(libc::ENODEV)));
    }
}
