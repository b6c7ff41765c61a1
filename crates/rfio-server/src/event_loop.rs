//! One event loop: its share of the connections, on one thread.
//!
//! The loop handles these edge cases: unauthenticated peers that send nothing (a deadline, and a
//! cap: the oldest is dropped when a new one connects), clients that read nothing (their data are
//! bounded, and after a long stall the session ends), sessions that wait for memory (retried a
//! little later), and a stop (requests in progress are finished, within a deadline).

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use serde_json::json;
use verbena_rfio_common::socket::Socket;

use super::metrics::count;
use super::session::authenticator::ConnectionOrigin;
use super::session::connection::{Connection, Context, Interest, NextStep};
use super::session::serving::FinishedRequest;
use super::workers::Workers;

/// Deadlines of an event loop.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// For the handshake and the authentication.
    pub handshake: Duration,
    /// For a client that has pending data and reads none, or has begun to send a request and
    /// stopped.
    pub stall: Duration,
    /// For a client whose host no longer responds.
    pub vanish: Duration,
    /// For requests in progress when the server stops.
    pub stop: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            stall: Duration::from_secs(120),
            vanish: Duration::from_secs(60),
            stop: Duration::from_secs(10),
        }
    }
}

/// A message to an event loop.
#[derive(Debug)]
pub enum Message {
    /// A connection, accepted elsewhere.
    New(Socket, ConnectionOrigin),
    /// A worker's result, and the connection's token.
    Finished(u64, Box<FinishedRequest>),
    /// Finish requests in progress, then end.
    Stop,
}

/// Queue of messages to an event loop.
#[derive(Debug)]
pub struct Inbox {
    left: Mutex<Queued>,
    wake: OwnedFd,
}

/// The queued messages, and when to wake the loop.
#[derive(Debug)]
struct Queued {
    messages: Vec<Message>,
    /// Number of workers' results after which the loop is woken.
    enough: usize,
    /// Whether it was woken and has not taken the messages yet.
    told: bool,
}

