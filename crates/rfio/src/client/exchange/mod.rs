//! The engine of every client: many errands of many threads on one session, answered in any order.
//!
//! The C libraries, Python and the tools all ask a server through it. What a request looks like,
//! how its data travel (in a frame, or by RDMA through a window), how they are checked, how long an
//! answer may take and what is asked for again after a short one is written here and nowhere else.
//!
//! # The law
//!
//! - Beginning an errand never waits, but for [`Exchange::lend`], which waits until the bytes have
//!   left, and the first errand that is worth a data queue pair on a connection for copies.
//! - One thread at a time waits at the network and takes whatever comes, for itself and for the
//!   others, who sleep. A thread that has taken something meanwhile, or has left something to be
//!   sent, wakes the one at the network: what it waits for may not come any more. So there is no
//!   thread of the library's own, and nothing that a fork could lose.
//! - When a wait for an errand has ended the errand's memory is not used any more, whatever came of
//!   it. A wait fails only in a forked process, where nothing is touched.
//! - A server is silent only while somebody waits for it: a client that takes its time between two
//!   waits is none that was left waiting.
//! - The data of a chunk stay where they landed, and that part of the landing area is taken, until
//!   they have been looked at or nobody can ask for them any more. What comes behind a chunk stays
//!   in the connection until it is wanted, while its bytes are in the processor's caches; so a
//!   program that waits at [`Exchange::events`] has no chunks.
//! - A program with an event loop waits at [`Exchange::events`] itself and calls
//!   [`Exchange::advance`] then.
//! - In a process that was forked from the one that opened it, everything is [`Error::Forked`] and
//!   nothing is touched.
//!
//! What leaves, what comes, and what belongs together is `traffic`'s.

mod ahead;
mod answers;
pub mod connections;
mod errand;
mod file;
mod parts;
#[cfg(test)]
mod tests;
mod traffic;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use verbena_rfio_protocol::reply::Accepted;
use verbena_rfio_protocol::{Reply, Request};

use super::address::Address;
use super::error::Error;
use super::lineage;
use super::options::Options;
use super::session::Session;
use traffic::Traffic;

pub use ahead::{Reads, Writes};
pub use connections::Connections;
pub use errand::{Done, Errand, Given, Memory};
pub use file::SharedFile;

/// A session that is shared.
pub struct Exchange {
    state: Mutex<State>,
    /// Errands have ended, or nobody waits at the network any more.
    changed: Condvar,
    socket: OwnedFd,
    /// Wakes who waits at the network when there is something to be sent.
    wake: OwnedFd,
    address: Address,
    terms: Accepted,
    version: u16,
    process: u64,
}

struct State {
    traffic: Traffic,
    /// Whether somebody waits at the network, for all.
    is_attended: bool,
    /// Threads that wait for a change.
    asleep: usize,
    /// Errands that had ended when it began to wait.
    ended_before: u64,
}

impl Exchange {
    /// Connects, proves who the user is, and settles how data travel.
    pub fn connect(address: &Address, options: &Options) -> Result<Arc<Self>, Error> {
        Self::connect_within(address, options, options.patience)
    }

    /// The same, but nothing until the session stands may take longer than `patience`; zero is for ever.
    pub fn connect_within(
        address: &Address,
        options: &Options,
        patience: Duration,
    ) -> Result<Arc<Self>, Error> {
        let mut session = Session::connect_within(address, options, patience)?;
        session.decide_route()?;
        Self::of(session, address, false)
    }

    /// A connection of a copy, or of a tool: how data travel is decided when there are any, and
    /// requests may be sent further ahead than the server takes at a time. Its callers bound what
    /// is under way.
    pub fn for_copies(address: &Address, options: &Options) -> Result<Arc<Self>, Error> {
        Self::of(Session::connect(address, options)?, address, true)
    }

