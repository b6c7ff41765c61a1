//! A RoCEv2 packet with its encapsulation (annex A17): IP header, UDP header, packet, ICRC.
//!
//! A program with a UDP socket lets the kernel write IP and UDP headers and needs only [`seal`] and
//! [`open`], which make and check the ICRC over those headers. A program with whole frames
//! (captures, raw sockets) uses [`Frame`].

use crate::cursor::{Reader, Writer};
use crate::emit_error::EmitError;
use crate::error::Error;
use crate::icrc;
use crate::ids::Gid;
use crate::ip::{self, DONT_FRAGMENT, Ipv4, Ipv6};
use crate::packet::Packet;
use crate::udp::{self, Udp};

/// IPv4 header fields except for lengths and checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // As in `Ipv4`.
pub struct V4 {
    pub tos: u8,
    pub identification: u16,
    pub dont_fragment: bool,
    pub ttl: u8,
    pub source: [u8; 4],
    pub destination: [u8; 4],
}

/// IPv6 header fields except for the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // As in `Ipv6`.
pub struct V6 {
    pub traffic_class: u8,
    pub flow_label: u32,
    pub hop_limit: u8,
    pub source: Gid,
    pub destination: Gid,
}

/// The network layer of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Network {
    V4(V4),
    V6(V6),
}

/// The encapsulation of a packet without its length fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Route {
    /// The network layer.
    pub network: Network,
    /// Source port.
    pub source_port: u16,
    /// Destination port: [`udp::PORT`], unless the peers agree on another.
    pub destination_port: u16,
    /// The UDP checksum; 0 for none, as rxe and adapters send it.
    pub udp_checksum: u16,
}

pub(crate) struct Lengths {
    pub(crate) network: u16,
    pub(crate) udp: u16,
}

impl V4 {
    pub(crate) fn header(&self, total_length: u16) -> Ipv4 {
        Ipv4 {
            tos: self.tos,
            total_length,
            identification: self.identification,
            fragment: if self.dont_fragment { DONT_FRAGMENT } else { 0 },
            ttl: self.ttl,
            protocol: ip::UDP,
            checksum: 0,
            source: self.source,
            destination: self.destination,
        }
    }
}

impl V6 {
    pub(crate) fn header(&self, payload_length: u16) -> Ipv6 {
        Ipv6 {
            traffic_class: self.traffic_class,
            flow_label: self.flow_label,
            payload_length,
            next_header: ip::UDP,
            hop_limit: self.hop_limit,
            source: self.source,
            destination: self.destination,
        }
    }
}

impl Route {
    /// Returns the number of bytes before the BTH.
    pub fn headers_length(&self) -> usize {
        udp::LENGTH
            + match self.network {
                Network::V4(_) => ip::V4_LENGTH,
                Network::V6(_) => ip::V6_LENGTH,
            }
    }

    /// Returns the route with another IPv4 identification; IPv6 has none.
    #[must_use]
    pub const fn with_identification(&self, identification: u16) -> Route {
        let network = match self.network {
            Network::V4(network) => Network::V4(V4 {
                identification,
                ..network
            }),
            network @ Network::V6(_) => network,
        };
        Route { network, ..*self }
    }

    /// Returns the route of an answer, from the same source port.
    pub fn reversed(&self) -> Route {
        let network = match self.network {
            Network::V4(network) => Network::V4(V4 {
                source: network.destination,
                destination: network.source,
                ..network
            }),
            Network::V6(network) => Network::V6(V6 {
                source: network.destination,
                destination: network.source,
                ..network
            }),
        };
        Route { network, ..*self }
    }

    /// Returns the length fields for `data` bytes after the UDP header.
    pub(crate) fn lengths(&self, data: usize) -> Lengths {
        let udp = udp::LENGTH + data;
        let network = match self.network {
            Network::V4(_) => ip::V4_LENGTH + udp,
            Network::V6(_) => udp,
        };
        Lengths {
            network: network as u16,
            udp: udp as u16,
        }
    }

    pub(crate) fn udp_header(&self, length: u16) -> Udp {
        Udp {
            source: self.source_port,
            destination: self.destination_port,
            length,
            checksum: self.udp_checksum,
        }
    }

    /// Writes the IP and UDP headers for `data` bytes to the front of `buffer`, and returns their
    /// length, which is the offset of the data.
    ///
    /// # Errors
    ///
    /// The buffer is too short, or the length exceeds that of an IP packet.
    pub fn emit(&self, data: usize, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let start = self.headers_length();
        let most = usize::from(u16::MAX);
        if start + data > most {
            return Err(EmitError::Long {
                field: "IP length",
                most,
                found: start + data,
            });
        }
        let lengths = self.lengths(data);
        let mut writer = Writer::with_room(buffer, start)?;
        match self.network {
            Network::V4(network) => {
                network
                    .header(lengths.network)
                    .with_checksum()
                    .write(&mut writer);
            }
            Network::V6(network) => network.header(lengths.network).write(&mut writer),
        }
        self.udp_header(lengths.udp).emit(&mut writer);
        Ok(start)
    }
}

