//! Global route header (specification 8.3): an IPv6 header with next header 0x1B. Datagram receives
//! over InfiniBand begin with it.

use crate::cursor::Writer;
use crate::emit_error::EmitError;
use crate::error::Error;
use crate::ids::Gid;
use crate::ip::{Ipv4, Ipv6};

/// Length of a GRH in bytes.
pub const LENGTH: usize = 40;
/// Next header: a BTH.
pub const NEXT_HEADER: u8 = 0x1b;

/// A global route header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grh {
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Bytes after this header, up to and including the ICRC.
    pub payload_length: u16,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source GID.
    pub source: Gid,
    /// Destination GID.
    pub destination: Gid,
}

impl Grh {
    /// Reads the header from the front of `bytes`.
    ///
    /// # Errors
    ///
    /// Too few bytes, wrong version, or wrong next header.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let header = Ipv6::parse(bytes)?;
        if header.next_header != NEXT_HEADER {
            return Err(Error::Value {
                field: "GRH next header",
                at: 6,
                found: header.next_header.into(),
                expected: "0x1b, a BTH",
            });
        }
        Ok(Self {
            traffic_class: header.traffic_class,
            flow_label: header.flow_label,
            payload_length: header.payload_length,
            hop_limit: header.hop_limit,
            source: header.source,
            destination: header.destination,
        })
    }

    /// Writes the header to the front of `buffer`.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`LENGTH`].
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), EmitError> {
        let mut writer = Writer::with_room(buffer, LENGTH)?;
        Ipv6 {
            traffic_class: self.traffic_class,
            flow_label: self.flow_label,
            payload_length: self.payload_length,
            next_header: NEXT_HEADER,
            hop_limit: self.hop_limit,
            source: self.source,
            destination: self.destination,
        }
        .write(&mut writer);
        Ok(())
    }
}

/// Returns the first 40 bytes of a datagram receive for a packet that arrived over IPv4: 20
/// undefined bytes (here zero), then the IPv4 header (annex A17.4.5.1).
pub fn of_ipv4(header: &Ipv4) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    bytes[20..].copy_from_slice(&header.bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn grh_round_trips(traffic_class: u8, flow_label in 0u32..1 << 20, payload_length: u16,
            hop_limit: u8, source: [u8; 16], destination: [u8; 16])
        {
            let header = Grh {
                traffic_class, flow_label, payload_length, hop_limit,
                source: Gid(source), destination: Gid(destination),
            };
            let mut bytes = [0; LENGTH];
            header.emit(&mut bytes).unwrap();
            prop_assert_eq!(Grh::parse(&bytes), Ok(header));
            prop_assert!(Grh::parse(&bytes[..LENGTH - 1]).is_err());
            prop_assert!(header.emit(&mut bytes[..LENGTH - 1]).is_err());
        }
    }
}
