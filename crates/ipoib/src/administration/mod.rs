//! The interface's part of subnet administration: memberships of multicast groups, and paths to
//! neighbours. Without I/O and clock; times are milliseconds from any start.
//!
//! Packets wait while their group is joined or their path is asked for. All groups but the
//! broadcast group are made if they do not exist, those that the interface only sends to included
//! (Linux's `ipoib_multicast.c`). The broadcast group exists before (RFC 4391 section 5).

pub mod record;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;

use verbena_verbs::Gid;

use crate::counters::Drop;
use crate::encapsulation::Protocol;
use crate::neighbour::{MOST_WAITING, MOST_WAITING_BYTES, Neighbour, PAUSE, REQUESTS, UNUSED};
use crate::station::{Origin, Sent, Source};
use record::{Answer, Datagram, Local, Path, Properties, Role};

/// Most groups, and most paths.
pub const MOST: usize = 1024;
/// Most requests to leave that wait for an answer; further ones are sent once.
const MOST_REQUESTS: usize = 4 * MOST;
/// Longest pause after a group was refused: Linux's IPOIB_MAX_BACKOFF_SECONDS.
const LONGEST_PAUSE: u64 = 16 * PAUSE;

/// Something that waits for a group or a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// A packet of a program to a neighbour.
    Unicast(Neighbour, Protocol, Vec<u8>),
    /// An answer to a neighbour.
    Answer(Neighbour, Protocol, Vec<u8>),
    /// A packet to a group.
    Multicast(Gid, Protocol, Vec<u8>, Origin),
    /// A message of the connection manager from a neighbour.
    Connect(Vec<u8>, Source),
}

impl Waiting {
    fn length(&self) -> usize {
        match self {
            Waiting::Unicast(.., bytes) | Waiting::Answer(.., bytes) => bytes.len(),
            Waiting::Multicast(_, _, bytes, _) | Waiting::Connect(bytes, _) => bytes.len(),
        }
    }

    /// Returns whether it is a packet of a program, each of which is counted.
    pub fn is_counted(&self) -> bool {
        match self {
            Waiting::Unicast(..) => true,
            Waiting::Multicast(.., origin) => *origin == Origin::Program,
            Waiting::Answer(..) | Waiting::Connect(..) => false,
        }
    }
}

/// The reason why there is no membership or path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The status of the answer.
    Status(u16),
    /// There was no answer.
    Unanswered,
    /// The answer has an invalid LID or MTU.
    Invalid,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = match self {
            Refusal::Status(status) => *status,
            Refusal::Unanswered => return out.write_str("no answer"),
            Refusal::Invalid => return out.write_str("invalid answer"),
        };
        // 15.2.3.2.
        let name = match status {
            0x0100 => " (no resources)",
            0x0200 => " (invalid request)",
            0x0300 => " (no records)",
            0x0400 => " (too many records)",
            0x0500 => " (invalid GID)",
            0x0600 => " (insufficient components)",
            0x0700 => " (request denied)",
            _ => "",
        };
        write!(out, "status {status:#06x}{name}")
    }
}

/// The effect of an answer, or of its absence.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// These can be sent.
    Ready(VecDeque<Waiting>),
    /// These cannot, for this reason.
    Failed(VecDeque<Waiting>, Drop),
    /// The interface receives the packets of a group with this LID from now on.
    Joined(Gid, u16),
    /// It receives them no longer.
    Left(Gid),
    /// A group was not joined; the request is repeated.
    Refused(Gid, Refusal),
    /// The broadcast group has other properties.
    Changed(Properties),
}

/// The result of looking for a group or a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup<T> {
    /// It is known.
    Known(T),
    /// It is asked for; packets wait.
    Waits,
    /// There is none, for this reason.
    Failed(Drop),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Join(Gid, Role),
    Leave(Gid, Role),
    Path(Gid),
}

#[derive(Debug)]
struct Request {
    subject: Subject,
    datagram: Datagram,
    sent: u32,
    next: u64,
}

#[derive(Debug, Clone, Copy)]
enum State<T> {
    Asked,
    /// It may be asked for again meanwhile.
    Known(T),
    Failed {
        until: u64,
        refusal: Refusal,
    },
}

/// A group or a path.
#[derive(Debug)]
struct Entry<T> {
    state: State<T>,
    /// The request under way, and when it was made.
    transaction: u64,
    asked: u64,
    /// When it is to be asked for again.
    again: Option<u64>,
    failures: u32,
    waiting: VecDeque<Waiting>,
    used: u64,
}