    fn of(session: Session, address: &Address, ahead: bool) -> Result<Arc<Self>, Error> {
        let system = |error: rustix::io::Errno| Error::Local("eventfd".into(), error.into());
        Ok(Arc::new(Self {
            socket: session.descriptor()?,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system)?,
            address: address.clone(),
            terms: session.terms().clone(),
            version: session.version(),
            state: Mutex::new(State {
                traffic: Traffic::new(session, ahead),
                is_attended: false,
                asleep: 0,
                ended_before: 0,
            }),
            changed: Condvar::new(),
            process: lineage::mark(),
        }))
    }

    /// The server.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Most bytes of one request.
    pub fn most_at_once(&self) -> usize {
        self.lock().map_or(1, |state| state.traffic.most_at_once())
    }

    /// Whether data travel by RDMA, as far as that is decided.
    pub fn uses_fabric(&self) -> bool {
        self.lock()
            .is_ok_and(|state| state.traffic.session.uses_fabric())
    }

    /// Decides how data travel, unless that is decided, and returns whether they travel by RDMA.
    ///
    /// # Errors
    /// Those of connecting a queue pair, if data must travel by RDMA or the session is lost.
    pub fn decide_route(&self) -> Result<bool, Error> {
        let mut state = self.lock()?;
        state.traffic.decide_route()?;
        Ok(state.traffic.session.uses_fabric())
    }

    /// Whether nothing is under way and the server has not gone, as far as is known here.
    pub fn is_idle(&self) -> bool {
        self.lock().is_ok_and(|state| {
            let session = &state.traffic.session;
            state.traffic.is_idle() && !session.is_broken() && !session.is_left()
        })
    }

    /// What the server allows.
    pub fn terms(&self) -> &Accepted {
        &self.terms
    }

    /// The version of the protocol that both speak.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Whether it can still be used.
    pub fn is_broken(&self) -> bool {
        self.lock()
            .map_or(true, |state| state.traffic.session.is_broken())
    }

    /// Whether the server has not gone meanwhile, as far as is known here.
    pub fn stands(&self) -> bool {
        self.advance().is_ok() && !self.is_broken()
    }

    /// Begins an errand. It goes on whenever anybody waits for one, or calls [`Exchange::advance`].
    pub fn begin(
        self: &Arc<Self>,
        errand: Errand,
        memory: impl Memory + 'static,
    ) -> Result<Ticket, Error> {
        let mut state = self.lock()?;
        let number = state.traffic.begin(errand, Box::new(memory))?;
        state.traffic.send();
        self.tell(&state);
        Ok(self.ticket(number))
    }

    /// The same, but it may leave together with those that follow: when there are enough, when
    /// another is begun, or when one is waited for.
    pub fn begin_with_others(
        self: &Arc<Self>,
        errand: Errand,
        memory: impl Memory + 'static,
    ) -> Result<Ticket, Error> {
        let number = self.lock()?.traffic.begin(errand, Box::new(memory))?;
        Ok(self.ticket(number))
    }

    /// Begins an errand that sends bytes that stay the caller's, and waits until they have left.
    #[allow(unsafe_code, reason = "bytes of a caller who waits")]
    pub fn lend(self: &Arc<Self>, errand: Errand, bytes: &[u8]) -> Result<Ticket, Error> {
        /// Nobody may look at the bytes once this call is left, so a panic cannot leave it.
        struct Waits;
        impl Drop for Waits {
            fn drop(&mut self) {
                std::process::abort();
            }
        }
        let sends = match &errand {
            Errand::Call(request) => request.brings_data(),
            Errand::Write { .. } => true,
            _ => false,
        };
        if !sends {
            return Err(Error::Setup("bytes are lent to be sent".into()));
        }
        let waits = Waits;
        // SAFETY: `has_left` takes them from the errand before this returns.
        let lent = unsafe { Lent::new(bytes) };
        let begun = self.begin(errand, lent).and_then(|ticket| {
            let number = ticket.number.unwrap_or_default();
            self.wait_until(None, |traffic| traffic.has_left(number).then_some(()))?;
            Ok(ticket)
        });
        std::mem::forget(waits);
        begun
    }

    fn ticket(self: &Arc<Self>, number: u64) -> Ticket {
        Ticket {
            exchange: Arc::clone(self),
            number: Some(number),
        }
    }

    /// One request without data, and its reply.
    pub fn call(self: &Arc<Self>, request: Request) -> Result<Reply, Error> {
        let ticket = self.begin(Errand::Call(request), Vec::new())?;
        ticket.reply().map(|(reply, _)| reply)
    }

    /// Sends and receives what can be without waiting.
    pub fn advance(&self) -> Result<(), Error> {
        let mut state = self.lock()?;
        state.traffic.advance(None);
        state.traffic.look_for_silence();
        self.tell(&state);
        Ok(())
    }

    /// Whether something waits until the socket takes more. [`Exchange::advance`] is due when it
    /// does.
    pub fn wants_to_send(&self) -> bool {
        self.lock().is_ok_and(|state| state.traffic.wants_to_send())
    }

    /// Becomes readable when something has come that [`Exchange::advance`] would take.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn lock(&self) -> Result<MutexGuard<'_, State>, Error> {
        if self.process != lineage::mark() {
            return Err(Error::Forked);
        }
        Ok(self
            .state
            .lock()
            .unwrap_or_else(|poison| poison.into_inner()))
    }

    /// Who waits at the network learns that there is more to be sent than the socket took, or that something has ended
    /// which it may be waiting for; the others, that something may have ended.
    fn tell(&self, state: &State) {
        let has_ended = state.traffic.ended() != state.ended_before;
        if state.is_attended && (state.traffic.wants_to_send() || has_ended) {
            // Fails only when the counter is full, and then it wakes all the same.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
        self.wake_sleepers(state);
    }

    fn wake_sleepers(&self, state: &State) {
        if state.asleep > 0 {
            self.changed.notify_all();
        }
    }

    /// Sleeps until there may be a change, at most so long.
    fn sleep<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        at_most: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        state.asleep += 1;
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
        state.asleep -= 1;
        state
    }

    /// Waits until `look` finds something, taking what comes for everybody; no more than until an
    /// errand has ended, if that is wanted.
    fn wait_until<T>(
        &self,
        wanted: Option<u64>,
        mut look: impl FnMut(&mut Traffic) -> Option<T>,
    ) -> Result<T, Error> {
        let mut state = self.lock()?;
        let mut is_first = true;
        loop {
            if let Some(found) = look(&mut state.traffic) {
                return Ok(found);
            }
            if state.is_attended {
                is_first = false;
                state = self.sleep(state, None);
                continue;
            }
            // Nobody has waited until now.
            if std::mem::take(&mut is_first) {
                state.traffic.quiet.restart();
            }
            state.traffic.advance(wanted);
            self.wake_sleepers(&state);
            if let Some(found) = look(&mut state.traffic) {
                return Ok(found);
            }
            state = self.attend(state, None, wanted)?;
            self.wake_sleepers(&state);
        }
    }

    /// How many errands have ended, for [`Exchange::pause`].
    fn ended(&self) -> Result<u64, Error> {
        Ok(self.lock()?.traffic.ended())
    }

    /// Waits until something may have ended, at most so long. What has ended since there were `ended` is not waited for: who looked
    /// at several errands one after the other may have taken the reply of one that he had looked at.
    fn pause(&self, ended: u64, at_most: Option<Duration>) -> Result<(), Error> {
        let state = self.lock()?;
        if state.traffic.ended() != ended {
            return Ok(());
        }
        if !state.is_attended {
            let state = self.attend(state, at_most, None)?;
            self.wake_sleepers(&state);
            return Ok(());
        }
        // Who attends goes when its own errand has ended, and says so.
        drop(self.sleep(state, at_most));
        Ok(())
    }

    /// Waits at the network, for all, at most so long.
    fn attend<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        at_most: Option<Duration>,
        wanted: Option<u64>,
    ) -> Result<MutexGuard<'a, State>, Error> {
        state.is_attended = true;
        state.ended_before = state.traffic.ended();
        let patience = state.traffic.patience();
        let mut events = PollFlags::IN;
        events.set(PollFlags::OUT, state.traffic.wants_to_send());
        drop(state);
        let patience = (!patience.is_zero()).then_some(patience);
        let timeout = match (patience, at_most) {
            (Some(patience), Some(at_most)) => Some(patience.min(at_most)),
            (patience, at_most) => patience.or(at_most),
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut looked = [
            PollFd::new(&self.socket, events),
            PollFd::new(&self.wake, PollFlags::IN),
        ];
        // A look that fails has seen nothing, and is made again.
        let woken = poll(&mut looked, timeout.as_ref());
        if !looked[1].revents().is_empty() {
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        }
        let mut state = self.lock()?;
        state.is_attended = false;
        debug_assert!(
            woken != Ok(0) || at_most.is_some() || state.traffic.ended() == state.ended_before,
            "something ended, and nobody woke who waited for it"
        );
        state.traffic.advance(wanted);
        state.traffic.look_for_silence();
        Ok(state)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // The parent goes on with the session, whose own end says nothing on the stream then; what is under way is the
        // parent's memory, and stays.
        if self.process != lineage::mark()
            && let Ok(state) = self.state.get_mut()
        {
            state.traffic.forget();
        }
    }
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exchange of process {}", self.process)
    }
}

