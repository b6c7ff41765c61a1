//! Records of a shared-memory channel: requests and answers as types, and their encoding in
//! headers.
//!
//! They carry the same information as the packets of a message (architecture specification, chapter
//! 9), in one record instead of many packets.

use crate::qp::flush::Flush;
use verbena_hca_shm::lane::{self, Echo};
use verbena_hca_shm::ring::{Header, SHORT};
use verbena_transport::fault::Fault;
use verbena_wire::aeth::NakCode;
use verbena_wire::opcode::Place;

/// A queue pair in one of its incarnations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// Queue pair number.
    pub number: u32,
    /// Changes with each reset.
    pub incarnation: u32,
}

/// Source, destination and sequence number: the counterpart of the base transport header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The responder's queue pair.
    pub destination: Endpoint,
    /// The requester's queue pair.
    pub source: Endpoint,
    /// Packet sequence number of the message's first packet.
    pub psn: u32,
}

/// Location of the bytes of a message for a receive queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// In the payload.
    Here,
    /// In the requester's buffers, which the payload lists ([`Source`]).
    AtRequester,
    /// In place already: an RDMA write stored them.
    InPlace,
}

/// Additional data of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Nothing.
    None,
    /// Immediate data in network order.
    Immediate(u32),
    /// A key to invalidate.
    Invalidate(u32),
}

/// The XRC shared receive queue that a message is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedQueue {
    /// SRQ number.
    pub number: u32,
    /// Identity of the XRC domain that the queue must belong to.
    pub domain: u64,
    /// The timer code of RNR NAKs of the queue pair that the message is sent to, which may belong
    /// to another process.
    pub rnr_timer: u8,
}

/// A message that consumes a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Position of the record in the message.
    pub place: Place,
    /// Bytes of the whole message.
    pub total: u32,
    /// Location of the bytes.
    pub body: Body,
    /// Immediate data or key.
    pub extra: Extra,
    /// Whether the receiver's event is solicited.
    pub solicited: bool,
    /// The shared receive queue, if the message is not for the queue pair's own receive queue.
    pub shared: Option<SharedQueue>,
}

/// A plain message: whole, in the payload, for the queue pair's own receive queue, without
/// immediate data or key. The fast path sends it as a short record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain {
    /// Bytes of the message.
    pub total: u32,
    /// Whether the receiver's event is solicited.
    pub solicited: bool,
}

/// Memory of the responder: the RDMA extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// First address.
    pub address: u64,
    /// Key.
    pub key: u32,
    /// Bytes; for a write, of the whole message.
    pub length: u32,
    /// Number of the XRC shared receive queue that the request names, whose protection domain the
    /// memory must belong to. XRC writes carry no immediate data, because the receive may belong to
    /// a third process.
    pub shared: Option<u32>,
}

/// Part of an RDMA write, with its bytes in the payload; `remote.address` is the target of this
/// part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Position of the record in the message.
    pub place: Place,
    /// Target memory.
    pub remote: Remote,
    /// Immediate data; the last part then consumes a receive.
    pub immediate: Option<u32>,
    /// Whether the receiver's event is solicited.
    pub solicited: bool,
}

/// A datagram. The payload is the global route header, if present, followed by the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Queue key.
    pub qkey: u32,
    /// Immediate data.
    pub immediate: Option<u32>,
    /// Whether the receiver's event is solicited.
    pub solicited: bool,
    /// Whether the payload begins with a global route header.
    pub has_route: bool,
    /// Whether the destination in the route header is a multicast group.
    pub is_multicast: bool,
    /// Local identifier of the sender's port.
    pub lid: u16,
    /// Service level.
    pub service_level: u8,
    /// Interface that it would arrive through, by the kernel's index: only queue pairs of its port
    /// accept it. 0 for none.
    pub interface: u32,
}

/// A request in which the responder is to find a fault, by a rule of the requester
/// (`crate::causes`). It is sent in place of the request. It is no [`Request`], as these are for
/// the fast paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faulty {
    /// The fault, one of [`Faulty::FAULTS`].
    pub fault: Fault,
    /// Whether the request has taken a receive before.
    pub takes_receive: bool,
}