impl<T: Copy> Entry<T> {
    fn new(now: u64) -> Entry<T> {
        Entry {
            state: State::Asked,
            transaction: 0,
            asked: now,
            again: None,
            failures: 0,
            waiting: VecDeque::new(),
            used: now,
        }
    }

    fn known(&self) -> Option<T> {
        match self.state {
            State::Known(known) => Some(known),
            _ => None,
        }
    }

    fn is_asked(&self) -> bool {
        matches!(self.state, State::Asked)
    }

    fn is_unused(&self, now: u64) -> bool {
        !self.is_asked() && self.used + UNUSED <= now
    }
}

#[derive(Debug)]
struct Group {
    role: Role,
    entry: Entry<Properties>,
}

/// Memberships and paths of an interface.
#[derive(Debug)]
pub struct Administration {
    local: Local,
    broadcast: Gid,
    /// Properties of the broadcast group.
    properties: Option<Properties>,
    /// Whether the other groups are joined again once the broadcast group has been.
    is_renewing: bool,
    groups: HashMap<Gid, Group>,
    paths: HashMap<Gid, Entry<Path>>,
    requests: HashMap<u64, Request>,
    newest: u64,
    outgoing: VecDeque<Datagram>,
    events: Vec<Event>,
    waiting: usize,
    waiting_bytes: usize,
}

impl Administration {
    /// Returns the state of an interface that requests to join the broadcast group of its
    /// partition. Transactions follow `first`.
    pub fn new(local: Local, broadcast: Gid, first: u64, now: u64) -> Administration {
        let mut new = Administration {
            local,
            broadcast,
            properties: None,
            is_renewing: false,
            groups: HashMap::new(),
            paths: HashMap::new(),
            requests: HashMap::new(),
            newest: first,
            outgoing: VecDeque::new(),
            events: Vec::new(),
            waiting: 0,
            waiting_bytes: 0,
        };
        new.join(broadcast, Role::Full, now);
        new
    }

    /// Returns the properties of the broadcast group once it has been joined.
    pub fn properties(&self) -> Option<Properties> {
        self.properties
    }

    /// Returns the effects since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Returns the next datagram to send.
    pub fn next_datagram(&self) -> Option<&Datagram> {
        self.outgoing.front()
    }

    /// Notes that the next datagram has been sent.
    pub fn note_sent(&mut self) {
        self.outgoing.pop_front();
    }

    /// Has [`Administration::take_events`] return these, too.
    pub fn put_back(&mut self, events: Vec<Event>) {
        self.events.splice(..0, events);
    }

    /// Returns whether answers may come.
    pub fn is_asking(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Returns whether [`Administration::tick`] must be called soon.
    pub fn is_waiting(&self) -> bool {
        !self.requests.is_empty()
            || self.groups.values().any(|one| one.entry.again.is_some())
            || self.paths.values().any(|entry| entry.again.is_some())
    }

    /// Returns the number of packets that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    fn request(
        &mut self,
        subject: Subject,
        now: u64,
        datagram: impl Fn(&Local, u64) -> Datagram,
    ) -> u64 {
        self.newest = self.newest.wrapping_add(1);
        let datagram = datagram(&self.local, self.newest);
        self.outgoing.push_back(datagram);
        if !matches!(subject, Subject::Leave(..)) || self.requests.len() < MOST_REQUESTS {
            let request = Request {
                subject,
                datagram,
                sent: 1,
                next: now + PAUSE,
            };
            self.requests.insert(self.newest, request);
        }
        self.newest
    }

    /// Requests a membership. A known one is used until the answer.
    fn join(&mut self, group: Gid, role: Role, now: u64) {
        // A leave that has not been answered must not be sent after the join.
        let leave = Subject::Leave(group, role);
        self.requests.retain(|_, request| request.subject != leave);
        let properties = self.properties.filter(|_| group != self.broadcast);
        let transaction = self.request(Subject::Join(group, role), now, |local, transaction| {
            record::join(local, group, role, properties.as_ref(), transaction)
        });
        let one = self.groups.entry(group).or_insert_with(|| Group {
            role,
            entry: Entry::new(now),
        });
        one.role = role;
        let entry = &mut one.entry;
        if entry.known().is_none() {
            entry.state = State::Asked;
        }
        entry.again = None;
        self.requests.remove(&entry.transaction);
        entry.transaction = transaction;
    }

    fn leave(&mut self, group: Gid, role: Role, now: u64) {
        self.request(Subject::Leave(group, role), now, |local, transaction| {
            record::leave(local, group, role, transaction)
        });
    }

