//! The multiplexed connection that every client uses: concurrent operations of several threads
//! share one session and complete in any order.
//!
//! The C libraries, Python and the tools all send their requests through it. Request encoding, data
//! transfer (inline in a frame, or by RDMA through a window), checksums, timeouts and the retry
//! after a short reply are implemented only here.
//!
//! # Rules
//!
//! - Beginning an operation never blocks. Exceptions: `MultiplexedConnection::begin_borrowed`,
//!   which blocks until the bytes have been sent, and the first operation on a connection for
//!   copies that justifies a data queue pair.
//! - One waiting thread polls the network and receives for all threads; the others sleep. A thread
//!   that has received a reply in the meantime, or left something unsent, wakes the polling thread,
//!   which may otherwise wait for an event that has already been consumed. The library therefore
//!   has no thread of its own, and nothing that a fork could lose.
//! - After a wait for an operation has returned, the operation's memory is no longer used in any
//!   case. A wait fails only in a forked process, where nothing is touched.
//! - A server counts as silent only while a thread waits for it: the time a client spends between
//!   two waits does not count.
//! - The data of a chunk stay in place in the read area, and occupy that part of it, until they
//!   have been consumed or can no longer be requested. Data behind a chunk stay in the socket until
//!   they are wanted, so that they are read while they are in the processor's caches. A program
//!   that waits on [`MultiplexedConnection::events`] therefore has no chunks.
//! - A program with an event loop waits on [`MultiplexedConnection::events`] itself and then calls
//!   [`MultiplexedConnection::advance`].
//! - In a process forked from the one that opened the connection, every call returns
//!   [`Error::Forked`] and touches nothing.
//!
//! Sending, receiving and matching replies to operations is in `multiplexer`.

pub mod connections;
mod file;
mod multiplexer;
mod operation;
mod parts;
mod pipelined;
mod replies;
#[cfg(test)]
mod tests;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use verbena_rfio_protocol::reply::Accepted;
use verbena_rfio_protocol::{Reply, Request};

use super::address::Address;
use super::data;
use super::error::Error;
use super::fork_guard;
use super::options::Options;
use super::session::Session;
use multiplexer::Multiplexer;

pub use connections::Connections;
pub use file::SharedFile;
pub use operation::{FinishedOperation, Memory, Operation, OperationOutput};
pub use pipelined::{PipelinedReads, PipelinedWrites};

/// A session shared by several threads.
pub struct MultiplexedConnection {
    state: Mutex<State>,
    /// Signalled when operations have ended, or when no thread polls the network any more.
    changed: Condvar,
    socket: OwnedFd,
    /// Wakes the polling thread when there is something to send.
    wake: OwnedFd,
    address: Address,
    terms: Accepted,
    version: u16,
    process: u64,
}

struct State {
    multiplexer: Multiplexer,
    /// Whether a thread polls the network, on behalf of all.
    is_polled: bool,
    /// Number of threads that wait for a change.
    sleepers: usize,
    /// Number of operations that had ended when the polling thread began to wait.
    ended_before: u64,
}

impl MultiplexedConnection {
    /// Connects, authenticates, and negotiates how data travel.
    ///
    /// # Errors
    /// Failures to connect, to authenticate or to negotiate.
    pub fn connect(address: &Address, options: &Options) -> Result<Arc<Self>, Error> {
        Self::connect_within(address, options, options.timeout)
    }

    /// Like [`MultiplexedConnection::connect`], but fails if the session is not established within
    /// `timeout`; zero means no limit.
    ///
    /// # Errors
    /// As [`MultiplexedConnection::connect`].
    pub fn connect_within(
        address: &Address,
        options: &Options,
        timeout: Duration,
    ) -> Result<Arc<Self>, Error> {
        let mut session = Session::connect_within(address, options, timeout)?;
        session.choose_data_path()?;
        Self::of(session, address, false)
    }

    /// Opens a connection for a copy or a tool. The data path is chosen when the first data are
    /// transferred, and requests may be sent further ahead than the server processes at a time;
    /// callers limit the number in flight.
    ///
    /// # Errors
    /// As [`MultiplexedConnection::connect`].
    pub fn for_copies(address: &Address, options: &Options) -> Result<Arc<Self>, Error> {
        Self::of(Session::connect(address, options)?, address, true)
    }

