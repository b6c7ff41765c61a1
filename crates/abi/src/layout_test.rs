//! Checks that every structure has the official headers' size, and every field their offset and
//! size.

use core::mem::{offset_of, size_of};
use std::collections::BTreeSet;
use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use crate::official_headers;
use crate::*;

/// A structure: C spelling of its type, size in this crate, and per field the C name, offset and
/// size.
struct Layout {
    c_type: &'static str,
    size: usize,
    fields: Vec<(&'static str, usize, usize)>,
}

fn size_of_field<T, F>(_: fn(&T) -> &F) -> usize {
    size_of::<F>()
}

/// `Type: "C type" { field, field = "C name" }`. The pattern has no `..`, so that a missing field
/// is a compile error.
macro_rules! layouts {
    ($($type:ident: $c_type:literal { $($field:ident $(= $c_name:literal)?),* $(,)? })*) => {
        vec![$({
            fn _lists_every_field($type { $($field: _),* }: $type) {}
            Layout {
                c_type: $c_type,
                size: size_of::<$type>(),
                fields: vec![$((
                    layouts!(@name $field $($c_name)?),
                    offset_of!($type, $field),
                    size_of_field(|s: &$type| &s.$field),
                )),*],
            }
        }),*]
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $c_name:literal) => { $c_name };
}

/// Types for which only the size can be compared.
macro_rules! sizes {
    ($($type:ty: $c_type:literal)*) => {
        vec![$(Layout { c_type: $c_type, size: size_of::<$type>(), fields: vec![] }),*]
    };
}

fn structures() -> Vec<Layout> {
    layouts! {
        ibv_gid_global: "__typeof__(((union ibv_gid*)0)->global)" { subnet_prefix, interface_id }
        ibv_gid_entry: "struct ibv_gid_entry" { gid, gid_index, port_num, gid_type, ndev_ifindex }
        ibv_global_route: "struct ibv_global_route" {
            dgid, flow_label, sgid_index, hop_limit, traffic_class,
        }
        ibv_grh: "struct ibv_grh" { version_tclass_flow, paylen, next_hdr, hop_limit, sgid, dgid }
        ibv_ah_attr: "struct ibv_ah_attr" {
            grh, dlid, sl, src_path_bits, static_rate, is_global, port_num,
        }
        ibv_ah: "struct ibv_ah" { context, pd, handle }
        ibv_wc: "struct ibv_wc" {
            wr_id, status, opcode, vendor_err, byte_len, imm = "imm_data", qp_num, src_qp,
            wc_flags, pkey_index, slid, sl, dlid_path_bits,
        }
        ibv_context_ops: "struct ibv_context_ops" {
            _compat_query_device, _compat_query_port, _compat_alloc_pd, _compat_dealloc_pd,
            _compat_reg_mr, _compat_rereg_mr, _compat_dereg_mr, alloc_mw, bind_mw, dealloc_mw,
            _compat_create_cq, poll_cq, req_notify_cq, _compat_cq_event, _compat_resize_cq,
            _compat_destroy_cq, _compat_create_srq, _compat_modify_srq, _compat_query_srq,
            _compat_destroy_srq, post_srq_recv, _compat_create_qp, _compat_query_qp,
            _compat_modify_qp, _compat_destroy_qp, post_send, post_recv, _compat_create_ah,
            _compat_destroy_ah, _compat_attach_mcast, _compat_detach_mcast, _compat_async_event,
        }
        ibv_context: "struct ibv_context" {
            device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat,
        }
        verbs_context: "struct verbs_context" {
            query_port, advise_mr, alloc_null_mr, read_counters, attach_counters_point_flow,
            create_counters, destroy_counters, reg_dm_mr, alloc_dm, free_dm,
            modify_flow_action_esp, destroy_flow_action, create_flow_action_esp,
            modify_qp_rate_limit, alloc_parent_domain, dealloc_td, alloc_td, modify_cq,
            post_srq_ops, destroy_rwq_ind_table, create_rwq_ind_table, destroy_wq, modify_wq,
            create_wq, query_rt_values, create_cq_ex, priv_ = "priv", query_device_ex,
            ibv_destroy_flow, ABI_placeholder2, ibv_create_flow, ABI_placeholder1, open_qp,
            create_qp_ex, get_srq_num, create_srq_ex, open_xrcd, close_xrcd, _ABI_placeholder3,
            sz, context,
        }
        ibv_counters_init_attr: "struct ibv_counters_init_attr" { comp_mask }
        ibv_counters: "struct ibv_counters" { context }
        ibv_counter_attach_attr: "struct ibv_counter_attach_attr" {
            counter_desc, index, comp_mask,
        }
        ibv_values_ex: "struct ibv_values_ex" { comp_mask, raw_clock }
        ibv_comp_channel: "struct ibv_comp_channel" { context, fd, refcnt }
        ibv_cq: "struct ibv_cq" {
            context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed,
            async_events_completed,
        }
        ibv_poll_cq_attr: "struct ibv_poll_cq_attr" { comp_mask }
        ibv_cq_ex: "struct ibv_cq_ex" {
            context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed,
            async_events_completed, comp_mask, status, wr_id, start_poll, next_poll, end_poll,
            read_opcode, read_vendor_err, read_byte_len, read_imm_data, read_qp_num, read_src_qp,
            read_wc_flags, read_slid, read_sl, read_dlid_path_bits, read_completion_ts,
            read_cvlan, read_flow_tag, read_tm_info, read_completion_wallclock_ns,
        }
        ibv_moderate_cq: "struct ibv_moderate_cq" { cq_count, cq_period }
        ibv_modify_cq_attr: "struct ibv_modify_cq_attr" { attr_mask, moderate }
        ibv_cq_init_attr_ex: "struct ibv_cq_init_attr_ex" {
            cqe, cq_context, channel, comp_vector, wc_flags, comp_mask, flags, parent_domain,
        }
        _ibv_device_ops: "struct _ibv_device_ops" { _dummy1, _dummy2 }
        ibv_device: "struct ibv_device" {
            _ops, node_type, transport_type, name, dev_name, dev_path, ibdev_path,
        }
        ibv_device_attr: "struct ibv_device_attr" {
            fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id,
            vendor_part_id, hw_ver, max_qp, max_qp_wr, device_cap_flags, max_sge, max_sge_rd,
            max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom,
            max_qp_init_rd_atom, max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd, max_mw,
            max_raw_ipv6_qp, max_raw_ethy_qp, max_mcast_grp, max_mcast_qp_attach,
            max_total_mcast_qp_attach, max_ah, max_fmr, max_map_per_fmr, max_srq, max_srq_wr,
            max_srq_sge, max_pkeys, local_ca_ack_delay, phys_port_cnt,
        }
        ibv_query_device_ex_input: "struct ibv_query_device_ex_input" { comp_mask }
        ibv_odp_per_transport_caps: "__typeof__(((struct ibv_odp_caps*)0)->per_transport_caps)" {
            rc_odp_caps, uc_odp_caps, ud_odp_caps,
        }
        ibv_odp_caps: "struct ibv_odp_caps" { general_caps, per_transport_caps }
        ibv_tso_caps: "struct ibv_tso_caps" { max_tso, supported_qpts }
        ibv_rss_caps: "struct ibv_rss_caps" {
            supported_qpts, max_rwq_indirection_tables, max_rwq_indirection_table_size,
            rx_hash_fields_mask, rx_hash_function,
        }
        ibv_packet_pacing_caps: "struct ibv_packet_pacing_caps" {
            qp_rate_limit_min, qp_rate_limit_max, supported_qpts,
        }
        ibv_tm_caps: "struct ibv_tm_caps" {
            max_rndv_hdr_size, max_num_tags, flags, max_ops, max_sge,
        }
        ibv_cq_moderation_caps: "struct ibv_cq_moderation_caps" { max_cq_count, max_cq_period }
        ibv_pci_atomic_caps: "struct ibv_pci_atomic_caps" { fetch_add, swap, compare_swap }
        ibv_device_attr_ex: "struct ibv_device_attr_ex" {
            orig_attr, comp_mask, odp_caps, completion_timestamp_mask, hca_core_clock,
            device_cap_flags_ex, tso_caps, rss_caps, max_wq_type_rq, packet_pacing_caps,
            raw_packet_caps, tm_caps, cq_mod_caps, max_dm_size, pci_atomic_caps, xrc_odp_caps,
            phys_port_cnt_ex,
        }
        ibv_async_event: "struct ibv_async_event" { element, event_type }
        ibv_flow_attr: "struct ibv_flow_attr" {
            comp_mask, type_ = "type", size, priority, num_of_specs, port, flags,
        }
        ibv_flow: "struct ibv_flow" { comp_mask, context, handle }
        ibv_flow_eth_filter: "struct ibv_flow_eth_filter" {
            dst_mac, src_mac, ether_type, vlan_tag,
        }
        ibv_flow_ipv4_filter: "struct ibv_flow_ipv4_filter" { src_ip, dst_ip }
        ibv_flow_ipv4_ext_filter: "struct ibv_flow_ipv4_ext_filter" {
            src_ip, dst_ip, proto, tos, ttl, flags,
        }
        ibv_flow_ipv6_filter: "struct ibv_flow_ipv6_filter" {
            src_ip, dst_ip, flow_label, next_hdr, traffic_class, hop_limit,
        }
        ibv_flow_esp_filter: "struct ibv_flow_esp_filter" { spi, seq }
        ibv_flow_tcp_udp_filter: "struct ibv_flow_tcp_udp_filter" { dst_port, src_port }
        ibv_flow_gre_filter: "struct ibv_flow_gre_filter" { c_ks_res0_ver, protocol, key }
        ibv_flow_mpls_filter: "struct ibv_flow_mpls_filter" { label }
        ibv_flow_tunnel_filter: "struct ibv_flow_tunnel_filter" { tunnel_id }
        ibv_flow_spec_action_tag: "struct ibv_flow_spec_action_tag" {
            type_ = "type", size, tag_id,
        }
        ibv_flow_spec_action_drop: "struct ibv_flow_spec_action_drop" { type_ = "type", size }
        ibv_flow_spec_action_handle: "struct ibv_flow_spec_action_handle" {
            type_ = "type", size, action,
        }
        ibv_flow_spec_counter_action: "struct ibv_flow_spec_counter_action" {
            type_ = "type", size, counters,
        }
        ibv_flow_spec_eth: "struct ibv_flow_spec_eth" { type_ = "type", size, val, mask }
        ibv_flow_spec_ipv4: "struct ibv_flow_spec_ipv4" { type_ = "type", size, val, mask }
        ibv_flow_spec_ipv4_ext: "struct ibv_flow_spec_ipv4_ext" {
            type_ = "type", size, val, mask,
        }
        ibv_flow_spec_ipv6: "struct ibv_flow_spec_ipv6" { type_ = "type", size, val, mask }
        ibv_flow_spec_esp: "struct ibv_flow_spec_esp" { type_ = "type", size, val, mask }
        ibv_flow_spec_tcp_udp: "struct ibv_flow_spec_tcp_udp" { type_ = "type", size, val, mask }
        ibv_flow_spec_gre: "struct ibv_flow_spec_gre" { type_ = "type", size, val, mask }
        ibv_flow_spec_mpls: "struct ibv_flow_spec_mpls" { type_ = "type", size, val, mask }
        ibv_flow_spec_tunnel: "struct ibv_flow_spec_tunnel" { type_ = "type", size, val, mask }
        ibv_flow_action: "struct ibv_flow_action" { context }
        ibv_flow_action_esp: "struct ibv_flow_action_esp" {
            spi, seq, tfc_pad, flags, hard_limit_pkts,
        }
        ibv_flow_action_esp_encap: "struct ibv_flow_action_esp_encap" {
            val_ptr, next_ptr, len, type_ = "type",
        }
        ibv_flow_action_esp_attr: "struct ibv_flow_action_esp_attr" {
            esp_attr, keymat_proto, keymat_len, keymat_ptr, replay_proto, replay_len, replay_ptr,
            esp_encap, comp_mask, esn,
        }
        ibv_mr: "struct ibv_mr" { context, pd, addr, length, handle, lkey, rkey }
        ibv_mw: "struct ibv_mw" { context, pd, rkey, handle, type_ = "type" }
        ibv_mw_bind_info: "struct ibv_mw_bind_info" { mr, addr, length, mw_access_flags }
        ibv_mw_bind: "struct ibv_mw_bind" { wr_id, send_flags, bind_info }
        ibv_alloc_dm_attr: "struct ibv_alloc_dm_attr" { length, log_align_req, comp_mask }
        ibv_dm: "struct ibv_dm" { context, memcpy_to_dm, memcpy_from_dm, comp_mask, handle }
        ibv_pd: "struct ibv_pd" { context, handle }
        ibv_td_init_attr: "struct ibv_td_init_attr" { comp_mask }
        ibv_td: "struct ibv_td" { context }
        ibv_parent_domain_init_attr: "struct ibv_parent_domain_init_attr" {
            pd, td, comp_mask, alloc, free, pd_context,
        }
        ibv_xrcd_init_attr: "struct ibv_xrcd_init_attr" { comp_mask, fd, oflags }
        ibv_xrcd: "struct ibv_xrcd" { context }
        ibv_port_attr: "struct ibv_port_attr" {
            state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz, bad_pkey_cntr,
            qkey_viol_cntr, pkey_tbl_len, lid, sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout,
            init_type_reply, active_width, active_speed, phys_state, link_layer, flags,
            port_cap_flags2,
        }
        timespec: "struct timespec" { tv_sec, tv_nsec }
        ibv_qp_cap: "struct ibv_qp_cap" {
            max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data,
        }
        ibv_qp_init_attr: "struct ibv_qp_init_attr" {
            qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all,
        }
        ibv_qp_init_attr_ex: "struct ibv_qp_init_attr_ex" {
            qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all, comp_mask, pd, xrcd,
            create_flags, max_tso_header, rwq_ind_tbl, rx_hash_conf, source_qpn, send_ops_flags,
        }
        ibv_qp_open_attr: "struct ibv_qp_open_attr" {
            comp_mask, qp_num, xrcd, qp_context, qp_type,
        }
        ibv_qp: "struct ibv_qp" {
            context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type, mutex,
            cond, events_completed,
        }
        ibv_ece: "struct ibv_ece" { vendor_id, options, comp_mask }
        ibv_qp_attr: "struct ibv_qp_attr" {
            qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num,
            qp_access_flags, cap, ah_attr, alt_ah_attr, pkey_index, alt_pkey_index,
            en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer,
            port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout, rate_limit,
        }
        ibv_qp_rate_limit_attr: "struct ibv_qp_rate_limit_attr" {
            rate_limit, max_burst_sz, typical_pkt_sz, comp_mask,
        }
        ibv_sa_path_rec: "struct ibv_sa_path_rec" {
            dgid, sgid, dlid, slid, raw_traffic, flow_label, hop_limit, traffic_class, reversible,
            numb_path, pkey, sl, mtu_selector, mtu, rate_selector, rate,
            packet_life_time_selector, packet_life_time, preference,
        }
        ibv_sa_mcmember_rec: "struct ibv_sa_mcmember_rec" {
            mgid, port_gid, qkey, mlid, mtu_selector, mtu, traffic_class, pkey, rate_selector,
            rate, packet_life_time_selector, packet_life_time, sl, flow_label, hop_limit, scope,
            join_state, proxy_join,
        }
        ibv_sa_service_rec: "struct ibv_sa_service_rec" {
            id, gid, pkey, lease, key, name, data8, data16, data32, data64,
        }
        ibv_path_record: "struct ibv_path_record" {
            service_id, dgid, sgid, dlid, slid, flowlabel_hoplimit, tclass, reversible_numpath,
            pkey, qosclass_sl, mtu, rate, packetlifetime, preference, reserved,
        }
        ibv_path_data: "struct ibv_path_data" { flags, reserved, path }
        ibv_srq_attr: "struct ibv_srq_attr" { max_wr, max_sge, srq_limit }
        ibv_srq_init_attr: "struct ibv_srq_init_attr" { srq_context, attr }
        ibv_tm_cap: "struct ibv_tm_cap" { max_num_tags, max_ops }
        ibv_srq_init_attr_ex: "struct ibv_srq_init_attr_ex" {
            srq_context, attr, comp_mask, srq_type, pd, xrcd, cq, tm_cap,
        }
        ibv_srq: "struct ibv_srq" {
            context, srq_context, pd, handle, mutex, cond, events_completed,
        }
        ibv_ops_wr_tm_add: "__typeof__(((struct ibv_ops_wr*)0)->tm.add)" {
            recv_wr_id, sg_list, num_sge, tag, mask,
        }
        ibv_ops_wr_tm: "__typeof__(((struct ibv_ops_wr*)0)->tm)" { unexpected_cnt, handle, add }
        ibv_ops_wr: "struct ibv_ops_wr" { wr_id, next, opcode, flags, tm }
        ibv_wc_tm_info: "struct ibv_wc_tm_info" { tag, priv_ = "priv" }
        ibv_tmh: "struct ibv_tmh" { opcode, reserved, app_ctx, tag }
        ibv_rvh: "struct ibv_rvh" { va, rkey, len }
        ibv_wq_init_attr: "struct ibv_wq_init_attr" {
            wq_context, wq_type, max_wr, max_sge, pd, cq, comp_mask, create_flags,
        }
        ibv_wq_attr: "struct ibv_wq_attr" {
            attr_mask, wq_state, curr_wq_state, flags, flags_mask,
        }
        ibv_wq: "struct ibv_wq" {
            context, wq_context, pd, cq, wq_num, handle, state, wq_type, post_recv, mutex, cond,
            events_completed, comp_mask,
        }
        ibv_rwq_ind_table: "struct ibv_rwq_ind_table" {
            context, ind_tbl_handle, ind_tbl_num, comp_mask,
        }
        ibv_rwq_ind_table_init_attr: "struct ibv_rwq_ind_table_init_attr" {
            log_ind_tbl_size, ind_tbl, comp_mask,
        }
        ibv_rx_hash_conf: "struct ibv_rx_hash_conf" {
            rx_hash_function, rx_hash_key_len, rx_hash_key, rx_hash_fields_mask,
        }
        ibv_data_buf: "struct ibv_data_buf" { addr, length }
        ibv_sge: "struct ibv_sge" { addr, length, lkey }
        ibv_send_wr_rdma: "__typeof__(((struct ibv_send_wr*)0)->wr.rdma)" { remote_addr, rkey }
        ibv_send_wr_atomic: "__typeof__(((struct ibv_send_wr*)0)->wr.atomic)" {
            remote_addr, compare_add, swap, rkey,
        }
        ibv_send_wr_ud: "__typeof__(((struct ibv_send_wr*)0)->wr.ud)" {
            ah, remote_qpn, remote_qkey,
        }
        ibv_send_wr_xrc: "__typeof__(((struct ibv_send_wr*)0)->qp_type.xrc)" { remote_srqn }
        ibv_send_wr_bind_mw: "__typeof__(((struct ibv_send_wr*)0)->bind_mw)" {
            mw, rkey, bind_info,
        }
        ibv_send_wr_tso: "__typeof__(((struct ibv_send_wr*)0)->tso)" { hdr, hdr_sz, mss }
        ibv_send_wr: "struct ibv_send_wr" {
            wr_id, next, sg_list, num_sge, opcode, send_flags, imm = "imm_data", wr, qp_type,
            extra = "bind_mw",
        }
        ibv_recv_wr: "struct ibv_recv_wr" { wr_id, next, sg_list, num_sge }
    }
}

/// `ibv_qp_ex` has one slot more than in v44, so its size differs and its fields are listed
/// separately.
fn extended_qp_of_v44() -> Layout {
    type Q = ibv_qp_ex;
    macro_rules! fields {
        ($($field:ident),* $(,)?) => {
            vec![$((
                stringify!($field),
                offset_of!(Q, $field),
                size_of_field(|s: &Q| &s.$field),
            )),*]
        };
    }
    Layout {
        c_type: "struct ibv_qp_ex",
        size: offset_of!(Q, wr_flush),
        fields: fields![
            qp_base,
            comp_mask,
            wr_id,
            wr_flags,
            wr_atomic_cmp_swp,
            wr_atomic_fetch_add,
            wr_bind_mw,
            wr_local_inv,
            wr_rdma_read,
            wr_rdma_write,
            wr_rdma_write_imm,
            wr_send,
            wr_send_imm,
            wr_send_inv,
            wr_send_tso,
            wr_set_ud_addr,
            wr_set_xrc_srqn,
            wr_set_inline_data,
            wr_set_inline_data_list,
            wr_set_sge,
            wr_set_sge_list,
            wr_start,
            wr_complete,
            wr_abort,
            wr_atomic_write,
        ],
    }
}

fn opaque_types_and_unions() -> Vec<Layout> {
    sizes! {
        ibv_gid: "union ibv_gid"
        ibv_async_event_element: "__typeof__(((struct ibv_async_event *)0)->element)"
        ibv_send_wr_wr: "__typeof__(((struct ibv_send_wr *)0)->wr)"
        ibv_send_wr_qp_type: "__typeof__(((struct ibv_send_wr *)0)->qp_type)"
        ibv_flow_spec: "struct ibv_flow_spec"
        pthread_mutex_t: "pthread_mutex_t"
        pthread_cond_t: "pthread_cond_t"
    }
}

/// Sizes of structures that later versions have extended at the end. A program of such a version
/// passes the size it knows, or gets the longest form here.
const GROWN: [(&str, usize); 2] = [
    // v52: active_speed_ex.
    (
        "struct ibv_port_attr",
        size_of::<ibv_port_attr>() + size_of::<u32>(),
    ),
    // v45: wr_flush.
    ("struct ibv_qp_ex", size_of::<ibv_qp_ex>()),
];

#[test]
fn layouts_equal_the_official_headers() {
    let mut layouts = structures();
    layouts.push(extended_qp_of_v44());
    layouts.extend(opaque_types_and_unions());

    let mut body = String::new();
    let mut ours = Vec::new();
    for Layout {
        c_type,
        size,
        fields,
    } in &layouts
    {
        // Grows at its beginning and stores its size, so offsets count from its end.
        let grows_in_front = *c_type == "struct verbs_context";
        let (begin, c_begin) = match grows_in_front {
            true => (*size, format!("sizeof({c_type})")),
            false => {
                body += &format!("printf(\"{c_type} %zu\\n\", sizeof({c_type}));\n");
                ours.push(format!("{c_type} {size}"));
                (0, "0".into())
            }
        };
        for (field, offset, size) in fields {
            body += &format!(
                "printf(\"{c_type}.{field} %zd %zu\\n\", offsetof({c_type}, {field}) - {c_begin}, \
                 sizeof((({c_type} *)0)->{field}));\n"
            );
            let offset = offset.wrapping_sub(begin).cast_signed();
            ours.push(format!("{c_type}.{field} {offset} {size}"));
        }
    }
    let Some(printed) = official_headers::ask("layouts", &body) else {
        return;
    };
    let official: Vec<&str> = printed.lines().collect();
    let grown = GROWN.map(|(name, size)| format!("{name} {size}"));
    assert_eq!(official.len(), ours.len());
    let grown: BTreeSet<&str> = grown.iter().map(String::as_str).collect();
    let differing: Vec<String> = ours
        .iter()
        .zip(&official)
        .filter(|(ours, official)| ours != official && !grown.contains(*official))
        .map(|(ours, official)| format!("ours: {ours}, the header's: {official}"))
        .collect();
    assert!(differing.is_empty(), "{differing:#?}");
}

#[test]
fn wr_flush_is_the_last_member_of_ibv_qp_ex() {
    assert_eq!(
        offset_of!(ibv_qp_ex, wr_flush) + size_of::<usize>(),
        size_of::<ibv_qp_ex>()
    );
}
