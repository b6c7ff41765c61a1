//! Reports refused commands under the name of the librdmacm call that made them
//! ([`verbena_hca_os::refusal`]).

use crate::abi::{Header, code};
use verbena_hca_os::errno::Errno;
use verbena_hca_os::refusal;
use zerocopy::FromBytes;

/// Reports a refused command, except librdmacm's regular check for AF_IB support.
#[cold]
pub fn tell_refused(command: &[u8], error: Errno) {
    let header = Header::read_from_prefix(command).ok();
    let code = header.map(|(header, _)| header.cmd);
    if code == Some(code::BIND) && error.0 == libc::EAFNOSUPPORT {
        return;
    }
    refusal::report_call(code.map_or("rdma_cm", call_of), error);
}

/// Returns the librdmacm call that writes a command.
fn call_of(code: u32) -> &'static str {
    match code {
        code::CREATE_ID => "rdma_create_id",
        code::DESTROY_ID => "rdma_destroy_id",
        code::BIND_IP | code::BIND => "rdma_bind_addr",
        code::RESOLVE_IP => "rdma_resolve_addr",
        code::RESOLVE_ROUTE => "rdma_resolve_route",
        code::QUERY_ROUTE => "rdma_cm (query route)",
        code::CONNECT => "rdma_connect",
        code::LISTEN => "rdma_listen",
        code::ACCEPT => "rdma_accept",
        code::REJECT => "rdma_reject",
        code::DISCONNECT => "rdma_disconnect",
        code::INIT_QP_ATTR => "rdma_init_qp_attr",
        code::GET_EVENT => "rdma_get_cm_event",
        code::SET_OPTION => "rdma_set_option",
        code::NOTIFY => "rdma_notify",
        code::JOIN_IP_MCAST => "rdma_join_multicast",
        code::LEAVE_MCAST => "rdma_leave_multicast",
        code::MIGRATE_ID => "rdma_migrate_id",
        code::QUERY => "rdma_cm (query)",
        code::RESOLVE_IB_SERVICE => "rdma_resolve_addrinfo",
        code::WRITE_CM_EVENT => "rdma_write_cm_event",
        _ => "rdma_cm",
    }
}
