//! Port numbers in queue pair attributes: programs use those of their device, the adapter those of
//! the host ([`crate::device`]).

use std::ffi::c_int;

use crate::device::Device;
use verbena_abi::*;
use verbena_hca_os::errno::Result;

/// Returns the attributes in `mask` with the host's port numbers.
///
/// # Errors
/// EINVAL for a port that the device does not have.
pub(super) fn of_host(device: Device, given: &ibv_qp_attr, mask: c_int) -> Result<ibv_qp_attr> {
    let mut host = *given;
    let translate = |bit: c_int, name: &str, port: &mut u8| -> Result<()> {
        if mask & bit != 0 {
            *port = device.port(name, *port)?;
        }
        Ok(())
    };
    translate(IBV_QP_PORT, "port_num", &mut host.port_num)?;
    translate(IBV_QP_AV, "ah_attr.port_num", &mut host.ah_attr.port_num)?;
    translate(IBV_QP_ALT_PATH, "alt_port_num", &mut host.alt_port_num)?;
    let alternate = &mut host.alt_ah_attr.port_num;
    translate(IBV_QP_ALT_PATH, "alt_ah_attr.port_num", alternate)?;
    Ok(host)
}

/// Returns the attributes with the device's port numbers. 0 stands for a port that was not set.
pub(super) fn of_device(mut attributes: ibv_qp_attr) -> ibv_qp_attr {
    for port in [
        &mut attributes.port_num,
        &mut attributes.ah_attr.port_num,
        &mut attributes.alt_port_num,
        &mut attributes.alt_ah_attr.port_num,
    ] {
        if *port != 0 {
            *port = Device::of_port(*port).1;
        }
    }
    attributes
}
