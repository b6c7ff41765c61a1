//! What is known of an identifier: its addresses, device and path.

use super::Command;
use crate::abi::{Query, RouteAnswer};
use crate::service::State;
use crate::{address, device};
use std::mem::offset_of;
use verbena_hca::errno::Result;

/// # Safety
/// As for [`super::execute`].
pub unsafe fn route(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: Query = command.read()?;
    let identifier = state.identifier(command.descriptor, wanted.id)?;
    let mut answer = RouteAnswer {
        src_addr: address::encode(identifier.source),
        dst_addr: address::encode(identifier.destination),
        ibdev_index: device::NO_INDEX,
        ..Default::default()
    };
    if identifier.has_device() {
        let (device, port) = identifier.way.device();
        answer.node_guid = device.guid().to_be_bytes();
        answer.port_num = port;
        answer.ib_route[0] = identifier.way.ends();
        if identifier.has_route() {
            answer.ib_route[0] = identifier.way.path();
            answer.num_paths = 1;
        }
    }
    // Older libraries do not know the device's index.
    let least = offset_of!(RouteAnswer, ibdev_index);
    // SAFETY: passed on.
    unsafe { command.answer(wanted.response, &answer, least) }
}