/// An errand that was begun. Who drops it takes it back.
#[derive(Debug)]
#[must_use]
pub struct Ticket {
    exchange: Arc<Exchange>,
    number: Option<u64>,
}

impl Ticket {
    /// Waits for the end.
    pub fn wait(mut self) -> Result<Done, Error> {
        match self.number.take() {
            Some(number) => self
                .exchange
                .wait_until(None, |traffic| traffic.take(number)),
            None => Err(Error::Dropped("earlier")),
        }
    }

    /// Waits for the reply to a call, and the data that came with it.
    pub fn reply(self) -> Result<(Reply, Vec<u8>), Error> {
        let done = self.wait()?;
        match done.outcome? {
            Given::Reply(reply, length) => {
                let mut bytes = done.memory.into_bytes();
                bytes.truncate(length);
                Ok((reply, bytes))
            }
            _ => Err(Error::Dropped("before it answered")),
        }
    }

    /// Waits for the data of a chunk and looks at them where they are. Nobody else gets on with the
    /// connection meanwhile.
    pub fn look<T>(mut self, mut look: impl FnMut(&[u8]) -> T) -> Result<T, Error> {
        match self.number.take() {
            Some(number) => self
                .exchange
                .wait_until(Some(number), |traffic| traffic.look(number, &mut look))?,
            None => Err(Error::Dropped("earlier")),
        }
    }