/// Writes the UDP checksum (RFC 768, RFC 8200 8.1) into a frame from IP header to ICRC, as the
/// sending kernel does. The ICRC does not cover it. A frame too short for a checksum stays
/// unchanged.
pub fn fill_checksum(frame: &mut [u8]) {
    let (addresses, start) = match frame.first() {
        Some(first) if first >> 4 == 6 => (8..ip::V6_LENGTH, ip::V6_LENGTH),
        _ => (12..ip::V4_LENGTH, ip::V4_LENGTH),
    };
    let field = start + 6..start + 8;
    if frame.len() < start + udp::LENGTH {
        return;
    }
    frame[field.clone()].fill(0);
    let pseudo = u64::from(ip::UDP) + (frame.len() - start) as u64;
    let mut sum = pseudo + words(&frame[addresses]) + words(&frame[start..]);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // 0 would mean no checksum.
    let checksum = match !(sum as u16) {
        0 => u16::MAX,
        checksum => checksum,
    };
    frame[field].copy_from_slice(&checksum.to_be_bytes());
}

/// Returns the sum of the 16-bit words, the last one padded with a zero byte.
fn words(bytes: &[u8]) -> u64 {
    let (pairs, last) = bytes.as_chunks::<2>();
    let pairs: u64 = pairs
        .iter()
        .map(|pair| u64::from(u16::from_be_bytes(*pair)))
        .sum();
    pairs + last.first().map_or(0, |byte| u64::from(*byte) << 8)
}

/// Appends the ICRC to a packet of `length` bytes (BTH to last pad byte) at the front of `buffer`,
/// and returns the length of both: the payload of a UDP datagram.
///
/// # Errors
///
/// The buffer is too short, or the length exceeds that of an IP packet.
pub fn seal(route: &Route, length: usize, buffer: &mut [u8]) -> Result<usize, EmitError> {
    seal_with(route, length, buffer, |packet| icrc::compute(route, packet))
}

/// [`seal`] for a packet of a series, with this IPv4 identification.
///
/// # Errors
///
/// As [`seal`].
pub fn seal_in(
    series: &mut icrc::Series,
    identification: u16,
    length: usize,
    buffer: &mut [u8],
) -> Result<usize, EmitError> {
    let route = *series.route();
    seal_with(&route, length, buffer, |packet| {
        series.compute(identification, packet)
    })
}

fn seal_with(
    route: &Route,
    length: usize,
    buffer: &mut [u8],
    icrc: impl FnOnce(&[u8]) -> u32,
) -> Result<usize, EmitError> {
    let sealed = length + icrc::LENGTH;
    let most = usize::from(u16::MAX);
    if route.headers_length() + sealed > most {
        let field = "IP length";
        return Err(EmitError::Long {
            field,
            most,
            found: route.headers_length() + sealed,
        });
    }
    if buffer.len() < sealed {
        return Err(EmitError::Room {
            needed: sealed,
            found: buffer.len(),
        });
    }
    let crc = icrc(&buffer[..length]);
    buffer[length..sealed].copy_from_slice(&crc.to_le_bytes());
    Ok(sealed)
}

/// How the ICRC of a packet was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Checked {
    /// With the given route: all 32 bits.
    Exactly,
    /// With this other IPv4 identification: 16 bits.
    WithIdentification(u16),
}

/// Checks the ICRC at the end of a received UDP datagram, and returns the packet without it.
///
/// # Errors
///
/// Too short, or the ICRC is wrong for every IPv4 identification.
pub fn open<'a>(route: &Route, data: &'a [u8]) -> Result<(&'a [u8], Checked), Error> {
    open_with(route, data, |packet| icrc::compute(route, packet))
}

/// [`open`] for a packet of a series, with this IPv4 identification.
///
/// # Errors
///
/// As [`open`].
pub fn open_in<'a>(
    series: &mut icrc::Series,
    identification: u16,
    data: &'a [u8],
) -> Result<(&'a [u8], Checked), Error> {
    let route = *series.route();
    open_with(&route, data, |packet| {
        series.compute(identification, packet)
    })
}

fn open_with<'a>(
    route: &Route,
    data: &'a [u8],
    icrc: impl FnOnce(&[u8]) -> u32,
) -> Result<(&'a [u8], Checked), Error> {
    let Some((packet, stored)) = data.split_last_chunk::<{ icrc::LENGTH }>() else {
        return Err(Error::Truncated {
            what: "ICRC",
            at: 0,
            needed: icrc::LENGTH,
            found: data.len(),
        });
    };
    let found = u32::from_le_bytes(*stored);
    let expected = icrc(packet);
    if expected == found {
        return Ok((packet, Checked::Exactly));
    }
    match icrc::identification(route, packet, found) {
        Some(identification) => Ok((packet, Checked::WithIdentification(identification))),
        None => Err(Error::Icrc { expected, found }),
    }
}

