//! The structures of `<rdma/rdma_user_cm.h>` (version 4 of the interface) that librdmacm writes and
//! reads.
//!
//! Field order, widths and names are the header's. All of them are plain bytes without padding, so
//! they are read from and written to a caller's buffer whole.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The interface's version, as in `class/misc/rdma_cm/abi_version`.
pub const VERSION: u32 = 4;
/// Bytes of private data that a structure has space for.
pub const MAX_PRIVATE_DATA: usize = 256;

/// Command codes: `RDMA_USER_CM_CMD_*`.
pub mod code {
    #![allow(missing_docs)]
    pub const CREATE_ID: u32 = 0;
    pub const DESTROY_ID: u32 = 1;
    pub const BIND_IP: u32 = 2;
    pub const RESOLVE_IP: u32 = 3;
    pub const RESOLVE_ROUTE: u32 = 4;
    pub const QUERY_ROUTE: u32 = 5;
    pub const CONNECT: u32 = 6;
    pub const LISTEN: u32 = 7;
    pub const ACCEPT: u32 = 8;
    pub const REJECT: u32 = 9;
    pub const DISCONNECT: u32 = 10;
    pub const INIT_QP_ATTR: u32 = 11;
    pub const GET_EVENT: u32 = 12;
    pub const SET_OPTION: u32 = 14;
    pub const NOTIFY: u32 = 15;
    pub const JOIN_IP_MCAST: u32 = 16;
    pub const LEAVE_MCAST: u32 = 17;
    pub const MIGRATE_ID: u32 = 18;
    pub const QUERY: u32 = 19;
    pub const BIND: u32 = 20;
    pub const RESOLVE_IB_SERVICE: u32 = 23;
    pub const WRITE_CM_EVENT: u32 = 24;
}

