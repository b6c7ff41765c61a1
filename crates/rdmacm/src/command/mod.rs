//! Commands that librdmacm writes to the device, one file per group.

pub mod attributes;
pub mod bind;
pub mod connect;
pub mod create;
pub mod event;
pub mod group;
pub mod option;
pub mod query;
mod refused;
pub mod service;
mod written;

pub use refused::tell_refused;
pub use written::Command;

use crate::abi::{Header, code};
use crate::channel::{Channel, ChannelId};
use crate::service::Service;
use crate::state::State;
use std::os::fd::RawFd;
use verbena_hca_os::errno::{Errno, Result};
use zerocopy::FromBytes;

/// Opens an event channel and returns the program's descriptor for it.
///
/// # Errors
/// Those of joining the host's adapter and of opening descriptors.
pub fn open() -> Result<RawFd> {
    let service = Service::current()?;
    let (descriptor, channel) = Channel::open()?;
    service.lock().channels.insert(channel.id(), channel);
    Ok(descriptor)
}

/// Records another descriptor of a possible channel: a copy by dup(2), or one received from another
/// process.
pub fn copied(descriptor: RawFd) {
    let (Some(service), Ok(id)) = (Service::existing(), ChannelId::at(descriptor)) else {
        return;
    };
    if let Some(channel) = service.lock().channels.get_mut(&id) {
        channel.descriptors.push(descriptor);
    }
}

/// Handles the closing of `descriptor`: closing the last one of a channel ends everything on it.
/// The number may already refer to another file.
pub fn close(descriptor: RawFd) {
    let Some(service) = Service::existing() else {
        return;
    };
    let Some(id) = forget_descriptor(&mut service.lock(), descriptor) else {
        return;
    };
    wait_for_taker(service, id);
    let mut state = service.lock();
    let identifiers = state.identifiers.iter();
    let mine: Vec<u32> = identifiers
        .filter(|(_, identifier)| identifier.channel == id)
        .map(|(number, _)| number)
        .collect();
    for number in mine {
        state.destroy(number);
    }
    if let Some(channel) = state.channels.remove(&id) {
        channel.close();
    }
}

/// Removes a descriptor from its channel. Returns the channel if it was the last.
fn forget_descriptor(state: &mut State, descriptor: RawFd) -> Option<ChannelId> {
    let (id, channel) = state
        .channels
        .iter_mut()
        .find(|(_, channel)| channel.descriptors.contains(&descriptor))?;
    channel.descriptors.retain(|other| *other != descriptor);
    channel.descriptors.is_empty().then_some(*id)
}

/// Gives a thread that has just taken an event time to call again before the channel closes. A
/// kernel takes some time to close a channel, and programs rely on it without knowing: their event
/// thread asks for the next event while another thread closes, and if it comes too late the
/// descriptor no longer exists (rping exits with an error).
fn wait_for_taker(service: &Service, id: ChannelId) {
    const MOST: u32 = 10;
    for _ in 0..MOST {
        let state = service.lock();
        let channel = state.channels.get(&id);
        if !channel.is_some_and(Channel::has_a_busy_taker) {
            return;
        }
        drop(state);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Carries out a command that the program has written to `descriptor`; returns its length, as
/// write(2) does.
///
/// # Errors
/// EBADF if the descriptor is no channel of this process; EINVAL for an invalid command; ENOSYS for
/// an unsupported one; and those of the command.
///
/// # Safety
/// Addresses inside the command (of answers and options) must be valid for the memory that the
/// interface requires.
pub unsafe fn execute(descriptor: RawFd, bytes: &[u8]) -> Result<usize> {
    let none = Errno(libc::EBADF);
    let service = Service::existing().ok_or(none)?;
    let channel = ChannelId::at(descriptor)?;
    if !service.lock().channels.contains_key(&channel) {
        return Err(none);
    }
    let (header, body) = Header::read_from_prefix(bytes).map_err(|_| Errno::EINVAL)?;
    if usize::from(header.r#in) > body.len() {
        return Err(Errno::EINVAL);
    }
    let body = &body[..header.r#in.into()];
    let command = Command {
        channel,
        body,
        room: header.out.into(),
    };
    match header.cmd {
        // These two may block, so they must not hold the lock.
        // SAFETY: the caller promises valid addresses inside the command.
        code::GET_EVENT => unsafe { event::get(service, &command)? },
        code::CONNECT => connect::connect(&command, service)?,
        // SAFETY: the caller promises valid addresses inside the command.
        other => unsafe { carry_out(&command, other, &mut service.lock())? },
    }
    Ok(bytes.len())
}

/// Carries out the command with a code.
///
/// # Safety
/// That of [`execute`].
unsafe fn carry_out(command: &Command<'_>, code: u32, state: &mut State) -> Result<()> {
    // SAFETY: the caller promises valid addresses inside the command.
    unsafe {
        match code {
            code::CREATE_ID => create::create(command, state),
            code::DESTROY_ID => create::destroy(command, state),
            code::MIGRATE_ID => create::migrate(command, state),
            code::BIND_IP => bind::bind(command, state),
            // librdmacm checks for AF_IB support with such an address.
            code::BIND => Err(Errno(libc::EAFNOSUPPORT)),
            code::RESOLVE_IP => bind::resolve(command, state),
            code::RESOLVE_ROUTE => bind::resolve_route(command, state),
            code::QUERY_ROUTE => query::route(command, state),
            code::QUERY => query::by_option(command, state),
            code::RESOLVE_IB_SERVICE => service::resolve(command, state),
            code::WRITE_CM_EVENT => event::write(command, state),
            code::LISTEN => connect::listen(command, state),
            code::ACCEPT => connect::accept(command, state),
            code::REJECT => connect::reject(command, state),
            code::DISCONNECT => connect::disconnect(command, state),
            code::NOTIFY => connect::notify(command, state),
            code::INIT_QP_ATTR => attributes::init(command, state),
            code::SET_OPTION => option::set(command, state),
            code::JOIN_IP_MCAST => group::join(command, state),
            code::LEAVE_MCAST => group::leave(command, state),
            _ => Err(Errno(libc::ENOSYS)),
        }
    }
}