/// The notice that the queue pair on its route sends short messages by a lane of the channel from
/// now on. It has no acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneNotice {
    /// The lane's number.
    pub number: u32,
    /// Its generation from now on.
    pub generation: u16,
}

/// A short message in a lane: a plain message, perhaps with immediate data, which precedes the
/// payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneMessage {
    /// Bytes of the message, without the immediate data.
    pub length: u32,
    /// Immediate data in network order. Of a decoded message: 0 if there are any.
    pub immediate: Option<u32>,
    /// Whether the receiver's event is solicited.
    pub solicited: bool,
    /// Packet sequence number.
    pub psn: u32,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A send, or the notification of a write with immediate data.
    Message(Message),
    /// An RDMA write.
    Write(Write),
    /// An RDMA read.
    Read(Remote),
    /// An atomic; the payload is an [`crate::qp::atomic::Atomic`].
    Atomic(Remote),
    /// A flush: answered when everything before it is in place.
    Flush(Remote, Flush),
    /// A datagram.
    Datagram(Datagram),
}

/// An answer, apart from acknowledgements, which the position in the ring conveys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The request was not executed.
    Nak(Nak),
    /// Bytes of a read, from this offset on.
    ReadData(u64),
    /// Original value of an atomic; also acknowledges a flush, without a meaningful value.
    Atomic(u64),
}

/// Reason for not executing a request (architecture specification, 9.7.5.2.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nak {
    /// No receive was posted; carries the RNR timer code.
    ReceiverNotReady(u8),
    /// The queue pair does not answer, as if the packet had been lost.
    NoAnswer,
    /// The responder refuses it for good. Channels lose nothing, so no request is out of sequence.
    Refused(NakCode),
    /// The requester's own buffers could not be read.
    SourceProtection,
}

/// A buffer of the requester, in the payload of a [`Body::AtRequester`] message: address, length,
/// key, 16 bytes in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Address within the key's range.
    pub address: u64,
    /// Bytes.
    pub length: u32,
    /// The requester's local key.
    pub key: u32,
}

impl Source {
    /// Bytes of one buffer in a payload.
    pub const LENGTH: usize = 16;

    /// Encodes the buffer.
    pub fn emit(&self) -> [u8; Source::LENGTH] {
        let mut bytes = [0; Source::LENGTH];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.length.to_le_bytes());
        bytes[12..].copy_from_slice(&self.key.to_le_bytes());
        bytes
    }

    /// Decodes a buffer.
    pub fn parse(bytes: &[u8; Source::LENGTH]) -> Source {
        let word = u128::from_le_bytes(*bytes);
        Source {
            address: word as u64,
            length: (word >> 64) as u32,
            key: (word >> 96) as u32,
        }
    }
}

mod kind {
    pub const SEND: u8 = 1;
    pub const SEND_AT_REQUESTER: u8 = 2;
    pub const SEND_IN_PLACE: u8 = 3;
    pub const WRITE: u8 = 4;
    pub const READ: u8 = 5;
    pub const ATOMIC: u8 = 6;
    pub const FLUSH: u8 = 7;
    pub const DATAGRAM: u8 = 8;
    pub const FAULTY: u8 = 9;
    pub const LANE: u8 = 10;
    /// A plain message: its length is that of the payload.
    pub const PLAIN: u8 = super::SHORT | SEND;

    pub const NAK: u8 = 32;
    pub const READ_DATA: u8 = 33;
    pub const ATOMIC_RESULT: u8 = 34;
}

mod flag {
    pub const FIRST: u8 = 1;
    pub const LAST: u8 = 2;
    pub const IMMEDIATE: u8 = 4;
    pub const INVALIDATE: u8 = 8;
    pub const SOLICITED: u8 = 16;
    pub const ROUTE: u8 = 32;
    pub const MULTICAST: u8 = 64;
    pub const SHARED: u8 = 128;