    fn of(session: Session, address: &Address, pipelined: bool) -> Result<Arc<Self>, Error> {
        let system = |error: rustix::io::Errno| Error::Local("eventfd".into(), error.into());
        Ok(Arc::new(Self {
            socket: session.descriptor()?,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system)?,
            address: address.clone(),
            terms: session.server_limits().clone(),
            version: session.version(),
            state: Mutex::new(State {
                multiplexer: Multiplexer::new(session, pipelined),
                is_polled: false,
                sleepers: 0,
                ended_before: 0,
            }),
            changed: Condvar::new(),
            process: fork_guard::generation(),
        }))
    }

    /// Returns the server's address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the largest payload of one request, in bytes.
    pub fn max_request_bytes(&self) -> usize {
        self.lock()
            .map_or(1, |state| state.multiplexer.max_request_bytes())
    }

    /// Returns whether data travel by RDMA, as far as that has been decided.
    pub fn uses_fabric(&self) -> bool {
        self.lock()
            .is_ok_and(|state| state.multiplexer.session.uses_fabric())
    }

    /// Decides how data travel, unless that is decided, and returns whether they travel by RDMA.
    ///
    /// # Errors
    /// Those of connecting a queue pair, if data must travel by RDMA or the session is lost.
    pub(crate) fn choose_data_path(&self) -> Result<bool, Error> {
        let mut state = self.lock()?;
        state.multiplexer.choose_data_path()?;
        Ok(state.multiplexer.session.uses_fabric())
    }

    /// Checks that both sides have an RDMA device, without connecting a queue pair.
    ///
    /// # Errors
    /// One of them has none.
    pub(crate) fn check_rdma(&self) -> Result<(), Error> {
        if !self.terms.fabric {
            return Err(Error::no_device_of_server());
        }
        data::check_device()
    }

    /// Returns whether nothing is in flight and the server is not known to have closed the
    /// connection.
    pub fn is_idle(&self) -> bool {
        self.lock().is_ok_and(|state| {
            let session = &state.multiplexer.session;
            state.multiplexer.is_idle() && !session.is_broken() && !session.is_closed_by_peer()
        })
    }

    /// Returns the limits that the server announced.
    pub fn server_limits(&self) -> &Accepted {
        &self.terms
    }

    /// Returns the negotiated protocol version.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Returns whether the connection is unusable.
    pub fn is_broken(&self) -> bool {
        self.lock()
            .map_or(true, |state| state.multiplexer.session.is_broken())
    }

    /// Returns whether the connection is usable, after receiving everything that is available.
    pub fn is_usable(&self) -> bool {
        self.advance().is_ok() && !self.is_broken()
    }

    /// Begins an operation. It progresses whenever any thread waits for an operation or calls
    /// [`MultiplexedConnection::advance`].
    ///
    /// # Errors
    /// Fails if the operation cannot be started, or in a forked process.
    pub fn begin(
        self: &Arc<Self>,
        operation: Operation,
        memory: impl Memory + 'static,
    ) -> Result<PendingOperation, Error> {
        let mut state = self.lock()?;
        let number = state.multiplexer.begin(operation, Box::new(memory))?;
        state.multiplexer.send();
        self.notify(&state);
        Ok(self.pending(number))
    }

    /// Like [`MultiplexedConnection::begin`], but may delay sending in order to batch requests:
    /// they are sent when enough are queued, when another operation is begun with
    /// [`MultiplexedConnection::begin`], or when a thread waits for one.
    ///
    /// # Errors
    /// As [`MultiplexedConnection::begin`].
    pub(crate) fn begin_batched(
        self: &Arc<Self>,
        operation: Operation,
        memory: impl Memory + 'static,
    ) -> Result<PendingOperation, Error> {
        let number = self
            .lock()?
            .multiplexer
            .begin(operation, Box::new(memory))?;
        Ok(self.pending(number))
    }

    /// Begins an operation that sends borrowed bytes, and blocks until they have been sent.
    ///
    /// # Errors
    /// As [`MultiplexedConnection::begin`]; [`Error::Setup`] if the operation sends no data.
    #[allow(unsafe_code, reason = "bytes of a caller who waits")]
    pub(crate) fn begin_borrowed(
        self: &Arc<Self>,
        operation: Operation,
        bytes: &[u8],
    ) -> Result<PendingOperation, Error> {
        /// Aborts on unwinding: the bytes must not be accessed after this call returns.
        struct Waits;
        impl Drop for Waits {
            fn drop(&mut self) {
                std::process::abort();
            }
        }
        let sends = match &operation {
            Operation::Call(request) => request.brings_data(),
            Operation::Write { .. } => true,
            _ => false,
        };
        if !sends {
            return Err(Error::Setup("bytes are lent to be sent".into()));
        }
        let waits = Waits;
        // SAFETY: `has_sent_all` takes them from the operation before this function returns.
        let borrowed = unsafe { BorrowedBytes::new(bytes) };
        let begun = self.begin(operation, borrowed).and_then(|pending| {
            let number = pending.number.unwrap_or_default();
            self.wait_until(None, |multiplexer| {
                multiplexer.has_sent_all(number).then_some(())
            })?;
            Ok(pending)
        });
        std::mem::forget(waits);
        begun
    }

    fn pending(self: &Arc<Self>, number: u64) -> PendingOperation {
        PendingOperation {
            connection: Arc::clone(self),
            number: Some(number),
        }
    }

    /// Sends one request without data and returns its reply.
    ///
    /// # Errors
    /// As [`PendingOperation::reply`].
    pub fn call(self: &Arc<Self>, request: Request) -> Result<Reply, Error> {
        let pending = self.begin(Operation::Call(request), Vec::new())?;
        pending.reply().map(|(reply, _)| reply)
    }

    /// Sends and receives as much as possible without blocking.
    ///
    /// # Errors
    /// [`Error::Forked`] in a forked process.
    pub fn advance(&self) -> Result<(), Error> {
        let mut state = self.lock()?;
        state.multiplexer.advance(None);
        state.multiplexer.check_timeout();
        self.notify(&state);
        Ok(())
    }

    /// Returns whether output waits for the socket to become writable; call
    /// [`MultiplexedConnection::advance`] when it does.
    pub fn wants_to_send(&self) -> bool {
        self.lock()
            .is_ok_and(|state| state.multiplexer.wants_to_send())
    }

    /// Returns a descriptor that becomes readable when [`MultiplexedConnection::advance`] has
    /// something to receive.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>, Error> {
        if self.process != fork_guard::generation() {
            return Err(Error::Forked);
        }
        Ok(self
            .state
            .lock()
            .unwrap_or_else(|poison| poison.into_inner()))
    }

    /// Wakes the polling thread if the socket did not take all output, or if an operation has ended
    /// that it may be waiting for. Wakes the sleeping threads too, since an operation may have
    /// ended.
    fn notify(&self, state: &State) {
        let has_ended = state.multiplexer.ended() != state.ended_before;
        if state.is_polled && (state.multiplexer.wants_to_send() || has_ended) {
            // Fails only if the counter is full, which wakes the thread all the same.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
        self.wake_sleepers(state);
    }

    fn wake_sleepers(&self, state: &State) {
        if state.sleepers > 0 {
            self.changed.notify_all();
        }
    }

    /// Sleeps until there may be a change, for `at_most` at the longest.
    fn sleep<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        at_most: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        state.sleepers += 1;
        let mut state = match at_most {
            Some(at_most) => {
                let woken = self.changed.wait_timeout(state, at_most);
                woken.unwrap_or_else(|poison| poison.into_inner()).0
            }
            None => {
                let woken = self.changed.wait(state);
                woken.unwrap_or_else(|poison| poison.into_inner())
            }
        };
        state.sleepers -= 1;
        state
    }

    /// Waits until `look` returns a value, receiving for all threads meanwhile. If `wanted` names
    /// an operation, receives nothing beyond its end.
    fn wait_until<T>(
        &self,
        wanted: Option<u64>,
        mut look: impl FnMut(&mut Multiplexer) -> Option<T>,
    ) -> Result<T, Error> {
        let mut state = self.lock()?;
        let mut is_first = true;
        loop {
            if let Some(found) = look(&mut state.multiplexer) {
                return Ok(found);
            }
            if state.is_polled {
                is_first = false;
                state = self.sleep(state, None);
                continue;
            }
            // No thread has waited until now.
            if std::mem::take(&mut is_first) {
                state.multiplexer.deadline.restart();
            }
            state.multiplexer.advance(wanted);
            self.wake_sleepers(&state);
            if let Some(found) = look(&mut state.multiplexer) {
                return Ok(found);
            }
            state = self.poll_network(state, None, wanted)?;
            self.wake_sleepers(&state);
        }
    }

    /// Returns the number of operations that have ended, for [`MultiplexedConnection::pause`].
    fn ended(&self) -> Result<u64, Error> {
        Ok(self.lock()?.multiplexer.ended())
    }

    /// Waits until an operation may have ended, for `at_most` at the longest. Returns at once if
    /// more than `ended` operations have ended: a caller that checks several operations in turn may
    /// have received the reply of one that it had already checked.
    fn pause(&self, ended: u64, at_most: Option<Duration>) -> Result<(), Error> {
        let state = self.lock()?;
        if state.multiplexer.ended() != ended {
            return Ok(());
        }
        if !state.is_polled {
            let state = self.poll_network(state, at_most, None)?;
            self.wake_sleepers(&state);
            return Ok(());
        }
        // The polling thread leaves when its own operation has ended, and then wakes the others.
        drop(self.sleep(state, at_most));
        Ok(())
    }

    /// Polls the network on behalf of all threads, for `at_most` at the longest.
    fn poll_network<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        at_most: Option<Duration>,
        wanted: Option<u64>,
    ) -> Result<MutexGuard<'a, State>, Error> {
        state.is_polled = true;
        state.ended_before = state.multiplexer.ended();
        let timeout = state.multiplexer.poll_timeout();
        let mut events = PollFlags::IN;
        events.set(PollFlags::OUT, state.multiplexer.wants_to_send());
        drop(state);
        let timeout = (!timeout.is_zero()).then_some(timeout);
        let timeout = match (timeout, at_most) {
            (Some(timeout), Some(at_most)) => Some(timeout.min(at_most)),
            (timeout, at_most) => timeout.or(at_most),
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut looked = [
            PollFd::new(&self.socket, events),
            PollFd::new(&self.wake, PollFlags::IN),
        ];
        // A failed poll has reported nothing and is repeated.
        let woken = poll(&mut looked, timeout.as_ref());
        if !looked[1].revents().is_empty() {
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
        let mut state = self.lock()?;
        state.is_polled = false;
        debug_assert!(
            woken != Ok(0) || at_most.is_some() || state.multiplexer.ended() == state.ended_before,
            "an operation ended without waking its waiter"
        );
        state.multiplexer.advance(wanted);
        state.multiplexer.check_timeout();
        Ok(state)
    }
}

