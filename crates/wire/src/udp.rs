//! The UDP header (RFC 768) and its use in RoCEv2 (annex A17).

use crate::cursor::{Reader, Writer};
use crate::error::Error;
use crate::ids::Qpn;

/// Length of a UDP header in bytes.
pub const LENGTH: usize = 8;

/// The destination port of every RoCEv2 packet.
pub const PORT: u16 = 4791;

/// A UDP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Udp {
    /// Entropy for switches, per connection; receivers do not check it.
    pub source: u16,
    /// [`PORT`].
    pub destination: u16,
    /// Bytes of header and data.
    pub length: u16,
    /// 0 for no checksum. The ICRC does not cover it.
    pub checksum: u16,
}

impl Udp {
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(Self {
            source: reader.u16("UDP header")?,
            destination: reader.u16("UDP header")?,
            length: reader.u16("UDP header")?,
            checksum: reader.u16("UDP header")?,
        })
    }

    pub(crate) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u16(self.source);
        writer.u16(self.destination);
        writer.u16(self.length);
        writer.u16(self.checksum);
    }
}

/// Returns the source port of a connection, in the dynamic range, derived like in Linux
/// (`rdma_flow_label_to_udp_sport` over `rdma_calc_flow_label`): the same for both directions.
pub fn source_port(local: Qpn, remote: Qpn) -> u16 {
    let product = u64::from(local.value()) * u64::from(remote.value());
    let folded = product ^ product >> 20;
    let label = ((folded ^ folded >> 40) & 0x000f_ffff) as u32;
    ((label & 0x3fff) ^ (label & 0x000f_c000) >> 14) as u16 | 0xc000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_port_equals_that_of_rxe() {
        assert_eq!(source_port(Qpn::new(0x11), Qpn::new(0x11)), 0xc121);
    }
}
