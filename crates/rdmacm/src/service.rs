//! The connection manager of a process: its channels and identifiers, under one lock.

use crate::alarm::{Alarm, Alarms};
use crate::channel::{Channel, ChannelId, Waiting};
use crate::connection_state::ConnectionState;
use crate::connection_table::ConnectionTable;
use crate::conversation::Conversation;
use crate::device::TIME_WAIT;
use crate::event::{Event, Kind};
use crate::identifier::Identifier;
use crate::inbox::{AGENT, Inbox};
use crate::leave;
use crate::message::{self, Message};
use crate::peer_transport::PeerTransport;
use crate::port::Ports;
use crate::reaper::Reaper;
use crate::table::Table;
use crate::thread::{Source, Watch};
use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;
use verbena_hca::link;
use verbena_hca::process::Process;
use verbena_hca::roce::management::set_agent;
use verbena_hca_os::clock;
use verbena_hca_os::errno::{Errno, Result};

/// A multicast group that an identifier has joined.
#[derive(Clone, Copy, Debug)]
pub struct Membership {
    /// The library's name for it.
    pub uid: u64,
    /// The identifier that joined.
    pub identifier: u32,
    /// Number of events that the program took.
    pub events_reported: u32,
}

/// A connection to a listener whose request has not arrived yet.
pub struct Caller {
    /// The listener.
    pub listener: u32,
    /// The listener's generation.
    pub generation: u32,
    /// The connection.
    pub conversation: Conversation,
    /// Until when the request must arrive (nanoseconds of [`clock`]).
    pub deadline: u64,
}

/// The state under the lock.
pub struct State {
    /// Channels of this process.
    pub channels: HashMap<ChannelId, Channel>,
    /// Identifiers by number.
    pub identifiers: Table<Identifier>,
    /// Groups by number.
    pub groups: Table<Membership>,
    /// Callers by number.
    pub callers: Table<Caller>,
    /// Ports of this host.
    pub ports: Ports,
    /// Event sources of the thread.
    pub watch: Watch,
    /// Exchanges with other hosts.
    pub(crate) connections: ConnectionTable,
    /// The reaper of killed processes; only if other hosts can be reached.
    pub(crate) reaper: Option<Reaper>,
    alarms: Alarms,
    /// Whether the thread listens to the alarms.
    has_alarms: bool,
    generations: u32,
}

/// The connection manager of one process.
pub struct Service {
    pid: u32,
    state: Mutex<State>,
    /// MADs from other hosts.
    pub inbox: Inbox,
}

/// A pointer instead of a lock, as another thread might hold a lock during fork(2).
static CURRENT: AtomicPtr<Service> = AtomicPtr::new(std::ptr::null_mut());