impl Drop for MultiplexedConnection {
    fn drop(&mut self) {
        // The parent process keeps using the session, so closing it here must send nothing on the
        // stream. Memory of operations in flight belongs to the parent and is left alone.
        if self.process != fork_guard::generation()
            && let Ok(state) = self.state.get_mut()
        {
            state.multiplexer.forget();
        }
    }
}

impl std::fmt::Debug for MultiplexedConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "connection of process {}", self.process)
    }
}

/// Handle of an operation in progress. Dropping it cancels the operation.
#[derive(Debug)]
#[must_use]
pub struct PendingOperation {
    connection: Arc<MultiplexedConnection>,
    number: Option<u64>,
}

impl PendingOperation {
    /// Waits for the operation to end.
    ///
    /// # Errors
    /// [`Error::Forked`] in a forked process. The operation's own error is in
    /// [`FinishedOperation::outcome`].
    pub fn wait(mut self) -> Result<FinishedOperation, Error> {
        match self.number.take() {
            Some(number) => self
                .connection
                .wait_until(None, |multiplexer| multiplexer.take(number)),
            None => Err(Error::Dropped("earlier")),
        }
    }

    /// Waits for the reply to a call and returns it with the data that came with it.
    ///
    /// # Errors
    /// The operation's own error; as [`PendingOperation::wait`].
    pub fn reply(self) -> Result<(Reply, Vec<u8>), Error> {
        let done = self.wait()?;
        match done.outcome? {
            OperationOutput::Reply(reply, length) => {
                let mut bytes = done.memory.into_bytes();
                bytes.truncate(length);
                Ok((reply, bytes))
            }
            _ => Err(Error::Dropped("before it replied")),
        }
    }

