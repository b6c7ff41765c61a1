//! Telling of refused commands by the calls of librdmacm that make them, for who wants to know
//! ([`verbena_hca::refusal`]).

use crate::abi::{Header, code};
use verbena_hca::errno::Errno;
use verbena_hca::refusal;
use zerocopy::FromBytes;

/// Tells of a command that was refused. Whether there are AF_IB addresses is a question that librdmacm asks each time, and
/// no refusal.
#[cold]
pub fn tell_refused(command: &[u8], error: Errno) {
    let header = Header::read_from_prefix(command).ok();
    let code = header.map(|(header, _)| header.cmd);
    if code == Some(code::BIND) && error.0 == libc::EAFNOSUPPORT {
        return;
    }
    refusal::tell_call(code.map_or("rdma_cm", call_of), error);
}

/// Which call of librdmacm a command is of.
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
