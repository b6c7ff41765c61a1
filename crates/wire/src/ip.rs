//! IPv4 and IPv6 headers as used by RoCEv2: no options, no extension headers.

use crate::cursor::{Reader, Writer};
use crate::error::Error;
use crate::ids::Gid;

/// Length of an IPv4 header without options, in bytes.
pub const V4_LENGTH: usize = 20;
/// Length of an IPv6 header in bytes.
pub const V6_LENGTH: usize = 40;
/// The protocol number of UDP.
pub const UDP: u8 = 17;

/// The DF flag in [`Ipv4::fragment`].
pub const DONT_FRAGMENT: u16 = 0x4000;

/// An IPv4 header (RFC 791).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ipv4 {
    /// Type of service: DSCP 6 bits, ECN 2 bits.
    pub tos: u8,
    /// Bytes of header and data.
    pub total_length: u16,
    /// Identification. Covered by the ICRC; a UDP socket can neither set nor read it.
    pub identification: u16,
    /// Flags 3 bits, fragment offset 13 bits.
    pub fragment: u16,
    /// Time to live.
    pub ttl: u8,
    /// The protocol of the data.
    pub protocol: u8,
    /// The checksum as received; [`Ipv4::with_checksum`] computes it.
    pub checksum: u16,
    /// Source address.
    pub source: [u8; 4],
    /// Destination address.
    pub destination: [u8; 4],
}

impl Ipv4 {
    /// Reads the header from the front of `bytes`.
    ///
    /// # Errors
    ///
    /// Too few bytes, wrong version, or options.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        Self::read(&mut Reader::new(bytes))
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        const WHAT: &str = "IPv4 header";
        let at = reader.at();
        let first = reader.u8(WHAT)?;
        if first != 0x45 {
            return Err(Error::Value {
                field: "IPv4 version and header length",
                at,
                found: first.into(),
                expected: "0x45: version 4, no options",
            });
        }
        Ok(Self {
            tos: reader.u8(WHAT)?,
            total_length: reader.u16(WHAT)?,
            identification: reader.u16(WHAT)?,
            fragment: reader.u16(WHAT)?,
            ttl: reader.u8(WHAT)?,
            protocol: reader.u8(WHAT)?,
            checksum: reader.u16(WHAT)?,
            source: reader.array(WHAT)?,
            destination: reader.array(WHAT)?,
        })
    }

    /// Returns the header's bytes.
    pub fn bytes(&self) -> [u8; V4_LENGTH] {
        let mut bytes = [0; V4_LENGTH];
        // Cannot fail: the array has the required length.
        if let Ok(mut writer) = Writer::with_room(&mut bytes, V4_LENGTH) {
            self.write(&mut writer);
        }
        bytes
    }

    pub(crate) fn write(&self, writer: &mut Writer<'_>) {
        writer.u8(0x45);
        writer.u8(self.tos);
        writer.u16(self.total_length);
        writer.u16(self.identification);
        writer.u16(self.fragment);
        writer.u8(self.ttl);
        writer.u8(self.protocol);
        writer.u16(self.checksum);
        writer.put(&self.source);
        writer.put(&self.destination);
    }

    /// Returns the header with the correct checksum.
    pub fn with_checksum(self) -> Self {
        let bytes = Self {
            checksum: 0,
            ..self
        }
        .bytes();
        let words = bytes
            .as_chunks()
            .0
            .iter()
            .map(|word| u32::from(u16::from_be_bytes(*word)));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        Self {
            checksum: !(sum as u16),
            ..self
        }
    }
}

/// An IPv6 header (RFC 8200).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ipv6 {
    /// Traffic class: DSCP 6 bits, ECN 2 bits.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes after this header.
    pub payload_length: u16,
    /// The protocol of the data.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub source: Gid,
    /// Destination address.
    pub destination: Gid,
}

impl Ipv6 {
    /// Reads the header from the front of `bytes`.
    ///
    /// # Errors
    ///
    /// Too few bytes, or wrong version.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        Self::read(&mut Reader::new(bytes))
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Error> {
        const WHAT: &str = "IPv6 header";
        let at = reader.at();
        let first = reader.u32(WHAT)?;
        if first >> 28 != 6 {
            return Err(Error::Value {
                field: "IP version",
                at,
                found: u64::from(first >> 28),
                expected: "6",
            });
        }
        Ok(Self {
            traffic_class: (first >> 20) as u8,
            flow_label: first & 0x000f_ffff,
            payload_length: reader.u16(WHAT)?,
            next_header: reader.u8(WHAT)?,
            hop_limit: reader.u8(WHAT)?,
            source: Gid(reader.array(WHAT)?),
            destination: Gid(reader.array(WHAT)?),
        })
    }

    /// Returns the header's bytes.
    pub fn bytes(&self) -> [u8; V6_LENGTH] {
        let mut bytes = [0; V6_LENGTH];
        // Cannot fail: the array has the required length.
        if let Ok(mut writer) = Writer::with_room(&mut bytes, V6_LENGTH) {
            self.write(&mut writer);
        }
        bytes
    }

    pub(crate) fn write(&self, writer: &mut Writer<'_>) {
        writer.u32(6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0x000f_ffff);
        writer.u16(self.payload_length);
        writer.u8(self.next_header);
        writer.u8(self.hop_limit);
        writer.put(&self.source.0);
        writer.put(&self.destination.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The IPv4 header of a packet that Linux 6.1 rxe sent.
    const GOLDEN: [u8; V4_LENGTH] = [
        0x45, 0x00, 0x00, 0x50, 0x90, 0x0b, 0x40, 0x00, 0x40, 0x11, 0x96, 0x7b, 0x0a, 0x09, 0x00,
        0x03, 0x0a, 0x09, 0x00, 0x02,
    ];

    #[test]
    fn a_linux_header_round_trips_with_its_checksum() {
        let header = Ipv4::parse(&GOLDEN).unwrap();
        assert_eq!(header.identification, 0x900b);
        assert_eq!(header.fragment, DONT_FRAGMENT);
        assert_eq!(header.source, [10, 9, 0, 3]);
        assert_eq!(header.bytes(), GOLDEN);
        assert_eq!(
            Ipv4 {
                checksum: 0,
                ..header
            }
            .with_checksum(),
            header
        );
    }

    #[test]
    fn options_are_refused() {
        let mut bytes = GOLDEN;
        bytes[0] = 0x46;
        assert!(matches!(
            Ipv4::parse(&bytes),
            Err(Error::Value {
                at: 0,
                found: 0x46,
                ..
            })
        ));
    }
}
