//! Events: completion channels (ibv_create_comp_channel(3)) and asynchronous events
//! (ibv_get_async_event(3)).
//!
//! Both are a queue with a descriptor that behaves as the kernel's
//! (`drivers/infiniband/core/uverbs_main.c`): readable exactly while the queue is not empty, never
//! writable, opened for reading alone, closed on exec. Each event wakes the waiting threads, and is
//! one read(2) of the kernel's record: 8 bytes of a completion event, 16 of an asynchronous one.
//! The descriptor is the reading end of a pipe in packet mode. A read of fewer bytes would lose the
//! rest of a packet; the preloaded shim, which learns of the descriptor here, refuses it.
//!
//! Elements are the application's handles ("cookies"), which this crate only passes through.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use verbena_abi::*;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::sync::wait_a_little;

/// An event that a program can read from the descriptor.
pub trait EventRecord {
    /// Bytes of an event's record.
    const LENGTH: usize;
    /// Returns these bytes, as `struct ib_uverbs_comp_event_desc` or `ib_uverbs_async_event_desc`.
    fn record(&self) -> [u8; RECORD];
}

/// Length of the longer record in bytes.
const RECORD: usize = 16;

/// A queue of events with a descriptor to wait on.
pub struct EventQueue<T> {
    fd: OwnedFd,
    writer: OwnedFd,
    waiting: Mutex<PendingEvents<T>>,
    /// Set, under the lock, while a packet is written without it.
    is_writing: AtomicBool,
}

struct PendingEvents<T> {
    events: VecDeque<T>,
    /// Number of events, at the end of the queue, without a packet in the pipe because it was full.
    unsent: usize,
}

impl EventRecord for usize {
    const LENGTH: usize = 8;
    fn record(&self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..8].copy_from_slice(&(*self as u64).to_ne_bytes());
        bytes
    }
}

impl EventRecord for AsyncEvent {
    const LENGTH: usize = RECORD;
    fn record(&self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..8].copy_from_slice(&(self.element as u64).to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.kind.to_ne_bytes());
        bytes
    }
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

