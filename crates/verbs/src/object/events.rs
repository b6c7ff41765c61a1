//! Asynchronous events: `ibv_get_async_event(3)`.

use crate::error::{Error, Result};
use crate::object::context::Context;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use verbena_abi as abi;

/// An event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The LID of a port, its subnet manager or its state has changed, or the manager asks for
    /// memberships again: paths to the port may be others.
    Paths,
    /// The partitions of a port have changed.
    Partitions,
    /// Any other.
    Other,
}

impl Event {
    fn of(kind: abi::ibv_event_type) -> Event {
        match kind {
            abi::IBV_EVENT_LID_CHANGE
            | abi::IBV_EVENT_SM_CHANGE
            | abi::IBV_EVENT_CLIENT_REREGISTER
            | abi::IBV_EVENT_PORT_ACTIVE => Event::Paths,
            abi::IBV_EVENT_PKEY_CHANGE => Event::Partitions,
            _ => Event::Other,
        }
    }
}

impl Context {
    /// Returns the descriptor that is readable while there are events.
    pub fn events(&self) -> BorrowedFd<'_> {
        // SAFETY: the context is open, and the descriptor stays open as long as it.
        unsafe { BorrowedFd::borrow_raw((*self.raw.as_ptr()).async_fd) }
    }

    /// Takes and acknowledges the next event, if there is one.
    ///
    /// # Errors
    ///
    /// `poll` or `ibv_get_async_event` fails.
    pub fn take_event(&self) -> Result<Option<Event>> {
        let mut poll = libc::pollfd {
            fd: self.events().as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid pollfd.
        let ready = unsafe { libc::poll(&mut poll, 1, 0) };
        if ready < 0 && std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return Err(Error::last("poll", self.name()));
        }
        if ready <= 0 || poll.revents & libc::POLLIN == 0 {
            return Ok(None);
        }
        let functions = &self.library.functions;
        let mut event = MaybeUninit::<abi::ibv_async_event>::zeroed();
        // SAFETY: the context is open, and the structure has space for an event.
        let outcome = unsafe { (functions.get_async_event)(self.raw.as_ptr(), event.as_mut_ptr()) };
        if outcome != 0 {
            return Err(Error::last("ibv_get_async_event", self.name()));
        }
        // SAFETY: the call has filled it; it is acknowledged once.
        unsafe {
            (functions.ack_async_event)(event.as_mut_ptr());
            Ok(Some(Event::of((*event.as_ptr()).event_type)))
        }
    }
}
