//! The state of a process's connection manager, under the lock of [`crate::service`].

use crate::alarm::{Alarm, Alarms};
use crate::channel::{Channel, ChannelId, Waiting};
use crate::connection_state::ConnectionState;
use crate::connection_table::ConnectionTable;
use crate::device::TIME_WAIT;
use crate::event::{Event, EventKind};
use crate::hosts::Hosts;
use crate::identifier::Identifier;
use crate::local_stream::LocalStream;
use crate::membership::Administered;
use crate::port::{Ports, random_word};
use crate::reaper::Reaper;
use crate::table::Table;
use crate::watch::{Source, Watch};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use verbena_hca::process::Process;
use verbena_hca_os::clock;
use verbena_hca_os::errno::{Errno, Result};

/// How long the event of a peer that has disconnected waits for the program to take its completions
/// (nanoseconds): more than a busy machine leaves a program without a processor.
const LONGEST_WAIT: u64 = 100_000_000;
// The end of a time wait is reported after the disconnect.
const _: () = assert!(LONGEST_WAIT < TIME_WAIT);
/// Time between two looks for completions (nanoseconds).
const BETWEEN_LOOKS: u64 = 1_000_000;

/// A multicast group that an identifier has joined.
#[derive(Clone, Debug)]
pub struct Membership {
    /// The library's name for it.
    pub uid: u64,
    /// The identifier that joined.
    pub identifier: u32,
    /// Number of events that the program took.
    pub events_reported: u32,
    /// The membership at subnet administration, on a fabric.
    pub administered: Option<Box<Administered>>,
}

/// A connection to a listener whose request has not arrived yet.
pub struct Caller {
    /// The listener.
    pub listener: u32,
    /// The listener's generation.
    pub generation: u32,
    /// The connection.
    pub local_stream: LocalStream,
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
    /// The hosts that this process reaches.
    pub hosts: Hosts,
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
    /// The last transaction with subnet administration.
    pub(crate) transactions: u64,
}

impl State {
    /// Returns the state without channels, for a thread that runs `run`.
    ///
    /// # Errors
    /// Those of joining the registry, of epoll_create1(2) and of timerfd_create(2).
    pub fn new(run: fn(&OwnedFd)) -> Result<State> {
        let directory = Process::current()?.directory()?;
        let hosts = Hosts::open(&directory)?;
        Ok(State {
            channels: HashMap::new(),
            identifiers: Table::default(),
            groups: Table::default(),
            callers: Table::default(),
            ports: Ports::open(&directory, hosts.local().clone())?,
            hosts,
            watch: Watch::new(run)?,
            connections: ConnectionTable::default(),
            reaper: None,
            alarms: Alarms::new()?,
            has_alarms: false,
            generations: 0,
            transactions: u64::from(random_word()) << 32,
        })
    }

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

    /// Raises the event of a peer that has disconnected, behind the completions before it.
    pub fn disconnected(&mut self, number: u32) {
        self.raise_disconnected(number, clock::now() + LONGEST_WAIT);
    }

    /// Raises the event of a peer that has disconnected, at `deadline` at the latest.
    ///
    /// Until then it waits for the program to take the completions that came before. An adapter has
    /// written those long before the peer's DREQ arrives. Here a program that lost its processor
    /// between two polls would see both at once, and programs that look for events first destroy
    /// the queue pair with its completions (libfabric's ofi_rxm does, and waits for them forever).
    pub fn raise_disconnected(&mut self, number: u32, deadline: u64) {
        let Some(identifier) = self.identifiers.get(number) else {
            return;
        };
        let queue_pair = identifier.agreement.queue_pair;
        let (generation, now) = (identifier.generation, clock::now());
        let process = Process::current();
        let waits = |process: Arc<Process>| process.has_unseen_completions(queue_pair);
        if now < deadline && process.is_ok_and(waits) {
            let at = deadline.min(now + BETWEEN_LOOKS);
            self.set_alarm(at, Alarm::Disconnected(number, generation, deadline));
        } else {
            self.raise(number, Event::plain(EventKind::Disconnected, 0));
        }
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

    /// Takes the alarms that are due.
    pub fn due_alarms(&mut self, now: u64) -> Vec<Alarm> {
        self.alarms.take_due(now)
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

    /// Sets an alarm for a time. Returns whether the thread listens to it: without memory or
    /// processes it does only once a later alarm succeeds.
    pub fn set_alarm(&mut self, at: u64, alarm: Alarm) -> bool {
        self.alarms.set(at, alarm);
        if !self.has_alarms {
            self.has_alarms = self.watch.add(&self.alarms, Source::Alarm).is_ok();
        }
        self.has_alarms
    }
}