impl Service {
    /// Returns the connection manager of this process; creates it at first use. A child of fork(2)
    /// creates its own: the thread and the meaning of the descriptors stay with its parent.
    ///
    /// # Errors
    /// Those of joining the registry and of starting a thread.
    pub fn current() -> Result<&'static Service> {
        if let Some(service) = Service::existing() {
            return Ok(service);
        }
        let before = CURRENT.load(Ordering::Acquire);
        let state = State {
            channels: HashMap::new(),
            identifiers: Table::default(),
            groups: Table::default(),
            callers: Table::default(),
            ports: Ports::open(&Process::current()?.directory()?)?,
            watch: Watch::new()?,
            connections: ConnectionTable::default(),
            reaper: None,
            alarms: Alarms::new()?,
            has_alarms: false,
            generations: 0,
        };
        let made = Box::into_raw(Box::new(Service {
            pid: std::process::id(),
            state: Mutex::new(state),
            inbox: Inbox::new()?,
        }));
        // Lives as long as the process, because its thread never ends.
        let result = CURRENT.compare_exchange(before, made, Ordering::AcqRel, Ordering::Acquire);
        if result.is_err() {
            // SAFETY: `made` comes from `Box::into_raw`; the exchange failed, so no other reference
            // to it exists.
            drop(unsafe { Box::from_raw(made) });
        }
        let service = Service::existing().ok_or(Errno::EIO)?;
        if result.is_ok() {
            set_agent(AGENT);
            service.open_to_other_hosts()?;
            leave::at_exit();
        }
        Ok(service)
    }

    fn open_to_other_hosts(&self) -> Result<()> {
        if link::is_ethernet() {
            let mut state = self.lock();
            self.inbox.open(&mut state)?;
            // A failure matters only to the peers of killed processes.
            let _ = state.start_reaping();
        }
        Ok(())
    }

    /// Returns the connection manager of this process, if there is one.
    pub fn existing() -> Option<&'static Service> {
        // SAFETY: the pointer is null, or was made by `Box::into_raw` in `current` and is never
        // freed once it is published here.
        let current = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
        current.filter(|service| service.pid == std::process::id())
    }

    /// Locks the state, or returns `None` if that is not possible until the deadline.
    pub fn try_lock_until(&self, deadline: Instant) -> Option<MutexGuard<'_, State>> {
        loop {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(state)) => return Some(state.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return None,
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
    }

    /// Locks the state.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the identifier `number`, which must belong to `channel`.
    ///
    /// # Errors
    /// ENOENT if there is none, EINVAL if it belongs to another channel.
    pub fn identifier(&mut self, channel: ChannelId, number: u32) -> Result<&mut Identifier> {
        let identifier = self.identifiers.get_mut(number).ok_or(Errno::ENOENT)?;
        if identifier.channel == channel {
            Ok(identifier)
        } else {
            Err(Errno::EINVAL)
        }
    }

    /// Returns a generation number that no identifier had before.
    pub fn next_generation(&mut self) -> u32 {
        self.generations = self.generations.wrapping_add(1);
        self.generations
    }

    /// Raises an event of an identifier, unless the library has not named the identifier yet.
    pub fn raise(&mut self, number: u32, event: Event) {
        if self.identifiers.get(number).is_some_and(|of| of.uid != 0) {
            self.deliver(number, event);
        }
    }

    /// Puts an event into the channel of an identifier.
    pub fn deliver(&mut self, number: u32, event: Event) {
        let Some(identifier) = self.identifiers.get(number) else {
            return;
        };
        if let Some(channel) = self.channels.get_mut(&identifier.channel) {
            channel.push(Waiting {
                owner: number,
                group: None,
                request: None,
                event,
            });
        }
    }

    /// Destroys an identifier with its connection, port and waiting events. Returns the number of
    /// events reported.
    pub fn destroy(&mut self, number: u32) -> Option<u32> {
        let identifier = self.identifiers.remove(number)?;
        let reported = identifier.events_reported;
        match identifier.peer_transport {
            // Closing the socket informs the peer, as a message of the kernel's CM would (12.10.2).
            Some(PeerTransport::Local(conversation)) => self.watch.forget(&*conversation),
            Some(PeerTransport::Remote(machine)) => {
                self.end_connection(identifier.state, *machine);
            }
            None => (),
        }
        let orphans = self.take_events(identifier.channel, |waiting| waiting.owner == number);
        for request in orphans.into_iter().filter_map(|waiting| waiting.request) {
            self.destroy(request);
        }
        let groups = self.groups.iter();
        let joined: Vec<u32> = groups
            .filter(|(_, group)| group.identifier == number)
            .map(|(group, _)| group)
            .collect();
        for group in joined {
            self.groups.remove(group);
        }
        let callers = self.callers.iter();
        let waiting: Vec<u32> = callers
            .filter(|(_, caller)| caller.listener == number)
            .map(|(caller, _)| caller)
            .collect();
        for caller in waiting {
            self.callers.remove(caller);
        }
        if let Some(listener) = identifier.requested_from {
            self.answered(listener);
        }
        Some(reported)
    }

    /// Frees a place in the backlog of `listener`: one of its requests was answered.
    pub fn answered(&mut self, listener: u32) {
        let listening = self
            .identifiers
            .get_mut(listener)
            .and_then(|identifier| identifier.listening.as_mut());
        if let Some(listening) = listening {
            listening.backlog += 1;
        }
    }

    /// Takes the chosen events out of a channel.
    pub fn take_events(
        &mut self,
        channel: ChannelId,
        chosen: impl FnMut(&Waiting) -> bool,
    ) -> Vec<Waiting> {
        let Some(channel) = self.channels.get_mut(&channel) else {
            return Vec::new();
        };
        channel.take(chosen)
    }

    /// Handles a peer that died without a message: acts on the message its kernel would have sent.
    pub fn lost(&mut self, number: u32) {
        let Some(identifier) = self.identifiers.get_mut(number) else {
            return;
        };
        match identifier.peer_transport.take() {
            Some(PeerTransport::Local(conversation)) => self.watch.forget(&*conversation),
            Some(PeerTransport::Remote(machine)) => {
                self.connections.forget(&machine);
            }
            None => (),
        }
        let before = std::mem::replace(&mut identifier.state, ConnectionState::Over);
        let datagram = identifier.space.is_datagram();
        match before {
            // A datagram service is not connected: its exchange ended with the answer.
            ConnectionState::Established | ConnectionState::Requested if datagram => {
                identifier.state = before
            }
            ConnectionState::Connecting if datagram => {
                self.raise(
                    number,
                    Event::plain(Kind::Unreachable, message::SIDR_REJECTED as i32),
                );
            }
            ConnectionState::Connecting | ConnectionState::Replied | ConnectionState::Accepted => {
                self.raise(
                    number,
                    Event::plain(Kind::Rejected, message::CONSUMER_DEFINED as i32),
                );
            }
            ConnectionState::Established => {
                identifier.state = ConnectionState::Disconnected;
                self.raise(number, Event::plain(Kind::Disconnected, 0));
            }
            ConnectionState::Disconnecting => {
                self.raise(number, Event::plain(Kind::Disconnected, 0));
                self.begin_time_wait(number);
            }
            // Its exchange is over already.
            ConnectionState::Disconnected | ConnectionState::TimeWait => identifier.state = before,
            _ => (),
        }
    }

    /// Starts the time wait of an identifier, after which no packet of the connection can be in
    /// flight.
    pub fn begin_time_wait(&mut self, number: u32) {
        if let Some(identifier) = self.identifiers.get_mut(number) {
            identifier.state = ConnectionState::TimeWait;
            let alarm = Alarm::TimeWait(number, identifier.generation);
            self.set_alarm(clock::now() + TIME_WAIT, alarm);
        }
    }

    /// Schedules [`State::take_alarms`] for a time.
    pub fn set_alarm(&mut self, at: u64, alarm: Alarm) {
        self.alarms.set(at, alarm);
        if !self.has_alarms {
            // If that fails for want of memory, the next alarm tries again.
            self.has_alarms = self.watch.add(&self.alarms, Source::Alarm).is_ok();
        }
    }

    /// Handles the alarms that are due.
    pub fn take_alarms(&mut self, now: u64) {
        for alarm in self.alarms.take_due(now) {
            match alarm {
                Alarm::TimeWait(number, generation) => {
                    let identifier = self.identifiers.get_mut(number);
                    let waits = |of: &&mut Identifier| {
                        of.generation == generation && of.state == ConnectionState::TimeWait
                    };
                    if let Some(identifier) = identifier.filter(waits) {
                        identifier.state = ConnectionState::Over;
                        self.raise(number, Event::plain(Kind::TimewaitExit, 0));
                    }
                }
                Alarm::Retransmission(number) => self.retransmit_due(number, now),
                Alarm::Unclaimed => self.offer_unclaimed(),
                Alarm::Probe => {
                    self.probe_peers();
                    self.reap();
                }
                Alarm::Reap => self.reap(),
                Alarm::Caller(number) => {
                    let caller = self.callers.get(number);
                    if caller.is_some_and(|caller| caller.deadline <= now)
                        && let Some(caller) = self.callers.remove(number)
                    {
                        self.watch.forget(&caller.conversation);
                    }
                }
            }
        }
    }

    /// Sends a message to the peer of an identifier.
    ///
    /// # Errors
    /// EINVAL if there is no peer any more.
    pub fn tell(&mut self, number: u32, message: &Message) -> Result<()> {
        let identifier = self.identifiers.get_mut(number).ok_or(Errno::EINVAL)?;
        match identifier.peer_transport.as_mut().ok_or(Errno::EINVAL)? {
            PeerTransport::Local(conversation) => {
                conversation.say(message).map_err(|_| Errno::EINVAL)
            }
            PeerTransport::Remote(_) => self.write(number, message),
        }
    }

    /// Sends a message to a peer that may be dead; then the identifier's connection is lost.
    pub fn say(&mut self, number: u32, message: &Message) {
        if self.tell(number, message).is_err() {
            self.lost(number);
        }
    }
}
