//! Service ID resolution for datagrams: SIDR_REQ and SIDR_REP (tables 119 and 120).

use super::{joined, private, split};
use crate::cursor::{Reader, Writer};
use crate::error::Error;
use crate::ids::{PKey, QKey, Qpn};

/// Requests the queue pair of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are the specification's.
pub struct SidrReq<'a> {
    pub request_id: u32,
    pub partition_key: PKey,
    pub service_id: u64,
    pub private_data: &'a [u8; 216],
}

/// Returns the queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are the specification's.
pub struct SidrRep<'a> {
    pub request_id: u32,
    /// 0 for success; others as numbered in 12.11.2.1.
    pub status: u8,
    pub information_length: u8,
    pub qpn: Qpn,
    pub service_id: u64,
    pub queue_key: QKey,
    pub information: &'a [u8; 72],
    pub private_data: &'a [u8; 136],
}

impl<'a> SidrReq<'a> {
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let request_id = reader.u32("CM SIDR_REQ")?;
        let partition_key = PKey(reader.u16("CM SIDR_REQ")?);
        reader.skip("CM SIDR_REQ", 2)?;
        Ok(Self {
            request_id,
            partition_key,
            service_id: reader.u64("CM SIDR_REQ")?,
            private_data: private(reader)?,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u32(self.request_id);
        writer.u16(self.partition_key.0);
        writer.zeros(2);
        writer.u64(self.service_id);
        writer.put(self.private_data);
    }
}

impl<'a> SidrRep<'a> {
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let request_id = reader.u32("CM SIDR_REP")?;
        let status = reader.u8("CM SIDR_REP")?;
        let information_length = reader.u8("CM SIDR_REP")?;
        reader.skip("CM SIDR_REP", 2)?;
        let (qpn, _) = split(reader.u32("CM SIDR_REP")?);
        Ok(Self {
            request_id,
            status,
            information_length,
            qpn: Qpn::new(qpn),
            service_id: reader.u64("CM SIDR_REP")?,
            queue_key: QKey(reader.u32("CM SIDR_REP")?),
            information: private(reader)?,
            private_data: private(reader)?,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u32(self.request_id);
        writer.u8(self.status);
        writer.u8(self.information_length);
        writer.zeros(2);
        writer.u32(joined(self.qpn.value(), 0));
        writer.u64(self.service_id);
        writer.u32(self.queue_key.0);
        writer.put(self.information);
        writer.put(self.private_data);
    }
}
