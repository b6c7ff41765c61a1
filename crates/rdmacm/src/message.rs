//! Messages between two processes of a host: those of InfiniBand communication management (volume
//! 1, chapter 12), as frames of one size on a local stream socket.
//!
//! A peer's frame is not trusted: its kind is checked, and the length of its private data is that
//! of the kind.

use crate::abi::{ConnectionParameters, MAX_PRIVATE_DATA, SocketAddress};
use verbena_wire::mad::cm::Transport;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const MAGIC: u32 = 0x6d63_6276;

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MessageKind {
    /// Request for a connection.
    Req = 1,
    /// Reply: accepted.
    Rep,
    /// Ready to use.
    Rtu,
    /// Rejected.
    Rej,
    /// Disconnect request.
    Dreq,
    /// Disconnect reply.
    Drep,
    /// Service ID resolution request, for a datagram service.
    SidrReq,
    /// Service ID resolution response.
    SidrRep,
}

/// Bytes in front of a request's private data (annex A11): the IP addresses.
const IP_HEADER: usize = 36;

impl MessageKind {
    const ALL: [MessageKind; 8] = [
        MessageKind::Req,
        MessageKind::Rep,
        MessageKind::Rtu,
        MessageKind::Rej,
        MessageKind::Dreq,
        MessageKind::Drep,
        MessageKind::SidrReq,
        MessageKind::SidrRep,
    ];

    /// Returns the bytes of private data that a program can send, and always receives, as messages
    /// do not carry a length.
    pub fn private_data(self) -> usize {
        match self {
            MessageKind::Req => 92 - IP_HEADER,
            MessageKind::Rep => 196,
            MessageKind::Rej => 148,
            MessageKind::SidrReq => 216 - IP_HEADER,
            MessageKind::SidrRep => 136,
            MessageKind::Rtu | MessageKind::Dreq | MessageKind::Drep => 0,
        }
    }
}

/// REJ reason: invalid service ID (table 112 of the specification).
pub const INVALID_SERVICE: u32 = 8;
/// REJ reason: invalid communication ID.
pub const INVALID_NUMBER: u32 = 6;
/// REJ reason: another transport service than the listener's.
pub const INVALID_TRANSPORT: u32 = 9;
/// REJ reason: rejected by the program.
pub const CONSUMER_DEFINED: u32 = 28;
/// SIDR_REP status: no such service.
pub const SIDR_UNSUPPORTED: u32 = 1;
/// SIDR_REP status: rejected by the program.
pub const SIDR_REJECTED: u32 = 2;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message {
    /// Its kind.
    pub kind: MessageKind,
    /// Address of the active side (requests).
    pub source: SocketAddress,
    /// Address of the passive side (requests).
    pub destination: SocketAddress,
    /// The sender's queue pair.
    pub queue_pair: u32,
    /// First sequence number that the sender expects, with which the receiver starts sending
    /// (12.7.31).
    pub psn: u32,
    /// The sender's queue key (datagrams).
    pub queue_key: u32,
    /// Reason or status (REJ, SIDR_REP).
    pub status: u32,
    /// Maximum of reads and atomics to the sender in progress.
    pub responder_resources: u8,
    /// Maximum of reads and atomics from the sender in progress.
    pub initiator_depth: u8,
    /// End-to-end flow control.
    pub flow_control: u8,
    /// Retries after a timeout, 0 to 7.
    pub retry_count: u8,
    /// Retries after "receiver not ready", 0 to 7.
    pub rnr_retry_count: u8,
    /// Whether the sender's queue pair has a shared receive queue.
    pub srq: bool,
    /// The transport service of the connection (REQ).
    pub transport: Transport,
    /// The program's private data.
    pub private_data: [u8; MAX_PRIVATE_DATA],
}

/// Transport services in a frame, with their numbers in a REQ.
const RC: u8 = 0;
const UC: u8 = 1;
const XRC: u8 = 3;

/// Layout of a frame.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Frame {
    magic: u32,
    kind: u32,
    source: SocketAddress,
    destination: SocketAddress,
    queue_pair: u32,
    psn: u32,
    queue_key: u32,
    status: u32,
    responder_resources: u8,
    initiator_depth: u8,
    flow_control: u8,
    retry_count: u8,
    rnr_retry_count: u8,
    srq: u8,
    transport: u8,
    reserved: u8,
    private_data: [u8; MAX_PRIVATE_DATA],
}

/// Bytes of a frame.
pub const FRAME: usize = size_of::<Frame>();

impl Message {
    /// Returns a message with default values.
    pub fn bare(kind: MessageKind) -> Message {
        Message {
            kind,
            source: SocketAddress::default(),
            destination: SocketAddress::default(),
            queue_pair: 0,
            psn: 0,
            queue_key: 0,
            status: 0,
            responder_resources: 0,
            initiator_depth: 0,
            flow_control: 0,
            retry_count: 0,
            rnr_retry_count: 0,
            srq: false,
            transport: Transport::Rc,
            private_data: [0; MAX_PRIVATE_DATA],
        }
    }

