//! A received packet.

use super::route::gid;
use crate::link;
use std::net::Ipv6Addr;
use verbena_wire::packet::Packet;
use verbena_wire::roce::{Network, Route};

/// A packet that passed the ICRC check, and its headers.
pub struct ReceivedPacket<'a> {
    /// The packet.
    pub packet: Packet<'a>,
    /// Headers around it.
    pub route: &'a Route,
    /// Source address.
    pub source: Ipv6Addr,
    /// Destination: a local address or a group.
    pub destination: Ipv6Addr,
    /// Local port of the destination.
    pub port: u8,
}

/// Traffic class bits with which a switch reports congestion (RFC 3168: CE).
const CONGESTION: u8 = 0b11;

impl ReceivedPacket<'_> {
    /// Returns whether a switch reports congestion.
    #[inline]
    pub(super) fn is_marked(&self) -> bool {
        let class = match self.route.network {
            Network::V4(network) => network.tos,
            Network::V6(network) => network.traffic_class,
        };
        class & CONGESTION == CONGESTION
    }

    #[inline]
    pub(super) fn destination_is_group(&self) -> bool {
        link::ip_group(gid(self.destination)).is_some()
    }
}
