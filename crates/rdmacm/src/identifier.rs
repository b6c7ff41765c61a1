//! An identifier (`struct rdma_cm_id`): one end of a connection, one listener, or one datagram service.

use crate::address;
use crate::channel::ChannelId;
use crate::line::Line;
use crate::message::Message;
use crate::port::Port;
use crate::stage::Stage;
use crate::way::Way;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use verbena_abi::{IBV_QPT_UC, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND};
use verbena_hca::errno::{Errno, Result};
use verbena_hca::link;
use verbena_wire::mad::cm::Transport;

/// `enum rdma_port_space`, as far as IP addresses go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// RDMA_PS_TCP: reliable connections.
    Tcp,
    /// RDMA_PS_UDP: datagrams.
    Udp,
    /// RDMA_PS_IPOIB: datagrams, and IP over InfiniBand's groups.
    Ipoib,
    /// RDMA_PS_IB: of AF_IB addresses, which no identifier here can have.
    Ib,
}

impl Space {
    /// The space of a number.
    ///
    /// # Errors
    /// EINVAL.
    pub fn of(number: u16) -> Result<Space> {
        match number {
            0x0106 => Ok(Space::Tcp),
            0x0111 => Ok(Space::Udp),
            0x0002 => Ok(Space::Ipoib),
            0x013f => Ok(Space::Ib),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Its number.
    pub fn number(self) -> u16 {
        match self {
            Space::Tcp => 0x0106,
            Space::Udp => 0x0111,
            Space::Ipoib => 0x0002,
            Space::Ib => 0x013f,
        }
    }

    /// Whether its queue pairs are datagram queue pairs.
    pub fn is_datagram(self) -> bool {
        matches!(self, Space::Udp | Space::Ipoib)
    }
}

/// What a queue pair of a connection is, and so what of the connection it has to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePairKind {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// The end of an extended reliable connection that sends.
    XrcSend,
    /// The end that receives.
    XrcReceive,
}

impl QueuePairKind {
    /// Of an identifier that a program makes with an `enum ibv_qp_type`. A datagram service has none of these, and does not
    /// look at it.
    pub fn of(kind: u32) -> QueuePairKind {
        match kind {
            IBV_QPT_UC => QueuePairKind::Uc,
            IBV_QPT_XRC_SEND => QueuePairKind::XrcSend,
            IBV_QPT_XRC_RECV => QueuePairKind::XrcReceive,
            _ => QueuePairKind::Rc,
        }
    }

    /// Of the end that a request comes to.
    pub fn asked_by(transport: Transport) -> QueuePairKind {
        match transport {
            Transport::Rc => QueuePairKind::Rc,
            Transport::Uc => QueuePairKind::Uc,
            Transport::Xrc => QueuePairKind::XrcReceive,
        }
    }

    /// The service of its connections.
    pub fn transport(self) -> Transport {
        match self {
            QueuePairKind::Rc => Transport::Rc,
            QueuePairKind::Uc => Transport::Uc,
            QueuePairKind::XrcSend | QueuePairKind::XrcReceive => Transport::Xrc,
        }
    }

    /// Whether it answers reliable requests.
    pub fn responds(self) -> bool {
        matches!(self, QueuePairKind::Rc | QueuePairKind::XrcReceive)
    }

    /// Whether it makes reliable requests.
    pub fn requests(self) -> bool {
        matches!(self, QueuePairKind::Rc | QueuePairKind::XrcSend)
    }
}

/// What rdma_set_option(3) has set.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// A port may be shared until somebody listens.
    pub reuse_address: bool,
    /// Whether the port is left to the other address family.
    pub family_only: Option<bool>,
    /// A queue pair's timeout.
    pub ack_timeout: Option<u8>,
}

/// What both sides of a connection have agreed on, from the view of one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreement {
    /// The peer's queue pair.
    pub remote_queue_pair: u32,
    /// The sequence number that it expects first: of our first packet.
    pub remote_psn: u32,
    /// Reads and atomics that we answer at a time.
    pub responder_resources: u8,
    /// And ask for.
    pub initiator_depth: u8,
    /// Retries after a timeout.
    pub retry_count: u8,
    /// Retries after "receiver not ready".
    pub rnr_retry_count: u8,
}

/// A listener's socket, and how many more requests may wait.
pub struct Listening {
    /// Where requests arrive.
    pub socket: UnixListener,
    /// Requests that the program may still leave unanswered.
    pub backlog: u32,
}

/// An identifier.
pub struct Identifier {
    /// The library's name for it; 0 until it has one.
    pub uid: u64,
    /// Its channel.
    pub channel: ChannelId,
    /// Its port space.
    pub space: Space,
    /// What its queue pair is, if it is for connections.
    pub queue_pair_kind: QueuePairKind,
    /// How far it is.
    pub stage: Stage,
    /// Local address.
    pub source: Option<SocketAddr>,
    /// The peer's.
    pub destination: Option<SocketAddr>,
    /// The port held, if it is.
    pub port: Option<Port>,
    /// While it listens.
    pub listening: Option<Listening>,
    /// While it talks.
    pub line: Option<Line>,
    /// Between its two ends.
    pub way: Way,
    /// What was agreed on.
    pub agreement: Agreement,
    /// The listener that an unanswered request counts for.
    pub requested_from: Option<u32>,
    /// The sequence number that we expect first: of the peer's first packet.
    pub psn: u32,
    /// Options.
    pub options: Options,
    /// Events that the program took.
    pub events_reported: u32,
    /// Tells it from a later one under the same number.
    pub generation: u32,
}

impl Identifier {
    /// A new one, of `channel`.
    pub fn new(
        channel: ChannelId,
        space: Space,
        queue_pair_kind: QueuePairKind,
        uid: u64,
        generation: u32,
    ) -> Identifier {
        Identifier {
            uid,
            channel,
            space,
            queue_pair_kind,
            stage: Stage::Idle,
            source: None,
            destination: None,
            port: None,
            listening: None,
            line: None,
            way: Way::home(),
            agreement: Agreement::default(),
            requested_from: None,
            psn: crate::port::random_word() & 0xff_ffff,
            options: Options::default(),
            events_reported: 0,
            generation,
        }
    }

    /// Whether it is bound to the device: it is as soon as its own address is one. Over RoCE the loopback's is no port's and so,
    /// as on Linux, stands for all until there is a peer.
    pub fn has_device(&self) -> bool {
        let waits = matches!(self.stage, Stage::Bound | Stage::Listening);
        self.source.is_some_and(|source| {
            let is_nobodys = waits && link::is_ethernet() && source.ip().is_loopback();
            !source.ip().is_unspecified() && !is_nobodys
        })
    }

    /// Whether its path is known.
    pub fn has_route(&self) -> bool {
        !matches!(
            self.stage,
            Stage::Idle | Stage::Bound | Stage::AddressResolved | Stage::Listening
        )
    }

    /// Learns what the peer proposes or answers: what it asks for, we answer.
    pub fn learn(&mut self, message: &Message) {
        self.agreement.remote_queue_pair = message.queue_pair;
        self.agreement.remote_psn = message.psn;
        self.agreement.responder_resources = message.initiator_depth;
        self.agreement.initiator_depth = message.responder_resources;
    }

    /// Whether it talks to another host.
    pub fn is_distant(&self) -> bool {
        matches!(self.line, Some(Line::Distant(_)))
    }

    /// The source address with the wildcard for none.
    pub fn source_or_any(&self) -> SocketAddr {
        self.source.unwrap_or(address::ANY)
    }
}