impl<T: EventRecord + Copy> EventQueue<T> {
    /// Returns an empty queue.
    ///
    /// # Errors
    /// The system's, when it has no descriptors left.
    pub fn new() -> Result<EventQueue<T>> {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors; the result is checked before they are owned.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_DIRECT) } != 0 {
            return Err(Errno::last());
        }
        // SAFETY: pipe2 just returned these descriptors, and nothing else owns them.
        let [fd, writer] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
        notify_shim(fd.as_raw_fd(), T::LENGTH);
        Ok(EventQueue {
            fd,
            writer: lasting_writer(writer)?,
            waiting: Mutex::new(PendingEvents {
                events: VecDeque::new(),
                unsent: 0,
            }),
            is_writing: AtomicBool::new(false),
        })
    }

    /// Returns the descriptor, which is readable while an event waits.
    pub fn fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Adds an event.
    ///
    /// The packet of the only event is written without the lock, which the thread that it wakes
    /// takes at once.
    pub fn push(&self, event: T) {
        let mut waiting = self.lock();
        let is_alone = waiting.events.is_empty() && !self.is_writing.load(Ordering::Relaxed);
        if is_alone {
            waiting.events.push_back(event);
            self.is_writing.store(true, Ordering::Relaxed);
            drop(waiting);
            let is_sent = self.send(&event);
            if !is_sent {
                self.lock().add_unsent();
            }
            self.is_writing.store(false, Ordering::Release);
            return;
        }
        if waiting.unsent > 0 || !self.send(&event) {
            waiting.unsent += 1;
        }
        waiting.events.push_back(event);
    }

    /// Writes a packet to the pipe; false if it is full.
    fn send(&self, event: &T) -> bool {
        let (bytes, length) = (event.record(), T::LENGTH);
        let write = || {
            // SAFETY: the record has at least `length` readable bytes.
            unsafe { libc::write(self.writer.as_raw_fd(), bytes.as_ptr().cast(), length) > 0 }
        };
        write() || (self.widen() && write())
    }

    /// Doubles the number of packets that the pipe can hold; false at the system's limit.
    fn widen(&self) -> bool {
        let pipe = self.writer.as_raw_fd();
        // SAFETY: the calls take no pointers, and `writer` owns the descriptor.
        unsafe {
            let size = libc::fcntl(pipe, libc::F_GETPIPE_SZ);
            size > 0 && libc::fcntl(pipe, libc::F_SETPIPE_SZ, size.saturating_mul(2)) > size
        }
    }

    /// Sends packets for events without one, after a packet was read.
    fn catch_up(&self, waiting: &mut PendingEvents<T>) {
        while waiting.unsent > 0 {
            let first = waiting.events.len() - waiting.unsent;
            let (bytes, length) = (waiting.events[first].record(), T::LENGTH);
            // SAFETY: the record has at least `length` readable bytes.
            if unsafe { libc::write(self.writer.as_raw_fd(), bytes.as_ptr().cast(), length) } < 0 {
                return;
            }
            waiting.unsent -= 1;
        }
    }

    /// Takes the next event; waits for it unless the descriptor is non-blocking.
    ///
    /// # Errors
    /// EAGAIN when non-blocking and empty; EINTR when a signal came first.
    pub fn next(&self) -> Result<T> {
        self.next_with(|_| ())
    }

    /// As [`EventQueue::next`], and calls `taken` with the event before any thread can call
    /// [`EventQueue::forget`]. So a thread that destroys the event's object either still finds the
    /// event here, or finds the note made by `taken`.
    ///
    /// # Errors
    /// As [`EventQueue::next`].
    pub fn next_with(&self, taken: impl Fn(&T)) -> Result<T> {
        loop {
            self.take_packet()?;
            // A forgotten event leaves its packet behind; then there is no event and the wait goes
            // on.
            let mut waiting = self.lock();
            let event = waiting.pop();
            self.catch_up(&mut waiting);
            if let Some(event) = event {
                taken(&event);
                return Ok(event);
            }
        }
    }

    /// Waits for a packet and takes it.
    fn take_packet(&self) -> Result<()> {
        match read_record(self.fd()) {
            true => Ok(()),
            false => Err(Errno::last()),
        }
    }

    /// Takes a packet if there is one.
    fn try_take_packet(&self) -> bool {
        if read_record(self.writer.as_raw_fd()) {
            return true;
        }
        if Errno::last() != Errno(libc::EBADF) {
            return false;
        }
        // The writing end could not be opened for reading too.
        let mut wait = libc::pollfd {
            fd: self.fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid pollfd.
        let is_readable = unsafe { libc::poll(&mut wait, 1, 0) == 1 };
        is_readable && read_record(self.fd())
    }

    /// Removes the events of an object that is being destroyed. Returns their number.
    pub fn forget(&self, is_of: impl Fn(&T) -> bool) -> usize {
        let mut waiting = self.lock_between_writes();
        let before = waiting.events.len();
        let mut packets = before - waiting.unsent;
        waiting.events.retain(|event| !is_of(event));
        let left = waiting.events.len();
        if left == before {
            return 0;
        }
        // A packet names its event's object, so all are read, and those of the remaining events are
        // sent again.
        while packets > 0 && self.try_take_packet() {
            packets -= 1;
        }
        // The missing packets were read by threads that are about to take the lock: each of them
        // gets the next event, or waits again.
        waiting.unsent = left.saturating_sub(packets);
        self.catch_up(&mut waiting);
        before - left
    }

    /// Locks the queue while no thread writes a packet without the lock.
    fn lock_between_writes(&self) -> std::sync::MutexGuard<'_, PendingEvents<T>> {
        let mut looks = 0;
        loop {
            let waiting = self.lock();
            if !self.is_writing.load(Ordering::Acquire) {
                return waiting;
            }
            drop(waiting);
            wait_a_little(&mut looks);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, PendingEvents<T>> {
        self.waiting.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl<T> PendingEvents<T> {
    /// Notes that an event has no packet, unless a thread has taken it meanwhile.
    fn add_unsent(&mut self) {
        self.unsent = self.events.len().min(self.unsent + 1);
    }

    fn pop(&mut self) -> Option<T> {
        let first = self.events.pop_front();
        self.unsent = self.unsent.min(self.events.len());
        first
    }
}

/// Informs the preloaded shim, if there is one, that a descriptor gives records of so many bytes.
fn notify_shim(descriptor: RawFd, length: usize) {
    type Notify = extern "C" fn(libc::c_int, usize);
    static SHIM: OnceLock<Option<Notify>> = OnceLock::new();
    let shim = SHIM.get_or_init(|| {
        let name = c"verbena_event_descriptor";
        // SAFETY: the name is a C string; RTLD_DEFAULT searches all loaded objects.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
        // SAFETY: only the shim has this name, with this signature.
        (!found.is_null())
            .then(|| unsafe { std::mem::transmute::<*mut libc::c_void, Notify>(found) })
    });
    if let Some(notify) = shim {
        notify(descriptor, length);
    }
}

fn read_record(descriptor: RawFd) -> bool {
    let mut record = [0u8; RECORD];
    // SAFETY: so many bytes are writable.
    unsafe { libc::read(descriptor, record.as_mut_ptr().cast(), record.len()) >= 0 }
}

/// Makes the writing end non-blocking and opens it for reading too, so that the pipe has a reader
/// even after the program closed the descriptor, and a write raises no SIGPIPE. If that fails,
/// returns the end as it is.
fn lasting_writer(writer: OwnedFd) -> Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let mut options = OpenOptions::new();
    let both = options
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .map(OwnedFd::from);
    let set = |end: &OwnedFd| {
        // O_DIRECT puts a pipe in packet mode.
        let flags = libc::O_NONBLOCK | libc::O_DIRECT;
        // SAFETY: the call takes no pointers, and `end` owns the descriptor.
        unsafe { libc::fcntl(end.as_raw_fd(), libc::F_SETFL, flags) == 0 }
    };
    if let Ok(both) = both
        && set(&both)
    {
        return Ok(both);
    }
    match set(&writer) {
        true => Ok(writer),
        false => Err(Errno::last()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

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
    fn descriptor_is_readable_exactly_while_events_wait() {
        let queue = EventQueue::<usize>::new().unwrap();
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

    #[test]
    fn events_beyond_pipe_capacity_stay_in_order() {
        const MANY: usize = 5000;
        let queue = EventQueue::<usize>::new().unwrap();
        for event in 0..MANY {
            queue.push(event);
        }
        assert_eq!(queue.forget(|event| event % 3 == 0), MANY.div_ceil(3));
        for event in (0..MANY).filter(|event| event % 3 != 0) {
            assert_eq!(queue.next(), Ok(event));
        }
        assert!(!is_readable(&queue));
    }

    #[test]
    fn events_of_several_threads_are_each_taken_or_forgotten_once() {
        const EACH: usize = 20_000;
        let queue = EventQueue::<usize>::new().unwrap();
        let pushed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for object in [1, 2] {
                let (queue, pushed) = (&queue, &pushed);
                scope.spawn(move || {
                    for _ in 0..EACH {
                        queue.push(object);
                        pushed.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            let taken = scope.spawn(|| {
                let events = std::iter::from_fn(|| queue.next().ok());
                events.take_while(|event| *event != 0).count()
            });
            let mut forgotten = 0;
            while pushed.load(Ordering::SeqCst) < 2 * EACH {
                forgotten += queue.forget(|event| *event == 2);
            }
            queue.push(0);
            assert_eq!(taken.join().unwrap() + forgotten, 2 * EACH);
        });
        assert!(!is_readable(&queue));
    }

    #[test]
    fn event_that_is_forgotten_leaves_no_packet() {
        let queue = EventQueue::<usize>::new().unwrap();
        for _ in 0..200 {
            std::thread::scope(|scope| {
                scope.spawn(|| queue.push(1));
                while queue.forget(|event| *event == 1) == 0 {
                    std::thread::yield_now();
                }
            });
            assert!(!is_readable(&queue));
        }
    }

    #[test]
    fn event_on_closed_descriptor_raises_no_signal() {
        let queue = EventQueue::<usize>::new().unwrap();
        let EventQueue { fd, writer, .. } = queue;
        drop(fd);
        // SAFETY: 8 readable bytes.
        let written = unsafe { libc::write(writer.as_raw_fd(), [0u8; 8].as_ptr().cast(), 8) };
        assert_eq!(written, 8);
    }
}
