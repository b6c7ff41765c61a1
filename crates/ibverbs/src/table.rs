//! The operations tables of a context. Every slot of the extended table has a function, so that
//! every call through it has a result.

use verbena_abi::verbs_context;
use verbena_hca::cq::are_ruled;

use crate::{cq, cq_create, dm, mr, mw, pd, post, qp_create, query, srq, unsupported, xrcd};

/// Fills in the functions.
pub fn fill(c: &mut verbs_context) {
    let ops = &mut c.context.ops;
    ops.alloc_mw = Some(mw::alloc_mw);
    ops.bind_mw = Some(post::bind_mw);
    ops.dealloc_mw = Some(mw::dealloc_mw);
    ops.poll_cq = Some(cq::poll_cq);
    if are_ruled() {
        ops.poll_cq.replace(cq::poll_cq_by_rules);
    }
    ops.req_notify_cq = Some(cq::req_notify_cq);
    ops.post_srq_recv = Some(post::post_srq_recv);
    ops.post_send = Some(post::post_send);
    ops.post_recv = Some(post::post_recv);

    c.query_port = Some(query::query_port);
    c.advise_mr = Some(mr::advise_mr);
    c.alloc_null_mr = Some(mr::alloc_null_mr);
    c.read_counters = Some(unsupported::read_counters);
    c.attach_counters_point_flow = Some(unsupported::attach_counters_point_flow);
    c.create_counters = Some(unsupported::create_counters);
    c.destroy_counters = Some(unsupported::destroy_counters);
    c.reg_dm_mr = Some(dm::reg_dm_mr);
    c.alloc_dm = Some(dm::alloc_dm);
    c.free_dm = Some(dm::free_dm);
    c.modify_flow_action_esp = Some(unsupported::modify_flow_action_esp);
    c.destroy_flow_action = Some(unsupported::destroy_flow_action);
    c.create_flow_action_esp = Some(unsupported::create_flow_action_esp);
    c.modify_qp_rate_limit = Some(unsupported::modify_qp_rate_limit);
    c.alloc_parent_domain = Some(pd::alloc_parent_domain);
    c.dealloc_td = Some(pd::dealloc_td);
    c.alloc_td = Some(pd::alloc_td);
    c.modify_cq = Some(cq::modify_cq);
    c.post_srq_ops = Some(srq::post_srq_ops);
    c.destroy_rwq_ind_table = Some(unsupported::destroy_rwq_ind_table);
    c.create_rwq_ind_table = Some(unsupported::create_rwq_ind_table);
    c.destroy_wq = Some(unsupported::destroy_wq);
    c.modify_wq = Some(unsupported::modify_wq);
    c.create_wq = Some(unsupported::create_wq);
    c.query_rt_values = Some(query::query_rt_values);
    c.create_cq_ex = Some(cq_create::create_cq_ex);
    c.query_device_ex = Some(query::query_device_ex);
    c.ibv_destroy_flow = Some(unsupported::destroy_flow);
    c.ibv_create_flow = Some(unsupported::create_flow);
    c.open_qp = Some(qp_create::open_qp);
    c.create_qp_ex = Some(qp_create::create_qp_ex);
    c.get_srq_num = Some(srq::get_srq_num);
    c.create_srq_ex = Some(srq::create_srq_ex);
    c.open_xrcd = Some(xrcd::open_xrcd);
    c.close_xrcd = Some(xrcd::close_xrcd);
}
