//! The connection manager of a process: its channels and identifiers, under one lock.

use crate::alarm::{Alarm, Alarms};
use crate::channel::{Channel, ChannelId, Waiting};
use crate::conversation::Conversation;
use crate::device::TIME_WAIT;
use crate::event::{Event, Kind};
use crate::executor::Executor;
use crate::identifier::Identifier;
use crate::leave;
use crate::line::Line;
use crate::message::{self, Message};
use crate::office::Office;
use crate::port::Ports;
use crate::post::{AGENT, Letterbox};
use crate::stage::Stage;
use crate::table::Table;
use crate::thread::{Source, Watch};
use std::collections::HashMap;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;
use verbena_hca::errno::{Errno, Result};
use verbena_hca::link;
use verbena_hca::process::Process;
use verbena_hca::roce::management::set_agent;
use verbena_hca::sys::clock;

/// A group that an identifier has joined.
#[derive(Clone, Copy, Debug)]
pub struct Membership {
    /// The library's name for it.
    pub uid: u64,
    /// Who joined.
    pub identifier: u32,
    /// Events that the program took.
    pub events_reported: u32,
}

/// A connection that has not said yet what it wants.
pub struct Caller {
    /// Whom it called.
    pub listener: u32,
    /// And which incarnation of it.
    pub generation: u32,
    /// The line.
    pub conversation: Conversation,
    /// Until when it may be silent (nanoseconds of [`clock`]).
    pub deadline: u64,
}

/// All that changes.
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
    /// What the thread listens to.
    pub watch: Watch,
    /// Correspondences with other hosts.
    pub(crate) office: Office,
    /// What others have left to be said; without other hosts nothing is.
    pub(crate) executor: Option<Executor>,
    alarms: Alarms,
    /// Whether the thread listens to the alarms.
    has_alarms: bool,
    generations: u32,
}

/// The connection manager of one process.
pub struct Service {
    pid: u32,
    state: Mutex<State>,
    /// What has come from other hosts.
    pub letterbox: Letterbox,
}

/// A pointer and not a lock, which a thread might hold when another forks.
static CURRENT: AtomicPtr<Service> = AtomicPtr::new(std::ptr::null_mut());