    /// Whether it has ended, so that [`Ticket::wait`] does not wait. Takes what has come, if nobody else does.
    pub fn is_done(&self) -> Result<bool, Error> {
        let mut state = self.exchange.lock()?;
        let Some(number) = self.number else {
            return Ok(false);
        };
        if !state.is_attended && !state.traffic.is_done(number) {
            state.traffic.advance(None);
            state.traffic.look_for_silence();
            self.exchange.wake_sleepers(&state);
        }
        Ok(state.traffic.is_done(number))
    }

    /// Whether it has ended. Unlike [`Ticket::is_done`] this reads nothing from the network, so
    /// that a look at many tickets after one [`Exchange::advance`] is cheap.
    pub fn has_ended(&self) -> Result<bool, Error> {
        let state = self.exchange.lock()?;
        Ok(self
            .number
            .is_some_and(|number| state.traffic.is_done(number)))
    }

    /// Becomes readable when [`Ticket::is_done`] may have news; where several threads use the exchange, another may take them.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.exchange.events()
    }

    /// Takes it back. It ends all the same: with ECANCELED, or done if it was too late for that. What changes something and
    /// has been asked for is done.
    pub fn cancel(&self) -> Result<(), Error> {
        let mut state = self.exchange.lock()?;
        if let Some(number) = self.number {
            state.traffic.cancel(number);
            self.exchange.tell(&state);
        }
        Ok(())
    }
}

/// Waits until one of the tickets is done, at most so long (`None`: for ever); which one.
pub fn wait_any(tickets: &[&Ticket], at_most: Option<Duration>) -> Result<Option<usize>, Error> {
    let begun = Instant::now();
    let Some(first) = tickets.first() else {
        return Ok(None);
    };
    let are_of_one = tickets
        .iter()
        .all(|ticket| Arc::ptr_eq(&ticket.exchange, &first.exchange));
    loop {
        let ended = first.exchange.ended()?;
        for (index, ticket) in tickets.iter().enumerate() {
            if ticket.is_done()? {
                return Ok(Some(index));
            }
        }
        let left = at_most.map(|at_most| at_most.saturating_sub(begun.elapsed()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(None);
        }
        // What ends elsewhere meanwhile is seen a little later.
        let pause = match are_of_one {
            true => left,
            false => Some(left.unwrap_or(ELSEWHERE).min(ELSEWHERE)),
        };
        first.exchange.pause(ended, pause)?;
    }
}

/// How soon [`wait_any`] looks at other exchanges again while it waits at one.
const ELSEWHERE: Duration = Duration::from_millis(5);

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(number) = self.number
            && let Ok(mut state) = self.exchange.lock()
        {
            state.traffic.abandon(number);
            self.exchange.tell(&state);
        }
    }
}

/// Bytes of a caller that only writes look at.
struct Lent(*const [u8]);

#[allow(unsafe_code, reason = "bytes of a caller who waits")]
// SAFETY: shared bytes, which any thread may look at.
unsafe impl Send for Lent {}

#[allow(unsafe_code, reason = "bytes of a caller who waits")]
impl Lent {
    /// # Safety
    /// The bytes must outlive it.
    unsafe fn new(bytes: &[u8]) -> Self {
        Self(bytes)
    }
}

impl Memory for Lent {
    #[allow(unsafe_code, reason = "bytes of a caller who waits")]
    fn bytes(&self) -> &[u8] {
        // SAFETY: the promise of who made it.
        unsafe { &*self.0 }
    }
    /// Nothing is put there.
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut []
    }
}
