//! Commands: what librdmacm writes to the device, one file a group.

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

pub use refused::tell_refused;

use crate::abi::{self, Header, code};
use crate::channel::{Channel, ChannelId};
use crate::service::{Service, State};
use std::os::fd::RawFd;
use verbena_hca::errno::{Errno, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Opens an event channel and gives the program's descriptor for it.
///
/// # Errors
/// Whatever keeps the process from joining its host's adapter, or from having another descriptor.
pub fn open() -> Result<RawFd> {
    let service = Service::current()?;
    let (descriptor, channel) = Channel::open()?;
    service.lock().channels.insert(channel.id(), channel);
    Ok(descriptor)
}

/// The program has another descriptor of what may be a channel: a copy by dup(2), or one that a
/// process has sent.
pub fn copied(descriptor: RawFd) {
    let (Some(service), Ok(id)) = (Service::existing(), ChannelId::at(descriptor)) else {
        return;
    };
    if let Some(channel) = service.lock().channels.get_mut(&id) {
        channel.descriptors.push(descriptor);
    }
}

/// The program closes `descriptor`: if it is the last of a channel, everything on the channel ends.
/// That it is another file already does not matter.
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

/// Takes a descriptor from its channel, which is given if it has no other.
fn forget_descriptor(state: &mut State, descriptor: RawFd) -> Option<ChannelId> {
    let (id, channel) = state
        .channels
        .iter_mut()
        .find(|(_, channel)| channel.descriptors.contains(&descriptor))?;
    channel.descriptors.retain(|other| *other != descriptor);
    channel.descriptors.is_empty().then_some(*id)
}

/// Lets a thread that has just taken an event come back and wait before the channel goes. A kernel takes its time to end
/// what is on a channel, and programs rely on that without knowing: their event thread asks for the next event while
/// another closes, and for the thread that comes too late the descriptor is no longer there (rping exits with an error).
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

/// Carries a command out that the program has written to `descriptor`; gives its length, as write(2) does.
///
/// # Errors
/// EBADF when the descriptor is no channel of this process; EINVAL for what is no command; ENOSYS for one that this
/// device does not have; what the command says.
///
/// # Safety
/// Addresses inside the command (of answers and options) are what the interface says that they are.
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
        // These two may wait, so they must not hold the lock.
        // SAFETY: passed on.
        code::GET_EVENT => unsafe { event::get(service, &command)? },
        code::CONNECT => connect::connect(&command, service)?,
        // SAFETY: passed on.
        other => unsafe { command.carry_out(other, &mut service.lock())? },
    }
    Ok(bytes.len())
}

/// A command and where it was written.
pub struct Command<'a> {
    /// The channel.
    pub channel: ChannelId,
    body: &'a [u8],
    room: usize,
}

impl Command<'_> {
    /// # Safety
    /// As for [`execute`].
    unsafe fn carry_out(&self, code: u32, state: &mut State) -> Result<()> {
        // SAFETY: passed on to those that answer at an address of the command.
        unsafe {
            match code {
                code::CREATE_ID => create::create(self, state),
                code::DESTROY_ID => create::destroy(self, state),
                code::MIGRATE_ID => create::migrate(self, state),
                code::BIND_IP => bind::bind(self, state),
                // librdmacm asks with an AF_IB address whether there are such.
                code::BIND => Err(Errno(libc::EAFNOSUPPORT)),
                code::RESOLVE_IP => bind::resolve(self, state),
                code::RESOLVE_ROUTE => bind::resolve_route(self, state),
                code::QUERY_ROUTE => query::route(self, state),
                code::QUERY => query::by_option(self, state),
                code::RESOLVE_IB_SERVICE => service::resolve(self, state),
                code::WRITE_CM_EVENT => event::write(self, state),
                code::LISTEN => connect::listen(self, state),
                code::ACCEPT => connect::accept(self, state),
                code::REJECT => connect::reject(self, state),
                code::DISCONNECT => connect::disconnect(self, state),
                code::NOTIFY => connect::notify(self, state),
                code::INIT_QP_ATTR => attributes::init(self, state),
                code::SET_OPTION => option::set(self, state),
                code::JOIN_IP_MCAST => group::join(self, state),
                code::LEAVE_MCAST => group::leave(self, state),
                _ => Err(Errno(libc::ENOSYS)),
            }
        }
    }

    /// The command's structure.
    ///
    /// # Errors
    /// EINVAL when it is shorter.
    fn read<T: FromBytes>(&self) -> Result<T> {
        T::read_from_prefix(self.body)
            .map(|(command, _)| command)
            .map_err(|_| Errno::EINVAL)
    }

    /// The command's structure, whose last `optional` bytes older libraries do not send.
    ///
    /// # Errors
    /// EINVAL when it is shorter than that.
    fn read_lenient<T: FromBytes + IntoBytes>(&self, optional: usize) -> Result<T> {
        let mut command = T::new_zeroed();
        let bytes = command.as_mut_bytes();
        if self.body.len() + optional < bytes.len() {
            return Err(Errno::EINVAL);
        }
        let length = bytes.len().min(self.body.len());
        bytes[..length].copy_from_slice(&self.body[..length]);
        Ok(command)
    }

    /// Writes as much of an answer to `address` as the program has room for, and at least `least` bytes.
    ///
    /// # Errors
    /// ENOSPC when that does not fit, EFAULT for no address.
    ///
    /// # Safety
    /// The program has said that this much room is at `address`.
    unsafe fn answer<T>(&self, address: u64, answer: &T, least: usize) -> Result<()>
    where
        T: IntoBytes + Immutable + KnownLayout,
    {
        if self.room < least {
            return Err(Errno(libc::ENOSPC));
        }
        if address == 0 {
            return Err(Errno::EFAULT);
        }
        let bytes = answer.as_bytes();
        let length = bytes.len().min(self.room);
        // SAFETY: `length` bytes are there, by the caller's promise; ours are elsewhere.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, length);
        }
        Ok(())
    }

    /// Answers how many events were reported.
    ///
    /// # Safety
    /// As for [`Command::answer`].
    unsafe fn answer_reported(&self, address: u64, events_reported: u32) -> Result<()> {
        let answer = abi::EventsReported { events_reported };
        // SAFETY: passed on.
        unsafe { self.answer(address, &answer, size_of::<abi::EventsReported>()) }
    }
}