    /// Asks for a path.
    fn ask(&mut self, to: Gid, now: u64) {
        let traffic_class = self.properties.map_or(0, |one| one.traffic_class);
        let transaction = self.request(Subject::Path(to), now, |local, transaction| {
            record::path(local, to, traffic_class, transaction)
        });
        let entry = self.paths.entry(to).or_insert_with(|| Entry::new(now));
        entry.asked = now;
        entry.again = None;
        self.requests.remove(&entry.transaction);
        entry.transaction = transaction;
    }

    /// Returns how packets reach a group, which is joined to send if that is necessary.
    pub fn group(&mut self, group: Gid, now: u64) -> Lookup<Properties> {
        let role = match self.groups.get_mut(&group) {
            Some(Group { role, entry }) => {
                entry.used = now;
                match entry.state {
                    State::Known(properties) => return Lookup::Known(properties),
                    State::Asked => return Lookup::Waits,
                    State::Failed { until, .. } if now < until => {
                        return Lookup::Failed(Drop::NoGroup);
                    }
                    State::Failed { .. } => *role,
                }
            }
            None => {
                if self.groups.len() >= MOST && !self.leave_oldest(false, now) {
                    return Lookup::Failed(Drop::NoGroup);
                }
                Role::SendOnly
            }
        };
        self.join(group, role, now);
        Lookup::Waits
    }

    /// Leaves the group that only gets packets and has not got one for the longest time. Groups
    /// that are asked for count if `even_asked`. Returns `false` if there is none.
    fn leave_oldest(&mut self, even_asked: bool, now: u64) -> bool {
        let may_leave =
            |one: &Group| one.role == Role::SendOnly && (even_asked || !one.entry.is_asked());
        let candidates = self.groups.iter().filter(|(_, one)| may_leave(one));
        let oldest = candidates.min_by_key(|(_, one)| one.entry.used);
        let oldest = oldest.map(|(group, _)| *group);
        oldest.is_some_and(|group| self.remove(group, now))
    }

    /// Leaves a group. Returns whether it was there.
    fn remove(&mut self, group: Gid, now: u64) -> bool {
        let Some(Group { role, entry }) = self.groups.remove(&group) else {
            return false;
        };
        self.requests.remove(&entry.transaction);
        // A join under way may still be carried out, and one without an answer may have been.
        let is_refused = |refusal| matches!(refusal, Refusal::Status(_));
        if !matches!(entry.state, State::Failed { refusal, .. } if is_refused(refusal)) {
            self.leave(group, role, now);
        }
        if role == Role::Full && entry.known().is_some() {
            self.events.push(Event::Left(group));
        }
        self.fail_waiting(entry.waiting, Drop::NoGroup);
        true
    }

    /// Joins and leaves groups so that the interface is a full member of these and the broadcast
    /// group.
    pub fn set_members(&mut self, wanted: &HashSet<Gid>, now: u64) {
        let is_left = |group: &Gid, one: &Group| {
            one.role == Role::Full && *group != self.broadcast && !wanted.contains(group)
        };
        let left = self
            .groups
            .iter()
            .filter(|(group, one)| is_left(group, one));
        for group in left.map(|(group, _)| *group).collect::<Vec<_>>() {
            self.remove(group, now);
        }
        for group in wanted {
            match self.groups.get_mut(group).map(|one| one.role) {
                Some(Role::Full) => {}
                Some(Role::SendOnly) => {
                    self.join(*group, Role::Full, now);
                    self.leave(*group, Role::SendOnly, now);
                }
                None => {
                    if self.groups.len() >= MOST {
                        self.leave_oldest(true, now);
                    }
                    self.join(*group, Role::Full, now);
                }
            }
        }
    }

    /// Returns the path to a port, which is asked for if it is not known.
    pub fn path(&mut self, to: Gid, now: u64) -> Lookup<Path> {
        if let Some(entry) = self.paths.get_mut(&to) {
            entry.used = now;
            match entry.state {
                State::Known(path) => return Lookup::Known(path),
                State::Asked => return Lookup::Waits,
                State::Failed { until, .. } if now < until => {
                    return Lookup::Failed(Drop::NoPath);
                }
                State::Failed { .. } => entry.state = State::Asked,
            }
        } else if self.paths.len() >= MOST && !self.forget_oldest() {
            return Lookup::Failed(Drop::NoPath);
        }
        self.ask(to, now);
        Lookup::Waits
    }

    /// Forgets the path that has not been used for the longest time. Returns `false` if all are
    /// asked for.
    fn forget_oldest(&mut self) -> bool {
        let candidates = self.paths.iter().filter(|(_, entry)| !entry.is_asked());
        let oldest = candidates.min_by_key(|(_, entry)| entry.used);
        let oldest = oldest.map(|(to, _)| *to);
        let forgotten = oldest.and_then(|to| self.paths.remove(&to));
        forgotten.is_some_and(|entry| {
            self.requests.remove(&entry.transaction);
            true
        })
    }

