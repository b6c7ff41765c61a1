//! Events: completion channels (ibv_create_comp_channel(3)) and asynchronous events (ibv_get_async_event(3)).
//!
//! Both are a queue with a descriptor that is readable exactly while the queue is not empty, so that poll(2), epoll(7)
//! and O_NONBLOCK work on it as they do on a device's. Elements are the application's handles ("cookies"), which this
//! crate only passes through.

use crate::errno::{Errno, Result};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Mutex;
use verbena_abi::*;

/// A queue of events with a descriptor to wait on.
pub struct EventQueue<T> {
    fd: OwnedFd,
    events: Mutex<VecDeque<T>>,
}

/// Events of completion queues: the cookie of the queue.
pub type CompletionChannel = EventQueue<usize>;

/// An asynchronous event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncEvent {
    /// IBV_EVENT_*.
    pub kind: ibv_event_type,
    /// Cookie of the object, or the port's number.
    pub element: usize,
}

impl<T> EventQueue<T> {
    /// An empty queue.
    pub fn new() -> Result<EventQueue<T>> {
        // A semaphore: each event is one read, as on a device's descriptor.
        // SAFETY: no pointers; the result is checked before it is owned.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: just made, owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(EventQueue {
            fd,
            events: Mutex::default(),
        })
    }

    /// The descriptor; readable while an event waits.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Adds an event.
    pub fn push(&self, event: T) {
        self.lock().push_back(event);
        let one = 1u64.to_ne_bytes();
        // SAFETY: 8 readable bytes. The counter cannot overflow: each unit of it is an event held in memory.
        unsafe { libc::write(self.fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Takes the next event; waits for it unless the descriptor is non-blocking.
    ///
    /// # Errors
    /// EAGAIN when non-blocking and empty; EINTR when a signal came first.
    pub fn next(&self) -> Result<T> {
        self.next_with(|_| ())
    }

    /// As [`EventQueue::next`], and calls `taken` with the event before anybody else can call
    /// [`EventQueue::forget`]: who destroys the event's object then either still finds the event here, or finds what
    /// `taken` noted of it.
    ///
    /// # Errors
    /// As [`EventQueue::next`].
    pub fn next_with(&self, taken: impl Fn(&T)) -> Result<T> {
        loop {
            let mut count = [0u8; 8];
            // SAFETY: 8 writable bytes.
            let n = unsafe { libc::read(self.fd(), count.as_mut_ptr().cast(), count.len()) };
            if n < 0 {
                return Err(Errno::last());
            }
            // A forgotten event leaves its unit behind; then there is nothing and the wait goes on.
            let mut events = self.lock();
            if let Some(event) = events.pop_front() {
                taken(&event);
                return Ok(event);
            }
        }
    }

    /// Removes events that nobody took yet, of an object that goes away. Returns how many.
    pub fn forget(&self, is_of: impl Fn(&T) -> bool) -> usize {
        let mut events = self.lock();
        let before = events.len();
        events.retain(|event| !is_of(event));
        let gone = before - events.len();
        for _ in 0..gone {
            let mut wait = libc::pollfd {
                fd: self.fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one valid pollfd; a unit may have been read already by a thread that is about to look.
            if unsafe { libc::poll(&mut wait, 1, 0) } == 1 {
                let mut count = [0u8; 8];
                // SAFETY: 8 writable bytes.
                unsafe { libc::read(self.fd(), count.as_mut_ptr().cast(), count.len()) };
            }
        }
        gone
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<T>> {
        self.events.lock().unwrap_or_else(|e| e.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_readable(queue: &EventQueue<usize>) -> bool {
        let mut wait = libc::pollfd {
            fd: queue.fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid pollfd.
        unsafe { libc::poll(&mut wait, 1, 0) == 1 }
    }

    #[test]
    fn the_descriptor_is_readable_exactly_while_events_wait() {
        let queue = EventQueue::new().unwrap();
        assert!(!is_readable(&queue));
        queue.push(1);
        queue.push(2);
        assert_eq!(queue.next(), Ok(1));
        assert!(is_readable(&queue));
        assert_eq!(queue.next(), Ok(2));
        assert!(!is_readable(&queue));
        queue.push(3);
        queue.push(4);
        queue.push(3);
        assert_eq!(queue.forget(|event| *event == 3), 2);
        assert_eq!(queue.next(), Ok(4));
        assert!(!is_readable(&queue));
    }
}
