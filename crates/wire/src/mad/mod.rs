//! Management datagrams (specification 13.4): 256 bytes, a header of 24 and data that depend on the
//! class.

pub mod cm;

use crate::cursor::{Reader, Writer};
use crate::emit_error::EmitError;
use crate::error::Error;

/// Length of every MAD in bytes.
pub const LENGTH: usize = 256;
/// Length of the header in bytes.
pub const HEADER: usize = 24;
/// Bytes after the header.
pub const DATA: usize = LENGTH - HEADER;

/// The management class of a MAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Class(pub u8);

impl Class {
    /// Subnet management, by LID.
    pub const SUBNET: Self = Self(0x01);
    /// Subnet management, by directed route.
    pub const SUBNET_DIRECTED: Self = Self(0x81);
    /// Subnet administration.
    pub const ADMINISTRATION: Self = Self(0x03);
    /// Performance management.
    pub const PERFORMANCE: Self = Self(0x04);
    /// Communication management.
    pub const COMMUNICATION: Self = Self(0x07);
}

/// The method of a MAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Method(pub u8);

impl Method {
    /// Read an attribute.
    pub const GET: Self = Self(0x01);
    /// Write an attribute.
    pub const SET: Self = Self(0x02);
    /// A datagram without its own response; used by all of communication management.
    pub const SEND: Self = Self(0x03);
    /// The response to GET and SET.
    pub const GET_RESPONSE: Self = Self(0x81);
}

/// The header common to all classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// The management class.
    pub class: Class,
    /// The version of the class.
    pub class_version: u8,
    /// The method.
    pub method: Method,
    /// 0 for success; other values depend on the class.
    pub status: u16,
    /// Depends on the class.
    pub class_specific: u16,
    /// Matches a response to its request.
    pub transaction: u64,
    /// The attribute.
    pub attribute: u16,
    /// The part of the attribute.
    pub modifier: u32,
}

/// A management datagram over borrowed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mad<'a> {
    /// The header.
    pub header: Header,
    /// The data.
    pub data: &'a [u8; DATA],
}

impl<'a> Mad<'a> {
    /// Reads a MAD.
    ///
    /// # Errors
    ///
    /// The length is not 256 bytes, or the base version is not 1.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        const WHAT: &str = "MAD header";
        let mut reader = Reader::new(bytes);
        let version = reader.u8(WHAT)?;
        if version != 1 {
            return Err(Error::Value {
                field: "MAD base version",
                at: 0,
                found: version.into(),
                expected: "1",
            });
        }
        let class = Class(reader.u8(WHAT)?);
        let class_version = reader.u8(WHAT)?;
        let method = Method(reader.u8(WHAT)?);
        let status = reader.u16(WHAT)?;
        let class_specific = reader.u16(WHAT)?;
        let transaction = reader.u64(WHAT)?;
        let attribute = reader.u16(WHAT)?;
        reader.skip(WHAT, 2)?;
        let modifier = reader.u32(WHAT)?;
        let header = Header {
            class,
            class_version,
            method,
            status,
            class_specific,
            transaction,
            attribute,
            modifier,
        };
        let at = reader.at();
        let rest = reader.rest();
        match rest.split_first_chunk::<DATA>() {
            Some((data, [])) => Ok(Self { header, data }),
            Some((_, more)) => Err(Error::Trailing {
                what: "MAD",
                at: LENGTH,
                extra: more.len(),
            }),
            None => Err(Error::Truncated {
                what: "MAD",
                at,
                needed: DATA,
                found: rest.len(),
            }),
        }
    }

    /// Writes the MAD to the front of `buffer`.
    ///
    /// # Errors
    ///
    /// The buffer is shorter than [`LENGTH`].
    pub fn emit(&self, buffer: &mut [u8]) -> Result<(), EmitError> {
        let mut writer = Writer::with_room(buffer, LENGTH)?;
        let header = &self.header;
        writer.u8(1);
        writer.u8(header.class.0);
        writer.u8(header.class_version);
        writer.u8(header.method.0);
        writer.u16(header.status);
        writer.u16(header.class_specific);
        writer.u64(header.transaction);
        writer.u16(header.attribute);
        writer.zeros(2);
        writer.u32(header.modifier);
        writer.put(self.data);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn mad_bytes_round_trip(mut bytes in proptest::collection::vec(any::<u8>(), LENGTH)) {
            bytes[0] = 1;
            let mad = Mad::parse(&bytes).unwrap();
            let mut again = [0; LENGTH];
            mad.emit(&mut again).unwrap();
            // Two reserved bytes follow the attribute.
            bytes[18..20].fill(0);
            prop_assert_eq!(&again[..], &bytes[..]);
        }

        #[test]
        fn another_length_is_refused(bytes in proptest::collection::vec(1u8..2, 0..300)) {
            prop_assert_eq!(Mad::parse(&bytes).is_ok(), bytes.len() == LENGTH);
        }
    }
}
