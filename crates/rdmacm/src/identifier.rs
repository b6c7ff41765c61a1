//! An identifier (`struct rdma_cm_id`): one side of a connection, a listener, or a datagram
//! service.

use crate::address;
use crate::channel::ChannelId;
use crate::connection_state::ConnectionState;
use crate::message::Message;
use crate::path::Path;
use crate::peer_transport::PeerTransport;
use crate::port::Port;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use verbena_abi::{IBV_QPT_UC, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND};
use verbena_hca_net::link;
use verbena_hca_os::errno::{Errno, Result};
use verbena_wire::mad::cm::Transport;

/// `enum rdma_port_space`, for IP addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// RDMA_PS_TCP: reliable connections.
    Tcp,
    /// RDMA_PS_UDP: datagrams.
    Udp,
    /// RDMA_PS_IPOIB: datagrams, and the groups of IP over InfiniBand.
    Ipoib,
    /// RDMA_PS_IB: for AF_IB addresses, which are not supported.
    Ib,
}

impl Space {
    /// Returns the port space with a number.
    ///
    /// # Errors
    /// EINVAL for an unknown number.
    pub fn of(number: u16) -> Result<Space> {
        match number {
            0x0106 => Ok(Space::Tcp),
            0x0111 => Ok(Space::Udp),
            0x0002 => Ok(Space::Ipoib),
            0x013f => Ok(Space::Ib),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Returns its number.
    pub fn number(self) -> u16 {
        match self {
            Space::Tcp => 0x0106,
            Space::Udp => 0x0111,
            Space::Ipoib => 0x0002,
            Space::Ib => 0x013f,
        }
    }

    /// Returns whether its queue pairs are datagram queue pairs.
    pub fn is_datagram(self) -> bool {
        matches!(self, Space::Udp | Space::Ipoib)
    }
}

/// The type of a connection's queue pair, which decides the attributes it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePairKind {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// The sending side of an extended reliable connection.
    XrcSend,
    /// The receiving side.
    XrcReceive,
}

impl QueuePairKind {
    /// Returns the kind for an `enum ibv_qp_type`. A datagram service has none, and ignores it.
    pub fn of(kind: u32) -> QueuePairKind {
        match kind {
            IBV_QPT_UC => QueuePairKind::Uc,
            IBV_QPT_XRC_SEND => QueuePairKind::XrcSend,
            IBV_QPT_XRC_RECV => QueuePairKind::XrcReceive,
            _ => QueuePairKind::Rc,
        }
    }

    /// Returns the kind at the passive side of a request.
    pub fn asked_by(transport: Transport) -> QueuePairKind {
        match transport {
            Transport::Rc => QueuePairKind::Rc,
            Transport::Uc => QueuePairKind::Uc,
            Transport::Xrc => QueuePairKind::XrcReceive,
        }
    }

    /// Returns the transport service of its connections.
    pub fn transport(self) -> Transport {
        match self {
            QueuePairKind::Rc => Transport::Rc,
            QueuePairKind::Uc => Transport::Uc,
            QueuePairKind::XrcSend | QueuePairKind::XrcReceive => Transport::Xrc,
        }
    }

    /// Returns whether it answers reliable requests.
    pub fn responds(self) -> bool {
        matches!(self, QueuePairKind::Rc | QueuePairKind::XrcReceive)
    }

    /// Returns whether it sends reliable requests.
    pub fn requests(self) -> bool {
        matches!(self, QueuePairKind::Rc | QueuePairKind::XrcSend)
    }
}

/// Options set by rdma_set_option(3).
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// The port may be shared until an identifier listens on it.
    pub reuse_address: bool,
    /// Whether the other address family may use the port.
    pub family_only: Option<bool>,
    /// The queue pair's timeout.
    pub ack_timeout: Option<u8>,
}

/// The parameters that both sides have agreed on, as seen by one side.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreement {
    /// This side's queue pair.
    pub queue_pair: u32,
    /// The peer's queue pair.
    pub remote_queue_pair: u32,
    /// The first sequence number that the peer expects, that is of the first packet sent.
    pub remote_psn: u32,
    /// Maximum of reads and atomics from the peer in progress.
    pub responder_resources: u8,
    /// Maximum of reads and atomics to the peer in progress.
    pub initiator_depth: u8,
    /// Retries after a timeout.
    pub retry_count: u8,
    /// Retries after "receiver not ready".
    pub rnr_retry_count: u8,
}

/// A listener's socket and backlog.
pub struct Listening {
    /// Socket that requests arrive at.
    pub socket: UnixListener,
    /// Number of requests that the program may still leave unanswered.
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
    /// The type of its queue pair, if it is for connections.
    pub queue_pair_kind: QueuePairKind,
    /// Its state.
    pub state: ConnectionState,
    /// Local address.
    pub source: Option<SocketAddr>,
    /// The peer's address.
    pub destination: Option<SocketAddr>,
    /// The port it holds.
    pub port: Option<Port>,
    /// The socket, while it listens.
    pub listening: Option<Listening>,
    /// The transport to its peer, while it has one.
    pub peer_transport: Option<PeerTransport>,
    /// The path to its peer.
    pub path: Path,
    /// The agreed parameters.
    pub agreement: Agreement,
    /// The listener in whose backlog it counts, while its request is unanswered.
    pub requested_from: Option<u32>,
    /// The first sequence number that this side expects, that is of the peer's first packet.
    pub psn: u32,
    /// Options.
    pub options: Options,
    /// Number of events that the program took.
    pub events_reported: u32,
    /// Distinguishes it from a later one with the same number.
    pub generation: u32,
}

impl Identifier {
    /// Returns a new identifier of `channel`.
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
            state: ConnectionState::Idle,
            source: None,
            destination: None,
            port: None,
            listening: None,
            peer_transport: None,
            path: Path::loopback(),
            agreement: Agreement::default(),
            requested_from: None,
            psn: crate::port::random_word() & 0xff_ffff,
            options: Options::default(),
            events_reported: 0,
            generation,
        }
    }

    /// Returns whether it is bound to the device, as it is once its local address is one of the
    /// device. Over RoCE the loopback address belongs to no port and so, as on Linux, stands for
    /// all ports until there is a peer.
    pub fn has_device(&self) -> bool {
        let waits = matches!(
            self.state,
            ConnectionState::Bound | ConnectionState::Resolving | ConnectionState::Listening
        );
        self.source.is_some_and(|source| {
            let is_for_all_ports = waits && link::is_ethernet() && source.ip().is_loopback();
            !source.ip().is_unspecified() && !is_for_all_ports
        })
    }

    /// Returns whether its path is known.
    pub fn has_route(&self) -> bool {
        !matches!(
            self.state,
            ConnectionState::Idle
                | ConnectionState::Bound
                | ConnectionState::Resolving
                | ConnectionState::AddressResolved
                | ConnectionState::Listening
        )
    }

    /// Stores the peer's proposal or answer, with responder and initiator swapped.
    pub fn learn(&mut self, message: &Message) {
        self.agreement.remote_queue_pair = message.queue_pair;
        self.agreement.remote_psn = message.psn;
        self.agreement.responder_resources = message.initiator_depth;
        self.agreement.initiator_depth = message.responder_resources;
    }

    /// Returns whether its peer is on another host.
    pub fn is_remote(&self) -> bool {
        matches!(self.peer_transport, Some(PeerTransport::Remote(_)))
    }

    /// Returns the source address, or the wildcard if there is none.
    pub fn source_or_any(&self) -> SocketAddr {
        self.source.unwrap_or(address::ANY)
    }
}