    /// Waits for the data of a chunk and passes them to `look` in place. No other thread makes
    /// progress on the connection meanwhile.
    ///
    /// # Errors
    /// As [`PendingOperation::wait`].
    pub fn look<T>(mut self, mut look: impl FnMut(&[u8]) -> T) -> Result<T, Error> {
        match self.number.take() {
            Some(number) => self.connection.wait_until(Some(number), |multiplexer| {
                multiplexer.look(number, &mut look)
            })?,
            None => Err(Error::Dropped("earlier")),
        }
    }

    /// Returns whether the operation has ended, so that [`PendingOperation::wait`] would not block.
    /// Receives available data unless another thread polls the network.
    ///
    /// # Errors
    /// [`Error::Forked`] in a forked process.
    pub fn is_done(&self) -> Result<bool, Error> {
        let mut state = self.connection.lock()?;
        let Some(number) = self.number else {
            return Ok(false);
        };
        if !state.is_polled && !state.multiplexer.is_done(number) {
            state.multiplexer.advance(None);
            state.multiplexer.check_timeout();
            self.connection.wake_sleepers(&state);
        }
        Ok(state.multiplexer.is_done(number))
    }

    /// Returns whether the operation has ended. Unlike [`PendingOperation::is_done`] it reads
    /// nothing from the network, which makes checking many operations after one
    /// [`MultiplexedConnection::advance`] cheap.
    ///
    /// # Errors
    /// [`Error::Forked`] in a forked process.
    pub fn has_ended(&self) -> Result<bool, Error> {
        let state = self.connection.lock()?;
        Ok(self
            .number
            .is_some_and(|number| state.multiplexer.is_done(number)))
    }

