//! Names of values: of constants as in the header, and of completion statuses as rdma-core prints
//! them.

use core::ffi::{CStr, c_uint};

use crate::*;

/// The names of an enumeration's constants, or of a set of flags.
#[derive(Debug)]
pub struct Names {
    prefix: &'static str,
    constants: &'static [(&'static str, u32)],
}

impl Names {
    /// Returns the name of a constant, as in the header.
    pub fn constant(&self, value: u32) -> Option<&'static str> {
        let mut constants = self.constants.iter();
        constants
            .find(|(_, of)| *of == value)
            .map(|(name, _)| *name)
    }

    /// Returns the name of a constant without the prefix that all of them have.
    pub fn word(&self, value: u32) -> Option<&'static str> {
        self.constant(value).map(|name| &name[self.prefix.len()..])
    }

    /// Iterates over the names without their prefix, and their values.
    pub fn words(&self) -> impl Iterator<Item = (&'static str, u32)> {
        let words = self.constants.iter();
        words.map(|(name, value)| (&name[self.prefix.len()..], *value))
    }
}

macro_rules! names {
    ($($(#[$meta:meta])* $group:ident $prefix:literal: $($name:ident)*;)*) => {$(
        $(#[$meta])*
        pub const $group: Names = Names {
            prefix: $prefix,
            constants: &[$((stringify!($name), $name as u32)),*],
        };
    )*};
}

names! {
    /// `enum ibv_qp_type`.
    QP_TYPES "IBV_QPT_": IBV_QPT_RC IBV_QPT_UC IBV_QPT_UD IBV_QPT_RAW_PACKET IBV_QPT_XRC_SEND
        IBV_QPT_XRC_RECV IBV_QPT_DRIVER;

    /// `enum ibv_qp_state`.
    QP_STATES "IBV_QPS_": IBV_QPS_RESET IBV_QPS_INIT IBV_QPS_RTR IBV_QPS_RTS IBV_QPS_SQD
        IBV_QPS_SQE IBV_QPS_ERR IBV_QPS_UNKNOWN;

    /// `enum ibv_mig_state`.
    MIG_STATES "IBV_MIG_": IBV_MIG_MIGRATED IBV_MIG_REARM IBV_MIG_ARMED;

    /// `enum ibv_mtu`.
    MTUS "IBV_MTU_": IBV_MTU_256 IBV_MTU_512 IBV_MTU_1024 IBV_MTU_2048 IBV_MTU_4096;

    /// `enum ibv_port_state`.
    PORT_STATES "IBV_PORT_": IBV_PORT_NOP IBV_PORT_DOWN IBV_PORT_INIT IBV_PORT_ARMED
        IBV_PORT_ACTIVE IBV_PORT_ACTIVE_DEFER;

    /// `enum ibv_srq_type`.
    SRQ_TYPES "IBV_SRQT_": IBV_SRQT_BASIC IBV_SRQT_XRC IBV_SRQT_TM;

    /// `enum ibv_wr_opcode`.
    WR_OPCODES "IBV_WR_": IBV_WR_RDMA_WRITE IBV_WR_RDMA_WRITE_WITH_IMM IBV_WR_SEND
        IBV_WR_SEND_WITH_IMM IBV_WR_RDMA_READ IBV_WR_ATOMIC_CMP_AND_SWP IBV_WR_ATOMIC_FETCH_AND_ADD
        IBV_WR_LOCAL_INV IBV_WR_BIND_MW IBV_WR_SEND_WITH_INV IBV_WR_TSO IBV_WR_DRIVER1 IBV_WR_FLUSH
        IBV_WR_ATOMIC_WRITE;

    /// `enum ibv_wc_status`.
    WC_STATUSES "IBV_WC_": IBV_WC_SUCCESS IBV_WC_LOC_LEN_ERR IBV_WC_LOC_QP_OP_ERR
        IBV_WC_LOC_EEC_OP_ERR IBV_WC_LOC_PROT_ERR IBV_WC_WR_FLUSH_ERR IBV_WC_MW_BIND_ERR
        IBV_WC_BAD_RESP_ERR IBV_WC_LOC_ACCESS_ERR IBV_WC_REM_INV_REQ_ERR IBV_WC_REM_ACCESS_ERR
        IBV_WC_REM_OP_ERR IBV_WC_RETRY_EXC_ERR IBV_WC_RNR_RETRY_EXC_ERR IBV_WC_LOC_RDD_VIOL_ERR
        IBV_WC_REM_INV_RD_REQ_ERR IBV_WC_REM_ABORT_ERR IBV_WC_INV_EECN_ERR IBV_WC_INV_EEC_STATE_ERR
        IBV_WC_FATAL_ERR IBV_WC_RESP_TIMEOUT_ERR IBV_WC_GENERAL_ERR IBV_WC_TM_ERR
        IBV_WC_TM_RNDV_INCOMPLETE;

    /// `enum ibv_wc_opcode`.
    WC_OPCODES "IBV_WC_": IBV_WC_SEND IBV_WC_RDMA_WRITE IBV_WC_RDMA_READ IBV_WC_COMP_SWAP
        IBV_WC_FETCH_ADD IBV_WC_BIND_MW IBV_WC_LOCAL_INV IBV_WC_TSO IBV_WC_FLUSH
        IBV_WC_ATOMIC_WRITE IBV_WC_RECV IBV_WC_RECV_RDMA_WITH_IMM IBV_WC_TM_ADD IBV_WC_TM_DEL
        IBV_WC_TM_SYNC IBV_WC_TM_RECV IBV_WC_TM_NO_TAG IBV_WC_DRIVER1 IBV_WC_DRIVER2 IBV_WC_DRIVER3;

    /// `enum ibv_event_type`.
    EVENT_TYPES "IBV_EVENT_": IBV_EVENT_CQ_ERR IBV_EVENT_QP_FATAL IBV_EVENT_QP_REQ_ERR
        IBV_EVENT_QP_ACCESS_ERR IBV_EVENT_COMM_EST IBV_EVENT_SQ_DRAINED IBV_EVENT_PATH_MIG
        IBV_EVENT_PATH_MIG_ERR IBV_EVENT_DEVICE_FATAL IBV_EVENT_PORT_ACTIVE IBV_EVENT_PORT_ERR
        IBV_EVENT_LID_CHANGE IBV_EVENT_PKEY_CHANGE IBV_EVENT_SM_CHANGE IBV_EVENT_SRQ_ERR
        IBV_EVENT_SRQ_LIMIT_REACHED IBV_EVENT_QP_LAST_WQE_REACHED IBV_EVENT_CLIENT_REREGISTER
        IBV_EVENT_GID_CHANGE IBV_EVENT_WQ_FATAL;

    /// `enum ibv_access_flags`, the single bits.
    ACCESS_FLAGS "IBV_ACCESS_": IBV_ACCESS_LOCAL_WRITE IBV_ACCESS_REMOTE_WRITE
        IBV_ACCESS_REMOTE_READ IBV_ACCESS_REMOTE_ATOMIC IBV_ACCESS_MW_BIND IBV_ACCESS_ZERO_BASED
        IBV_ACCESS_ON_DEMAND IBV_ACCESS_HUGETLB IBV_ACCESS_FLUSH_GLOBAL IBV_ACCESS_FLUSH_PERSISTENT
        IBV_ACCESS_RELAXED_ORDERING;

    /// `enum ibv_send_flags`.
    SEND_FLAGS "IBV_SEND_": IBV_SEND_FENCE IBV_SEND_SIGNALED IBV_SEND_SOLICITED IBV_SEND_INLINE
        IBV_SEND_IP_CSUM;

    /// `enum ibv_wc_flags`, those of the features that are not for tag matching.
    WC_FLAGS "IBV_WC_": IBV_WC_GRH IBV_WC_WITH_IMM IBV_WC_IP_CSUM_OK IBV_WC_WITH_INV;

    /// `enum ibv_rereg_mr_flags`.
    REREG_MR_FLAGS "IBV_REREG_MR_": IBV_REREG_MR_CHANGE_TRANSLATION IBV_REREG_MR_CHANGE_PD
        IBV_REREG_MR_CHANGE_ACCESS;
}

/// Texts of `ibv_wc_status_str`, by status. They are the architecture's names; programs print them,
/// and users search for them.
const WC_STATUS_TEXTS: [&CStr; 24] = [
    c"success",
    c"local length error",
    c"local QP operation error",
    c"local EE context operation error",
    c"local protection error",
    c"Work Request Flushed Error",
    c"memory management operation error",
    c"bad response error",
    c"local access error",
    c"remote invalid request error",
    c"remote access error",
    c"remote operation error",
    c"transport retry counter exceeded",
    c"RNR retry counter exceeded",
    c"local RDD violation error",
    c"remote invalid RD request",
    c"aborted error",
    c"invalid EE context number",
    c"invalid EE context state",
    c"fatal error",
    c"response timeout error",
    c"general error",
    c"TM error",
    c"TM software rendezvous",
];

/// Returns the text of a completion status; `None` for an unknown one.
pub fn wc_status_text(status: c_uint) -> Option<&'static CStr> {
    WC_STATUS_TEXTS.get(status as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(names: &Names, constants: &[(&str, i128)]) {
        for (name, value) in constants {
            assert_eq!(names.constant(*value as u32), Some(*name));
        }
    }

    #[test]
    fn every_constant_of_an_enumeration_has_its_name() {
        complete(&QP_TYPES, crate::qp::qp_types());
        complete(&QP_STATES, crate::qp_attr::qp_states());
        complete(&MIG_STATES, crate::qp_attr::mig_states());
        complete(&MTUS, crate::port::mtus());
        complete(&PORT_STATES, crate::port::port_states());
        complete(&SRQ_TYPES, crate::srq::srq_types());
        complete(&WR_OPCODES, crate::wr::wr_opcodes());
        complete(&WC_STATUSES, crate::completion::wc_statuses());
        complete(&WC_OPCODES, crate::completion::wc_opcodes());
        complete(&EVENT_TYPES, crate::event::event_types());
        complete(&SEND_FLAGS, crate::wr::send_flags());
    }

    #[test]
    fn words_lack_the_prefix() {
        assert_eq!(QP_TYPES.word(IBV_QPT_RC), Some("RC"));
        assert_eq!(QP_TYPES.word(77), None);
        let words = SEND_FLAGS.words();
        assert!(words.eq([
            ("FENCE", 1),
            ("SIGNALED", 2),
            ("SOLICITED", 4),
            ("INLINE", 8),
            ("IP_CSUM", 16),
        ]));
        for group in [&MTUS, &ACCESS_FLAGS, &WC_FLAGS, &REREG_MR_FLAGS] {
            let names = group.constants.iter();
            assert!(
                names
                    .clone()
                    .all(|(name, _)| name.starts_with(group.prefix))
            );
        }
    }

    #[test]
    fn every_status_has_a_text() {
        for (_, status) in WC_STATUSES.words() {
            assert!(wc_status_text(status).is_some());
        }
        assert_eq!(wc_status_text(24), None);
    }
}
