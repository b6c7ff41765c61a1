//! Frame format of the TCP fallback. Each frame starts with its length; all numbers are big-endian.
//!
//! | bytes | every frame |
//! |---|---|
//! | 0 to 3 | number of bytes that follow |
//! | 4 | kind |
//!
//! Kinds and their contents:
//!
//! - 1, handshake, the first frame in each direction and only the first: `VrbT`, version (1), slot
//!   of the receiver, slot of the sender, 0; UDP port at which the sender is reached, 2 bytes;
//!   token, 8 bytes; sender's address, receiver's address, 16 bytes each.
//! - 2, packets: UDP ports of sender and receiver, 2 bytes each; traffic class, 1 byte; 0; bytes of
//!   each packet but the last, 2 bytes; packets, from the BTH to the ICRC.
//! - 3, seen: a probe arrived by UDP, intact ([`super::udp_probe`]). Empty.
//! - 4, content: packets of this frame's sender arrive by UDP. Empty.
//! - 5, discontent: they no longer do. Empty.
//!
//! Any other frame closes the connection; there is no recovery from malformed input.

use crate::roce::udp_port::UdpPort;
use std::net::Ipv6Addr;

/// Bytes of a frame's length and kind.
pub const PREFIX: usize = 5;
/// Bytes of the longest frame, from its kind on: the packets of one call and their header.
const LONGEST: usize = 1 + PACKETS_HEADER + 66_000;
const MAGIC: [u8; 4] = *b"VrbT";
const VERSION: u8 = 1;
const PACKETS_HEADER: usize = 8;

/// Token by which the receiver of a UDP probe finds the connection that the probe belongs to.
/// Random, and known only to the two ends.
pub type Token = [u8; 8];

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Identifies an end.
    Handshake(Handshake),
    /// Packets of one call.
    Packets {
        /// Their common header.
        envelope: Envelope,
        /// The packets, concatenated.
        bytes: &'a [u8],
    },
    /// A probe arrived by UDP, intact.
    Seen,
    /// The sender's packets arrive by UDP: it no longer needs the connection.
    Content,
    /// The sender's packets no longer arrive by UDP.
    Discontent,
}

/// Handshake: identifies an end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// Slot wanted on the receiver's host; 0 for any.
    pub wanted: u8,
    /// Slot of the sender.
    pub own: u8,
    /// UDP port at which the sender's queue pairs are reached.
    pub udp_port: UdpPort,
    /// Token of probes to the sender.
    pub token: Token,
    /// Sender's address, as in its packets.
    pub source: Ipv6Addr,
    /// Receiver's address.
    pub destination: Ipv6Addr,
}

/// Fields shared by the packets of one call, as far as the ICRC covers them or a receiver needs
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// UDP source port.
    pub source_port: u16,
    /// UDP destination port.
    pub destination_port: u16,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
    /// Bytes of each packet; the last may be shorter.
    pub segment: u16,
}

/// A malformed frame: the connection cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Input that has not been parsed yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    fn address(&mut self) -> Result<Ipv6Addr, Malformed> {
        self.take::<16>().map(Ipv6Addr::from)
    }

    fn short(&mut self) -> Result<u16, Malformed> {
        self.take().map(u16::from_be_bytes)
    }

    fn zero(&mut self) -> Result<(), Malformed> {
        match self.take()? {
            [0] => Ok(()),
            _ => Err(Malformed),
        }
    }
}

impl<'a> Frame<'a> {
    /// Parses a frame from its kind on.
    fn parse(bytes: &'a [u8]) -> Result<Frame<'a>, Malformed> {
        let mut rest = Rest(bytes);
        let [kind] = rest.take()?;
        let frame = match kind {
            1 => Frame::Handshake(handshake(&mut rest)?),
            2 => {
                let (source_port, destination_port) = (rest.short()?, rest.short()?);
                let [traffic_class] = rest.take()?;
                rest.zero()?;
                let segment = rest.short()?;
                let bytes = std::mem::take(&mut rest.0);
                if bytes.is_empty() || segment == 0 {
                    return Err(Malformed);
                }
                let envelope = Envelope {
                    source_port,
                    destination_port,
                    traffic_class,
                    segment,
                };
                Frame::Packets { envelope, bytes }
            }
            3 => Frame::Seen,
            4 => Frame::Content,
            5 => Frame::Discontent,
            _ => return Err(Malformed),
        };
        match rest.0 {
            [] => Ok(frame),
            _ => Err(Malformed),
        }
    }

    /// Returns the encoded frame; of packets, only the bytes before the packets.
    pub fn head(&self) -> Vec<u8> {
        let mut head = vec![0; PREFIX];
        let mut following = 0;
        match self {
            Frame::Handshake(handshake) => {
                head[4] = 1;
                head.extend(MAGIC);
                head.extend([VERSION, handshake.wanted, handshake.own, 0]);
                head.extend(handshake.udp_port.port().to_be_bytes());
                head.extend(handshake.token);
                head.extend(handshake.source.octets());
                head.extend(handshake.destination.octets());
            }
            Frame::Packets { envelope, bytes } => {
                head[4] = 2;
                head.extend(envelope.source_port.to_be_bytes());
                head.extend(envelope.destination_port.to_be_bytes());
                head.extend([envelope.traffic_class, 0]);
                head.extend(envelope.segment.to_be_bytes());
                following = bytes.len();
            }
            Frame::Seen => head[4] = 3,
            Frame::Content => head[4] = 4,
            Frame::Discontent => head[4] = 5,
        }
        let length = head.len() - 4 + following;
        head[..4].copy_from_slice(&(length as u32).to_be_bytes());
        head
    }
}

fn handshake(rest: &mut Rest<'_>) -> Result<Handshake, Malformed> {
    if rest.take()? != MAGIC || rest.take()? != [VERSION] {
        return Err(Malformed);
    }
    let [wanted, own] = rest.take()?;
    rest.zero()?;
    Ok(Handshake {
        wanted,
        own,
        udp_port: UdpPort::of_port(rest.short()?).ok_or(Malformed)?,
        token: rest.take()?,
        source: rest.address()?,
        destination: rest.address()?,
    })
}

/// Reassembles frames from received bytes.
#[derive(Debug, Default)]
pub struct Assembler {
    bytes: Vec<u8>,
    /// Bytes of them that were returned as frames.
    taken: usize,
}

impl Assembler {
    /// Returns the buffer to which received bytes are appended.
    pub fn room(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        &mut self.bytes
    }

