//! Completion statuses and opcodes: newtypes that preserve unknown values.

use std::fmt;
use verbena_abi as abi;
use verbena_abi::names::wc_status_text;

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
        let text = wc_status_text(self.0).and_then(|text| text.to_str().ok());
        match text {
            Some(text) => write!(f, "{text} (status {})", self.0),
            None => write!(f, "status {}", self.0),
        }
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
