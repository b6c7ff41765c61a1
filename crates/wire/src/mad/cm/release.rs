//! Short connection messages: MRA, REJ, RTU, DREQ, DREP (tables 107, 108, 111 to 113).

use super::{joined, private, split};
use crate::cursor::{Reader, Writer};
use crate::error::Error;
use crate::ids::Qpn;

/// The message that an MRA or a REJ refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are the specification's.
pub enum Rejected {
    Req = 0,
    Rep = 1,
    /// In a REJ "no message" (a timeout); in an MRA a LAP.
    Other = 2,
}

impl Rejected {
    fn parse(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Error> {
        let at = reader.at();
        match reader.u8(field)? >> 6 {
            0 => Ok(Self::Req),
            1 => Ok(Self::Rep),
            2 => Ok(Self::Other),
            found => Err(Error::Value {
                field,
                at,
                found: found.into(),
                expected: "0 to 2",
            }),
        }
    }
}

/// Message receipt acknowledged: the response takes longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Mra<'a> {
    pub local_comm_id: u32,
    pub remote_comm_id: u32,
    pub message: Rejected,
    /// 4.096 us x 2^n.
    pub service_timeout: u8,
    pub private_data: &'a [u8; 222],
}

/// Rejection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Rej<'a> {
    pub local_comm_id: u32,
    pub remote_comm_id: u32,
    pub message: Rejected,
    /// Number of valid bytes in `information`, 7 bits.
    pub information_length: u8,
    /// Reason code of 12.6.7.2; 28 is a rejection by the consumer.
    pub reason: u16,
    pub information: &'a [u8; 72],
    pub private_data: &'a [u8; 148],
}

/// Ready to use: the reply has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Rtu<'a> {
    pub local_comm_id: u32,
    pub remote_comm_id: u32,
    pub private_data: &'a [u8; 224],
}

/// Request to disconnect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Dreq<'a> {
    pub local_comm_id: u32,
    pub remote_comm_id: u32,
    pub remote_qpn: Qpn,
    pub private_data: &'a [u8; 220],
}

/// Reply to a request to disconnect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Drep<'a> {
    pub local_comm_id: u32,
    pub remote_comm_id: u32,
    pub private_data: &'a [u8; 224],
}

impl<'a> Mra<'a> {
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            local_comm_id: reader.u32("CM MRA")?,
            remote_comm_id: reader.u32("CM MRA")?,
            message: Rejected::parse(reader, "CM MRA message")?,
            service_timeout: reader.u8("CM MRA")? >> 3,
            private_data: private(reader)?,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u32(self.local_comm_id);
        writer.u32(self.remote_comm_id);
        writer.u8((self.message as u8) << 6);
        writer.u8(self.service_timeout << 3);
        writer.put(self.private_data);
    }
}

impl<'a> Rej<'a> {
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            local_comm_id: reader.u32("CM REJ")?,
            remote_comm_id: reader.u32("CM REJ")?,
            message: Rejected::parse(reader, "CM REJ message")?,
            information_length: reader.u8("CM REJ")? >> 1,
            reason: reader.u16("CM REJ")?,
            information: private(reader)?,
            private_data: private(reader)?,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u32(self.local_comm_id);
        writer.u32(self.remote_comm_id);
        writer.u8((self.message as u8) << 6);
        writer.u8(self.information_length << 1);
        writer.u16(self.reason);
        writer.put(self.information);
        writer.put(self.private_data);
    }
}

impl<'a> Rtu<'a> {
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            local_comm_id: reader.u32("CM RTU")?,
            remote_comm_id: reader.u32("CM RTU")?,
            private_data: private(reader)?,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u32(self.local_comm_id);
        writer.u32(self.remote_comm_id);
        writer.put(self.private_data);
    }
}

impl<'a> Dreq<'a> {
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            local_comm_id: reader.u32("CM DREQ")?,
            remote_comm_id: reader.u32("CM DREQ")?,
            remote_qpn: Qpn::new(split(reader.u32("CM DREQ")?).0),
            private_data: private(reader)?,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u32(self.local_comm_id);
        writer.u32(self.remote_comm_id);
        writer.u32(joined(self.remote_qpn.value(), 0));
        writer.put(self.private_data);
    }
}

impl<'a> Drep<'a> {
    pub(super) fn parse(reader: &mut Reader<'a>) -> Result<Self, Error> {
        Ok(Self {
            local_comm_id: reader.u32("CM DREP")?,
            remote_comm_id: reader.u32("CM DREP")?,
            private_data: private(reader)?,
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u32(self.local_comm_id);
        writer.u32(self.remote_comm_id);
        writer.put(self.private_data);
    }
}
