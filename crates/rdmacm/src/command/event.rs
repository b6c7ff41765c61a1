//! Events: rdma_get_cm_event(3), rdma_write_cm_event(3).

use super::written::Command;
use crate::abi::{EventAnswer, GetEvent, WriteCmEvent};
use crate::channel::{self, Channel, Waiting};
use crate::event::{Event, EventKind, Parameters};
use crate::service::Service;
use crate::state::State;
use std::mem::offset_of;
use std::os::fd::AsFd;
use verbena_hca_os::errno::{Errno, Result};

/// Waits for an event of the channel and returns it as the answer.
///
/// # Errors
/// EAGAIN if the descriptor does not block and there is no event; EINTR.
///
/// # Safety
/// That of [`super::execute`].
pub unsafe fn get(service: &Service, command: &Command<'_>) -> Result<()> {
    let wanted: GetEvent = command.read()?;
    let answer = loop {
        let end = channel_of(&mut service.lock(), command)?.begin_waiting();
        let waited = channel::wait(end.as_fd());
        let mut state = service.lock();
        let Some(channel) = state.channels.get_mut(&command.channel) else {
            drop(state);
            return outlive();
        };
        channel.end_waiting();
        waited?;
        // Another thread may have taken the event.
        if let Some(waiting) = channel.pop() {
            break report(&mut state, &waiting);
        }
    };
    // Older libraries have no space for the later fields.
    let least = offset_of!(EventAnswer, reserved);
    // SAFETY: the caller promises valid addresses inside the command.
    unsafe { command.answer(wanted.response, &answer, least) }
}

/// Waits for a signal: a thread whose channel another thread closes goes on waiting, as on the
/// device.
fn outlive() -> Result<()> {
    // SAFETY: pause(2) has no preconditions.
    unsafe { libc::pause() };
    Err(Errno(libc::EINTR))
}

fn channel_of<'a>(state: &'a mut State, command: &Command<'_>) -> Result<&'a mut Channel> {
    let channel = state.channels.get_mut(&command.channel);
    channel.ok_or(Errno(libc::EBADF))
}

/// Counts an event as reported, and returns it with the IDs that the library knows.
fn report(state: &mut State, waiting: &Waiting) -> EventAnswer {
    let mut uid = 0;
    if let Some(owner) = state.identifiers.get_mut(waiting.owner) {
        owner.events_reported += 1;
        uid = owner.uid;
    }
    let mut id = waiting.request.unwrap_or(waiting.owner);
    if let Some((number, group)) = waiting
        .group
        .and_then(|number| Some((number, state.groups.get_mut(number)?)))
    {
        group.events_reported += 1;
        (uid, id) = (group.uid, number);
    }
    waiting.event.answer(uid, id)
}

/// Puts an event of the program into the channel of an identifier.
///
/// # Errors
/// EINVAL for kinds other than those that programs (RDMA_CM_EVENT_USER) and librdmacm
/// (RDMA_CM_EVENT_INTERNAL) may write.
pub fn write(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: WriteCmEvent = command.read()?;
    let kinds = [EventKind::User, EventKind::Internal];
    let kind = kinds
        .into_iter()
        .find(|kind| *kind as u32 == wanted.event)
        .ok_or(Errno::EINVAL)?;
    state.identifier(command.channel, wanted.id)?;
    let event = Event {
        kind,
        status: wanted.status as i32,
        parameters: Parameters::Argument(wanted.arg),
    };
    // A kernel delivers it even if the library has not named the identifier yet.
    state.deliver(wanted.id, event);
    Ok(())
}