impl Inbox {
    /// Creates an empty queue.
    ///
    /// # Errors
    /// The eventfd cannot be created.
    pub fn new() -> io::Result<Arc<Self>> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let left = Queued {
            messages: Vec::new(),
            enough: 1,
            told: false,
        };
        Ok(Arc::new(Self {
            left: Mutex::new(left),
            wake,
        }))
    }

    fn queued(&self) -> MutexGuard<'_, Queued> {
        self.left
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Queues a message, and wakes the loop unless it is awake or waits for more results.
    pub fn post(&self, message: Message) {
        let mut left = self.queued();
        let is_result = matches!(message, Message::Finished(..));
        left.messages.push(message);
        let wakes = !left.told && (!is_result || left.messages.len() >= left.enough);
        left.told |= wakes;
        drop(left);
        if wakes {
            // Fails only if the counter is full, in which case the loop is awake.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    /// Sets the number of results after which the loop is woken; returns whether it may sleep until
    /// then.
    fn prepare_sleep(&self, enough: usize) -> bool {
        let mut left = self.queued();
        left.enough = enough;
        left.messages.len() < enough
    }

    /// Consumes the wake-up: the loop is awake and sees all earlier messages.
    fn consume_wakeup(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }

    fn collect(&self) -> Vec<Message> {
        let mut left = self.queued();
        left.told = false;
        std::mem::take(&mut left.messages)
    }
}

const WAKE: u64 = u64::MAX;

/// Maximum number of results per wake-up.
const MOST_TOGETHER: usize = 16;

/// How long the first of several results may wait for the others.
const TOGETHER: Duration = Duration::from_micros(100);

/// Interval at which a session that waits for memory is retried.
const STARVED_RETRY: Duration = Duration::from_millis(5);

/// How long a session must have been idle before another may take its place.
const IDLE: Duration = Duration::from_secs(2);

/// How long the sessions of one user together may occupy the loop before another user's turn.
const TURN: Duration = Duration::from_millis(1);

/// How long an idle session is kept when the service stops, so that requests in flight are refused
/// with a message.
const LINGER: Duration = Duration::from_millis(500);

/// Interval at which deadlines are checked.
const TICK: Duration = Duration::from_millis(500);

struct Entry {
    connection: Connection,
    interest: Interest,
    /// The data queue pair whose events are watched.
    watched: u64,
}

/// An event loop.
pub struct Shard {
    epoll: OwnedFd,
    inbox: Arc<Inbox>,
    context: Arc<Context>,
    workers: Arc<Workers>,
    deadlines: Deadlines,
    most_strangers: usize,
    entries: HashMap<u64, Entry>,
    strangers: VecDeque<u64>,
    starved: Vec<u64>,
    again: Vec<u64>,
    next: u64,
    /// Number of requests that workers have.
    working: usize,
    /// Whether results are arriving. If the storage is slow, the first result is not delayed for
    /// the second.
    flowing: bool,
    stopping: Option<Instant>,
}

impl Shard {
    /// Creates a loop without connections.
    ///
    /// # Errors
    /// The epoll instance cannot be created.
    pub fn new(
        inbox: Arc<Inbox>,
        context: Arc<Context>,
        workers: Arc<Workers>,
        deadlines: Deadlines,
        most_strangers: usize,
    ) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            &inbox.wake,
            EventData::new_u64(WAKE),
            EventFlags::IN,
        )?;
        Ok(Self {
            epoll,
            inbox,
            context,
            workers,
            deadlines,
            most_strangers,
            entries: HashMap::new(),
            strangers: VecDeque::new(),
            starved: Vec::new(),
            again: Vec::new(),
            next: 0,
            working: 0,
            flowing: false,
            stopping: None,
        })
    }

    /// Runs until it is stopped.
    ///
    /// # Errors
    /// epoll_wait(2) fails.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(256);
        let mut checked = Instant::now();
        loop {
            let timeout = Timespec::try_from(self.timeout()).map_err(io::Error::other)?;
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let now = Instant::now();
            let mut due: Vec<u64> = std::mem::take(&mut self.again);
            due.append(&mut self.starved);
            for event in &events {
                match event.data.u64() {
                    WAKE => self.inbox.consume_wakeup(),
                    token => due.push(token),
                }
            }
            self.take_messages(now, &mut due);
            self.take_turns(due, now);
            if now.duration_since(checked) >= TICK || self.stopping.is_some() {
                checked = now;
                self.enforce_deadlines(now);
            }
            if self.stopping.is_some() && self.entries.is_empty() {
                return Ok(());
            }
        }
    }

    /// Gives each user a turn. The rest of a user's turn is resumed after the others' turns and
    /// after new events.
    fn take_turns(&mut self, due: Vec<u64>, now: Instant) {
        let mut seen = HashSet::new();
        let mut users: HashMap<usize, VecDeque<u64>> = HashMap::new();
        for token in due {
            if let Some(entry) = self.entries.get(&token)
                && seen.insert(token)
            {
                let charged_user = entry.connection.charged_user();
                users.entry(charged_user).or_default().push_back(token);
            }
        }
        for tokens in users.values_mut() {
            let begun = Instant::now();
            while let Some(token) = tokens.pop_front() {
                self.drive(token, now);
                if begun.elapsed() >= TURN {
                    break;
                }
            }
        }
        self.again.extend(users.into_values().flatten());
    }

    /// Returns how long to sleep at most.
    fn timeout(&self) -> Duration {
        let enough = match self.flowing {
            // Half of those in progress: the other half keeps the workers busy meanwhile.
            true => (self.working / 2).clamp(1, MOST_TOGETHER),
            false => 1,
        };
        match () {
            () if !self.again.is_empty() => Duration::ZERO,
            () if !self.inbox.prepare_sleep(enough) => Duration::ZERO,
            () if enough > 1 => TOGETHER,
            () if !self.starved.is_empty() => STARVED_RETRY,
            () if self.stopping.is_some() => Duration::from_millis(20),
            () => TICK,
        }
    }

    fn take_messages(&mut self, now: Instant, due: &mut Vec<u64>) {
        self.flowing = false;
        for message in self.inbox.collect() {
            match message {
                Message::New(socket, origin) => {
                    if let Some(token) = self.admit(socket, origin, now) {
                        due.push(token);
                    }
                }
                Message::Finished(token, finished) => {
                    self.working -= 1;
                    self.flowing = true;
                    if let Some(entry) = self.entries.get_mut(&token) {
                        entry.connection.resume(*finished, &self.context);
                        due.push(token);
                    }
                }
                Message::Stop => {
                    self.stopping.get_or_insert(now);
                }
            }
        }
    }

    fn admit(&mut self, socket: Socket, origin: ConnectionOrigin, now: Instant) -> Option<u64> {
        if self.stopping.is_some() {
            return None;
        }
        self.strangers.retain(|token| {
            self.entries
                .get(token)
                .is_some_and(|entry| entry.connection.is_unauthenticated())
        });
        if let ConnectionOrigin::Remote(address) = origin
            && self.strangers.len() >= self.most_strangers.max(1)
            && self.context.service.addresses.refuse(address)
        {
            // This connection would be refused anyway, so no other has to free space for it.
            count(&self.context.service.metrics.turned_away, 1);
            return None;
        }
        while self.strangers.len() >= self.most_strangers.max(1) {
            // The newest peer is likelier to be honest than the one that has been silent the
            // longest.
            let oldest = self.strangers.pop_front()?;
            self.reject(oldest);
        }
        let token = self.next;
        self.next += 1;
        let connection = Connection::new(socket, origin, &self.context, now);
        let interest = Interest {
            readable: true,
            writable: false,
        };
        let added = epoll::add(
            &self.epoll,
            &connection,
            EventData::new_u64(token),
            flags(interest),
        );
        added.ok()?;
        self.entries.insert(
            token,
            Entry {
                connection,
                interest,
                watched: 0,
            },
        );
        self.strangers.push_back(token);
        Some(token)
    }

    fn reject(&mut self, token: u64) {
        // Counted before its connection ends, since a client that sees the end may read the counter
        // at once.
        if let Some(_ended_below) = self.entries.remove(&token) {
            count(&self.context.service.metrics.turned_away, 1);
        }
    }

    fn drive(&mut self, token: u64, now: Instant) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        let next = entry.connection.drive(&self.context, now);
        if let Some((pair, events)) = entry.connection.fabric_events()
            && pair != entry.watched
        {
            // The descriptor leaves the epoll set when the queue pair is destroyed and it is
            // closed.
            let added = epoll::add(
                &self.epoll,
                events,
                EventData::new_u64(token),
                EventFlags::IN,
            );
            if added.is_err() {
                self.entries.remove(&token);
                return;
            }
            entry.watched = pair;
        }
        let user = &entry.connection.client().user.clone();
        for job in entry.connection.jobs() {
            let inbox = Arc::clone(&self.inbox);
            self.working += 1;
            self.workers.run(user, move || {
                inbox.post(Message::Finished(token, Box::new(job.run())))
            });
        }
        match next {
            NextStep::Wait(interest) => self.set_interest(token, interest),
            NextStep::Again => {
                self.again.push(token);
            }
            NextStep::Starved => {
                self.starved.push(token);
                self.set_interest(token, Interest::default());
            }
            NextStep::End => {
                self.entries.remove(&token);
            }
        }
    }

    fn set_interest(&mut self, token: u64, interest: Interest) {
        let Some(entry) = self.entries.get_mut(&token) else {
            return;
        };
        if entry.interest == interest {
            return;
        }
        entry.interest = interest;
        let data = EventData::new_u64(token);
        if epoll::modify(&self.epoll, &entry.connection, data, flags(interest)).is_err() {
            self.entries.remove(&token);
        }
    }

    /// Ends idle sessions that hold nothing, the longest idle first, to admit waiting ones.
    fn end_idle_sessions(&mut self, now: Instant) {
        for wish in self.context.service.admission_queue.requests() {
            let idlest = self
                .entries
                .iter()
                .filter(|(_, entry)| wish.is_of(&entry.connection.client().user))
                .filter_map(|(&token, entry)| Some((entry.connection.idle_since()?, token)))
                .filter(|&(since, _)| now.duration_since(since) > IDLE)
                .min();
            if let Some((_, token)) = idlest
                && let Some(entry) = self.entries.remove(&token)
            {
                let service = &self.context.service;
                count(&service.metrics.made_room, 1);
                entry.connection.ends("idle");
                let client = entry.connection.client();
                service.audit.record(
                    client,
                    "idle",
                    json!({ "what": "closed for another session" }),
                );
            }
        }
    }

    fn enforce_deadlines(&mut self, now: Instant) {
        self.end_idle_sessions(now);
        let deadlines = self.deadlines;
        let (mut late, mut ended) = (Vec::new(), Vec::new());
        for (&token, entry) in &mut self.entries {
            let connection = &mut entry.connection;
            connection.follow_limits(now);
            let silent = connection.is_unauthenticated()
                && now.duration_since(connection.begun()) > deadlines.handshake;
            let stopped = self.stopping.is_some_and(|since| {
                let lasts = now.duration_since(since);
                lasts > deadlines.stop
                    || (lasts > LINGER && connection.is_idle() && connection.is_delivered())
            });
            if silent || stopped {
                connection.ends("stopped");
                late.push(token);
            } else if let Some(why) = connection.is_to_end() {
                connection.ends("ended");
                let details = json!({ "reason": why });
                let service = &self.context.service;
                service.audit.record(connection.client(), "ended", details);
                ended.push(token);
            } else if let Some(what) = connection.stall(now, deadlines.stall) {
                let service = &self.context.service;
                count(&service.metrics.stalls, 1);
                connection.ends("stalled");
                let details = json!({ "what": what });
                service
                    .audit
                    .record(connection.client(), "stalled", details);
                late.push(token);
            }
        }
        for token in late {
            self.reject(token);
        }
        for token in ended {
            self.entries.remove(&token);
        }
    }
}

fn flags(interest: Interest) -> EventFlags {
    if interest == Interest::default() {
        // Hang-ups are always reported; edge-triggered, so that one is reported once while no event
        // is wanted.
        return EventFlags::ET | EventFlags::RDHUP;
    }
    let mut flags = EventFlags::empty();
    flags.set(EventFlags::IN, interest.readable);
    flags.set(EventFlags::OUT, interest.writable);
    flags
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "shard with {} connections on {:?}",
            self.entries.len(),
            self.epoll.as_fd()
        )
    }
}