    // Only for messages in a lane.
    pub const ECHO: u8 = 1;

    // Only for flushes, which have no position in a message.
    pub const VISIBLE: u8 = 1;
    pub const PERSISTENT: u8 = 2;
    pub const REGION: u8 = 4;

    #[inline]
    pub fn when(condition: bool, flag: u8) -> u8 {
        if condition { flag } else { 0 }
    }
}

impl Route {
    /// Returns the route in a header.
    #[inline]
    pub fn of(header: &Header) -> Route {
        Route {
            destination: Endpoint {
                number: header.destination,
                incarnation: header.destination_incarnation,
            },
            source: Endpoint {
                number: header.source,
                incarnation: header.source_incarnation,
            },
            psn: header.psn,
        }
    }

    /// Returns the route of the answer to a request.
    #[inline]
    pub fn back(&self) -> Route {
        Route {
            destination: self.source,
            source: self.destination,
            psn: self.psn,
        }
    }

    #[inline]
    fn header(&self) -> Header {
        Header {
            destination: self.destination.number,
            destination_incarnation: self.destination.incarnation,
            source: self.source.number,
            source_incarnation: self.source.incarnation,
            psn: self.psn,
            ..Header::default()
        }
    }
}

#[inline]
fn flags_of(place: Place) -> u8 {
    flag::when(place.begins(), flag::FIRST) | flag::when(place.ends(), flag::LAST)
}

#[inline]
fn place_of(flags: u8) -> Place {
    Place::new(flags & flag::FIRST != 0, flags & flag::LAST != 0)
}

impl Request {
    /// Encodes the request.
    #[inline]
    pub fn emit(&self, route: &Route) -> Header {
        let header = route.header();
        match *self {
            Request::Message(message) => message.emit(header),
            Request::Write(write) => Header {
                kind: kind::WRITE,
                flags: flags_of(write.place)
                    | flag::when(write.immediate.is_some(), flag::IMMEDIATE)
                    | flag::when(write.remote.shared.is_some(), flag::SHARED)
                    | flag::when(write.solicited, flag::SOLICITED),
                immediate: write.immediate.or(write.remote.shared).unwrap_or(0),
                ..write.remote.emit(header)
            },
            Request::Read(remote) => Header {
                kind: kind::READ,
                ..remote.emit(header)
            },
            Request::Atomic(remote) => Header {
                kind: kind::ATOMIC,
                ..remote.emit(header)
            },
            Request::Flush(remote, flush) => {
                let header = remote.emit(header);
                Header {
                    kind: kind::FLUSH,
                    flags: header.flags
                        | flag::when(flush.visible, flag::VISIBLE)
                        | flag::when(flush.persistent, flag::PERSISTENT)
                        | flag::when(flush.region, flag::REGION),
                    ..header
                }
            }
            Request::Datagram(datagram) => datagram.emit(header),
        }
    }

    /// Decodes a request; None for unknown kinds.
    #[inline]
    pub fn parse(header: &Header) -> Option<Request> {
        Some(match header.kind {
            kind::SEND | kind::SEND_AT_REQUESTER | kind::SEND_IN_PLACE => {
                Request::Message(Message::parse(header))
            }
            kind::PLAIN => Request::Message(Plain::parse(header)?.message()),
            kind::WRITE => Request::Write(Write {
                place: place_of(header.flags),
                remote: Remote::parse(header),
                immediate: (header.flags & flag::IMMEDIATE != 0).then_some(header.immediate),
                solicited: header.flags & flag::SOLICITED != 0,
            }),
            kind::READ => Request::Read(Remote::parse(header)),
            kind::ATOMIC => Request::Atomic(Remote::parse(header)),
            kind::FLUSH => Request::Flush(
                Remote::parse(header),
                Flush {
                    visible: header.flags & flag::VISIBLE != 0,
                    persistent: header.flags & flag::PERSISTENT != 0,
                    region: header.flags & flag::REGION != 0,
                },
            ),
            kind::DATAGRAM => Request::Datagram(Datagram::parse(header)),
            _ => return None,
        })
    }
}

