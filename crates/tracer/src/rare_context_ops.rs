//! Traces the calls through the table of an open device that few programs make, and few adapters
//! offer: raw work queues, flows, counters, advice.

use libc::c_int;
use verbena_abi::*;

use crate::call::{arguments, end};
use crate::context_ops::{ending_slots, real, slots};
use crate::names::Kind;
use crate::text::name;

slots! {
    advise_mr as "ibv_advise_mr"(
        pd: *mut ibv_pd, advice: ibv_advise_mr_advice, flags: u32, list: *mut ibv_sge, count: u32
    ) -> c_int;
        in advise_mr at (*pd).context
    => |result, details| {
        details.errno_value(result);
        arguments!(details, "{}, {count} buffers", name(Kind::Pd, pd));
    }

    modify_cq as "ibv_modify_cq"(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int;
        in modify_cq at (*cq).context
    => |result, details| {
        details.errno_value(result);
        arguments!(details, "{}", name(Kind::Cq, cq));
    }

    query_rt_values as "ibv_query_rt_values_ex"(
        context: *mut ibv_context, values: *mut ibv_values_ex
    ) -> c_int;
        in query_rt_values at context
    => |result, details| {
        details.errno_value(result);
        arguments!(details, "{}", name(Kind::Context, context));
    }

    modify_qp_rate_limit as "ibv_modify_qp_rate_limit"(
        qp: *mut ibv_qp, attr: *mut ibv_qp_rate_limit_attr
    ) -> c_int;
        in modify_qp_rate_limit at (*qp).context
    => |result, details| {
        details.errno_value(result);
        arguments!(details, "{}", name(Kind::Qp, qp));
    }

    post_srq_ops as "ibv_post_srq_ops"(
        srq: *mut ibv_srq, operation: *mut ibv_ops_wr, bad: *mut *mut ibv_ops_wr
    ) -> c_int;
        in post_srq_ops at (*srq).context;
        refused { crate::context_ops::all_refused(operation, bad); }
    => |result, details| {
        details.errno_value(result);
        arguments!(details, "{}", name(Kind::Srq, srq));
    }

    create_wq as "ibv_create_wq"(
        context: *mut ibv_context, init: *mut ibv_wq_init_attr
    ) -> *mut ibv_wq;
        in create_wq at context
    => |object, details| {
        details.object(Kind::Wq, object);
        arguments!(details, "{}", name(Kind::Context, context));
    }

    modify_wq as "ibv_modify_wq"(wq: *mut ibv_wq, attr: *mut ibv_wq_attr) -> c_int;
        in modify_wq at (*wq).context
    => |result, details| {
        details.errno_value(result);
        arguments!(details, "{}", name(Kind::Wq, wq));
    }

    create_rwq_ind_table as "ibv_create_rwq_ind_table"(
        context: *mut ibv_context, init: *mut ibv_rwq_ind_table_init_attr
    ) -> *mut ibv_rwq_ind_table;
        in create_rwq_ind_table at context
    => |object, details| {
        details.object(Kind::IndirectionTable, object);
        arguments!(details, "{}", name(Kind::Context, context));
    }

    create_counters as "ibv_create_counters"(
        context: *mut ibv_context, init: *mut ibv_counters_init_attr
    ) -> *mut ibv_counters;
        in create_counters at context
    => |object, details| {
        details.object(Kind::Counters, object);
        arguments!(details, "{}", name(Kind::Context, context));
    }

    read_counters as "ibv_read_counters"(
        counters: *mut ibv_counters, values: *mut u64, count: u32, flags: u32
    ) -> c_int;
        in read_counters at (*counters).context
    => |result, details| {
        details.errno_value(result);
        arguments!(details, "{}, {count}, flags={flags:#x}", name(Kind::Counters, counters));
    }

    attach_counters_point_flow as "ibv_attach_counters_point_flow"(
        counters: *mut ibv_counters, attr: *mut ibv_counter_attach_attr, flow: *mut ibv_flow
    ) -> c_int;
        in attach_counters_point_flow at (*counters).context
    => |result, details| {
        details.errno_value(result);
        arguments!(details, "{}, {}", name(Kind::Counters, counters), name(Kind::Flow, flow));
    }

    ibv_create_flow as "ibv_create_flow"(
        qp: *mut ibv_qp, attr: *mut ibv_flow_attr
    ) -> *mut ibv_flow;
        in ibv_create_flow at (*qp).context
    => |object, details| {
        details.object(Kind::Flow, object);
        arguments!(details, "{}", name(Kind::Qp, qp));
    }

    create_flow_action_esp as "ibv_create_flow_action_esp"(
        context: *mut ibv_context, attr: *mut ibv_flow_action_esp_attr
    ) -> *mut ibv_flow_action;
        in create_flow_action_esp at context
    => |object, details| {
        details.object(Kind::FlowAction, object);
        arguments!(details, "{}", name(Kind::Context, context));
    }

    modify_flow_action_esp as "ibv_modify_flow_action_esp"(
        action: *mut ibv_flow_action, attr: *mut ibv_flow_action_esp_attr
    ) -> c_int;
        in modify_flow_action_esp at (*action).context
    => |result, details| {
        details.errno_value(result);
        arguments!(details, "{}", name(Kind::FlowAction, action));
    }
}

ending_slots! {
    destroy_wq as "ibv_destroy_wq"(wq: *mut ibv_wq) of Kind::Wq, in destroy_wq at (*wq).context
    destroy_rwq_ind_table as "ibv_destroy_rwq_ind_table"(
        table: *mut ibv_rwq_ind_table
    ) of Kind::IndirectionTable,
        in destroy_rwq_ind_table at (*table).context
    destroy_counters as "ibv_destroy_counters"(counters: *mut ibv_counters) of Kind::Counters,
        in destroy_counters at (*counters).context
    ibv_destroy_flow as "ibv_destroy_flow"(flow: *mut ibv_flow) of Kind::Flow,
        in ibv_destroy_flow at (*flow).context
    destroy_flow_action as "ibv_destroy_flow_action"(
        action: *mut ibv_flow_action
    ) of Kind::FlowAction,
        in destroy_flow_action at (*action).context
}
