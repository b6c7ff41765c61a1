//! Attributes of a queue pair: the changes to INIT, RTR and RTS with what each transport needs, as `ibv_modify_qp(3)`
//! lists them.

use crate::object::gid::Gid;
use crate::object::region::AccessFlags;
use crate::qp::{PairState, PairType};
use verbena_abi as abi;

/// The way to a peer's port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Its local identifier; 0 on Ethernet.
    pub lid: u16,
    /// Its global identifier, when the packet needs a global route (always on Ethernet).
    pub gid: Option<Gid>,
    /// Index of this port's own identifier in its table.
    pub source_gid: u8,
    /// Class of the packets, in the global route.
    pub traffic_class: u8,
    /// Service level.
    pub service_level: u8,
    /// This side's port.
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

/// What the two ends of a connection agree on and how they retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// The way to the peer.
    pub path: Path,
    /// The peer's queue pair.
    pub peer: u32,
    /// The peer's first packet sequence number.
    pub peer_psn: u32,
    /// This end's first packet sequence number.
    pub psn: u32,
    /// `enum ibv_mtu`.
    pub mtu_code: u32,
    /// Reads and atomics that the peer may have in flight here.
    pub reads_served: u8,
    /// Reads and atomics in flight from here.
    pub reads_initiated: u8,
    /// Acknowledgement timeout, 4.096 us x 2^value.
    pub timeout: u8,
    /// Retries before giving up.
    pub retries: u8,
    /// Retries when the receiver is not ready; 7 is for ever.
    pub rnr_retries: u8,
}

/// A change to make with `ibv_modify_qp(3)`.
#[derive(Clone, Copy)]
pub struct Change {
    /// The state it leads to.
    pub to: PairState,
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
            attributes,
            mask: abi::IBV_QP_STATE,
        }
    }

    /// To INIT. `queue_key` is for datagrams, `access` for the others.
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

    /// The same in a partition other than the first of the port's table.
    pub fn in_partition(mut self, index: u16) -> Self {
        self.attributes.pkey_index = index;
        self
    }

    /// To RTR; datagram pairs need nothing of `connection`.
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
            // Code 12: the receiver asks for 0.64 ms before the next try.
            change.attributes.min_rnr_timer = 12;
            change.mask |= abi::IBV_QP_MAX_DEST_RD_ATOMIC | abi::IBV_QP_MIN_RNR_TIMER;
        }
        change
    }

    /// To RTS.
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

    /// To the error state, which flushes everything.
    pub fn to_error() -> Self {
        Change::new(PairState::ERROR)
    }

    /// Back to RESET.
    pub fn to_reset() -> Self {
        Change::new(PairState::RESET)
    }

    /// The same, leaving out some attributes (bits of `enum ibv_qp_attr_mask`); for tests of refusals.
    pub fn without(mut self, mask: i32) -> Self {
        self.mask &= !mask;
        self
    }
}
