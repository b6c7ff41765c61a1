//! The path record inside a REQ: 44 bytes, once for the primary and once for the alternate path.

use crate::cursor::{Reader, Writer};
use crate::error::Error;
use crate::ids::{Gid, Lid};
use crate::timer::AckTimeout;

/// The path of a connection's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Path {
    /// LID of the REQ's sender.
    pub local_lid: Lid,
    /// LID of the REQ's receiver.
    pub remote_lid: Lid,
    /// GID of the sender.
    pub local_gid: Gid,
    /// GID of the receiver.
    pub remote_gid: Gid,
    /// Flow label, 20 bits.
    pub flow_label: u32,
    /// Packet rate as static rate code, 6 bits.
    pub rate: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Service level, 4 bits.
    pub service_level: u8,
    /// Whether both ports are in one subnet.
    pub subnet_local: bool,
    /// The sender's local ACK timeout.
    pub ack_timeout: AckTimeout,
}

impl Path {
    /// No path: the alternate of a REQ that has none.
    pub const NONE: Self = Self {
        local_lid: Lid(0),
        remote_lid: Lid(0),
        local_gid: Gid([0; 16]),
        remote_gid: Gid([0; 16]),
        flow_label: 0,
        rate: 0,
        traffic_class: 0,
        hop_limit: 0,
        service_level: 0,
        subnet_local: false,
        ack_timeout: AckTimeout::INFINITE,
    };

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Self, Error> {
        const WHAT: &str = "CM path";
        let local_lid = Lid(reader.u16(WHAT)?);
        let remote_lid = Lid(reader.u16(WHAT)?);
        let local_gid = Gid(reader.array(WHAT)?);
        let remote_gid = Gid(reader.array(WHAT)?);
        let label_and_rate = reader.u32(WHAT)?;
        let traffic_class = reader.u8(WHAT)?;
        let hop_limit = reader.u8(WHAT)?;
        let level = reader.u8(WHAT)?;
        let timeout = reader.u8(WHAT)?;
        Ok(Self {
            local_lid,
            remote_lid,
            local_gid,
            remote_gid,
            flow_label: label_and_rate >> 12,
            rate: (label_and_rate & 0x3f) as u8,
            traffic_class,
            hop_limit,
            service_level: level >> 4,
            subnet_local: level & 0x08 != 0,
            ack_timeout: AckTimeout::from_high_bits(timeout),
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u16(self.local_lid.0);
        writer.u16(self.remote_lid.0);
        writer.put(&self.local_gid.0);
        writer.put(&self.remote_gid.0);
        writer.u32(self.flow_label << 12 | u32::from(self.rate & 0x3f));
        writer.u8(self.traffic_class);
        writer.u8(self.hop_limit);
        writer.u8(self.service_level << 4 | u8::from(self.subnet_local) << 3);
        writer.u8(self.ack_timeout.code() << 3);
    }
}
