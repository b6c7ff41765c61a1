//! Taking an event and writing one: rdma_get_cm_event(3), rdma_write_cm_event(3).

use super::Command;
use crate::abi::{EventAnswer, GetEvent, WriteCmEvent};
use crate::channel::{self, Channel, Waiting};
use crate::event::{Event, Kind, Parameters};
use crate::service::{Service, State};
use std::mem::offset_of;
use std::os::fd::AsFd;
use verbena_hca::errno::{Errno, Result};

/// Waits for an event of the channel and answers with it.
///
/// # Errors
/// EAGAIN when the descriptor does not block and none is there; EINTR.
///
/// # Safety
/// As for [`super::execute`].
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
        // Another thread may have been faster.
        if let Some(waiting) = channel.pop() {
            break report(&mut state, &waiting);
        }
    };
    // Older libraries have no room for what came later.
    let least = offset_of!(EventAnswer, reserved);
    // SAFETY: passed on.
    unsafe { command.answer(wanted.response, &answer, least) }
}

/// A thread that waits on a channel while another closes it waits on, as on the device, until a signal comes.
fn outlive() -> Result<()> {
    // SAFETY: takes nothing.
    unsafe { libc::pause() };
    Err(Errno(libc::EINTR))
}

fn channel_of<'a>(state: &'a mut State, command: &Command<'_>) -> Result<&'a mut Channel> {
    let channel = state.channels.get_mut(&command.channel);
    channel.ok_or(Errno(libc::EBADF))
}

/// Counts an event as reported, and gives it under the names that the library knows.
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

/// Puts an event of the program's own into the channel of an identifier.
///
/// # Errors
/// EINVAL for other kinds than programs (RDMA_CM_EVENT_USER) and librdmacm (RDMA_CM_EVENT_INTERNAL)
/// may write.
pub fn write(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: WriteCmEvent = command.read()?;
    let kinds = [Kind::User, Kind::Internal];
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
    // A kernel also delivers that of an identifier whose name the library has not told yet.
    state.deliver(wanted.id, event);
    Ok(())
}