    /// Returns a descriptor that becomes readable when [`PendingOperation::is_done`] may have
    /// changed. If several threads use the connection, another one may consume the event.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.connection.events()
    }

    /// Cancels the operation. It still ends: with ECANCELED, or normally if it was too late to
    /// cancel. A modifying request that has been sent is carried out.
    ///
    /// # Errors
    /// [`Error::Forked`] in a forked process.
    pub fn cancel(&self) -> Result<(), Error> {
        let mut state = self.connection.lock()?;
        if let Some(number) = self.number {
            state.multiplexer.cancel(number);
            self.connection.notify(&state);
        }
        Ok(())
    }
}

/// Waits until one of the operations is done and returns its index, or `None` after `at_most`
/// (`None`: no limit).
///
/// # Errors
/// [`Error::Forked`] in a forked process.
pub fn wait_any(
    operations: &[&PendingOperation],
    at_most: Option<Duration>,
) -> Result<Option<usize>, Error> {
    let begun = Instant::now();
    let Some(first) = operations.first() else {
        return Ok(None);
    };
    let are_of_one = operations
        .iter()
        .all(|pending| Arc::ptr_eq(&pending.connection, &first.connection));
    loop {
        let ended = first.connection.ended()?;
        for (index, pending) in operations.iter().enumerate() {
            if pending.is_done()? {
                return Ok(Some(index));
            }
        }
        let left = at_most.map(|at_most| at_most.saturating_sub(begun.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(None);
        }
        // Operations that end on other connections meanwhile are noticed a little later.
        let pause = match are_of_one {
            true => left,
            false => Some(left.unwrap_or(ELSEWHERE).min(ELSEWHERE)),
        };
        first.connection.pause(ended, pause)?;
    }
}

/// Interval at which [`wait_any`] checks other connections while it waits on one.
const ELSEWHERE: Duration = Duration::from_millis(5);

impl Drop for PendingOperation {
    fn drop(&mut self) {
        if let Some(number) = self.number
            && let Ok(mut state) = self.connection.lock()
        {
            state.multiplexer.abandon(number);
            self.connection.notify(&state);
        }
    }
}

/// Borrowed bytes, read only by write operations.
struct BorrowedBytes(*const [u8]);

#[allow(unsafe_code, reason = "bytes of a caller who waits")]
// SAFETY: shared bytes, which any thread may read.
unsafe impl Send for BorrowedBytes {}

#[allow(unsafe_code, reason = "bytes of a caller who waits")]
impl BorrowedBytes {
    /// # Safety
    /// The bytes must outlive the returned value.
    unsafe fn new(bytes: &[u8]) -> Self {
        Self(bytes)
    }
}

impl Memory for BorrowedBytes {
    #[allow(unsafe_code, reason = "bytes of a caller who waits")]
    fn bytes(&self) -> &[u8] {
        // SAFETY: `new` requires that the bytes outlive this value.
        unsafe { &*self.0 }
    }
    /// Returns an empty slice: nothing is received into it.
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }
}
