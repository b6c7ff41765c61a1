//! Names of constants, as in the header without their common prefix.

use std::fmt;

use verbena_abi::*;

/// Returns pairs of a constant's name and its value.
macro_rules! words {
    ($prefix:literal: $($name:ident)*) => {
        &[$((
            match stringify!($name).as_bytes().split_at($prefix.len()) {
                (_, word) => match std::str::from_utf8(word) {
                    Ok(word) => word,
                    Err(_) => panic!("identifiers are ASCII"),
                },
            },
            $name as u64,
        )),*]
    };
}

type Words = &'static [(&'static str, u64)];

/// One of several values; shown as a number if it has no name.
pub struct One(Words, u64);

impl fmt::Display for One {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.iter().find(|(_, value)| *value == self.1) {
            Some((word, _)) => f.write_str(word),
            None => write!(f, "{}", self.1),
        }
    }
}

/// A set of bits; those without a name are shown as a number.
pub struct Flags(Words, u64);

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.1;
        let mut separator = "";
        for (word, bit) in self.0 {
            if rest & bit != 0 {
                rest &= !bit;
                write!(f, "{separator}{word}")?;
                separator = "|";
            }
        }
        match (rest, self.1) {
            (0, 0) => f.write_str("0"),
            (0, _) => Ok(()),
            (rest, _) => write!(f, "{separator}{rest:#x}"),
        }
    }
}

pub fn qp_type(value: ibv_qp_type) -> One {
    const WORDS: Words = words!("IBV_QPT_": IBV_QPT_RC IBV_QPT_UC IBV_QPT_UD IBV_QPT_RAW_PACKET IBV_QPT_XRC_SEND
        IBV_QPT_XRC_RECV IBV_QPT_DRIVER);
    One(WORDS, value.into())
}

pub fn qp_state(value: ibv_qp_state) -> One {
    const WORDS: Words = words!("IBV_QPS_": IBV_QPS_RESET IBV_QPS_INIT IBV_QPS_RTR IBV_QPS_RTS IBV_QPS_SQD IBV_QPS_SQE
        IBV_QPS_ERR);
    One(WORDS, value.into())
}

pub fn path_migration(value: ibv_mig_state) -> One {
    const WORDS: Words = words!("IBV_MIG_": IBV_MIG_MIGRATED IBV_MIG_REARM IBV_MIG_ARMED);
    One(WORDS, value.into())
}

pub fn mtu(value: ibv_mtu) -> One {
    const WORDS: Words =
        words!("IBV_MTU_": IBV_MTU_256 IBV_MTU_512 IBV_MTU_1024 IBV_MTU_2048 IBV_MTU_4096);
    One(WORDS, value.into())
}

pub fn port_state(value: ibv_port_state) -> One {
    const WORDS: Words = words!("IBV_PORT_": IBV_PORT_NOP IBV_PORT_DOWN IBV_PORT_INIT IBV_PORT_ARMED IBV_PORT_ACTIVE
        IBV_PORT_ACTIVE_DEFER);
    One(WORDS, value.into())
}

pub fn srq_type(value: ibv_srq_type) -> One {
    const WORDS: Words = words!("IBV_SRQT_": IBV_SRQT_BASIC IBV_SRQT_XRC IBV_SRQT_TM);
    One(WORDS, value.into())
}

pub fn request(value: ibv_wr_opcode) -> One {
    const WORDS: Words = words!("IBV_WR_": IBV_WR_RDMA_WRITE IBV_WR_RDMA_WRITE_WITH_IMM IBV_WR_SEND IBV_WR_SEND_WITH_IMM
        IBV_WR_RDMA_READ IBV_WR_ATOMIC_CMP_AND_SWP IBV_WR_ATOMIC_FETCH_AND_ADD IBV_WR_LOCAL_INV IBV_WR_BIND_MW
        IBV_WR_SEND_WITH_INV IBV_WR_TSO IBV_WR_DRIVER1 IBV_WR_FLUSH IBV_WR_ATOMIC_WRITE);
    One(WORDS, value.into())
}

pub fn status(value: ibv_wc_status) -> One {
    const WORDS: Words = words!("IBV_WC_": IBV_WC_SUCCESS IBV_WC_LOC_LEN_ERR IBV_WC_LOC_QP_OP_ERR IBV_WC_LOC_EEC_OP_ERR
        IBV_WC_LOC_PROT_ERR IBV_WC_WR_FLUSH_ERR IBV_WC_MW_BIND_ERR IBV_WC_BAD_RESP_ERR IBV_WC_LOC_ACCESS_ERR
        IBV_WC_REM_INV_REQ_ERR IBV_WC_REM_ACCESS_ERR IBV_WC_REM_OP_ERR IBV_WC_RETRY_EXC_ERR IBV_WC_RNR_RETRY_EXC_ERR
        IBV_WC_LOC_RDD_VIOL_ERR IBV_WC_REM_INV_RD_REQ_ERR IBV_WC_REM_ABORT_ERR IBV_WC_INV_EECN_ERR
        IBV_WC_INV_EEC_STATE_ERR IBV_WC_FATAL_ERR IBV_WC_RESP_TIMEOUT_ERR IBV_WC_GENERAL_ERR IBV_WC_TM_ERR
        IBV_WC_TM_RNDV_INCOMPLETE);
    One(WORDS, value.into())
}