impl Service {
    /// That of this process; made at first use. A child of fork(2) makes its own: the thread, and the meaning of the
    /// descriptors, stayed with its parent.
    ///
    /// # Errors
    /// What joining the registry says, and what starting a thread says.
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
            office: Office::default(),
            executor: None,
            alarms: Alarms::new()?,
            has_alarms: false,
            generations: 0,
        };
        let made = Box::into_raw(Box::new(Service {
            pid: std::process::id(),
            state: Mutex::new(state),
            letterbox: Letterbox::new()?,
        }));
        // Lives as long as the process: its thread never ends.
        let result = CURRENT.compare_exchange(before, made, Ordering::AcqRel, Ordering::Acquire);
        if result.is_err() {
            // SAFETY: another thread was faster; nobody has seen this one.
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
            self.letterbox.open(&mut state)?;
            // Without it only those who are killed are worse off.
            let _ = state.execute_wills_from_now_on();
        }
        Ok(())
    }

    /// That of this process, if there is one.
    pub fn existing() -> Option<&'static Service> {
        // SAFETY: null, or made above and never freed once it is seen here.
        let current = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
        current.filter(|service| service.pid == std::process::id())
    }

    /// Locks the state if that can be until then.
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
    /// The identifier `number`, which must belong to `channel`.
    ///
    /// # Errors
    /// ENOENT when there is none, EINVAL when it is another channel's.
    pub fn identifier(&mut self, channel: ChannelId, number: u32) -> Result<&mut Identifier> {
        let identifier = self.identifiers.get_mut(number).ok_or(Errno::ENOENT)?;
        if identifier.channel == channel {
            Ok(identifier)
        } else {
            Err(Errno::EINVAL)
        }
    }

    /// A number that no identifier had before.
    pub fn next_generation(&mut self) -> u32 {
        self.generations = self.generations.wrapping_add(1);
        self.generations
    }

    /// Raises an event of an identifier. One whose name the library has not told yet cannot have any.
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

    /// Ends an identifier: its peer, its port and its waiting events go with it. Gives how many events were reported.
    pub fn destroy(&mut self, number: u32) -> Option<u32> {
        let identifier = self.identifiers.remove(number)?;
        let reported = identifier.events_reported;
        match identifier.line {
            // That it closes tells the peer; the kernel's communication manager would say as much (12.10.2).
            Some(Line::Neighbour(conversation)) => self.watch.forget(&*conversation),
            Some(Line::Distant(correspondence)) => {
                self.take_leave(identifier.stage, *correspondence);
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

    /// One request less that waits at `listener` for its answer.
    pub fn answered(&mut self, listener: u32) {
        let listening = self
            .identifiers
            .get_mut(listener)
            .and_then(|identifier| identifier.listening.as_mut());
        if let Some(listening) = listening {
            listening.backlog += 1;
        }
    }

    /// Takes waiting events out of a channel.
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

    /// The peer of an identifier has gone without a word: what its kernel would have said for it.
    pub fn lost(&mut self, number: u32) {
        let Some(identifier) = self.identifiers.get_mut(number) else {
            return;
        };
        match identifier.line.take() {
            Some(Line::Neighbour(conversation)) => self.watch.forget(&*conversation),
            Some(Line::Distant(correspondence)) => {
                self.office.forget(&correspondence);
            }
            None => (),
        }
        let before = std::mem::replace(&mut identifier.stage, Stage::Over);
        let datagram = identifier.space.is_datagram();
        match before {
            // A datagram service is not connected: its answer was all.
            Stage::Established | Stage::Requested if datagram => identifier.stage = before,
            Stage::Connecting if datagram => {
                self.raise(
                    number,
                    Event::plain(Kind::Unreachable, message::SIDR_REJECTED as i32),
                );
            }
            Stage::Connecting | Stage::Replied | Stage::Accepted => {
                self.raise(
                    number,
                    Event::plain(Kind::Rejected, message::CONSUMER_DEFINED as i32),
                );
            }
            Stage::Established => {
                identifier.stage = Stage::Disconnected;
                self.raise(number, Event::plain(Kind::Disconnected, 0));
            }
            Stage::Disconnecting => {
                self.raise(number, Event::plain(Kind::Disconnected, 0));
                self.begin_time_wait(number);
            }
            // It had said all that there was to say.
            Stage::Disconnected | Stage::TimeWait => identifier.stage = before,
            _ => (),
        }
    }

    /// Both sides of a connection have disconnected: its identifier waits until no packet can be on its way any more.
    pub fn begin_time_wait(&mut self, number: u32) {
        if let Some(identifier) = self.identifiers.get_mut(number) {
            identifier.stage = Stage::TimeWait;
            let alarm = Alarm::TimeWait(number, identifier.generation);
            self.set_alarm(clock::now() + TIME_WAIT, alarm);
        }
    }

    /// Has [`State::take_alarms`] called when it is time.
    pub fn set_alarm(&mut self, at: u64, alarm: Alarm) {
        self.alarms.set(at, alarm);
        if !self.has_alarms {
            // Without memory for it now, the next one tries again.
            self.has_alarms = self.watch.add(&self.alarms, Source::Alarm).is_ok();
        }
    }

    /// Does what is due.
    pub fn take_alarms(&mut self, now: u64) {
        for alarm in self.alarms.take_due(now) {
            match alarm {
                Alarm::TimeWait(number, generation) => {
                    let identifier = self.identifiers.get_mut(number);
                    let waits = |of: &&mut Identifier| {
                        of.generation == generation && of.stage == Stage::TimeWait
                    };
                    if let Some(identifier) = identifier.filter(waits) {
                        identifier.stage = Stage::Over;
                        self.raise(number, Event::plain(Kind::TimewaitExit, 0));
                    }
                }
                Alarm::Correspondence(number) => self.tend_correspondence(number, now),
                Alarm::Unclaimed => self.offer_unclaimed(),
                Alarm::Probe => {
                    self.probe_peers();
                    self.execute_wills();
                }
                Alarm::Wills => self.execute_wills(),
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

    /// Says something to the peer of an identifier.
    ///
    /// # Errors
    /// EINVAL when there is none any more.
    pub fn tell(&mut self, number: u32, message: &Message) -> Result<()> {
        let identifier = self.identifiers.get_mut(number).ok_or(Errno::EINVAL)?;
        match identifier.line.as_mut().ok_or(Errno::EINVAL)? {
            Line::Neighbour(conversation) => conversation.say(message).map_err(|_| Errno::EINVAL),
            Line::Distant(_) => self.write(number, message),
        }
    }

    /// Says something to a peer that may be gone; then it is lost.
    pub fn say(&mut self, number: u32, message: &Message) {
        if self.tell(number, message).is_err() {
            self.lost(number);
        }
    }
}
