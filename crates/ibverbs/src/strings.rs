//! Names of values: ibv_node_type_str(3), ibv_port_state_str(3), ibv_event_type_str(3),
//! ibv_wc_status_str. They are the architecture's names; programs print them, and users search for
//! them.

use std::ffi::CStr;

use libc::{c_char, c_uint};
use verbena_abi::names::wc_status_text;
use verbena_abi::*;

const UNKNOWN: &CStr = c"unknown";

/// Returns the name of a node type.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_node_type_str(node_type: ibv_node_type) -> *const c_char {
    match node_type {
        IBV_NODE_CA => c"InfiniBand channel adapter",
        IBV_NODE_SWITCH => c"InfiniBand switch",
        IBV_NODE_ROUTER => c"InfiniBand router",
        IBV_NODE_RNIC => c"iWARP NIC",
        IBV_NODE_USNIC => c"usNIC",
        IBV_NODE_USNIC_UDP => c"usNIC UDP",
        IBV_NODE_UNSPECIFIED => c"unspecified",
        _ => UNKNOWN,
    }
    .as_ptr()
}

/// Returns the name of a port state.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_port_state_str(port_state: ibv_port_state) -> *const c_char {
    const STATES: [&CStr; 6] = [
        c"no state change (NOP)",
        c"down",
        c"init",
        c"armed",
        c"active",
        c"active defer",
    ];
    name(&STATES, port_state)
}

/// Returns the name of an asynchronous event.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_event_type_str(event: ibv_event_type) -> *const c_char {
    const EVENTS: [&CStr; 20] = [
        c"CQ error",
        c"local work queue catastrophic error",
        c"invalid request local work queue error",
        c"local access violation work queue error",
        c"communication established",
        c"send queue drained",
        c"path migrated",
        c"path migration request error",
        c"local catastrophic error",
        c"port active",
        c"port error",
        c"LID change",
        c"P_Key change",
        c"SM change",
        c"SRQ catastrophic error",
        c"SRQ limit reached",
        c"last WQE reached",
        c"client reregistration",
        c"GID table change",
        c"WQ fatal",
    ];
    name(&EVENTS, event)
}

/// Returns the name of a send queue operation.
pub fn wr_opcode(opcode: c_uint) -> *const c_char {
    const OPCODES: [&CStr; 16] = [
        c"rdma-write",
        c"rdma-write-with-imm",
        c"send",
        c"send-with-imm",
        c"rdma-read",
        c"atomic-cmp-and-swp",
        c"atomic-fetch-and-add",
        c"local-inv",
        c"bind-mw",
        c"send-with-inv",
        c"tso",
        c"driver1",
        UNKNOWN,
        UNKNOWN,
        c"flush",
        c"atomic-write",
    ];
    name(&OPCODES, opcode)
}

/// Returns the name of a completion status.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_wc_status_str(status: ibv_wc_status) -> *const c_char {
    wc_status_text(status).unwrap_or(UNKNOWN).as_ptr()
}

fn name(names: &[&'static CStr], value: c_uint) -> *const c_char {
    names.get(value as usize).unwrap_or(&UNKNOWN).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pointer: *const c_char) -> &'static str {
        // SAFETY: the functions return static C strings.
        unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
    }

    #[test]
    fn first_last_and_unknown_values_have_strings() {
        assert_eq!(text(ibv_wc_status_str(IBV_WC_SUCCESS)), "success");
        assert_eq!(
            text(ibv_wc_status_str(IBV_WC_TM_RNDV_INCOMPLETE)),
            "TM software rendezvous"
        );
        assert_eq!(text(ibv_wc_status_str(24)), "unknown");
        assert_eq!(text(ibv_event_type_str(IBV_EVENT_CQ_ERR)), "CQ error");
        assert_eq!(text(ibv_event_type_str(IBV_EVENT_WQ_FATAL)), "WQ fatal");
        assert_eq!(text(ibv_event_type_str(u32::MAX)), "unknown");
        assert_eq!(text(ibv_port_state_str(IBV_PORT_ACTIVE)), "active");
        assert_eq!(text(ibv_port_state_str(6)), "unknown");
        assert_eq!(
            text(ibv_node_type_str(IBV_NODE_CA)),
            "InfiniBand channel adapter"
        );
        assert_eq!(text(ibv_node_type_str(IBV_NODE_UNKNOWN)), "unknown");
        assert_eq!(text(wr_opcode(IBV_WR_FLUSH)), "flush");
    }
}
