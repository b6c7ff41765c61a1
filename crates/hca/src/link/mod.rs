//! What the port is attached to: the adapter's personality.
//!
//! - `infiniband` (the default): a subnet of one host, which shared memory is; LIDs, one GID.
//! - `roce`: an Ethernet interface; GIDs are its addresses, and what is not on this host is reached by RoCEv2 packets
//!   ([`crate::roce`]).
//!
//! `VERBENA_LINK` says which, `VERBENA_INTERFACE` the interface, by its name or by one of its addresses. Both are read
//! once, and so are the interface's addresses: a process keeps the GID table that it began with.

mod interface;

pub use interface::{Entry, Interface};

use crate::errno::{Errno, Result};
use crate::roce;
use std::sync::OnceLock;
use verbena_abi::ibv_gid;

/// What the port is attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link {
    /// A subnet of this host alone.
    InfiniBand,
    /// An Ethernet interface.
    Roce(Interface),
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

/// The Ethernet interface, if the link is one.
#[inline]
pub fn interface() -> Option<&'static Interface> {
    match current() {
        Link::InfiniBand => None,
        Link::Roce(interface) => Some(interface),
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
            Interface::find(&wanted).map(Link::Roce)
        }
        Ok(other) => {
            eprintln!("verbena: VERBENA_LINK is `{other}`; use infiniband or roce");
            Err(Errno::EINVAL)
        }
    }
}
