//! Completion statuses and opcodes: newtypes that preserve unknown values.

use std::fmt;
use verbena_abi as abi;

/// `enum ibv_wc_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct WorkStatus(pub u32);

impl WorkStatus {
    /// Returns whether the request succeeded.
    pub fn is_success(self) -> bool {
        self.0 == abi::IBV_WC_SUCCESS
    }

    /// Returns whether the request was flushed because its queue pair is in the error state.
    pub fn is_flushed(self) -> bool {
        self.0 == abi::IBV_WC_WR_FLUSH_ERR
    }
}

impl fmt::Display for WorkStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            abi::IBV_WC_SUCCESS => "success",
            abi::IBV_WC_LOC_LEN_ERR => "local length error",
            abi::IBV_WC_LOC_QP_OP_ERR => "local queue pair operation error",
            abi::IBV_WC_LOC_PROT_ERR => "local protection error",
            abi::IBV_WC_WR_FLUSH_ERR => "flushed",
            abi::IBV_WC_MW_BIND_ERR => "memory window bind error",
            abi::IBV_WC_BAD_RESP_ERR => "bad response",
            abi::IBV_WC_LOC_ACCESS_ERR => "local access error",
            abi::IBV_WC_REM_INV_REQ_ERR => "remote invalid request",
            abi::IBV_WC_REM_ACCESS_ERR => "remote access error",
            abi::IBV_WC_REM_OP_ERR => "remote operation error",
            abi::IBV_WC_RETRY_EXC_ERR => "retry counter exceeded",
            abi::IBV_WC_RNR_RETRY_EXC_ERR => "RNR retry counter exceeded",
            abi::IBV_WC_FATAL_ERR => "fatal error",
            abi::IBV_WC_GENERAL_ERR => "general error",
            other => return write!(f, "status {other}"),
        };
        write!(f, "{name} (status {})", self.0)
    }
}

/// `enum ibv_wc_opcode`. Undefined unless the status is success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CompletionOpcode(pub u32);

impl CompletionOpcode {
    /// A receive request completed by a send.
    pub const RECEIVE: CompletionOpcode = CompletionOpcode(abi::IBV_WC_RECV);
    /// A receive request completed by a write with immediate data.
    pub const RECEIVE_WRITE: CompletionOpcode = CompletionOpcode(abi::IBV_WC_RECV_RDMA_WITH_IMM);
}
