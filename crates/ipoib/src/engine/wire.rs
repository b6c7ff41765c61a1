//! The two ends between which an interface moves packets: the adapter and the TUN device.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::os::fd::AsFd;

use verbena_verbs::Gid;

use crate::adapter::{Adapter, Failure as AdapterFailure, Received};
use crate::administration::{Administration, Lookup, Waiting};
use crate::connected::Message;
use crate::connection::{Connections, Pairs, Way};
use crate::encapsulation::{self, Protocol};
use crate::join::Joiner;
use crate::neighbour::Neighbour;
use crate::netlink::Netlink;
use crate::offload::{self, Header, Partial};
use crate::segment::Segments;
use crate::station::{Link, Origin, Sent, Source};
use crate::transport;

/// Most distant destinations whose neighbours are known.
const MOST_NEXT_HOPS: usize = 1024;

/// The adapter and the TUN device.
pub(super) struct Wire {
    pub(super) connections: Connections,
    /// Longest IP packet in a datagram.
    pub(super) datagram_mtu: usize,
    /// The time, as the pump has read it last.
    pub(super) now: u64,
    pub(super) adapter: Adapter,
    /// On a port with a subnet manager.
    pub(super) administration: Option<Administration>,
    pub(super) device: File,
    /// Segments that have been received, and the turns for which they have been held.
    pub(super) joiner: Joiner,
    pub(super) held: u32,
    /// Packets from the link that the device refused.
    pub(super) refused: u64,
    /// The kernel's view of the namespace, and the interface's index there.
    pub(super) kernel: Netlink,
    pub(super) index: u32,
    /// Neighbours by which distant destinations are reached.
    pub(super) next_hops: HashMap<IpAddr, IpAddr>,
    /// Whether a program has removed the interface.
    pub(super) is_removed: bool,
}

impl Wire {
    /// Gives the device all received packets. Returns the number of those that it has refused.
    pub(super) fn flush(&mut self) -> u64 {
        self.held = 0;
        let (device, refused) = (&self.device, &mut self.refused);
        self.joiner
            .flush(|bytes, packets| *refused += write(device, bytes, packets));
        std::mem::take(refused)
    }
}

/// Writes a packet that was joined of several. Returns the number of packets that were refused.
fn write(mut device: &File, bytes: &[u8], packets: u64) -> u64 {
    match device.write(bytes) {
        Ok(written) if written == bytes.len() => 0,
        _ => packets,
    }
}

impl Wire {
    /// Returns the number of packets that were dropped after they had been taken for a neighbour,
    /// since the last call.
    pub(super) fn take_discarded(&mut self) -> u64 {
        self.adapter.take_discarded() + self.connections.take_dropped()
    }

    /// Returns a neighbour with the path that subnet administration states, if there is one.
    pub(super) fn route(&mut self, to: &Neighbour) -> Lookup<Neighbour> {
        let Some(administration) = &mut self.administration else {
            return Lookup::Known(*to);
        };
        match administration.path(to.hardware.gid, self.now) {
            Lookup::Known(path) => Lookup::Known(Neighbour { path, ..*to }),
            Lookup::Waits => Lookup::Waits,
            Lookup::Failed(reason) => Lookup::Failed(reason),
        }
    }

    /// Sends segments of a long packet as datagrams, if their neighbour gets datagrams, while it
    /// takes them. Returns the numbers of those that were sent, and of those that were refused.
    pub(super) fn unicast_segments(
        &mut self,
        to: &Neighbour,
        protocol: Protocol,
        segments: &mut Segments,
    ) -> (u64, u64) {
        self.close_stalled();
        let Lookup::Known(to) = self.route(to) else {
            return (0, 0);
        };
        match self.connections.way(&to, self.now, &mut self.adapter) {
            Way::Datagram => self.adapter.unicast_segments(&to, protocol, segments),
            Way::Connection(..) | Way::Waits => (0, 0),
        }
    }

    fn hold(&mut self, one: Waiting) -> Sent {
        match &mut self.administration {
            Some(administration) => administration.hold(one),
            None => Sent::Refused,
        }
    }

    /// Returns whether answers of subnet administration are due.
    pub(super) fn is_asking(&self) -> bool {
        let administration = self.administration.as_ref();
        administration.is_some_and(Administration::is_waiting)
    }

    /// Returns the number of packets that wait for them.
    pub(super) fn held(&self) -> usize {
        self.administration
            .as_ref()
            .map_or(0, Administration::waiting)
    }

    /// Exchanges datagrams with subnet administration.
    pub(super) fn exchange(&mut self) -> Result<(), AdapterFailure> {
        match &mut self.administration {
            Some(administration) => self.adapter.exchange(administration, self.now),
            None => Ok(()),
        }
    }

    /// Closes connections whose peers take nothing, so that others have slots.
    pub(super) fn close_stalled(&mut self) {
        let connected = self.adapter.connected();
        let stalled = connected.filter(|connected| connected.are_slots_used_up());
        for id in stalled
            .map(|connected| connected.stalled())
            .unwrap_or_default()
        {
            self.connections.fail(id, &mut self.adapter);
        }
    }