macro_rules! structures {
    ($($(#[$attribute:meta])* $name:ident { $($field:ident: $type:ty,)* })*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        #[allow(missing_docs)]
        pub struct $name {
            $(pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                zerocopy::FromZeros::new_zeroed()
            }
        }
    )*};
}

structures! {
    /// Header of every command: its code, the bytes that follow, the bytes of space for the answer.
    Header { cmd: u32, r#in: u16, out: u16, }
    /// `struct sockaddr_in6`, which can also hold a `sockaddr_in`.
    SocketAddress { bytes: [u8; 28], }
    /// rdma_create_id(3).
    CreateId { uid: u64, response: u64, ps: u16, qp_type: u8, reserved: [u8; 5], }
    /// Its answer; also that of joining a group.
    CreateIdAnswer { id: u32, }
    /// rdma_destroy_id(3), rdma_leave_multicast(3).
    DestroyId { response: u64, id: u32, reserved: u32, }
    /// Number of events taken; the library waits until they are acknowledged.
    EventsReported { events_reported: u32, }
    /// rdma_bind_addr(3). `response` is not used.
    BindIp { response: u64, addr: SocketAddress, id: u32, }
    /// rdma_resolve_addr(3).
    ResolveIp { src_addr: SocketAddress, dst_addr: SocketAddress, id: u32, timeout_ms: u32, }
    /// rdma_resolve_route(3).
    ResolveRoute { id: u32, timeout_ms: u32, }
    /// Requests a [`RouteAnswer`], or the data that `option` selects.
    Query { response: u64, id: u32, option: u32, }
    /// `struct ib_user_path_rec` of `<rdma/ib_user_sa.h>`; 16-bit fields in network order.
    PathRecord {
        dgid: [u8; 16], sgid: [u8; 16], dlid: [u8; 2], slid: [u8; 2], raw_traffic: u32,
        flow_label: u32,
        reversible: u32, mtu: u32, pkey: [u8; 2], hop_limit: u8, traffic_class: u8, numb_path: u8,
        sl: u8,
        mtu_selector: u8, rate_selector: u8, rate: u8, packet_life_time_selector: u8,
        packet_life_time: u8,
        preference: u8,
    }
    /// Addresses, device and path of an identifier.
    RouteAnswer {
        node_guid: [u8; 8], ib_route: [PathRecord; 2], src_addr: SocketAddress,
        dst_addr: SocketAddress,
        num_paths: u32, port_num: u8, reserved: [u8; 3], ibdev_index: u32, reserved1: u32,
    }
    /// The parameters that both sides of a reliable connection propose (rdma_connect(3)).
    ConnectionParameters {
        qp_num: u32, qkey: u32, private_data: [u8; MAX_PRIVATE_DATA], private_data_len: u8, srq: u8,
        responder_resources: u8, initiator_depth: u8, flow_control: u8, retry_count: u8,
        rnr_retry_count: u8,
        valid: u8,
    }
    /// `struct ib_uverbs_ah_attr`: how to address a datagram.
    AddressVector {
        dgid: [u8; 16], flow_label: u32, sgid_index: u8, hop_limit: u8, traffic_class: u8,
        reserved: u8,
        dlid: u16, sl: u8, src_path_bits: u8, static_rate: u8, is_global: u8, port_num: u8,
        reserved1: u8,
    }
    /// The address of a datagram service or a multicast group.
    DatagramParameters {
        qp_num: u32, qkey: u32, ah_attr: AddressVector, private_data: [u8; MAX_PRIVATE_DATA],
        private_data_len: u8, reserved: [u8; 7],
    }
    /// Enhanced connection establishment: passed on uninterpreted.
    Ece { vendor_id: u32, attr_mod: u32, }
    /// rdma_connect(3). `ece` may be missing.
    Connect { conn_param: ConnectionParameters, id: u32, reserved: u32, ece: Ece, }
    /// rdma_listen(3).
    Listen { id: u32, backlog: u32, }
    /// rdma_accept(3); without `valid` parameters the answer to a REP. `ece` may be missing.
    Accept { uid: u64, conn_param: ConnectionParameters, id: u32, reserved: u32, ece: Ece, }
    /// rdma_reject(3).
    Reject {
        id: u32, private_data_len: u8, reason: u8, reserved: [u8; 2],
        private_data: [u8; MAX_PRIVATE_DATA],
    }
    /// rdma_disconnect(3).
    Disconnect { id: u32, }
    /// rdma_init_qp_attr: requests the attributes for a queue pair transition. `reserved` is C
    /// padding.
    InitQpAttr { response: u64, id: u32, qp_state: u32, }
    /// rdma_notify(3).
    Notify { id: u32, event: u32, }
    /// rdma_join_multicast(3).
    JoinIpMulticast { response: u64, uid: u64, addr: SocketAddress, id: u32, }
    /// rdma_get_cm_event(3).
    GetEvent { response: u64, }
    /// Its answer. `param` is a [`ConnectionParameters`] or a [`DatagramParameters`], depending on
    /// the identifier's port space.
    EventAnswer { uid: u64, id: u32, event: u32, status: u32, param: [u8; 304], reserved: u32,
        ece: Ece, }
    /// rdma_set_option(3).
    SetOption { optval: u64, id: u32, level: u32, optname: u32, optlen: u32, }
    /// rdma_resolve_addrinfo(3) with RAI_SA. `reserved` is C padding.
    ResolveIbService {
        id: u32, reserved: u32, service_id: u64, service_name: [u8; 64], flags: u32, reserved1: u32,
    }
    /// rdma_write_cm_event(3). A longer union follows, of which only `arg` is used.
    WriteCmEvent { id: u32, reserved: u32, event: u32, status: u32, arg: u64, }
    /// rdma_migrate_id(3).
    MigrateId { response: u64, id: u32, fd: u32, }
    /// `struct ib_uverbs_qp_attr` of `<rdma/ib_user_verbs.h>`.
    QueuePairAttributes {
        qp_attr_mask: u32, qp_state: u32, cur_qp_state: u32, path_mtu: u32, path_mig_state: u32,
        qkey: u32,
        rq_psn: u32, sq_psn: u32, dest_qp_num: u32, qp_access_flags: u32, ah_attr: AddressVector,
        alt_ah_attr: AddressVector, max_send_wr: u32, max_recv_wr: u32, max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32, pkey_index: u16, alt_pkey_index: u16, en_sqd_async_notify: u8,
        sq_draining: u8,
        max_rd_atomic: u8, max_dest_rd_atomic: u8, min_rnr_timer: u8, port_num: u8, timeout: u8,
        retry_cnt: u8,
        rnr_retry: u8, alt_port_num: u8, alt_timeout: u8, reserved: [u8; 5],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::size_of;

    #[test]
    fn structure_sizes_equal_the_header() {
        assert_eq!(size_of::<CreateId>(), 24);
        assert_eq!(size_of::<BindIp>(), 40);
        assert_eq!(size_of::<ResolveIp>(), 64);
        assert_eq!(size_of::<PathRecord>(), 64);
        assert_eq!(size_of::<RouteAnswer>(), 208);
        assert_eq!(size_of::<ConnectionParameters>(), 272);
        assert_eq!(size_of::<AddressVector>(), 32);
        assert_eq!(size_of::<DatagramParameters>(), 304);
        assert_eq!(size_of::<Connect>(), 288);
        assert_eq!(size_of::<Accept>(), 296);
        assert_eq!(size_of::<JoinIpMulticast>(), 48);
        assert_eq!(size_of::<EventAnswer>(), 336);
        assert_eq!(size_of::<ResolveIbService>(), 88);
        assert_eq!(size_of::<QueuePairAttributes>(), 144);
    }
}
