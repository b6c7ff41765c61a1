//! Completion channels: `ibv_create_comp_channel(3)`, `ibv_get_cq_event(3)`.

use crate::error::{Error, Result};
use crate::object::context::Context;
use crate::object::thread_safe;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;
use verbena_abi as abi;

/// A channel that reports completion events of its completion queues.
pub struct Channel {
    pub(crate) raw: NonNull<abi::ibv_comp_channel>,
    context: Arc<Context>,
}
thread_safe!(Channel);

impl Context {
    /// Creates a completion channel (`ibv_create_comp_channel(3)`).
    ///
    /// # Errors
    ///
    /// The library fails to create it.
    pub fn channel(self: &Arc<Self>) -> Result<Arc<Channel>> {
        // SAFETY: the context is open.
        let raw = unsafe { (self.library.functions.create_comp_channel)(self.raw.as_ptr()) };
        let raw =
            NonNull::new(raw).ok_or_else(|| Error::last("ibv_create_comp_channel", self.name()))?;
        Ok(Arc::new(Channel {
            raw,
            context: Arc::clone(self),
        }))
    }
}

impl Channel {
    /// Waits for an event for at most `at_most` (at least 1 ms), takes and acknowledges it. Returns
    /// `false` on timeout or if a signal interrupts the wait.
    ///
    /// # Errors
    ///
    /// `poll` or `ibv_get_cq_event` fails.
    pub fn wait(&self, at_most: Duration) -> Result<bool> {
        let milliseconds = i32::try_from(at_most.as_millis().max(1)).unwrap_or(i32::MAX);
        // SAFETY: the channel is alive.
        let descriptor = unsafe { (*self.raw.as_ptr()).fd };
        let mut poll = libc::pollfd {
            fd: descriptor,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid pollfd.
        let ready = unsafe { libc::poll(&mut poll, 1, milliseconds) };
        if ready == 0 {
            return Ok(false);
        }
        if ready < 0 {
            let error = std::io::Error::last_os_error();
            if error.kind() == std::io::ErrorKind::Interrupted {
                return Ok(false);
            }
            return Err(Error::last("poll", "a completion channel"));
        }
        let functions = &self.context.library.functions;
        let mut queue = std::ptr::null_mut();
        let mut user = std::ptr::null_mut();
        // SAFETY: the channel is alive, both out-pointers are valid.
        let outcome = unsafe { (functions.get_cq_event)(self.raw.as_ptr(), &mut queue, &mut user) };
        if outcome != 0 {
            return Err(Error::last("ibv_get_cq_event", self.context.name()));
        }
        // SAFETY: ibv_destroy_cq waits until all events of a queue are acknowledged, so the queue
        // is alive here.
        unsafe { (functions.ack_cq_events)(queue, 1) };
        Ok(true)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor stays open as long as the channel.
        unsafe { BorrowedFd::borrow_raw((*self.raw.as_ptr()).fd) }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: its queues keep the channel alive, so none is left.
        unsafe { (self.context.library.functions.destroy_comp_channel)(self.raw.as_ptr()) };
    }
}
