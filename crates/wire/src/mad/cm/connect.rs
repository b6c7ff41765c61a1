//! REQ and REP: the parameters that both sides exchange before they send packets (tables 106 and
//! 110).

use super::{Path, joined, private, split};
use crate::cursor::{Reader, Writer};
use crate::error::Error;
use crate::ids::{PKey, QKey, Qpn};
use crate::mtu::Mtu;
use crate::psn::Psn;

/// The service of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Extended reliable connection.
    Xrc,
}

/// Connection request. Response timeouts are 4.096 us x 2^n, retry counts have 3 bits, where 7 may
/// mean unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Req<'a> {
    pub local_comm_id: u32,
    pub service_id: u64,
    pub ca_guid: u64,
    pub queue_key: QKey,
    pub qpn: Qpn,
    /// Number of reads and atomics that the sender can answer at a time.
    pub responder_resources: u8,
    /// Number of reads and atomics that the sender wants to have outstanding.
    pub initiator_depth: u8,
    pub remote_response_timeout: u8,
    pub transport: Transport,
    pub flow_control: bool,
    /// The initial PSN of the receiver of this message.
    pub starting_psn: Psn,
    pub local_response_timeout: u8,
    pub retry_count: u8,
    pub partition_key: PKey,
    pub path_mtu: Mtu,
    pub rnr_retry_count: u8,
    pub cm_retries: u8,
    pub shared_receive_queue: bool,
    pub primary: Path,
    pub alternate: Path,
    pub private_data: &'a [u8; 92],
}

impl<'a> Req<'a> {
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, Error> {
        const WHAT: &str = "CM REQ";
        let local_comm_id = reader.u32(WHAT)?;
        reader.skip(WHAT, 4)?;
        let service_id = reader.u64(WHAT)?;
        let ca_guid = reader.u64(WHAT)?;
        reader.skip(WHAT, 4)?;
        let queue_key = QKey(reader.u32(WHAT)?);
        let (qpn, responder_resources) = split(reader.u32(WHAT)?);
        let (_, initiator_depth) = split(reader.u32(WHAT)?);
        let service_at = reader.at() + 3;
        let (_, service) = split(reader.u32(WHAT)?);
        let (psn, local) = split(reader.u32(WHAT)?);
        let partition_key = PKey(reader.u16(WHAT)?);
        let mtu_at = reader.at();
        let mtu = reader.u8(WHAT)?;
        let extended = reader.u8(WHAT)?;
        let transport = match (service >> 1 & 3, extended & 7) {
            (0, _) => Transport::Rc,
            (1, _) => Transport::Uc,
            (3, 1) => Transport::Xrc,
            (other, _) => {
                return Err(Error::Value {
                    field: "CM REQ transport service",
                    at: service_at,
                    found: other.into(),
                    expected: "0 (RC), 1 (UC), or 3 with extended transport 1 (XRC)",
                });
            }
        };
        let path_mtu = Mtu::from_code(mtu >> 4).ok_or(Error::Value {
            field: "CM REQ path MTU",
            at: mtu_at,
            found: (mtu >> 4).into(),
            expected: "1 to 5",
        })?;
        Ok(Self {
            local_comm_id,
            service_id,
            ca_guid,
            queue_key,
            qpn: Qpn::new(qpn),
            responder_resources,
            initiator_depth,
            remote_response_timeout: service >> 3,
            transport,
            flow_control: service & 1 != 0,
            starting_psn: Psn::new(psn),
            local_response_timeout: local >> 3,
            retry_count: local & 7,
            partition_key,
            path_mtu,
            rnr_retry_count: mtu & 7,
            cm_retries: extended >> 4,
            shared_receive_queue: extended & 0x08 != 0,
            primary: Path::parse(reader)?,
            alternate: Path::parse(reader)?,
            private_data: private(reader)?,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) {
        let (transport, extended) = match self.transport {
            Transport::Rc => (0, 0),
            Transport::Uc => (1, 0),
            Transport::Xrc => (3, 1),
        };
        writer.u32(self.local_comm_id);
        writer.zeros(4);
        writer.u64(self.service_id);
        writer.u64(self.ca_guid);
        writer.zeros(4);
        writer.u32(self.queue_key.0);
        writer.u32(joined(self.qpn.value(), self.responder_resources));
        writer.u32(joined(0, self.initiator_depth));
        let service =
            self.remote_response_timeout << 3 | transport << 1 | u8::from(self.flow_control);
        writer.u32(joined(0, service));
        let local = self.local_response_timeout << 3 | self.retry_count & 7;
        writer.u32(joined(self.starting_psn.value(), local));
        writer.u16(self.partition_key.0);
        writer.u8(self.path_mtu.code() << 4 | self.rnr_retry_count & 7);
        writer.u8(self.cm_retries << 4 | u8::from(self.shared_receive_queue) << 3 | extended);
        self.primary.emit(writer);
        self.alternate.emit(writer);
        writer.put(self.private_data);
    }
}

/// Reply that accepts a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Rep<'a> {
    pub local_comm_id: u32,
    pub remote_comm_id: u32,
    pub queue_key: QKey,
    pub qpn: Qpn,
    /// The initial PSN of the receiver of this message.
    pub starting_psn: Psn,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    /// 4.096 us x 2^n.
    pub target_ack_delay: u8,
    /// For the alternate path: 0 accepted, 1 not supported, 2 refused.
    pub failover_accepted: u8,
    pub flow_control: bool,
    pub rnr_retry_count: u8,
    pub shared_receive_queue: bool,
    pub ca_guid: u64,
    pub private_data: &'a [u8; 196],
}

impl<'a> Rep<'a> {
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, Error> {
        const WHAT: &str = "CM REP";
        let local_comm_id = reader.u32(WHAT)?;
        let remote_comm_id = reader.u32(WHAT)?;
        let queue_key = QKey(reader.u32(WHAT)?);
        let (qpn, _) = split(reader.u32(WHAT)?);
        reader.skip(WHAT, 4)?;
        let (psn, _) = split(reader.u32(WHAT)?);
        let responder_resources = reader.u8(WHAT)?;
        let initiator_depth = reader.u8(WHAT)?;
        let delay = reader.u8(WHAT)?;
        let retries = reader.u8(WHAT)?;
        Ok(Self {
            local_comm_id,
            remote_comm_id,
            queue_key,
            qpn: Qpn::new(qpn),
            starting_psn: Psn::new(psn),
            responder_resources,
            initiator_depth,
            target_ack_delay: delay >> 3,
            failover_accepted: delay >> 1 & 3,
            flow_control: delay & 1 != 0,
            rnr_retry_count: retries >> 5,
            shared_receive_queue: retries & 0x10 != 0,
            ca_guid: reader.u64(WHAT)?,
            private_data: private(reader)?,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u32(self.local_comm_id);
        writer.u32(self.remote_comm_id);
        writer.u32(self.queue_key.0);
        writer.u32(joined(self.qpn.value(), 0));
        writer.zeros(4);
        writer.u32(joined(self.starting_psn.value(), 0));
        writer.u8(self.responder_resources);
        writer.u8(self.initiator_depth);
        writer.u8(self.target_ack_delay << 3
            | (self.failover_accepted & 3) << 1
            | u8::from(self.flow_control));
        writer.u8(self.rnr_retry_count << 5 | u8::from(self.shared_receive_queue) << 4);
        writer.u64(self.ca_guid);
        writer.put(self.private_data);
    }
}