impl Plain {
    const FLAGS: u8 = flag::FIRST | flag::LAST;

    /// Encodes the message.
    #[inline]
    pub fn emit(&self, route: &Route) -> Header {
        Header {
            kind: kind::PLAIN,
            flags: Plain::FLAGS | flag::when(self.solicited, flag::SOLICITED),
            ..route.header()
        }
    }

    /// Decodes a plain message, in a short record or as a [`Message`]; None for others.
    #[inline]
    pub fn parse(header: &Header) -> Option<Plain> {
        let is_whole = header.kind == kind::PLAIN
            || header.kind == kind::SEND && header.word == u64::from(header.length);
        let is_plain = is_whole && header.flags & !flag::SOLICITED == Plain::FLAGS;
        is_plain.then_some(Plain {
            total: header.length.into(),
            solicited: header.flags & flag::SOLICITED != 0,
        })
    }

    /// Returns the message as one for the general path.
    fn message(self) -> Message {
        Message {
            place: Place::Only,
            total: self.total,
            body: Body::Here,
            extra: Extra::None,
            solicited: self.solicited,
            shared: None,
        }
    }
}

impl Message {
    #[inline]
    fn emit(&self, header: Header) -> Header {
        let (carries, immediate) = match self.extra {
            Extra::None => (0, 0),
            Extra::Immediate(data) => (flag::IMMEDIATE, data),
            Extra::Invalidate(key) => (flag::INVALIDATE, key),
        };
        let shared = self.shared.unwrap_or_default();
        Header {
            kind: match self.body {
                Body::Here => kind::SEND,
                Body::AtRequester => kind::SEND_AT_REQUESTER,
                Body::InPlace => kind::SEND_IN_PLACE,
            },
            flags: flags_of(self.place)
                | carries
                | flag::when(self.solicited, flag::SOLICITED)
                | flag::when(self.shared.is_some(), flag::SHARED),
            immediate,
            address: shared.domain,
            word: u64::from(self.total)
                | u64::from(shared.number & 0xff_ffff) << 32
                | u64::from(shared.rnr_timer) << 56,
            ..header
        }
    }

    #[inline]
    fn parse(header: &Header) -> Message {
        Message {
            place: place_of(header.flags),
            total: header.word as u32,
            body: match header.kind {
                kind::SEND_AT_REQUESTER => Body::AtRequester,
                kind::SEND_IN_PLACE => Body::InPlace,
                _ => Body::Here,
            },
            extra: if header.flags & flag::IMMEDIATE != 0 {
                Extra::Immediate(header.immediate)
            } else if header.flags & flag::INVALIDATE != 0 {
                Extra::Invalidate(header.immediate)
            } else {
                Extra::None
            },
            solicited: header.flags & flag::SOLICITED != 0,
            shared: (header.flags & flag::SHARED != 0).then_some(SharedQueue {
                number: (header.word >> 32) as u32 & 0xff_ffff,
                domain: header.address,
                rnr_timer: (header.word >> 56) as u8,
            }),
        }
    }
}

impl Remote {
    #[inline]
    fn emit(&self, header: Header) -> Header {
        Header {
            flags: flag::when(self.shared.is_some(), flag::SHARED),
            immediate: self.shared.unwrap_or(0),
            address: self.address,
            word: u64::from(self.key) | u64::from(self.length) << 32,
            ..header
        }
    }

    #[inline]
    fn parse(header: &Header) -> Remote {
        Remote {
            address: header.address,
            key: header.word as u32,
            length: (header.word >> 32) as u32,
            shared: (header.flags & flag::SHARED != 0).then_some(header.immediate),
        }
    }
}

