//! A packet from its BTH to its last pad byte: headers by opcode, then payload. The ICRC is not
//! included, because it also covers the IP and UDP headers.

use crate::aeth::Aeth;
use crate::atomic::{AtomicAckEth, AtomicEth};
use crate::bth::{self, Bth, PadCount};
use crate::cursor::{Reader, Writer};
use crate::deth::Deth;
use crate::emit_error::EmitError;
use crate::error::Error;
use crate::feth::Feth;
use crate::immediate::{Ieth, Immediate};
use crate::opcode::{Header, Payload};
use crate::reth::Reth;
use crate::xrceth::Xrceth;

/// Maximum length of headers in bytes: BTH, XRCETH and AtomicETH.
pub const MOST_HEADERS: usize = bth::LENGTH + 4 + 28;

/// Extension headers of a packet. The opcode determines the required ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[allow(missing_docs)] // The names are the specification's.
pub struct Extensions {
    pub xrceth: Option<Xrceth>,
    pub deth: Option<Deth>,
    pub feth: Option<Feth>,
    pub reth: Option<Reth>,
    pub atomic_eth: Option<AtomicEth>,
    pub aeth: Option<Aeth>,
    pub atomic_ack_eth: Option<AtomicAckEth>,
    pub immediate: Option<Immediate>,
    pub ieth: Option<Ieth>,
}

impl Extensions {
    /// No extension header.
    pub const NONE: Self = Self {
        xrceth: None,
        deth: None,
        feth: None,
        reth: None,
        atomic_eth: None,
        aeth: None,
        atomic_ack_eth: None,
        immediate: None,
        ieth: None,
    };

    /// Iterates over the present headers, in wire order.
    fn present(&self) -> impl Iterator<Item = Header> + use<> {
        [
            self.xrceth.map(|_| Header::Xrceth),
            self.deth.map(|_| Header::Deth),
            self.feth.map(|_| Header::Feth),
            self.reth.map(|_| Header::Reth),
            self.atomic_eth.map(|_| Header::AtomicEth),
            self.aeth.map(|_| Header::Aeth),
            self.atomic_ack_eth.map(|_| Header::AtomicAckEth),
            self.immediate.map(|_| Header::Immediate),
            self.ieth.map(|_| Header::Ieth),
        ]
        .into_iter()
        .flatten()
    }

    fn parse(&mut self, header: Header, reader: &mut Reader<'_>) -> Result<(), Error> {
        match header {
            Header::Xrceth => self.xrceth = Some(Xrceth::parse(reader)?),
            Header::Deth => self.deth = Some(Deth::parse(reader)?),
            Header::Feth => self.feth = Some(Feth::parse(reader)?),
            Header::Reth => self.reth = Some(Reth::parse(reader)?),
            Header::AtomicEth => self.atomic_eth = Some(AtomicEth::parse(reader)?),
            Header::Aeth => self.aeth = Some(Aeth::parse(reader)?),
            Header::AtomicAckEth => self.atomic_ack_eth = Some(AtomicAckEth::parse(reader)?),
            Header::Immediate => self.immediate = Some(Immediate::parse(reader)?),
            Header::Ieth => self.ieth = Some(Ieth::parse(reader)?),
        }
        Ok(())
    }

    fn emit(&self, writer: &mut Writer<'_>) {
        // Wire order is the same for all opcodes; `check` has verified that these are the opcode's
        // headers.
        if let Some(header) = &self.xrceth {
            header.emit(writer);
        }
        if let Some(header) = &self.deth {
            header.emit(writer);
        }
        if let Some(header) = &self.feth {
            header.emit(writer);
        }
        if let Some(header) = &self.reth {
            header.emit(writer);
        }
        if let Some(header) = &self.atomic_eth {
            header.emit(writer);
        }
        if let Some(header) = &self.aeth {
            header.emit(writer);
        }
        if let Some(header) = &self.atomic_ack_eth {
            header.emit(writer);
        }
        if let Some(header) = &self.immediate {
            header.emit(writer);
        }
        if let Some(header) = &self.ieth {
            header.emit(writer);
        }
    }
}

/// BTH and extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Headers {
    /// The base transport header.
    pub bth: Bth,
    /// The headers after it.
    pub extensions: Extensions,
}

impl Headers {
    /// Returns the length of all headers in bytes.
    pub fn length(&self) -> usize {
        bth::LENGTH + self.bth.opcode.headers().map(Header::length).sum::<usize>()
    }

