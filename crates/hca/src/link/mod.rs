//! What the port is attached to: the adapter's personality.
//!
//! - `infiniband` (the default): a subnet of one host, which shared memory is; LIDs, one GID.
//! - `roce`: an Ethernet interface; GIDs are its addresses, and what is not on this host is reached by RoCEv2 packets
//!   ([`crate::roce`]).
//!
//! `VERBENA_LINK` says which, `VERBENA_INTERFACE` the interface, by its name or by one of its addresses. Both are read
//! once. What the interface is, up or down and with which addresses, is followed as long as the device is open
//! ([`follow`]).

mod interface;
mod latest;

pub use interface::{Entry, Interface};
pub use latest::{Change, Latest};

use crate::errno::{Errno, Result};
use crate::roce;
use crate::sys::interfaces;
use std::sync::OnceLock;
use verbena_abi::ibv_gid;

/// What the port is attached to.
#[derive(Debug)]
pub enum Link {
    /// A subnet of this host alone.
    InfiniBand,
    /// An Ethernet interface.
    Roce(Latest),
}

static INFINIBAND: Link = Link::InfiniBand;

/// What the environment says.
///
/// # Errors
/// EINVAL for a word that is no link, ENODEV for an interface that there is not; a line on standard error says more.
pub fn chosen() -> Result<&'static Link> {
    static CHOSEN: OnceLock<Result<Link>> = OnceLock::new();
    match CHOSEN.get_or_init(from_environment) {
        Ok(link) => Ok(link),
        Err(error) => Err(*error),
    }
}

/// The link of this process; InfiniBand where the environment says nothing that can be.
pub fn current() -> &'static Link {
    chosen().unwrap_or(&INFINIBAND)
}

/// The Ethernet interface as it is now, if the link is one.
#[inline]
pub fn interface() -> Option<&'static Interface> {
    match current() {
        Link::InfiniBand => None,
        Link::Roce(latest) => Some(latest.get()),
    }
}

/// Looks what has become of the interface. Returns what has changed since the last look.
pub fn follow() -> Vec<Change> {
    match current() {
        Link::InfiniBand => Vec::new(),
        // What cannot be asked now is asked the next time.
        Link::Roce(latest) => {
            interfaces::all().map_or_else(|_| Vec::new(), |all| latest.learn(&all))
        }
    }
}

/// The multicast group that a GID names, by the one name that this link has for it.
pub fn group(gid: ibv_gid) -> Option<[u8; 16]> {
    match current() {
        Link::InfiniBand => Some(gid.bytes()).filter(|bytes| bytes[0] == 0xff),
        Link::Roce(_) => roce::group::address(gid).map(|ip| ip.octets()),
    }
}

fn from_environment() -> Result<Link> {
    match std::env::var("VERBENA_LINK").as_deref() {
        Err(_) | Ok("" | "infiniband") => Ok(Link::InfiniBand),
        Ok("roce") => {
            let wanted = std::env::var("VERBENA_INTERFACE").unwrap_or_default();
            Interface::find(&wanted).map(|found| Link::Roce(Latest::new(found)))
        }
        Ok(other) => {
            eprintln!("verbena: VERBENA_LINK is `{other}`; use infiniband or roce");
            Err(Errno::EINVAL)
        }
    }
}
