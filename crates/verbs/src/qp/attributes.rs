//! Queue pair attributes: the transitions to INIT, RTR and RTS with the attributes of each
//! transport, as in `ibv_modify_qp(3)`.

use crate::object::gid::Gid;
use crate::object::region::AccessFlags;
use crate::qp::{PairState, PairType};
use verbena_abi as abi;

/// The path to a peer's port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Destination LID; 0 on Ethernet.
    pub lid: u16,
    /// Destination GID, if the packet needs a global route (always on Ethernet).
    pub gid: Option<Gid>,
    /// Index of the source GID in the local port's table.
    pub source_gid: u8,
    /// Traffic class in the global route.
    pub traffic_class: u8,
    /// Service level.
    pub service_level: u8,
    /// The local port.
    pub port: u8,
}

impl Path {
    pub(crate) fn to_raw(self) -> abi::ibv_ah_attr {
        let mut raw = abi::ibv_ah_attr {
            dlid: self.lid,
            sl: self.service_level,
            port_num: self.port,
            ..abi::ibv_ah_attr::default()
        };
        if let Some(gid) = self.gid {
            raw.is_global = 1;
            raw.grh = abi::ibv_global_route {
                dgid: abi::ibv_gid { raw: gid.0 },
                sgid_index: self.source_gid,
                hop_limit: 64,
                traffic_class: self.traffic_class,
                ..abi::ibv_global_route::default()
            };
        }
        raw
    }
}

/// Parameters that the peers of a connection agree on, and retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// The path to the peer.
    pub path: Path,
    /// The peer's queue pair.
    pub peer: u32,
    /// The peer's initial packet sequence number.
    pub peer_psn: u32,
    /// The local initial packet sequence number.
    pub psn: u32,
    /// `enum ibv_mtu`.
    pub mtu_code: u32,
    /// Maximum number of the peer's reads and atomics in flight to this queue pair.
    pub reads_served: u8,
    /// Maximum number of local reads and atomics in flight.
    pub reads_initiated: u8,
    /// Acknowledgement timeout, 4.096 us x 2^value.
    pub timeout: u8,
    /// Retries after a timeout.
    pub retries: u8,
    /// Retries when the receiver is not ready; 7 is unlimited.
    pub rnr_retries: u8,
}

/// A change for `ibv_modify_qp(3)`.
#[derive(Clone, Copy)]
pub struct Change {
    /// The target state.
    pub to: PairState,
    /// Whether it starts in SQD.
    pub(crate) is_from_drained: bool,
    pub(crate) attributes: abi::ibv_qp_attr,
    pub(crate) mask: i32,
}

impl Change {
    fn new(to: PairState) -> Self {
        let attributes = abi::ibv_qp_attr {
            qp_state: to.0,
            ..abi::ibv_qp_attr::default()
        };
        Change {
            to,
            is_from_drained: false,
            attributes,
            mask: abi::IBV_QP_STATE,
        }
    }

    /// Returns the change to INIT. `queue_key` is for datagrams, `access` for other types.
    pub fn to_init(pair: PairType, port: u8, access: AccessFlags, queue_key: u32) -> Self {
        let mut change = Change::new(PairState::INIT);
        change.mask |= abi::IBV_QP_PKEY_INDEX | abi::IBV_QP_PORT;
        change.attributes.port_num = port;
        if pair == PairType::Ud {
            change.attributes.qkey = queue_key;
            change.mask |= abi::IBV_QP_QKEY;
        } else {
            change.attributes.qp_access_flags = access.0;
            change.mask |= abi::IBV_QP_ACCESS_FLAGS;
        }
        change
    }

    /// Sets a partition other than the first of the port's table.
    pub fn in_partition(mut self, index: u16) -> Self {
        self.attributes.pkey_index = index;
        self
    }

    /// Returns the change to RTR; datagram pairs ignore `connection`.
    pub fn to_rtr(pair: PairType, connection: &Connection) -> Self {
        let mut change = Change::new(PairState::RTR);
        if pair == PairType::Ud {
            return change;
        }
        let attributes = &mut change.attributes;
        attributes.ah_attr = connection.path.to_raw();
        attributes.path_mtu = connection.mtu_code;
        attributes.dest_qp_num = connection.peer;
        attributes.rq_psn = connection.peer_psn;
        change.mask |=
            abi::IBV_QP_AV | abi::IBV_QP_PATH_MTU | abi::IBV_QP_DEST_QPN | abi::IBV_QP_RQ_PSN;
        if matches!(pair, PairType::Rc | PairType::XrcReceive) {
            change.attributes.max_dest_rd_atomic = connection.reads_served;
            // Code 12: 0.64 ms until the next try.
            change.attributes.min_rnr_timer = 12;
            change.mask |= abi::IBV_QP_MAX_DEST_RD_ATOMIC | abi::IBV_QP_MIN_RNR_TIMER;
        }
        change
    }

    /// Returns the change to RTS.
    pub fn to_rts(pair: PairType, connection: &Connection) -> Self {
        let mut change = Change::new(PairState::RTS);
        change.attributes.sq_psn = connection.psn;
        change.mask |= abi::IBV_QP_SQ_PSN;
        if matches!(pair, PairType::Rc | PairType::XrcSend) {
            change.attributes.retry_cnt = connection.retries;
            change.attributes.rnr_retry = connection.rnr_retries;
            change.attributes.max_rd_atomic = connection.reads_initiated;
            change.mask |=
                abi::IBV_QP_RETRY_CNT | abi::IBV_QP_RNR_RETRY | abi::IBV_QP_MAX_QP_RD_ATOMIC;
        }
        if matches!(
            pair,
            PairType::Rc | PairType::XrcSend | PairType::XrcReceive
        ) {
            change.attributes.timeout = connection.timeout;
            change.mask |= abi::IBV_QP_TIMEOUT;
        }
        change
    }

    /// Returns the change from RTS to SQD, in which no further request is started.
    pub fn to_drained() -> Self {
        Change::new(PairState::SQD)
    }

    /// Returns the change of a datagram pair in SQD to another partition and queue key.
    pub fn while_drained(partition: u16, queue_key: u32) -> Self {
        let mut change = Change::new(PairState::SQD).in_partition(partition);
        change.attributes.qkey = queue_key;
        change.mask |= abi::IBV_QP_PKEY_INDEX | abi::IBV_QP_QKEY;
        change
    }

    /// Returns the change from SQD back to RTS.
    pub fn from_drained() -> Self {
        Change {
            is_from_drained: true,
            ..Change::new(PairState::RTS)
        }
    }

    /// Returns the change to the error state, which flushes all requests.
    pub fn to_error() -> Self {
        Change::new(PairState::ERROR)
    }

    /// Returns the change to RESET.
    pub fn to_reset() -> Self {
        Change::new(PairState::RESET)
    }

    /// Removes some attributes (bits of `enum ibv_qp_attr_mask`), for tests of refused changes.
    pub fn without(mut self, mask: i32) -> Self {
        self.mask &= !mask;
        self
    }
}