impl Datagram {
    fn emit(&self, header: Header) -> Header {
        Header {
            kind: kind::DATAGRAM,
            flags: flag::when(self.immediate.is_some(), flag::IMMEDIATE)
                | flag::when(self.solicited, flag::SOLICITED)
                | flag::when(self.has_route, flag::ROUTE)
                | flag::when(self.is_multicast, flag::MULTICAST),
            immediate: self.immediate.unwrap_or(0),
            address: self.qkey.into(),
            word: u64::from(self.lid)
                | u64::from(self.service_level) << 16
                | u64::from(self.interface) << 32,
            ..header
        }
    }

    fn parse(header: &Header) -> Datagram {
        Datagram {
            qkey: header.address as u32,
            immediate: (header.flags & flag::IMMEDIATE != 0).then_some(header.immediate),
            solicited: header.flags & flag::SOLICITED != 0,
            has_route: header.flags & flag::ROUTE != 0,
            is_multicast: header.flags & flag::MULTICAST != 0,
            lid: header.word as u16,
            service_level: (header.word >> 16) as u8 & 15,
            interface: (header.word >> 32) as u32,
        }
    }
}

impl Faulty {
    /// The faults that a record can name, by their codes from 0.
    pub const FAULTS: [Fault; 6] = [
        Fault::ReceiverNotReady,
        Fault::UnsupportedOpcode,
        Fault::MisalignedAtomic,
        Fault::Operation,
        Fault::ReceiveTooSmall,
        Fault::ReceiveProtection,
    ];

    /// Encodes the request.
    pub fn emit(&self, route: &Route) -> Header {
        let code = Faulty::FAULTS.iter().position(|one| *one == self.fault);
        Header {
            kind: kind::FAULTY,
            flags: flag::when(self.takes_receive, flag::SHARED),
            immediate: code.unwrap_or_default() as u32,
            ..route.header()
        }
    }

    /// Decodes the request; None for other kinds.
    pub fn parse(header: &Header) -> Option<Faulty> {
        if header.kind != kind::FAULTY {
            return None;
        }
        Some(Faulty {
            fault: *Faulty::FAULTS.get(header.immediate as usize)?,
            takes_receive: header.flags & flag::SHARED != 0,
        })
    }
}

impl LaneNotice {
    /// Encodes the notice.
    pub fn emit(&self, route: &Route) -> Header {
        Header {
            kind: kind::LANE,
            immediate: self.number,
            word: self.generation.into(),
            ..route.header()
        }
    }

    /// Decodes the notice; None for other kinds.
    pub fn parse(header: &Header) -> Option<LaneNotice> {
        (header.kind == kind::LANE).then_some(LaneNotice {
            number: header.immediate,
            generation: header.word as u16,
        })
    }
}

impl LaneMessage {
    const KNOWN: u8 = flag::SOLICITED | flag::IMMEDIATE | flag::ECHO;

    /// Returns the number of bytes before the payload.
    #[inline]
    pub fn prefix(has_immediate: bool) -> usize {
        if has_immediate { size_of::<u32>() } else { 0 }
    }

    /// Encodes the message, with the position in the lane of the other direction, if there is one.
    #[inline]
    pub fn emit(&self, generation: u16, echo: Option<Echo>) -> lane::Header {
        let prefix = LaneMessage::prefix(self.immediate.is_some());
        let Echo { lane, position } = echo.unwrap_or(Echo {
            lane: 0,
            position: 0,
        });
        lane::Header {
            length: self.length as u8 + prefix as u8,
            generation,
            flags: flag::when(self.solicited, flag::SOLICITED)
                | flag::when(self.immediate.is_some(), flag::IMMEDIATE)
                | flag::when(echo.is_some(), flag::ECHO),
            psn_and_lane: self.psn & 0xff_ffff | u32::from(lane) << 24,
            acknowledged: position,
        }
    }

    /// Returns the acknowledgement that a message carries, if any.
    #[inline]
    pub fn echo(header: &lane::Header) -> Option<Echo> {
        (header.flags & flag::ECHO != 0).then_some(Echo {
            lane: (header.psn_and_lane >> 24) as u8,
            position: header.acknowledged,
        })
    }