    /// Returns the length of a packet with these headers and `payload` bytes of payload, including
    /// padding.
    pub fn packet_length(&self, payload: usize) -> usize {
        self.length() + payload + PadCount::of(payload).bytes()
    }

    /// Writes headers and pad bytes around a payload of `payload` bytes, and returns the slice for
    /// the payload. The caller copies data directly from memory into the packet.
    ///
    /// # Errors
    ///
    /// The buffer is too short, or headers or payload do not fit the opcode. Nothing was written.
    pub fn emit_around<'a>(
        &self,
        payload: usize,
        buffer: &'a mut [u8],
    ) -> Result<&'a mut [u8], EmitError> {
        self.check(payload)?;
        let pad = PadCount::of(payload);
        let mut writer = Writer::with_room(buffer, self.packet_length(payload))?;
        self.bth.emit(pad, &mut writer);
        self.extensions.emit(&mut writer);
        let start = writer.written();
        let end = start + payload;
        buffer[end..end + pad.bytes()].fill(0);
        Ok(&mut buffer[start..end])
    }

    fn check(&self, payload: usize) -> Result<(), EmitError> {
        let opcode = self.bth.opcode;
        let mut present = self.extensions.present();
        for header in opcode.headers() {
            match present.next() {
                Some(found) if found == header => {}
                // The present header belongs to a later position or does not belong to the opcode:
                // one is missing or one is extra.
                Some(found) if !opcode.headers().any(|of_opcode| of_opcode == found) => {
                    return Err(EmitError::Extra {
                        opcode,
                        header: found,
                    });
                }
                _ => return Err(EmitError::Missing { opcode, header }),
            }
        }
        if let Some(header) = present.next() {
            return Err(EmitError::Extra { opcode, header });
        }
        let expected = match opcode.operation().payload() {
            Payload::Nothing if payload != 0 => "no payload",
            Payload::Exactly(length) if payload != length => "a payload of fixed length",
            _ => return Ok(()),
        };
        Err(EmitError::Payload {
            opcode,
            expected,
            found: payload,
        })
    }
}

/// A packet over borrowed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Packet<'a> {
    /// All headers.
    pub headers: Headers,
    /// The payload without pad bytes.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a packet from its BTH to its last pad byte.
    ///
    /// Checks lengths as far as a single packet allows. The responder checks that FIRST and MIDDLE
    /// fill the MTU, because it must answer a violation with a NAK rather than silently drop the
    /// packet.
    ///
    /// # Errors
    ///
    /// The bytes are not a valid packet; the caller drops them silently.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes);
        let (bth, pad) = Bth::parse(&mut reader)?;
        let mut extensions = Extensions::NONE;
        for header in bth.opcode.headers() {
            extensions.parse(header, &mut reader)?;
        }
        let at = reader.at();
        let rest = reader.rest();
        let Some(length) = rest.len().checked_sub(pad.bytes()) else {
            return Err(Error::Truncated {
                what: "pad",
                at,
                needed: pad.bytes(),
                found: rest.len(),
            });
        };
        if pad != PadCount::of(length) {
            return Err(Error::Value {
                field: "BTH pad count",
                at: 1,
                found: pad.bytes() as u64,
                expected: "the padding of the payload to a multiple of 4 bytes",
            });
        }
        match bth.opcode.operation().payload() {
            Payload::Nothing if length != 0 => Err(Error::Trailing {
                what: "packet without payload",
                at,
                extra: rest.len(),
            }),
            Payload::Exactly(exactly) if length < exactly => Err(Error::Truncated {
                what: "payload",
                at,
                needed: exactly,
                found: length,
            }),
            Payload::Exactly(exactly) if length > exactly => Err(Error::Trailing {
                what: "payload of fixed length",
                at: at + exactly,
                extra: length - exactly,
            }),
            _ => Ok(Self {
                headers: Headers { bth, extensions },
                payload: &rest[..length],
            }),
        }
    }

    /// Returns the length in bytes, including padding.
    pub fn length(&self) -> usize {
        self.headers.packet_length(self.payload.len())
    }

    /// Writes the packet to the front of `buffer` and returns its length.
    ///
    /// # Errors
    ///
    /// As for [`Headers::emit_around`].
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        self.headers
            .emit_around(self.payload.len(), buffer)?
            .copy_from_slice(self.payload);
        Ok(self.length())
    }
}

#[cfg(test)]
mod tests;