    /// Notes the LID that a port sends from. If that of its path is another one, the path is asked
    /// for again, at most once a second, and packets wait for the answer.
    pub fn hear(&mut self, from: Gid, lid: u16, now: u64) {
        let Some(entry) = self.paths.get_mut(&from) else {
            return;
        };
        if entry.known().is_none_or(|path| path.lid == lid) {
            return;
        }
        if now < entry.asked + PAUSE {
            entry.again = Some(entry.asked + PAUSE);
            return;
        }
        entry.state = State::Asked;
        self.ask(from, now);
    }

    /// Has something wait for a group or path that is asked for.
    pub fn hold(&mut self, one: Waiting) -> Sent {
        let waiting = match &one {
            Waiting::Multicast(group, ..) => {
                let group = self.groups.get_mut(group);
                group.map(|group| &mut group.entry.waiting)
            }
            Waiting::Unicast(to, ..) | Waiting::Answer(to, ..) => {
                let path = self.paths.get_mut(&to.hardware.gid);
                path.map(|path| &mut path.waiting)
            }
            Waiting::Connect(_, source) => {
                let path = source.gid.and_then(|gid| self.paths.get_mut(&gid));
                path.map(|path| &mut path.waiting)
            }
        };
        let length = one.length();
        match waiting {
            Some(waiting)
                if waiting.len() < MOST_WAITING
                    && self.waiting_bytes + length <= MOST_WAITING_BYTES =>
            {
                waiting.push_back(one);
                self.waiting += 1;
                self.waiting_bytes += length;
                Sent::Waits
            }
            _ => Sent::Dropped(Drop::QueueFull),
        }
    }

    fn release(&mut self, waiting: &VecDeque<Waiting>) {
        self.waiting -= waiting.len();
        self.waiting_bytes -= waiting.iter().map(Waiting::length).sum::<usize>();
    }

    fn fail_waiting(&mut self, waiting: VecDeque<Waiting>, reason: Drop) {
        self.release(&waiting);
        if !waiting.is_empty() {
            self.events.push(Event::Failed(waiting, reason));
        }
    }

    fn resume(&mut self, waiting: VecDeque<Waiting>) {
        self.release(&waiting);
        if !waiting.is_empty() {
            self.events.push(Event::Ready(waiting));
        }
    }

    /// Uses a datagram from subnet administration.
    pub fn receive(&mut self, bytes: &[u8], now: u64) {
        /// The request may be sent again.
        const BUSY: u16 = 1;
        let Some(answer) = Answer::parse(bytes).filter(|answer| answer.status != BUSY) else {
            return;
        };
        let Some(request) = self.requests.remove(&answer.transaction) else {
            return;
        };
        let refusal = match answer.status {
            0 => None,
            status => Some(Refusal::Status(status)),
        };
        match (request.subject, refusal) {
            (Subject::Join(group, _), None) => self.use_membership(group, answer.properties(), now),
            (Subject::Path(to), None) => self.use_path(to, answer.path(), now),
            (subject, Some(refusal)) => self.fail(subject, refusal, now),
            (Subject::Leave(..), None) => {}
        }
    }

    fn use_membership(&mut self, group: Gid, properties: Properties, now: u64) {
        let Some(Group { role, entry }) = self.groups.get_mut(&group) else {
            return;
        };
        if !properties.is_valid() {
            let role = *role;
            return self.fail(Subject::Join(group, role), Refusal::Invalid, now);
        }
        entry.state = State::Known(properties);
        entry.failures = 0;
        let waiting = std::mem::take(&mut entry.waiting);
        if *role == Role::Full {
            self.events.push(Event::Joined(group, properties.lid));
        }
        if group == self.broadcast {
            let before = self.properties.replace(properties);
            let is_changed = before.is_some_and(|before| !before.is_like(&properties));
            if is_changed {
                self.events.push(Event::Changed(properties));
            }
            if std::mem::take(&mut self.is_renewing) || is_changed {
                self.rejoin_others(now);
            }
        }
        self.resume(waiting);
    }

    fn use_path(&mut self, to: Gid, path: Path, now: u64) {
        let Some(entry) = self.paths.get_mut(&to) else {
            return;
        };
        if !path.is_valid() {
            return self.fail(Subject::Path(to), Refusal::Invalid, now);
        }
        entry.state = State::Known(path);
        let waiting = std::mem::take(&mut entry.waiting);
        self.resume(waiting);
    }

