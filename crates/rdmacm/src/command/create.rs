//! Creates and destroys identifiers: rdma_create_id(3), rdma_destroy_id(3), rdma_migrate_id(3).

use super::written::Command;
use crate::abi::{CreateId, CreateIdAnswer, DestroyId, MigrateId};
use crate::channel::ChannelId;
use crate::identifier::{Identifier, QueuePairKind, Space};
use crate::state::State;
use std::os::fd::RawFd;
use verbena_hca_os::errno::{Errno, Result};

/// Creates an identifier.
///
/// # Errors
/// EINVAL for an unknown port space, ENOMEM if no number is free, ENOSPC or EFAULT for the answer.
///
/// # Safety
/// That of [`super::execute`].
pub unsafe fn create(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: CreateId = command.read()?;
    let space = Space::of(wanted.ps)?;
    let generation = state.next_generation();
    let kind = QueuePairKind::of(wanted.qp_type.into());
    let identifier = Identifier::new(command.channel, space, kind, wanted.uid, generation);
    let id = state.identifiers.insert(identifier).ok_or(Errno::ENOMEM)?;
    let answer = CreateIdAnswer { id };
    // SAFETY: the caller promises valid addresses inside the command.
    let answered = unsafe { command.answer(wanted.response, &answer, size_of::<CreateIdAnswer>()) };
    if answered.is_err() {
        state.identifiers.remove(id);
    }
    answered
}

/// Destroys an identifier.
///
/// # Errors
/// ENOENT if there is none, EINVAL if it belongs to another channel.
///
/// # Safety
/// That of [`super::execute`].
pub unsafe fn destroy(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: DestroyId = command.read()?;
    state.identifier(command.channel, wanted.id)?;
    let reported = state.destroy(wanted.id).ok_or(Errno::ENOENT)?;
    // SAFETY: the caller promises valid addresses inside the command.
    unsafe { command.answer_reported(wanted.response, reported) }
}

/// Moves an identifier and its waiting events to the channel that the command is written to.
///
/// # Errors
/// ENOENT if there is no descriptor of that number or no such identifier, EINVAL if it belongs to
/// no channel.
///
/// # Safety
/// That of [`super::execute`].
pub unsafe fn migrate(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: MigrateId = command.read()?;
    let from = ChannelId::at(wanted.fd as RawFd).map_err(|_| Errno::ENOENT)?;
    if !state.channels.contains_key(&from) {
        return Err(Errno::EINVAL);
    }
    let identifier = state.identifier(from, wanted.id)?;
    identifier.channel = command.channel;
    let reported = identifier.events_reported;
    let moved = state.take_events(from, |waiting| waiting.owner == wanted.id);
    for waiting in moved {
        // Requests that wait at a listener belong to identifiers, which move with it.
        if let Some(request) = waiting.request.and_then(|of| state.identifiers.get_mut(of)) {
            request.channel = command.channel;
        }
        if let Some(channel) = state.channels.get_mut(&command.channel) {
            channel.push(waiting);
        }
    }
    // SAFETY: the caller promises valid addresses inside the command.
    unsafe { command.answer_reported(wanted.response, reported) }
}