    /// Returns a message with a program's parameters, or `None` if its private data is too long for
    /// the kind.
    pub fn proposing(kind: MessageKind, parameters: &ConnectionParameters) -> Option<Message> {
        let length = usize::from(parameters.private_data_len);
        if length > kind.private_data() {
            return None;
        }
        let mut private_data = [0; MAX_PRIVATE_DATA];
        private_data[..length].copy_from_slice(&parameters.private_data[..length]);
        Some(Message {
            queue_pair: parameters.qp_num,
            queue_key: parameters.qkey,
            responder_resources: parameters.responder_resources,
            initiator_depth: parameters.initiator_depth,
            flow_control: parameters.flow_control & 1,
            retry_count: parameters.retry_count.min(7),
            rnr_retry_count: parameters.rnr_retry_count.min(7),
            srq: parameters.srq != 0,
            private_data,
            ..Message::bare(kind)
        })
    }

    /// Returns the parameters as the peer's program sees them, with responder and initiator
    /// swapped.
    pub fn parameters(&self) -> ConnectionParameters {
        ConnectionParameters {
            qp_num: self.queue_pair,
            qkey: self.queue_key,
            private_data: self.private_data,
            private_data_len: self.kind.private_data() as u8,
            srq: self.srq.into(),
            responder_resources: self.initiator_depth,
            initiator_depth: self.responder_resources,
            flow_control: self.flow_control,
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            valid: 1,
        }
    }

    /// Encodes the message as a frame.
    pub fn encode(&self) -> [u8; FRAME] {
        let frame = Frame {
            magic: MAGIC,
            kind: self.kind as u32,
            source: self.source,
            destination: self.destination,
            queue_pair: self.queue_pair,
            psn: self.psn,
            queue_key: self.queue_key,
            status: self.status,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            flow_control: self.flow_control,
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            srq: self.srq.into(),
            transport: match self.transport {
                Transport::Rc => RC,
                Transport::Uc => UC,
                Transport::Xrc => XRC,
            },
            reserved: 0,
            private_data: self.private_data,
        };
        zerocopy::transmute!(frame)
    }

    /// Decodes a frame; returns `None` if it is invalid.
    pub fn decode(bytes: &[u8; FRAME]) -> Option<Message> {
        let frame: Frame = zerocopy::transmute!(*bytes);
        let kind = *MessageKind::ALL
            .iter()
            .find(|kind| **kind as u32 == frame.kind)?;
        if frame.magic != MAGIC {
            return None;
        }
        let mut private_data = frame.private_data;
        private_data[kind.private_data()..].fill(0);
        Some(Message {
            kind,
            source: frame.source,
            destination: frame.destination,
            queue_pair: frame.queue_pair & 0xff_ffff,
            psn: frame.psn & 0xff_ffff,
            queue_key: frame.queue_key,
            status: frame.status,
            responder_resources: frame.responder_resources,
            initiator_depth: frame.initiator_depth,
            flow_control: frame.flow_control & 1,
            retry_count: frame.retry_count.min(7),
            rnr_retry_count: frame.rnr_retry_count.min(7),
            srq: frame.srq != 0,
            transport: match frame.transport {
                RC => Transport::Rc,
                UC => Transport::Uc,
                XRC => Transport::Xrc,
                _ => return None,
            },
            private_data,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn connection_parameters_round_trip(
            kind in proptest::sample::select(&MessageKind::ALL[..]),
            data in proptest::collection::vec(any::<u8>(), 0..=255),
            queue_pair in 0..1_u32 << 24,
            depths: (u8, u8),
            retries in (0..8_u8, 0..8_u8),
            srq: bool,
            transport in proptest::sample::select(&[Transport::Rc, Transport::Uc,
                Transport::Xrc][..]),
        ) {
            let mut parameters = ConnectionParameters {
                qp_num: queue_pair,
                private_data_len: data.len() as u8,
                responder_resources: depths.0,
                initiator_depth: depths.1,
                retry_count: retries.0,
                rnr_retry_count: retries.1,
                srq: srq.into(),
                ..Default::default()
            };
            parameters.private_data[..data.len()].copy_from_slice(&data);
            let Some(mut message) = Message::proposing(kind, &parameters) else {
                prop_assert!(data.len() > kind.private_data());
                return Ok(());
            };
            message.transport = transport;
            let arrived = Message::decode(&message.encode()).unwrap();
            prop_assert_eq!(arrived, message);
            let seen = arrived.parameters();
            prop_assert_eq!((seen.initiator_depth, seen.responder_resources), depths);
            prop_assert_eq!(seen.qp_num, queue_pair);
            prop_assert_eq!(&seen.private_data[..data.len()], &data[..]);
        }

        #[test]
        fn arbitrary_frames_decode_or_are_refused(
            bytes in proptest::collection::vec(any::<u8>(), FRAME), kind in 0..12_u32) {
            let mut frame: [u8; FRAME] = bytes.try_into().unwrap();
            prop_assert_eq!(Message::decode(&frame), None);
            frame[..4].copy_from_slice(&MAGIC.to_ne_bytes());
            frame[4..8].copy_from_slice(&kind.to_ne_bytes());
            let message = Message::decode(&frame);
            let transport = frame[std::mem::offset_of!(Frame, transport)];
            let makes_sense = (1..=8).contains(&kind) && matches!(transport, RC | UC | XRC);
            prop_assert_eq!(message.is_some(), makes_sense);
            if let Some(message) = message {
                prop_assert!(message.retry_count <= 7 && message.psn < 1 << 24);
            }
        }
    }
}