    /// Handles a request that was refused or not answered. Without an answer, a known group or path
    /// stays in use.
    fn fail(&mut self, subject: Subject, refusal: Refusal, now: u64) {
        let is_kept = refusal == Refusal::Unanswered;
        match subject {
            Subject::Leave(..) => {}
            Subject::Join(group, _) => {
                let Some(Group { role, entry }) = self.groups.get_mut(&group) else {
                    return;
                };
                entry.failures += 1;
                let pause = PAUSE << (entry.failures - 1).min(8);
                let until = now + pause.min(LONGEST_PAUSE);
                let is_known = is_kept && entry.known().is_some();
                entry.again = (is_known || *role == Role::Full).then_some(until);
                if entry.failures == 1 {
                    self.events.push(Event::Refused(group, refusal));
                }
                if !is_known {
                    if *role == Role::Full && entry.known().is_some() {
                        self.events.push(Event::Left(group));
                    }
                    entry.state = State::Failed { until, refusal };
                    let waiting = std::mem::take(&mut entry.waiting);
                    self.fail_waiting(waiting, Drop::NoGroup);
                }
            }
            Subject::Path(to) => {
                let Some(entry) = self.paths.get_mut(&to) else {
                    return;
                };
                let until = now + PAUSE;
                match is_kept && !entry.is_asked() {
                    true => entry.again = Some(until),
                    false => {
                        entry.state = State::Failed { until, refusal };
                        let waiting = std::mem::take(&mut entry.waiting);
                        self.fail_waiting(waiting, Drop::NoPath);
                    }
                }
            }
        }
    }

    /// Repeats requests, and leaves groups and forgets paths that are not used.
    pub fn tick(&mut self, now: u64) {
        let mut unanswered = Vec::new();
        for (transaction, request) in &mut self.requests {
            if now < request.next {
                continue;
            }
            if request.sent == REQUESTS {
                unanswered.push(*transaction);
                continue;
            }
            request.sent += 1;
            request.next = now + PAUSE;
            self.outgoing.push_back(request.datagram);
        }
        for transaction in unanswered {
            if let Some(request) = self.requests.remove(&transaction) {
                self.fail(request.subject, Refusal::Unanswered, now);
            }
        }
        let is_due = |again: Option<u64>| again.is_some_and(|again| again <= now);
        let groups = self
            .groups
            .iter()
            .filter(|(_, one)| is_due(one.entry.again));
        for (group, role) in groups
            .map(|(group, one)| (*group, one.role))
            .collect::<Vec<_>>()
        {
            self.join(group, role, now);
        }
        let paths = self.paths.iter().filter(|(_, entry)| is_due(entry.again));
        for to in paths.map(|(to, _)| *to).collect::<Vec<_>>() {
            self.ask(to, now);
        }
        let is_unused = |one: &Group| one.role == Role::SendOnly && one.entry.is_unused(now);
        let unused = self.groups.iter().filter(|(_, one)| is_unused(one));
        for group in unused.map(|(group, _)| *group).collect::<Vec<_>>() {
            self.remove(group, now);
        }
        self.paths.retain(|_, entry| !entry.is_unused(now));
    }

    /// Asks for all memberships and paths again, because the subnet manager may be another one, or
    /// wants memberships to be registered again. Those that are known stay in use until the answer.
    pub fn renew(&mut self, now: u64) {
        // The properties of the broadcast group, which may have changed, are those of the others.
        self.is_renewing = true;
        self.join(self.broadcast, Role::Full, now);
        for to in self.paths.keys().copied().collect::<Vec<_>>() {
            self.ask(to, now);
        }
    }

    /// Joins all groups but the broadcast group again.
    fn rejoin_others(&mut self, now: u64) {
        let others = self.groups.iter();
        let others = others.filter(|(group, _)| **group != self.broadcast);
        let others = others.map(|(group, one)| (*group, one.role));
        for (group, role) in others.collect::<Vec<_>>() {
            self.join(group, role, now);
        }
    }

    /// Ends all waiting: nothing more is sent.
    pub fn end(&mut self) {
        let groups = self.groups.values_mut().map(|one| &mut one.entry.waiting);
        let of_groups: Vec<_> = groups.map(std::mem::take).collect();
        let of_paths: Vec<_> = self
            .paths
            .values_mut()
            .map(|one| std::mem::take(&mut one.waiting))
            .collect();
        for waiting in of_groups {
            self.fail_waiting(waiting, Drop::NoGroup);
        }
        for waiting in of_paths {
            self.fail_waiting(waiting, Drop::NoPath);
        }
    }
}

#[cfg(test)]
mod tests;