/// A packet and its encapsulation, from the IP header to the ICRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame<'a> {
    /// The encapsulation.
    pub route: Route,
    /// The packet.
    pub packet: Packet<'a>,
}

impl<'a> Frame<'a> {
    /// Reads a frame, IPv4 or IPv6 by its version field. The ICRC must match exactly: the
    /// identification is known.
    ///
    /// # Errors
    ///
    /// The bytes are not a valid RoCEv2 packet, or it is damaged.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes);
        let network = match bytes.first() {
            Some(first) if first >> 4 == 6 => read_v6(&mut reader, bytes.len())?,
            _ => read_v4(&mut reader, bytes.len())?,
        };
        let at = reader.at();
        let udp = Udp::parse(&mut reader)?;
        let route = Route {
            network,
            source_port: udp.source,
            destination_port: udp.destination,
            udp_checksum: udp.checksum,
        };
        if usize::from(udp.length) != bytes.len() - at {
            return Err(Error::Value {
                field: "UDP length",
                at: at + 4,
                found: udp.length.into(),
                expected: "the IP header's length without the header",
            });
        }
        let start = reader.at();
        let (packet, checked) =
            open(&route, reader.rest()).map_err(|error| error.shifted(start))?;
        if checked != Checked::Exactly {
            let (found, expected) = (stored_icrc(bytes), icrc::compute(&route, packet));
            return Err(Error::Icrc { expected, found });
        }
        let packet = Packet::parse(packet).map_err(|error| error.shifted(start))?;
        Ok(Self { route, packet })
    }

    /// Returns the length of the frame in bytes.
    pub fn length(&self) -> usize {
        self.route.headers_length() + self.packet.length() + icrc::LENGTH
    }

    /// Writes the frame to the front of `buffer` and returns its length.
    ///
    /// # Errors
    ///
    /// The buffer is too short, the packet's headers do not fit its opcode, or its length exceeds
    /// that of an IP packet.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let start = self.route.headers_length();
        let needed = self.length();
        if buffer.len() < needed {
            return Err(EmitError::Room {
                needed,
                found: buffer.len(),
            });
        }
        let length = self.packet.emit(&mut buffer[start..])?;
        let sealed = seal(&self.route, length, &mut buffer[start..])?;
        self.route.emit(sealed, buffer)?;
        Ok(needed)
    }
}

fn stored_icrc(bytes: &[u8]) -> u32 {
    bytes
        .last_chunk()
        .map_or(0, |stored| u32::from_le_bytes(*stored))
}

fn read_v4(reader: &mut Reader<'_>, whole: usize) -> Result<Network, Error> {
    let header = Ipv4::read(reader)?;
    let refuse = |field, at, found: u16, expected| {
        Err(Error::Value {
            field,
            at,
            found: found.into(),
            expected,
        })
    };
    if usize::from(header.total_length) != whole {
        return refuse(
            "IPv4 total length",
            2,
            header.total_length,
            "the length of the packet",
        );
    }
    if header.fragment & !DONT_FRAGMENT != 0 {
        return refuse("IPv4 flags and offset", 6, header.fragment, "no fragment");
    }
    if header.protocol != ip::UDP {
        return refuse("IPv4 protocol", 9, header.protocol.into(), "17, UDP");
    }
    if header.with_checksum() != header {
        return refuse(
            "IPv4 header checksum",
            10,
            header.checksum,
            "that of the header",
        );
    }
    Ok(Network::V4(V4 {
        tos: header.tos,
        identification: header.identification,
        dont_fragment: header.fragment & DONT_FRAGMENT != 0,
        ttl: header.ttl,
        source: header.source,
        destination: header.destination,
    }))
}

fn read_v6(reader: &mut Reader<'_>, whole: usize) -> Result<Network, Error> {
    let header = Ipv6::read(reader)?;
    let refuse = |field, at, found: u16, expected| {
        Err(Error::Value {
            field,
            at,
            found: found.into(),
            expected,
        })
    };
    if usize::from(header.payload_length) + ip::V6_LENGTH != whole {
        return refuse(
            "IPv6 payload length",
            4,
            header.payload_length,
            "the length of the remaining packet",
        );
    }
    if header.next_header != ip::UDP {
        return refuse("IPv6 next header", 6, header.next_header.into(), "17, UDP");
    }
    Ok(Network::V6(V6 {
        traffic_class: header.traffic_class,
        flow_label: header.flow_label,
        hop_limit: header.hop_limit,
        source: header.source,
        destination: header.destination,
    }))
}
