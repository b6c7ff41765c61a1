//! The calls that can be refused, and how each tells its failure.
//!
//! Not among them: calls that destroy objects (an adapter refuses those only while the object is in
//! use), calls that cannot fail, and `ibv_rereg_mr(3)`, whose failure leaves the region in one of
//! three states.

/// How a call tells that it has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// NULL, with the error number in `errno`.
    Null,
    /// The error number.
    Number,
    /// -1, with the error number in `errno`.
    MinusOne,
}

/// The purpose of a call, as far as a sweep must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Makes, changes or asks for an object.
    Control,
    /// Posts or arms: once for every message.
    Post,
    /// Waits for an event, or asks whether there is one: as often as the time allows.
    Wait,
}

/// A call that can be refused.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    /// The function's name.
    pub name: &'static str,
    /// How it tells a failure.
    pub returns: Returns,
    /// Its purpose.
    pub class: Class,
}

macro_rules! calls {
    ($($returns:ident $class:ident: $($name:ident)*;)*) => {
        /// All calls that can be refused.
        pub const CALLS: &[Call] = &[$($(Call {
            name: stringify!($name),
            returns: Returns::$returns,
            class: Class::$class,
        }),*),*];
    };
}

#[rustfmt::skip]
calls! {
    Null Control:
        ibv_get_device_list ibv_open_device ibv_import_device ibv_alloc_pd ibv_import_pd
        ibv_alloc_parent_domain ibv_alloc_td ibv_reg_mr ibv_reg_mr_iova ibv_reg_mr_iova2
        ibv_reg_dmabuf_mr ibv_reg_dm_mr ibv_import_mr ibv_alloc_null_mr ibv_alloc_mw ibv_alloc_dm
        ibv_import_dm ibv_create_comp_channel ibv_create_cq ibv_create_cq_ex ibv_create_srq
        ibv_create_srq_ex ibv_create_qp ibv_create_qp_ex ibv_open_qp ibv_open_xrcd ibv_create_ah
        ibv_create_ah_from_wc ibv_create_wq ibv_create_rwq_ind_table ibv_create_counters
        ibv_create_flow ibv_create_flow_action_esp rdma_create_event_channel;
    Number Control:
        ibv_fork_init ibv_query_device ibv_query_device_ex ibv_query_port ibv_query_gid_ex
        ibv_query_rt_values_ex ibv_init_ah_from_wc ibv_resize_cq ibv_modify_cq ibv_modify_srq
        ibv_query_srq ibv_get_srq_num ibv_modify_qp ibv_query_qp ibv_modify_qp_rate_limit
        ibv_query_ece ibv_set_ece ibv_attach_mcast ibv_detach_mcast ibv_advise_mr ibv_modify_wq
        ibv_read_counters ibv_attach_counters_point_flow ibv_modify_flow_action_esp;
    Number Post:
        ibv_post_send ibv_post_recv ibv_post_srq_recv ibv_post_srq_ops ibv_wr_complete ibv_bind_mw
        ibv_req_notify_cq;
    MinusOne Control:
        ibv_query_gid ibv_query_pkey ibv_get_pkey_index rdma_create_id rdma_create_ep
        rdma_migrate_id rdma_bind_addr rdma_resolve_addr rdma_resolve_route rdma_create_qp
        rdma_create_qp_ex rdma_create_srq rdma_create_srq_ex rdma_connect rdma_establish
        rdma_listen rdma_accept rdma_reject rdma_reject_ece rdma_notify rdma_disconnect
        rdma_join_multicast rdma_join_multicast_ex rdma_leave_multicast rdma_set_option
        rdma_init_qp_attr rdma_set_local_ece rdma_get_remote_ece;
    MinusOne Wait:
        ibv_get_cq_event ibv_get_async_event rdma_get_cm_event rdma_get_request;
}

/// Returns the call with this name.
pub fn named(name: &str) -> Option<&'static Call> {
    CALLS.iter().find(|call| call.name == name)
}

/// Returns the calls whose names match a pattern, in which `*` stands for any characters.
pub fn matching(pattern: &str) -> impl Iterator<Item = &'static Call> {
    CALLS.iter().filter(move |call| matches(pattern, call.name))
}

fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        if let Some(before) = last.replace(part) {
            match rest.find(before) {
                Some(at) => rest = &rest[at + before.len()..],
                None => return false,
            }
        }
    }
    match last {
        None => rest.is_empty(),
        Some(last) => rest.ends_with(last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for call in CALLS {
            assert_eq!(named(call.name), Some(call));
        }
    }

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, name, is) in [
            ("ibv_reg_mr", "ibv_reg_mr", true),
            ("ibv_reg_mr", "ibv_reg_mr_iova", false),
            ("ibv_reg_mr*", "ibv_reg_mr_iova", true),
            ("*", "ibv_reg_mr", true),
            ("ibv_*_mr", "ibv_reg_dm_mr", true),
            ("ibv_*_mr", "ibv_reg_mr_iova", false),
            ("*create*qp*", "ibv_create_qp_ex", true),
            ("*qp*create*", "ibv_create_qp_ex", false),
            ("a*a", "a", false),
            ("", "ibv_reg_mr", false),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
    }
}