pub fn completion(value: ibv_wc_opcode) -> One {
    const WORDS: Words = words!("IBV_WC_": IBV_WC_SEND IBV_WC_RDMA_WRITE IBV_WC_RDMA_READ IBV_WC_COMP_SWAP
        IBV_WC_FETCH_ADD IBV_WC_BIND_MW IBV_WC_LOCAL_INV IBV_WC_TSO IBV_WC_ATOMIC_WRITE IBV_WC_RECV
        IBV_WC_RECV_RDMA_WITH_IMM);
    One(WORDS, value.into())
}

pub fn event(value: ibv_event_type) -> One {
    const WORDS: Words = words!("IBV_EVENT_": IBV_EVENT_CQ_ERR IBV_EVENT_QP_FATAL IBV_EVENT_QP_REQ_ERR
        IBV_EVENT_QP_ACCESS_ERR IBV_EVENT_COMM_EST IBV_EVENT_SQ_DRAINED IBV_EVENT_PATH_MIG IBV_EVENT_PATH_MIG_ERR
        IBV_EVENT_DEVICE_FATAL IBV_EVENT_PORT_ACTIVE IBV_EVENT_PORT_ERR IBV_EVENT_LID_CHANGE IBV_EVENT_PKEY_CHANGE
        IBV_EVENT_SM_CHANGE IBV_EVENT_SRQ_ERR IBV_EVENT_SRQ_LIMIT_REACHED IBV_EVENT_QP_LAST_WQE_REACHED
        IBV_EVENT_CLIENT_REREGISTER IBV_EVENT_GID_CHANGE IBV_EVENT_WQ_FATAL);
    One(WORDS, value.into())
}

pub fn access(value: u32) -> Flags {
    const WORDS: Words = words!("IBV_ACCESS_": IBV_ACCESS_LOCAL_WRITE IBV_ACCESS_REMOTE_WRITE IBV_ACCESS_REMOTE_READ
        IBV_ACCESS_REMOTE_ATOMIC IBV_ACCESS_MW_BIND IBV_ACCESS_ZERO_BASED IBV_ACCESS_ON_DEMAND IBV_ACCESS_HUGETLB
        IBV_ACCESS_FLUSH_GLOBAL IBV_ACCESS_FLUSH_PERSISTENT IBV_ACCESS_RELAXED_ORDERING);
    Flags(WORDS, value.into())
}

pub fn send_flags(value: u32) -> Flags {
    const WORDS: Words = words!("IBV_SEND_": IBV_SEND_FENCE IBV_SEND_SIGNALED IBV_SEND_SOLICITED IBV_SEND_INLINE
        IBV_SEND_IP_CSUM);
    Flags(WORDS, value.into())
}

pub fn completion_flags(value: u32) -> Flags {
    const WORDS: Words =
        words!("IBV_WC_": IBV_WC_GRH IBV_WC_WITH_IMM IBV_WC_IP_CSUM_OK IBV_WC_WITH_INV);
    Flags(WORDS, value.into())
}

pub fn rereg(value: libc::c_int) -> Flags {
    const WORDS: Words = words!("IBV_REREG_MR_": IBV_REREG_MR_CHANGE_TRANSLATION IBV_REREG_MR_CHANGE_PD
        IBV_REREG_MR_CHANGE_ACCESS);
    Flags(WORDS, value as u32 as u64)
}

/// Returns the name of an error number, as in strace(1).
pub fn errno(value: i32) -> String {
    const WORDS: &[(&str, i32)] = &[
        ("EPERM", libc::EPERM),
        ("ENOENT", libc::ENOENT),
        ("EINTR", libc::EINTR),
        ("EIO", libc::EIO),
        ("ENXIO", libc::ENXIO),
        ("EBADF", libc::EBADF),
        ("EAGAIN", libc::EAGAIN),
        ("ENOMEM", libc::ENOMEM),
        ("EACCES", libc::EACCES),
        ("EFAULT", libc::EFAULT),
        ("EBUSY", libc::EBUSY),
        ("EEXIST", libc::EEXIST),
        ("ENODEV", libc::ENODEV),
        ("EINVAL", libc::EINVAL),
        ("EMFILE", libc::EMFILE),
        ("ENOSPC", libc::ENOSPC),
        ("ERANGE", libc::ERANGE),
        ("ENOSYS", libc::ENOSYS),
        ("ENODATA", libc::ENODATA),
        ("EPROTO", libc::EPROTO),
        ("EOVERFLOW", libc::EOVERFLOW),
        ("EMSGSIZE", libc::EMSGSIZE),
        ("EPROTONOSUPPORT", libc::EPROTONOSUPPORT),
        ("EOPNOTSUPP", libc::EOPNOTSUPP),
        ("ENETUNREACH", libc::ENETUNREACH),
        ("ETIMEDOUT", libc::ETIMEDOUT),
        ("EHOSTUNREACH", libc::EHOSTUNREACH),
    ];
    match WORDS.iter().find(|(_, number)| *number == value) {
        Some((word, _)) => (*word).to_owned(),
        None => format!("errno {value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_named_as_in_the_header() {
        assert_eq!(qp_type(IBV_QPT_RC).to_string(), "RC");
        assert_eq!(qp_type(77).to_string(), "77");
        assert_eq!(access(0).to_string(), "0");
        assert_eq!(
            access(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | 1 << 30).to_string(),
            "LOCAL_WRITE|REMOTE_READ|0x40000000"
        );
        assert_eq!(errno(libc::EINVAL), "EINVAL");
        assert_eq!(errno(4095), "errno 4095");
    }
}