    /// Gives the device the packet of a datagram with these first bytes. Returns whether it was
    /// taken.
    pub(super) fn deliver_datagram(&mut self, received: &Received, front: &[u8]) -> bool {
        let (region, at) = self.adapter.datagram(received);
        let at = at + encapsulation::LENGTH;
        let read = |from: usize, into: &mut [u8]| region.read(at + from, into).is_ok();
        let (device, refused) = (&self.device, &mut self.refused);
        let (front, length) = (
            &front[encapsulation::LENGTH..],
            received.length - encapsulation::LENGTH,
        );
        self.joiner.take(front, length, read, |bytes, packets| {
            *refused += write(device, bytes, packets);
        })
    }

    /// Gives the device the message of a connection. Returns `None` if its checksum is partial and
    /// its headers are not understood.
    pub(super) fn deliver_message(
        &mut self,
        message: &Message,
        front: &[u8],
        is_partial: bool,
    ) -> Option<bool> {
        let packet = &front[encapsulation::LENGTH..];
        let header = match is_partial {
            true => partial(packet)?,
            false => Header::default(),
        };
        let (region, at) = self.adapter.connected()?.message(message);
        let length = message.length - encapsulation::LENGTH;
        let at = at + encapsulation::LENGTH;
        let written = region.write_vectored(self.device.as_fd(), &header.bytes(), at, length);
        Some(written.is_ok_and(|written| written == offload::LENGTH + length))
    }
}

/// Returns the header of a packet whose checksum is partial, if its headers are understood.
pub(super) fn partial(packet: &[u8]) -> Option<Header> {
    let (ip_header, protocol) = transport::find(packet)?;
    let offset = match protocol {
        transport::TCP => transport::TCP_CHECKSUM,
        transport::UDP => transport::UDP_CHECKSUM,
        _ => return None,
    };
    Some(Header {
        partial: Some(Partial {
            start: ip_header as u16,
            offset: offset as u16,
        }),
        ..Header::default()
    })
}

impl Link for Wire {
    fn unicast(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> Sent {
        self.close_stalled();
        let to = &match self.route(to) {
            Lookup::Known(to) => to,
            Lookup::Waits => return self.hold(Waiting::Unicast(*to, protocol, packet.to_vec())),
            Lookup::Failed(reason) => return Sent::Dropped(reason),
        };
        match self.connections.way(to, self.now, &mut self.adapter) {
            Way::Connection(_, end) if packet.len() > end.mtu as usize => {
                Sent::TooLong(end.mtu as usize)
            }
            Way::Connection(id, _) => Pairs::send(&mut self.adapter, id, protocol, packet),
            Way::Waits if self.connections.wait(to, protocol, packet) => Sent::Done,
            Way::Waits => Sent::Stalled,
            Way::Datagram if packet.len() > self.datagram_mtu => Sent::TooLong(self.datagram_mtu),
            Way::Datagram => self.adapter.unicast(to, protocol, packet),
        }
    }

    fn connect(&mut self, message: &[u8], source: Source, now: u64) -> bool {
        let mut source = source;
        if let Some(administration) = &mut self.administration {
            let Some(gid) = source.gid else {
                return false;
            };
            match administration.path(gid, now) {
                Lookup::Known(path) => source.path = path,
                // Messages that are lost are sent again.
                Lookup::Waits => {
                    administration.hold(Waiting::Connect(message.to_vec(), source));
                    return true;
                }
                Lookup::Failed(_) => return true,
            }
        }
        self.connections
            .receive(message, source, now, &mut self.adapter)
    }

    fn answer(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> Sent {
        match self.route(to) {
            Lookup::Known(to) => self.adapter.answer(&to, protocol, packet),
            Lookup::Waits => self.hold(Waiting::Answer(*to, protocol, packet.to_vec())),
            Lookup::Failed(reason) => Sent::Dropped(reason),
        }
    }

    fn multicast(&mut self, group: Gid, protocol: Protocol, packet: &[u8], from: Origin) -> Sent {
        let Some(administration) = &mut self.administration else {
            return self.adapter.multicast(group, None, protocol, packet);
        };
        match administration.group(group, self.now) {
            Lookup::Known(known) => self
                .adapter
                .multicast(group, Some(&known), protocol, packet),
            Lookup::Waits => {
                let packet = packet.to_vec();
                administration.hold(Waiting::Multicast(group, protocol, packet, from))
            }
            Lookup::Failed(reason) => Sent::Dropped(reason),
        }
    }

    fn hear(&mut self, from: Source) {
        if let (Some(administration), Some(gid)) = (&mut self.administration, from.gid) {
            administration.hear(gid, from.path.lid, self.now);
        }
    }

    fn deliver(&mut self, packet: &[u8]) -> bool {
        let (device, refused) = (&self.device, &mut self.refused);
        self.joiner.take_whole(packet, |bytes, packets| {
            *refused += write(device, bytes, packets);
        })
    }

    fn report(&mut self, packet: &[u8]) {
        let bytes = [&Header::default().bytes()[..], packet].concat();
        // Not added to `refused`, which has packets that were counted as delivered.
        write(&self.device, &bytes, 1);
    }

    fn next_hop(&mut self, to: IpAddr) -> IpAddr {
        if let Some(known) = self.next_hops.get(&to) {
            return *known;
        }
        if self.next_hops.len() == MOST_NEXT_HOPS {
            self.next_hops.clear();
        }
        // Without a gateway, and without a route any more, the destination itself is asked for.
        let gateway = self.kernel.gateway(to, self.index);
        let next = gateway.ok().flatten().unwrap_or(to);
        self.next_hops.insert(to, next);
        next
    }
}