    /// Returns the next complete frame; none if more bytes are needed.
    ///
    /// # Errors
    /// [`Malformed`] for invalid frames and for lengths beyond the limit.
    pub fn take(&mut self) -> Result<Option<Frame<'_>>, Malformed> {
        let rest = &self.bytes[self.taken..];
        let Some((length, rest)) = rest.split_first_chunk() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*length) as usize;
        if length > LONGEST {
            return Err(Malformed);
        }
        let Some(frame) = rest.get(..length) else {
            return Ok(None);
        };
        self.taken += 4 + length;
        Frame::parse(frame).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A frame, with its packets beside it.
    fn frames() -> impl Strategy<Value = (Frame<'static>, Vec<u8>)> {
        let address = any::<u128>().prop_map(Ipv6Addr::from);
        let handshake = (
            any::<(u8, u8, u8, Token)>(),
            address.clone(),
            address.clone(),
        );
        let envelope = (any::<(u16, u16, u8)>(), 1..=u16::MAX);
        let bytes = prop::collection::vec(any::<u8>(), 1..3000);
        prop_oneof![
            handshake.prop_map(|((wanted, own, which, token), source, destination)| {
                let handshake = Handshake {
                    wanted,
                    own,
                    udp_port: UdpPort::all().nth(usize::from(which % 4)).unwrap(),
                    token,
                    source,
                    destination,
                };
                (Frame::Handshake(handshake), Vec::new())
            }),
            (envelope, bytes).prop_map(
                |(((source_port, destination_port, traffic_class), segment), bytes)| {
                    let envelope = Envelope {
                        source_port,
                        destination_port,
                        traffic_class,
                        segment,
                    };
                    let bytes_of_none = &[];
                    (
                        Frame::Packets {
                            envelope,
                            bytes: bytes_of_none,
                        },
                        bytes,
                    )
                }
            ),
            Just((Frame::Seen, Vec::new())),
            Just((Frame::Content, Vec::new())),
            Just((Frame::Discontent, Vec::new())),
        ]
    }

    fn whole<'a>(frame: &Frame<'static>, bytes: &'a [u8]) -> Frame<'a> {
        match *frame {
            Frame::Packets { envelope, .. } => Frame::Packets { envelope, bytes },
            other => other,
        }
    }

    proptest! {
        /// Frames survive encoding and parsing, however the stream is divided.
        #[test]
        fn frames_round_trip_in_any_split(
            sent in prop::collection::vec(frames(), 0..8),
            pieces in prop::collection::vec(1..2000usize, 1..8),
        ) {
            let mut stream = Vec::new();
            for (frame, bytes) in &sent {
                let frame = whole(frame, bytes);
                stream.extend(frame.head());
                stream.extend(bytes);
            }
            let mut assembler = Assembler::default();
            let mut came = sent.iter();
            let mut pieces = pieces.iter().cycle();
            let mut rest = &stream[..];
            while let Some(piece) = pieces.next().filter(|_| !rest.is_empty()) {
                let (now, later) = rest.split_at(*piece.min(&rest.len()));
                rest = later;
                assembler.room().extend(now);
                while let Some(frame) = assembler.take().unwrap() {
                    let (sent, bytes) = came.next().unwrap();
                    prop_assert_eq!(frame, whole(sent, bytes));
                }
            }
            prop_assert!(came.next().is_none());
        }

        /// Arbitrary bytes do not panic.
        #[test]
        fn arbitrary_bytes_do_not_panic_the_assembler(
            bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut assembler = Assembler::default();
            assembler.room().extend(&bytes);
            while let Ok(Some(_)) = assembler.take() {}
        }
    }

    #[test]
    fn invalid_frame_ends_the_connection() {
        let handshake = Frame::Handshake(Handshake {
            wanted: 0,
            own: 1,
            udp_port: UdpPort::PUBLIC,
            token: [7; 8],
            source: Ipv6Addr::LOCALHOST,
            destination: Ipv6Addr::LOCALHOST,
        })
        .head();
        let changed = |at: usize, to: u8| {
            let mut bytes = handshake.clone();
            bytes[at] = to;
            bytes
        };
        for wrong in [
            changed(4, 0),
            changed(4, 9),
            changed(5, b'v'),
            changed(9, 2),
            changed(12, 1),
            changed(13, 1),
            // Too long; longer and shorter than a handshake.
            changed(1, 2),
            [&changed(3, handshake.len() as u8 - 3)[..], &[0]].concat(),
            changed(3, handshake.len() as u8 - 5),
            vec![0, 0, 0, 0],
            // No packets, and packets of length 0.
            vec![0, 0, 0, 9, 2, 1, 1, 2, 2, 0, 0, 0, 64],
            vec![0, 0, 0, 10, 2, 1, 1, 2, 2, 0, 0, 0, 0, 7],
        ] {
            let mut assembler = Assembler::default();
            assembler.room().extend(&wrong);
            assert_eq!(assembler.take(), Err(Malformed), "{wrong:?}");
        }
    }
}
