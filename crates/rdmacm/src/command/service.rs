//! Service records of subnet administration: rdma_resolve_addrinfo(3) with RAI_SA.

use super::written::Command;
use crate::abi::ResolveIbService;
use crate::connection_state::ConnectionState;
use crate::event::{Event, EventKind};
use crate::state::State;
use verbena_hca_net::link;
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

/// Looks for a service's records. The subnet of this host has none, so the answer is that of a
/// kernel whose subnet administration knows no such service (`ib_sa_service_rec_callback`): an
/// event with ENODATA.
///
/// # Errors
/// EINVAL unless the identifier is bound to the device and no further; EOPNOTSUPP over RoCE, which
/// has no subnet administration.
pub fn resolve(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: ResolveIbService = command.read()?;
    let identifier = state.identifier(command.channel, wanted.id)?;
    if identifier.state != ConnectionState::Bound || !identifier.has_device() {
        return Err(refused!(
            EINVAL,
            "the identifier is not bound to the device: rdma_bind_addr it to an address of this \
             host first"
        ));
    }
    if link::is_ethernet() {
        return Err(refused!(
            EOPNOTSUPP,
            "an Ethernet port has no subnet administration: use RAI_DNS"
        ));
    }
    state.raise(
        wanted.id,
        Event::plain(EventKind::AddrinfoError, -libc::ENODATA),
    );
    Ok(())
}
