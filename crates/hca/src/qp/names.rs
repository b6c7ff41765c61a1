//! Names of the C interface's opcodes and statuses, for messages.

use verbena_abi::names::{WC_STATUSES, WR_OPCODES};
use verbena_abi::{ibv_wc_status, ibv_wr_opcode};

pub(super) fn opcode_name(opcode: ibv_wr_opcode) -> &'static str {
    WR_OPCODES.constant(opcode).unwrap_or("an unknown opcode")
}

pub(super) fn status_name(status: ibv_wc_status) -> &'static str {
    WC_STATUSES.constant(status).unwrap_or("an unknown status")
}