    /// Stores the immediate data, if any. Returns the address of the bytes.
    ///
    /// # Safety
    /// There is space for it.
    #[inline]
    pub unsafe fn emit_immediate(&self, target: *mut u8) -> *mut u8 {
        let Some(immediate) = self.immediate else {
            return target;
        };
        // SAFETY: the caller's promise.
        unsafe {
            target.cast::<u32>().write_unaligned(immediate);
            target.add(size_of::<u32>())
        }
    }

    /// Decodes the message, without the immediate data; None for others.
    #[inline]
    pub fn parse(header: &lane::Header) -> Option<LaneMessage> {
        let has_immediate = header.flags & flag::IMMEDIATE != 0;
        let prefix = LaneMessage::prefix(has_immediate);
        let length = usize::from(header.length);
        let is_known =
            header.flags & !LaneMessage::KNOWN == 0 && length <= lane::PAYLOAD && length >= prefix;
        is_known.then(|| LaneMessage {
            length: (length - prefix) as u32,
            immediate: has_immediate.then_some(0),
            solicited: header.flags & flag::SOLICITED != 0,
            psn: header.psn_and_lane & 0xff_ffff,
        })
    }

    /// Returns the immediate data and the address of the bytes.
    ///
    /// # Safety
    /// `payload` is that of a slot whose header was decoded to this message.
    #[inline]
    pub unsafe fn parse_immediate(&self, payload: *const u8) -> (Option<u32>, *const u8) {
        match self.immediate {
            None => (None, payload),
            // SAFETY: `parse` has checked the length.
            Some(_) => unsafe {
                let immediate = payload.cast::<u32>().read_unaligned();
                (Some(immediate), payload.add(size_of::<u32>()))
            },
        }
    }

    /// Returns the header of the record that the message stands for.
    pub fn record(&self, route: &Route, immediate: Option<u32>) -> Header {
        let message = Message {
            place: Place::Only,
            total: self.length,
            body: Body::Here,
            extra: immediate.map_or(Extra::None, Extra::Immediate),
            solicited: self.solicited,
            shared: None,
        };
        Header {
            length: self.length as u16,
            ..Request::Message(message).emit(route)
        }
    }
}

impl Answer {
    /// Encodes the answer.
    #[inline]
    pub fn emit(&self, route: &Route) -> Header {
        let header = route.header();
        match *self {
            Answer::Nak(nak) => Header {
                kind: kind::NAK,
                immediate: nak.code(),
                ..header
            },
            Answer::ReadData(offset) => Header {
                kind: kind::READ_DATA,
                word: offset,
                ..header
            },
            Answer::Atomic(found) => Header {
                kind: kind::ATOMIC_RESULT,
                word: found,
                ..header
            },
        }
    }

    /// Decodes an answer; None for unknown kinds.
    #[inline]
    pub fn parse(header: &Header) -> Option<Answer> {
        Some(match header.kind {
            kind::NAK => Answer::Nak(Nak::of_code(header.immediate)?),
            kind::READ_DATA => Answer::ReadData(header.word),
            kind::ATOMIC_RESULT => Answer::Atomic(header.word),
            _ => return None,
        })
    }
}

impl Nak {
    fn code(self) -> u32 {
        match self {
            Nak::ReceiverNotReady(timer) => 1 | u32::from(timer) << 8,
            Nak::NoAnswer => 2,
            Nak::Refused(NakCode::RemoteAccessError) => 4,
            Nak::Refused(NakCode::RemoteOperationalError) => 5,
            Nak::Refused(_) => 3,
            Nak::SourceProtection => 6,
        }
    }

    fn of_code(code: u32) -> Option<Nak> {
        Some(match code & 0xff {
            1 => Nak::ReceiverNotReady((code >> 8) as u8),
            2 => Nak::NoAnswer,
            3 => Nak::Refused(NakCode::InvalidRequest),
            4 => Nak::Refused(NakCode::RemoteAccessError),
            5 => Nak::Refused(NakCode::RemoteOperationalError),
            6 => Nak::SourceProtection,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests;
