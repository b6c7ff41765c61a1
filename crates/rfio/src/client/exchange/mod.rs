//! Many errands of many threads on one session, answered in any order.
//!
//! # The law
//!
//! - Beginning an errand never waits. Whoever waits for one works for all: one thread at a time waits at the network and
//!   takes whatever comes, for itself and for the others, who sleep. Whoever else has taken something meanwhile, or has left
//!   something to be sent, wakes the one at the network: what it waits for may not come any more. So there is no thread of the library's own, and nothing
//!   that a fork could lose.
//! - When a wait for an errand has ended nobody uses the errand's memory any more, whatever came of it: the network's end is the
//!   errand's, with its memory. A wait fails only in a forked process, where nobody touches anything.
//! - A program with an event loop waits at [`Exchange::events`] itself and calls [`Exchange::advance`] then.
//! - In a process that was forked from the one that opened it, everything is [`Error::Forked`] and nothing is touched.
//!
//! What leaves, what comes, and what belongs together is `traffic`'s.

mod answers;
pub mod connections;
mod errand;
mod file;
mod input;
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
use super::options::{Fabric, Options};
use super::session::Session;
use traffic::Traffic;

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
    terms: Accepted,
    version: u16,
    process: u64,
}

struct State {
    traffic: Traffic,
    /// Whether somebody waits at the network, for all.
    is_attended: bool,
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
        if options.fabric != Fabric::Tcp {
            session.data_path()?;
        }
        session.stream().never_wait()?;
        let system = |error: rustix::io::Errno| Error::Local("eventfd".into(), error.into());
        Ok(Arc::new(Self {
            socket: session.stream().descriptor()?,
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system)?,
            terms: session.terms().clone(),
            version: session.version(),
            state: Mutex::new(State {
                traffic: Traffic::new(session, options.patience),
                is_attended: false,
                ended_before: 0,
            }),
            changed: Condvar::new(),
            process: lineage::mark(),
        }))
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
        self.tell(&state);
        Ok(Ticket {
            exchange: Arc::clone(self),
            number: Some(number),
        })
    }

    /// One request without data, and its reply.
    pub fn call(self: &Arc<Self>, request: Request) -> Result<Reply, Error> {
        match self
            .begin(Errand::Call(request), Vec::new())?
            .wait()?
            .outcome?
        {
            Given::Reply(reply, _) => Ok(reply),
            _ => Err(Error::Dropped("before it answered")),
        }
    }

    /// Sends and receives what can be without waiting.
    pub fn advance(&self) -> Result<(), Error> {
        let mut state = self.lock()?;
        state.traffic.advance();
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
        self.changed.notify_all();
    }

    fn wait_for(&self, number: u64) -> Result<Done, Error> {
        let mut state = self.lock()?;
        loop {
            if let Some(done) = state.traffic.take(number) {
                return Ok(done);
            }
            if state.is_attended {
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(|poison| poison.into_inner());
                continue;
            }
            state.traffic.advance();
            if !state.traffic.is_done(number) {
                state = self.attend(state, None)?;
            }
            self.changed.notify_all();
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
            drop(self.attend(state, at_most)?);
            self.changed.notify_all();
            return Ok(());
        }
        // Who attends goes when its own errand has ended, and says so.
        match at_most {
            Some(at_most) => drop(self.changed.wait_timeout(state, at_most)),
            None => drop(self.changed.wait(state)),
        }
        Ok(())
    }

    /// Waits at the network, for all, at most so long.
    fn attend<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        at_most: Option<Duration>,
    ) -> Result<MutexGuard<'a, State>, Error> {
        state.is_attended = true;
        state.ended_before = state.traffic.ended();
        let patience = state.traffic.patience();
        let mut wanted = PollFlags::IN;
        wanted.set(PollFlags::OUT, state.traffic.wants_to_send());
        drop(state);
        let patience = (!patience.is_zero()).then_some(patience);
        let timeout = match (patience, at_most) {
            (Some(patience), Some(at_most)) => Some(patience.min(at_most)),
            (patience, at_most) => patience.or(at_most),
        };
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut looked = [
            PollFd::new(&self.socket, wanted),
            PollFd::new(&self.wake, PollFlags::IN),
        ];
        // A look that fails has seen nothing, and is made again.
        let woken = poll(&mut looked, timeout.as_ref());
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        let mut state = self.lock()?;
        state.is_attended = false;
        debug_assert!(
            woken != Ok(0) || at_most.is_some() || state.traffic.ended() == state.ended_before,
            "something ended, and nobody woke who waited for it"
        );
        state.traffic.advance();
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
            Some(number) => self.exchange.wait_for(number),
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
            state.traffic.advance();
            state.traffic.look_for_silence();
            self.exchange.changed.notify_all();
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
