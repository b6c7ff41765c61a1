//! Queries an identifier's addresses, device and path.

use super::written::Command;
use crate::abi::{Query, RouteAnswer};
use crate::state::State;
use crate::{address, device};
use std::mem::offset_of;
use verbena_hca_os::errno::{Errno, Result};

/// RDMA_USER_CM_QUERY_IB_SERVICE.
const SERVICE_RECORDS: u32 = 3;
/// Bytes in front of the records in its answer.
const SERVICE_HEAD: usize = 8;

/// Answers with the addresses, device and path of an identifier.
///
/// # Errors
/// ENOENT or EINVAL for an unknown identifier; ENOSPC without room for the answer.
///
/// # Safety
/// That of [`super::execute`].
pub unsafe fn route(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: Query = command.read()?;
    let identifier = state.identifier(command.channel, wanted.id)?;
    let mut answer = RouteAnswer {
        src_addr: address::encode(identifier.source),
        dst_addr: address::encode(identifier.destination),
        ibdev_index: device::NO_INDEX,
        ..Default::default()
    };
    if identifier.has_device() {
        let (device, port) = identifier.path.device();
        answer.node_guid = device.guid().to_be_bytes();
        answer.port_num = port;
        answer.ib_route[0] = identifier.path.ends();
        if identifier.has_route() {
            answer.ib_route[0] = identifier.path.record();
            answer.num_paths = 1;
        }
    }
    // Older libraries do not know the device's index.
    let least = offset_of!(RouteAnswer, ibdev_index);
    // SAFETY: the caller promises valid addresses inside the command.
    unsafe { command.answer(wanted.response, &answer, least) }
}

/// The newer form of the query. Its only supported option is service records, as the others are for
/// AF_IB addresses.
///
/// # Errors
/// ENODATA, as no identifier finds a service ([`super::service`]); ENOSPC without room for an
/// answer; ENOSYS for other options.
pub fn by_option(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: Query = command.read()?;
    state.identifier(command.channel, wanted.id)?;
    match wanted.option {
        SERVICE_RECORDS if command.room < SERVICE_HEAD => Err(Errno(libc::ENOSPC)),
        SERVICE_RECORDS => Err(Errno(libc::ENODATA)),
        _ => Err(Errno(libc::ENOSYS)),
    }
}
