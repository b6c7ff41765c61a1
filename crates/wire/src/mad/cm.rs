//! Communication management (specification chapter 12): the messages that connect queue pairs, as
//! MADs of class 7, version 2, method SEND.
//!
//! Every message identifies the connection by two communication IDs, one chosen by each side. Field
//! offsets are those of tables 106 to 120, as in Linux' `ibta_vol1_c12.h`. LAP and APR (alternate
//! paths) and fields for reliable datagrams are not implemented.

mod connect;
pub mod ip;
mod path;
mod release;
mod service;

pub use connect::{Rep, Req, Transport};
pub use path::Path;
pub use release::{Drep, Dreq, Mra, Rej, Rejected, Rtu};
pub use service::{SidrRep, SidrReq};

use super::{Class, DATA, Header, Mad, Method};
use crate::cursor::{Reader, Writer};
use crate::emit_error::EmitError;
use crate::error::Error;

/// The version of the class.
pub const CLASS_VERSION: u8 = 2;

/// The type of a message: the MAD's attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
#[allow(missing_docs)] // The names are the specification's.
pub enum Attribute {
    Req = 0x10,
    Mra = 0x11,
    Rej = 0x12,
    Rep = 0x13,
    Rtu = 0x14,
    Dreq = 0x15,
    Drep = 0x16,
    SidrReq = 0x17,
    SidrRep = 0x18,
}

/// A communication manager's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Message<'a> {
    /// Requests a connection.
    Req(Req<'a>),
    /// Requests more time.
    Mra(Mra<'a>),
    /// Refuses.
    Rej(Rej<'a>),
    /// Accepts a connection.
    Rep(Rep<'a>),
    /// Confirms the acceptance.
    Rtu(Rtu<'a>),
    /// Requests a disconnect.
    Dreq(Dreq<'a>),
    /// Confirms the disconnect.
    Drep(Drep<'a>),
    /// Requests the datagram queue pair of a service.
    SidrReq(SidrReq<'a>),
    /// Returns it.
    SidrRep(SidrRep<'a>),
}

impl<'a> Message<'a> {
    /// Returns the message's type.
    pub fn attribute(&self) -> Attribute {
        match self {
            Self::Req(_) => Attribute::Req,
            Self::Mra(_) => Attribute::Mra,
            Self::Rej(_) => Attribute::Rej,
            Self::Rep(_) => Attribute::Rep,
            Self::Rtu(_) => Attribute::Rtu,
            Self::Dreq(_) => Attribute::Dreq,
            Self::Drep(_) => Attribute::Drep,
            Self::SidrReq(_) => Attribute::SidrReq,
            Self::SidrRep(_) => Attribute::SidrRep,
        }
    }

    /// Parses the message of a MAD. The caller keeps the transaction ID.
    ///
    /// # Errors
    ///
    /// Wrong class, version, method or attribute, or an invalid field value.
    pub fn parse(mad: &Mad<'a>) -> Result<Self, Error> {
        let refuse = |field, at, found: u16, expected| {
            Err(Error::Value {
                field,
                at,
                found: found.into(),
                expected,
            })
        };
        let header = &mad.header;
        if header.class != Class::COMMUNICATION {
            return refuse(
                "MAD class",
                1,
                header.class.0.into(),
                "7, communication management",
            );
        }
        if header.class_version != CLASS_VERSION {
            return refuse("MAD class version", 2, header.class_version.into(), "2");
        }
        if header.method != Method::SEND {
            return refuse("MAD method", 3, header.method.0.into(), "3, send");
        }
        let mut reader = Reader::new(mad.data);
        let reader = &mut reader;
        let message = match header.attribute {
            0x10 => Req::parse(reader).map(Self::Req),
            0x11 => Mra::parse(reader).map(Self::Mra),
            0x12 => Rej::parse(reader).map(Self::Rej),
            0x13 => Rep::parse(reader).map(Self::Rep),
            0x14 => Rtu::parse(reader).map(Self::Rtu),
            0x15 => Dreq::parse(reader).map(Self::Dreq),
            0x16 => Drep::parse(reader).map(Self::Drep),
            0x17 => SidrReq::parse(reader).map(Self::SidrReq),
            0x18 => SidrRep::parse(reader).map(Self::SidrRep),
            other => return refuse("CM attribute", 16, other, "0x10 to 0x18"),
        };
        message.map_err(|error| error.shifted(super::HEADER))
    }

    /// Writes the message into the data of a MAD and returns the MAD.
    ///
    /// # Errors
    ///
    /// Only by a bug in this crate: every message fits the data.
    pub fn emit(self, transaction: u64, data: &mut [u8; DATA]) -> Result<Mad<'_>, EmitError> {
        let mut writer = Writer::with_room(data, DATA)?;
        let to = &mut writer;
        match &self {
            Self::Req(message) => message.emit(to),
            Self::Mra(message) => message.emit(to),
            Self::Rej(message) => message.emit(to),
            Self::Rep(message) => message.emit(to),
            Self::Rtu(message) => message.emit(to),
            Self::Dreq(message) => message.emit(to),
            Self::Drep(message) => message.emit(to),
            Self::SidrReq(message) => message.emit(to),
            Self::SidrRep(message) => message.emit(to),
        }
        writer.zeros(DATA - writer.written());
        Ok(Mad {
            header: Header {
                class: Class::COMMUNICATION,
                class_version: CLASS_VERSION,
                method: Method::SEND,
                status: 0,
                class_specific: 0,
                transaction,
                attribute: self.attribute() as u16,
                modifier: 0,
            },
            data,
        })
    }
}

/// Reads the consumer's private data, whose length is fixed per message type.
fn private<'a, const N: usize>(reader: &mut Reader<'a>) -> Result<&'a [u8; N], Error> {
    let at = reader.at();
    let bytes = reader.take("CM private data", N)?;
    bytes.try_into().map_err(|_| Error::Truncated {
        what: "CM private data",
        at,
        needed: N,
        found: bytes.len(),
    })
}

fn split(word: u32) -> (u32, u8) {
    (word >> 8, word as u8)
}

fn joined(high: u32, low: u8) -> u32 {
    high << 8 | u32::from(low)
}

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;
