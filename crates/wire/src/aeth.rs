//! ACK extended transport header (specification 9.3.5, 9.7.5.2): syndrome 8 bits, message sequence
//! number 24.
//!
//! ```text
//! 000ccccc ACK, c the credits     001ttttt RNR NAK, t the timer     011nnnnn NAK, n the error
//! ```

use core::fmt;

use crate::cursor::{Reader, Writer};
use crate::error::Error;
use crate::opcode::Header;
use crate::timer::RnrTimer;

/// Length of an AETH in bytes.
pub const LENGTH: usize = Header::Aeth.length();

/// End-to-end credits, five bits: the number of receives that the responder has ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Credits(u8);

impl Credits {
    /// No flow control, as sent by every adapter and rxe.
    pub const UNLIMITED: Self = Self(0x1f);

    /// Returns the credits with this code, 0 to 31.
    pub const fn from_code(code: u8) -> Option<Self> {
        if code < 32 { Some(Self(code)) } else { None }
    }

    /// Returns the code.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Returns the number of ready receives; `None` without flow control. From the table
    /// "End-to-End Flow Control Credit Encoding": 0 to 4, then 3 x 2^n and 2^(n+2) alternating, up
    /// to 32,768.
    pub const fn receives(self) -> Option<u32> {
        match self.0 {
            code @ 0..=3 => Some(code as u32),
            0x1f => None,
            code if code % 2 == 0 => Some(1 << (code / 2)),
            code => Some(3 << (code / 2 - 1)),
        }
    }
}

/// Why a request was refused or must be retransmitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NakCode {
    /// A packet is missing: retransmit from the PSN of this NAK.
    PsnSequenceError = 0,
    /// The request is invalid.
    InvalidRequest = 1,
    /// The remote key does not permit the access.
    RemoteAccessError = 2,
    /// The responder failed by no fault of the requester.
    RemoteOperationalError = 3,
    /// Reliable datagrams only.
    InvalidRdRequest = 4,
}

/// A responder's answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// The request and all before it are done.
    Ack(Credits),
    /// The receiver was not ready: retransmit after this time. All earlier requests are done.
    RnrNak(RnrTimer),
    /// The request is refused. All earlier requests are done.
    Nak(NakCode),
}

impl Syndrome {
    /// Returns the syndrome with these bits; `None` for reserved ones.
    pub const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0x00..=0x1f => Self::Ack(Credits(bits)),
            0x20..=0x3f => Self::RnrNak(RnrTimer::from_low_bits(bits)),
            0x60 => Self::Nak(NakCode::PsnSequenceError),
            0x61 => Self::Nak(NakCode::InvalidRequest),
            0x62 => Self::Nak(NakCode::RemoteAccessError),
            0x63 => Self::Nak(NakCode::RemoteOperationalError),
            0x64 => Self::Nak(NakCode::InvalidRdRequest),
            _ => return None,
        })
    }

    /// Returns the bits.
    pub const fn bits(self) -> u8 {
        match self {
            Self::Ack(credits) => credits.0,
            Self::RnrNak(timer) => 0x20 | timer.code(),
            Self::Nak(code) => 0x60 | code as u8,
        }
    }
}

impl fmt::Display for Syndrome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ack(_) => f.write_str("ACK"),
            Self::RnrNak(timer) => write!(f, "RNR NAK, {} us", timer.nanoseconds() / 1_000),
            Self::Nak(NakCode::PsnSequenceError) => f.write_str("NAK, PSN sequence error"),
            Self::Nak(NakCode::InvalidRequest) => f.write_str("NAK, invalid request"),
            Self::Nak(NakCode::RemoteAccessError) => f.write_str("NAK, remote access error"),
            Self::Nak(NakCode::RemoteOperationalError) => {
                f.write_str("NAK, remote operational error")
            }
            Self::Nak(NakCode::InvalidRdRequest) => f.write_str("NAK, invalid RD request"),
        }
    }
}

/// An ACK extended transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Aeth {
    /// The answer.
    pub syndrome: Syndrome,
    /// Messages that the responder has completed, counted from 0 in 24 bits.
    pub msn: u32,
}

impl Aeth {
    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, Error> {
        let at = reader.at();
        let word = reader.u32("AETH")?;
        let bits = (word >> 24) as u8;
        let syndrome = Syndrome::from_bits(bits).ok_or(Error::Value {
            field: "AETH syndrome",
            at,
            found: bits.into(),
            expected: "an ACK, an RNR NAK or a NAK of code 0 to 4",
        })?;
        Ok(Self {
            syndrome,
            msn: word & 0x00ff_ffff,
        })
    }

    pub(crate) fn emit(&self, writer: &mut Writer<'_>) {
        writer.u32(u32::from(self.syndrome.bits()) << 24 | self.msn & 0x00ff_ffff);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_syndrome_round_trips() {
        let mut known = 0;
        for bits in 0..=u8::MAX {
            if let Some(syndrome) = Syndrome::from_bits(bits) {
                assert_eq!(syndrome.bits(), bits);
                known += 1;
            }
        }
        assert_eq!(known, 32 + 32 + 5);
        for reserved in [0x40, 0x5f, 0x65, 0x7f, 0x80, 0xff] {
            assert_eq!(Syndrome::from_bits(reserved), None);
        }
    }

    #[test]
    fn credits_follow_the_table() {
        let table = [
            0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024,
            1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
        ];
        for (code, receives) in (0..).zip(table) {
            assert_eq!(
                Credits::from_code(code).unwrap().receives(),
                Some(receives),
                "{code}"
            );
        }
        assert_eq!(Credits::UNLIMITED.receives(), None);
    }

    #[test]
    fn a_reserved_syndrome_is_refused() {
        let error = Aeth::parse(&mut Reader::new(&[0x65, 0, 0, 1])).unwrap_err();
        assert!(matches!(
            error,
            Error::Value {
                field: "AETH syndrome",
                at: 0,
                found: 0x65,
                ..
            }
        ));
    }
}
