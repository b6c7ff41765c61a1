//! What goes through a tunnel: frames, each with its length before it. All numbers are big-endian.
//!
//! | bytes | every frame |
//! |---|---|
//! | 0 to 3 | bytes that follow these |
//! | 4 | kind |
//!
//! | kind | follows |
//! |---|---|
//! | 1, greeting: the first of each end, and no other | `VrbT`, version (1), slot that it is for, slot of its sender, 0; UDP port at which the sender is reached, 2 bytes; token, 8 bytes; address of its sender, address that it is for, 16 bytes each |
//! | 2, packets | UDP ports of sender and receiver, traffic class, 0, bytes of each packet but the last, 2 bytes each; packets, from the BTH to the ICRC |
//! | 3, seen: a question came by UDP, whole ([`super::trial`]) | nothing |
//! | 4, content: what the sender of this sends arrives by UDP | nothing |
//! | 5, discontent: it does not any more | nothing |
//!
//! A frame that is none of these ends the tunnel: who speaks another language is not guessed at.

use crate::roce::residence::Residence;
use std::net::Ipv6Addr;

/// Bytes of a frame's beginning: its length and its kind.
pub const PREFIX: usize = 5;
/// Bytes of the longest frame, from its kind on: packets that leave in one call, and what is said of them.
const LONGEST: usize = 1 + PACKETS_HEADER + 66_000;
const MAGIC: [u8; 4] = *b"VrbT";
const VERSION: u8 = 1;
const PACKETS_HEADER: usize = 8;

/// By which who is asked by UDP finds the tunnel that the question belongs to. Random, and known to the tunnel's ends.
pub type Token = [u8; 8];

/// A frame as it comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// Who is here.
    Greeting(Greeting),
    /// Packets of one call.
    Packets {
        /// What they are in.
        envelope: Envelope,
        /// One behind another.
        bytes: &'a [u8],
    },
    /// A question has come by UDP, whole.
    Seen,
    /// What the sender sends arrives by UDP: it needs the tunnel no more.
    Content,
    /// What the sender sends does not arrive by UDP any more.
    Discontent,
}

/// Who is at an end of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The slot of the receiver's host that is sought; 0 for anybody.
    pub wanted: u8,
    /// The slot of the sender.
    pub own: u8,
    /// Where the sender's queue pairs are reached by UDP.
    pub residence: Residence,
    /// What questions to the sender begin with.
    pub token: Token,
    /// The sender's address, as its packets have it.
    pub source: Ipv6Addr,
    /// The receiver's.
    pub destination: Ipv6Addr,
}

/// What is the same of packets that leave in one call, as far as the ICRC covers it or a receiver is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// UDP port that they would have come from.
    pub source_port: u16,
    /// UDP port that they would have gone to.
    pub destination_port: u16,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
    /// Bytes of each; the last may be shorter.
    pub segment: u16,
}

/// Why a tunnel cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Takes bytes from the front of what is left.
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
    /// Of bytes that begin with the kind.
    fn parse(bytes: &'a [u8]) -> Result<Frame<'a>, Malformed> {
        let mut rest = Rest(bytes);
        let [kind] = rest.take()?;
        let frame = match kind {
            1 => Frame::Greeting(greeting(&mut rest)?),
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

    /// The bytes that stand before the packets of it, or all of it where there are none.
    pub fn head(&self) -> Vec<u8> {
        let mut head = vec![0; PREFIX];
        let mut following = 0;
        match self {
            Frame::Greeting(greeting) => {
                head[4] = 1;
                head.extend(MAGIC);
                head.extend([VERSION, greeting.wanted, greeting.own, 0]);
                head.extend(greeting.residence.port().to_be_bytes());
                head.extend(greeting.token);
                head.extend(greeting.source.octets());
                head.extend(greeting.destination.octets());
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

fn greeting(rest: &mut Rest<'_>) -> Result<Greeting, Malformed> {
    if rest.take()? != MAGIC || rest.take()? != [VERSION] {
        return Err(Malformed);
    }
    let [wanted, own] = rest.take()?;
    rest.zero()?;
    Ok(Greeting {
        wanted,
        own,
        residence: Residence::of_port(rest.short()?).ok_or(Malformed)?,
        token: rest.take()?,
        source: rest.address()?,
        destination: rest.address()?,
    })
}

/// What has come of a tunnel and is not yet a whole frame.
#[derive(Debug, Default)]
pub struct Assembler {
    bytes: Vec<u8>,
    /// Of which so many were taken.
    taken: usize,
}

impl Assembler {
    /// Room for more bytes; [`Assembler::came`] says how many were put there.
    pub fn room(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        &mut self.bytes
    }

    /// The next whole frame; none when more of it has to come.
    ///
    /// # Errors
    /// For what is no frame, and for one that is longer than any.
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

    /// A frame that owns its packets.
    fn frames() -> impl Strategy<Value = (Frame<'static>, Vec<u8>)> {
        let address = any::<u128>().prop_map(Ipv6Addr::from);
        let greeting = (
            any::<(u8, u8, u8, Token)>(),
            address.clone(),
            address.clone(),
        );
        let envelope = (any::<(u16, u16, u8)>(), 1..=u16::MAX);
        let bytes = prop::collection::vec(any::<u8>(), 1..3000);
        prop_oneof![
            greeting.prop_map(|((wanted, own, which, token), source, destination)| {
                let greeting = Greeting {
                    wanted,
                    own,
                    residence: Residence::all().nth(usize::from(which % 4)).unwrap(),
                    token,
                    source,
                    destination,
                };
                (Frame::Greeting(greeting), Vec::new())
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
        /// Whatever is written is read again, in whichever pieces it comes.
        #[test]
        fn frames_come_as_they_went(
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

        /// Bytes of any kind neither panic nor keep more than a frame.
        #[test]
        fn whatever_comes_is_a_frame_or_the_end(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut assembler = Assembler::default();
            assembler.room().extend(&bytes);
            while let Ok(Some(_)) = assembler.take() {}
        }
    }

    #[test]
    fn what_is_no_frame_ends_the_tunnel() {
        let greeting = Frame::Greeting(Greeting {
            wanted: 0,
            own: 1,
            residence: Residence::PUBLIC,
            token: [7; 8],
            source: Ipv6Addr::LOCALHOST,
            destination: Ipv6Addr::LOCALHOST,
        })
        .head();
        let changed = |at: usize, to: u8| {
            let mut bytes = greeting.clone();
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
            // Longer than any; longer and shorter than a greeting.
            changed(1, 2),
            [&changed(3, greeting.len() as u8 - 3)[..], &[0]].concat(),
            changed(3, greeting.len() as u8 - 5),
            vec![0, 0, 0, 0],
            // No packets, and packets of no length.
            vec![0, 0, 0, 9, 2, 1, 1, 2, 2, 0, 0, 0, 64],
            vec![0, 0, 0, 10, 2, 1, 1, 2, 2, 0, 0, 0, 0, 7],
        ] {
            let mut assembler = Assembler::default();
            assembler.room().extend(&wrong);
            assert_eq!(assembler.take(), Err(Malformed), "{wrong:?}");
        }
    }
}
