//! Checks that every constant has the official headers' value.

use std::format;
use std::string::String;
use std::vec::Vec;

use crate::official_headers;

/// Returns every group of constants that v44's headers define.
fn all() -> Vec<(&'static str, i128)> {
    [
        crate::address::gid_types(),
        crate::completion::wc_statuses(),
        crate::completion::wc_opcodes(),
        crate::completion::wc_flags(),
        crate::completion::create_cq_wc_flags(),
        crate::counters::counter_descriptions(),
        crate::counters::read_flags(),
        crate::cq::cq_attr_masks(),
        crate::device::node_types(),
        crate::device::transport_types(),
        crate::device::fork_statuses(),
        crate::device::sysfs_sizes(),
        crate::device_attr::device_cap_flags(),
        crate::device_attr::device_cap_flags_ex(),
        crate::device_attr::atomic_caps(),
        crate::device_attr::odp_transport_caps(),
        crate::device_attr::odp_general_caps(),
        crate::device_attr::raw_packet_caps(),
        crate::device_attr::tm_cap_flags(),
        crate::device_attr::pci_atomic_sizes(),
        crate::event::event_types(),
        crate::flow::flow_flags(),
        crate::flow::flow_attr_types(),
        crate::flow::flow_spec_types(),
        crate::flow_action::flow_action_esp_constants(),
        crate::memory::access_flags(),
        crate::memory::rereg_mr_flags(),
        crate::memory::rereg_mr_err_codes(),
        crate::memory::advise_mr_advices(),
        crate::memory::advise_mr_flags(),
        crate::memory::mw_types(),
        crate::memory::dm_masks(),
        crate::pd::parent_domain_masks(),
        crate::pd::xrcd_masks(),
        crate::port::mtus(),
        crate::port::port_states(),
        crate::port::link_layers(),
        crate::port::port_cap_flags(),
        crate::port::port_cap_flags2(),
        crate::port::port_flags(),
        crate::qp::qp_types(),
        crate::qp::qp_init_attr_masks(),
        crate::qp::qp_create_flags(),
        crate::qp::qp_create_send_ops_flags(),
        crate::qp::qp_open_attr_masks(),
        crate::qp_attr::qp_attr_masks(),
        crate::qp_attr::qp_states(),
        crate::qp_attr::mig_states(),
        crate::rate::rates(),
        crate::sa::path_record_bits(),
        crate::srq::srq_attr_masks(),
        crate::srq::srq_types(),
        crate::srq::srq_init_attr_masks(),
        crate::tag_matching::ops_wr_opcodes(),
        crate::tag_matching::ops_flags(),
        crate::tag_matching::tmh_ops(),
        crate::wq::wq_types(),
        crate::wq::wq_masks(),
        crate::wq::wq_states(),
        crate::wq::rx_hash(),
        crate::wr::wr_opcodes(),
        crate::wr::send_flags(),
    ]
    .concat()
}

#[test]
fn constants_equal_the_official_headers() {
    let constants = all();
    let body: String = constants
        .iter()
        .map(|(name, _)| format!("printf(\"%s %lld\\n\", \"{name}\", (long long)({name}));\n"))
        .collect();
    let Some(printed) = official_headers::ask("constants", &body) else {
        return;
    };
    let official: Vec<&str> = printed.lines().collect();
    assert_eq!(official.len(), constants.len());
    for ((name, ours), line) in constants.iter().zip(official) {
        assert_eq!(
            format!("{name} {ours}"),
            line,
            "ours (left) against the header's (right)"
        );
    }
}
