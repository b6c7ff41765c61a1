//! Names of the C interface's opcodes and statuses, for messages.

use verbena_abi::*;

pub(super) fn opcode_name(opcode: ibv_wr_opcode) -> &'static str {
    match opcode {
        IBV_WR_RDMA_WRITE => "IBV_WR_RDMA_WRITE",
        IBV_WR_RDMA_WRITE_WITH_IMM => "IBV_WR_RDMA_WRITE_WITH_IMM",
        IBV_WR_SEND => "IBV_WR_SEND",
        IBV_WR_SEND_WITH_IMM => "IBV_WR_SEND_WITH_IMM",
        IBV_WR_RDMA_READ => "IBV_WR_RDMA_READ",
        IBV_WR_ATOMIC_CMP_AND_SWP => "IBV_WR_ATOMIC_CMP_AND_SWP",
        IBV_WR_ATOMIC_FETCH_AND_ADD => "IBV_WR_ATOMIC_FETCH_AND_ADD",
        IBV_WR_LOCAL_INV => "IBV_WR_LOCAL_INV",
        IBV_WR_BIND_MW => "IBV_WR_BIND_MW",
        IBV_WR_SEND_WITH_INV => "IBV_WR_SEND_WITH_INV",
        IBV_WR_TSO => "IBV_WR_TSO",
        IBV_WR_FLUSH => "IBV_WR_FLUSH",
        IBV_WR_ATOMIC_WRITE => "IBV_WR_ATOMIC_WRITE",
        _ => "an unknown opcode",
    }
}

pub(super) fn status_name(status: ibv_wc_status) -> &'static str {
    match status {
        IBV_WC_LOC_LEN_ERR => "IBV_WC_LOC_LEN_ERR",
        IBV_WC_LOC_QP_OP_ERR => "IBV_WC_LOC_QP_OP_ERR",
        IBV_WC_LOC_PROT_ERR => "IBV_WC_LOC_PROT_ERR",
        IBV_WC_WR_FLUSH_ERR => "IBV_WC_WR_FLUSH_ERR",
        IBV_WC_MW_BIND_ERR => "IBV_WC_MW_BIND_ERR",
        IBV_WC_BAD_RESP_ERR => "IBV_WC_BAD_RESP_ERR",
        IBV_WC_LOC_ACCESS_ERR => "IBV_WC_LOC_ACCESS_ERR",
        IBV_WC_REM_INV_REQ_ERR => "IBV_WC_REM_INV_REQ_ERR",
        IBV_WC_REM_ACCESS_ERR => "IBV_WC_REM_ACCESS_ERR",
        IBV_WC_REM_OP_ERR => "IBV_WC_REM_OP_ERR",
        IBV_WC_RETRY_EXC_ERR => "IBV_WC_RETRY_EXC_ERR",
        IBV_WC_RNR_RETRY_EXC_ERR => "IBV_WC_RNR_RETRY_EXC_ERR",
        _ => "an unknown status",
    }
}
