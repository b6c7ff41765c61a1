//! Descriptors that the progress thread waits for: the doorbell, the sockets of peers (doorbell
//! rings and deaths), incoming connections, and outgoing connection attempts.
//!
//! No action or omission of another process blocks the thread: all sockets are non-blocking,
//! callers are limited in number and time, and operations that the system refuses are tried again
//! later.

use crate::process::caller::{Caller, CallerProgress};
use crate::process::channel_requests::ConnectOutcome;
use crate::process::outgoing_handshake::{Attempt, AttemptProgress};
use crate::process::{Member, Process};
use crate::roce::fallback::thread as fallback;
use crate::roce::receive::Packets;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;
use verbena_hca_memory::peer::Peer;
use verbena_hca_os::clock;
use verbena_hca_os::doorbell::Doorbell;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::socket::{Rings, Socket};
use verbena_hca_shm::registry::{Identity, SLOTS};

/// Time before an operation that failed for want of descriptors or memory is tried again, in
/// nanoseconds.
const RESPITE: u64 = 10_000_000;
/// Limit on simultaneous callers: every process of the host. One caller more, and the oldest is
/// dropped; a legitimate one connects again.
const MOST_CALLERS: usize = SLOTS;
/// Connections accepted before other work gets its turn.
const BATCH: usize = 64;

/// The owner of a watched descriptor. Epoll events carry a number that is never reused, because
/// descriptors are.
enum Watched {
    /// A caller: an incoming connection during its handshake.
    Caller(Caller),
    /// A process that this one connects to.
    Attempt(Identity),
    /// A peer, whose socket carries its doorbell rings and its death.
    Peer(Arc<Peer>),
}

const DOORBELL: u64 = 0;
const LISTENER: u64 = 1;
const PORT: u64 = 2;
const PORT_CALLERS: u64 = 3;
const PORT_MANAGEMENT: u64 = 4;
const PORT_GROUPS: u64 = 5;
const CAPTURER: u64 = 6;
const PORT_FALLBACK: u64 = 7;
const FIRST: u64 = 8;

/// The epoll set that the progress thread sleeps on.
pub struct Poller {
    epoll: OwnedFd,
    watched: HashMap<u64, Watched>,
    attempts: HashMap<Identity, Attempt>,
    next: u64,
    callers: usize,
    /// Time at which callers are accepted again.
    accept_again_at: Option<u64>,
    /// Peers that could not be watched yet, and when to try again.
    unwatched: (Vec<Arc<Peer>>, u64),
    port: PacketWakeUp,
}

/// Whether packets wake the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketWakeUp {
    /// There is no socket yet.
    None,
    Off,
    On,
}

fn create() -> Result<OwnedFd> {
    // SAFETY: the call takes no pointers; the result is checked before it is owned.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: epoll_create1 just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Poller {
    /// Watches the doorbell and the listener.
    ///
    /// # Errors
    /// The system's, when it has no descriptors or memory left.
    pub fn new(doorbell: &Doorbell, listener: &Socket) -> Result<Poller> {
        let poller = Poller {
            epoll: create()?,
            watched: HashMap::new(),
            attempts: HashMap::new(),
            next: FIRST,
            callers: 0,
            accept_again_at: None,
            unwatched: (Vec::new(), 0),
            port: PacketWakeUp::None,
        };
        poller.add(doorbell.as_fd().as_raw_fd(), DOORBELL)?;
        poller.add(listener.as_fd().as_raw_fd(), LISTENER)?;
        Ok(poller)
    }

    fn add(&self, fd: RawFd, number: u64) -> Result<()> {
        self.add_for(libc::EPOLLIN | libc::EPOLLRDHUP, fd, number)
    }

    fn add_for(&self, events: libc::c_int, fd: RawFd, number: u64) -> Result<()> {
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: number,
        };
        // SAFETY: `event` is valid for the call.
        let answer =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        if answer != 0 {
            Err(Errno::last())
        } else {
            Ok(())
        }
    }

    /// Watches the RoCE port, if there is one: processes that want to share it, packets for the
    /// host as a whole, and TCP fallback connections.
    pub fn watch_port(&self, process: &Process) {
        if let Some(port) = process.ports.roce() {
            // If it fails, other processes find the port taken and report that.
            let _ = self.add(port.listener().as_fd().as_raw_fd(), PORT_CALLERS);
            if let Some(socket) = port.management_socket() {
                // All processes wait on this socket; EPOLLEXCLUSIVE wakes one sleeper, not all. If
                // it fails, other processes take the packets.
                let once = libc::EPOLLIN | libc::EPOLLEXCLUSIVE;
                let _ = self.add_for(once, socket.as_fd().as_raw_fd(), PORT_MANAGEMENT);
            }
            if !port.fallback.has_thread() {
                // If either fails, peers cannot begin TCP fallback connections to this process.
                for fd in port.fallback_descriptors() {
                    let _ = self.add(fd, PORT_FALLBACK);
                }
            }
        }
    }

    /// Hands the TCP fallback's listeners over to their own thread, after a peer has
    /// connected.
    fn serve_fallback(&self, process: &Arc<Process>) {
        if let Some(port) = process.ports.roce() {
            fallback::serve_callers(process);
            if !port.fallback.has_thread() {
                // The thread could not be started. The connections wait, and so does this thread,
                // or they would keep a processor busy.
                return std::thread::sleep(Duration::from_nanos(RESPITE));
            }
            for fd in port.fallback_descriptors() {
                self.remove(fd);
            }
        }
    }

    /// Watches the socket of the packet capturer, if one is attached.
    pub fn watch_capturer(&self, process: &Process) {
        if let Some(fd) = process.ports.capture().descriptor() {
            // If it fails, the end of the capture is noticed when this process ends.
            let _ = self.add(fd, CAPTURER);
        }
    }

    /// Sets whether packets wake the thread.
    pub fn set_packet_wake_up(&mut self, process: &Process, wanted: bool) {
        let Some(port) = process.ports.roce() else {
            return;
        };
        let Some(socket) = port.socket() else {
            return;
        };
        let packet_wake_up = if wanted {
            PacketWakeUp::On
        } else {
            PacketWakeUp::Off
        };
        let operation = match self.port {
            before if before == packet_wake_up => return,
            PacketWakeUp::None => libc::EPOLL_CTL_ADD,
            PacketWakeUp::Off | PacketWakeUp::On => libc::EPOLL_CTL_MOD,
        };
        let change = |fd: BorrowedFd<'_>, number| {
            let mut event = libc::epoll_event {
                events: if wanted { libc::EPOLLIN as u32 } else { 0 },
                u64: number,
            };
            let (epoll, fd) = (self.epoll.as_raw_fd(), fd.as_raw_fd());
            // SAFETY: `event` is valid for the call.
            unsafe { libc::epoll_ctl(epoll, operation, fd, &mut event) == 0 }
        };
        if self.port == PacketWakeUp::None
            && !port.fallback.has_thread()
            && let Some(passed) = port.fallback.passed()
        {
            let _ = self.add(passed.as_fd().as_raw_fd(), PORT_FALLBACK);
        }
        // If this fails, datagrams to multicast groups wait for the next look.
        change(port.groups.as_fd(), PORT_GROUPS);
        if change(socket.as_fd(), PORT) {
            self.port = packet_wake_up;
        }
    }

    /// Stops watching a descriptor, which is still open.
    fn remove(&self, fd: RawFd) {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: `event` is valid for the call.
        unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, &mut event) };
    }

    fn watch(&mut self, fd: RawFd, watched: Watched) -> std::result::Result<(), Watched> {
        let number = self.next;
        if self.add(fd, number).is_err() {
            return Err(watched);
        }
        self.next += 1;
        self.watched.insert(number, watched);
        Ok(())
    }

    /// Watches a peer's socket for doorbell rings and its death. If that fails, it is tried again
    /// later.
    pub fn watch_peer(&mut self, peer: Arc<Peer>) {
        let Some(fd) = peer.socket().map(|socket| socket.as_fd().as_raw_fd()) else {
            return;
        };
        if let Err(Watched::Peer(peer)) = self.watch(fd, Watched::Peer(peer)) {
            self.unwatched.0.push(peer);
            self.unwatched.1 = clock::now() + RESPITE;
        }
    }

    /// Sleeps for `pause`, or until there is something to deal with.
    pub fn sleep(&self, pause: Duration) {
        let mut wait = libc::pollfd {
            fd: self.epoll.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let pause = libc::timespec {
            tv_sec: pause.as_secs() as libc::time_t,
            tv_nsec: pause.subsec_nanos().into(),
        };
        // SAFETY: both structures are valid for the call. It may end early; then the look comes
        // early.
        unsafe { libc::ppoll(&mut wait, 1, &pause, std::ptr::null()) };
    }

    /// Sleeps until an event, `timeout` milliseconds at most (no limit below 0), then handles
    /// doorbell rings, callers, deaths and connection attempts. Returns soon if the system cannot
    /// wait.
    pub fn wait(&mut self, process: &Arc<Process>, member: &Member, timeout: i32) {
        let own = clock::milliseconds_until(self.run_due_work(process, member));
        let timeout = match (own, timeout) {
            (-1, timeout) => timeout,
            (own, timeout) if timeout < 0 => own,
            (own, timeout) => own.min(timeout),
        };
        const EVENTS: usize = 64;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // SAFETY: `events` has space for EVENTS entries.
        let count = unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                EVENTS as i32,
                timeout,
            )
        };
        if count < 0 {
            if Errno::last() != Errno(libc::EINTR) {
                // The epoll descriptor was closed by other code of this process, or memory is
                // short. Work goes on by periodic looks.
                std::thread::sleep(Duration::from_nanos(RESPITE));
                self.renew(process, member);
            }
            return;
        }
        let mut stale = false;
        for event in events.iter().take(count as usize) {
            match event.u64 {
                DOORBELL => process.activity.doorbell().clear(),
                LISTENER => self.accept(process, member),
                // The thread receives these packets when it goes on.
                PORT | PORT_GROUPS => (),
                PORT_CALLERS => {
                    if let Some(port) = process.ports.roce() {
                        port.serve_callers();
                    }
                }
                PORT_FALLBACK => self.serve_fallback(process),
                PORT_MANAGEMENT => {
                    if let Some(port) = process.ports.roce() {
                        Packets::of(&**process).receive_management(port);
                    }
                }
                CAPTURER => process.ports.capture().receive(),
                number => stale |= !self.receive_from(process, member, number),
            }
        }
        if stale {
            self.renew(process, member);
        }
    }

    /// Replaces the epoll set by a new one. A closed descriptor stays in the old set as long as a
    /// forked child has a copy, and nothing could remove it.
    fn renew(&mut self, process: &Process, member: &Member) {
        let Ok(epoll) = create() else {
            // No descriptor is left; the stale events must not keep a processor busy meanwhile.
            std::thread::sleep(Duration::from_nanos(RESPITE));
            return;
        };
        self.epoll = epoll;
        self.port = PacketWakeUp::None;
        self.watch_port(process);
        self.watch_capturer(process);
        let _ = self.add(process.activity.doorbell().as_fd().as_raw_fd(), DOORBELL);
        // If either addition fails, callers and doorbell rings wait for the next look.
        self.accept_again_at = Some(clock::now());
        let mut lost = Vec::new();
        for (number, watched) in &self.watched {
            let fd = match watched {
                Watched::Caller(caller) => Some(caller.socket.as_fd().as_raw_fd()),
                Watched::Attempt(identity) => {
                    let attempt = self.attempts.get(identity);
                    attempt.and_then(Attempt::descriptor)
                }
                Watched::Peer(peer) => peer.socket().map(|socket| socket.as_fd().as_raw_fd()),
            };
            if fd.is_none_or(|fd| self.add(fd, *number).is_err()) {
                lost.push(*number);
            }
        }
        for number in lost {
            match self.watched.remove(&number) {
                Some(Watched::Peer(peer)) => self.unwatched.0.push(peer),
                Some(Watched::Caller(caller)) => {
                    process
                        .channels
                        .handshakes()
                        .remove(caller.socket.as_fd().as_raw_fd());
                    self.callers -= 1;
                }
                Some(Watched::Attempt(identity)) => {
                    if let Some(mut attempt) = self.attempts.remove(&identity) {
                        process
                            .channels
                            .handshakes()
                            .remove(attempt.descriptor().unwrap_or(-1));
                        attempt.fail(member);
                        self.attempts.insert(identity, attempt);
                    }
                }
                None => (),
            }
        }
    }

    /// Does all work that is due. Returns the time of the next, u64::MAX for none.
    fn run_due_work(&mut self, process: &Arc<Process>, member: &Member) -> u64 {
        for identity in process.channels.requests().take_new() {
            if let Some(channel) = process.channels.outbound_to(identity) {
                process.end_connection_attempt(identity, ConnectOutcome::Made(&channel));
            } else {
                self.attempts
                    .entry(identity)
                    .or_insert_with(|| Attempt::new(identity));
            }
        }
        let now = clock::now();
        self.begin_attempts(process, member, now);
        for identity in process.channels.requests().overdue(now) {
            process.end_connection_attempt(identity, ConnectOutcome::NoAnswer);
        }
        self.drop_silent_callers(process, now);
        if self.accept_again_at.is_some_and(|deadline| now >= deadline) {
            let listener = member.listener.as_fd().as_raw_fd();
            self.accept_again_at = match self.add(listener, LISTENER) {
                Ok(()) | Err(Errno::EEXIST) => None,
                Err(_) => Some(now + RESPITE),
            };
        }
        if !self.unwatched.0.is_empty() && now >= self.unwatched.1 {
            for peer in std::mem::take(&mut self.unwatched.0) {
                self.watch_peer(peer);
            }
        }
        self.deadline(process)
    }

    fn deadline(&self, process: &Process) -> u64 {
        let mut first = process.channels.requests().deadline();
        first = first.min(self.accept_again_at.unwrap_or(u64::MAX));
        if !self.unwatched.0.is_empty() {
            first = first.min(self.unwatched.1);
        }
        if self.callers > 0 {
            let deadlines = self.watched.values().filter_map(|watched| match watched {
                Watched::Caller(caller) => Some(caller.deadline),
                _ => None,
            });
            first = first.min(deadlines.min().unwrap_or(u64::MAX));
        }
        let resting = self.attempts.values().filter_map(Attempt::backoff_until);
        first.min(resting.min().unwrap_or(u64::MAX))
    }

    fn begin_attempts(&mut self, process: &Arc<Process>, member: &Member, now: u64) {
        let due = |attempt: &Attempt| attempt.backoff_until().is_some_and(|until| until <= now);
        let due: Vec<Identity> = self
            .attempts
            .iter()
            .filter(|(_, attempt)| due(attempt))
            .map(|(identity, _)| *identity)
            .collect();
        for identity in due {
            // The request for a connection was withdrawn during the backoff.
            if !process.channels.requests().is_requested(identity) {
                self.attempts.remove(&identity);
                process.end_connection_attempt(identity, ConnectOutcome::Gone);
                continue;
            }
            let Some(attempt) = self.attempts.get_mut(&identity) else {
                continue;
            };
            let turn = attempt.begin(member);
            let descriptor = attempt.descriptor();
            if let Some(fd) = descriptor {
                process.channels.handshakes().add(fd);
                if self.watch(fd, Watched::Attempt(identity)).is_err() {
                    process.channels.handshakes().remove(fd);
                    if let Some(attempt) = self.attempts.get_mut(&identity) {
                        attempt.fail(member);
                    }
                }
            }
            let asked = self.attempts.get(&identity).and_then(Attempt::asked);
            process.channels.requests().note_asked(identity, asked);
            if matches!(turn, AttemptProgress::Gone) {
                self.attempts.remove(&identity);
                process.end_connection_attempt(identity, ConnectOutcome::Gone);
            }
        }
    }

    fn drop_silent_callers(&mut self, process: &Process, now: u64) {
        if self.callers == 0 {
            return;
        }
        let late: Vec<u64> = self
            .watched
            .iter()
            .filter(
                |(_, watched)| matches!(watched, Watched::Caller(caller) if caller.deadline <= now),
            )
            .map(|(number, _)| *number)
            .collect();
        for number in late {
            self.drop_caller(process, number);
        }
    }

    fn drop_caller(&mut self, process: &Process, number: u64) {
        if let Some(Watched::Caller(caller)) = self.watched.remove(&number) {
            let fd = caller.socket.as_fd().as_raw_fd();
            self.remove(fd);
            process.channels.handshakes().remove(fd);
            self.callers -= 1;
        }
    }

    /// Accepts connections. Without descriptors they are left waiting and the listener is not
    /// watched for a time: it stays readable, and asking again at once would keep a processor busy.
    fn accept(&mut self, process: &Process, member: &Member) {
        for _ in 0..BATCH {
            match member.listener.accept() {
                Ok(socket) => self.admit(process, socket),
                Err(Errno(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)) => {
                    self.remove(member.listener.as_fd().as_raw_fd());
                    self.accept_again_at = Some(clock::now() + RESPITE);
                    return;
                }
                // No more connections, or the caller has ended.
                Err(_) => return,
            }
        }
    }

    fn admit(&mut self, process: &Process, socket: Socket) {
        if self.callers >= MOST_CALLERS {
            let callers = self.watched.iter().filter_map(|(number, watched)| {
                matches!(watched, Watched::Caller(_)).then_some(*number)
            });
            if let Some(oldest) = callers.min() {
                self.drop_caller(process, oldest);
            }
        }
        let fd = socket.as_fd().as_raw_fd();
        // A connection that cannot be watched is closed, and the caller connects again.
        if self.watch(fd, Watched::Caller(Caller::new(socket))).is_ok() {
            process.channels.handshakes().add(fd);
            self.callers += 1;
        }
    }

    /// Handles an event of a watched connection: a message, a doorbell ring or its end. Returns
    /// false if the number is not watched any more.
    fn receive_from(&mut self, process: &Arc<Process>, member: &Member, number: u64) -> bool {
        match self.watched.get(&number) {
            None => return false,
            Some(Watched::Peer(peer)) => {
                let rings = peer.socket().map_or(Rings::Taken, Socket::take_rings);
                if rings == Rings::Ended {
                    peer.declare_dead();
                    if let Some(socket) = peer.socket() {
                        self.remove(socket.as_fd().as_raw_fd());
                    }
                    self.watched.remove(&number);
                }
            }
            Some(Watched::Attempt(identity)) => {
                let identity = *identity;
                self.receive_from_attempt(process, member, number, identity);
            }
            Some(Watched::Caller(_)) => self.receive_from_caller(process, number),
        }
        true
    }

    fn receive_from_caller(&mut self, process: &Arc<Process>, number: u64) {
        let Some(Watched::Caller(caller)) = self.watched.remove(&number) else {
            return;
        };
        let fd = caller.socket.as_fd().as_raw_fd();
        match caller.receive(process) {
            CallerProgress::More(caller) => {
                self.watched.insert(number, Watched::Caller(caller));
                return;
            }
            CallerProgress::Peer(peer) => {
                self.watched.insert(number, Watched::Peer(peer));
            }
            CallerProgress::Capturer => {
                self.remove(fd);
                self.watch_capturer(process);
            }
            // The socket is already closed, and so is not watched any more.
            CallerProgress::Done => (),
        }
        process.channels.handshakes().remove(fd);
        self.callers -= 1;
    }

    fn receive_from_attempt(
        &mut self,
        process: &Arc<Process>,
        member: &Member,
        number: u64,
        identity: Identity,
    ) {
        let Some(attempt) = self.attempts.get_mut(&identity) else {
            return;
        };
        let Some(fd) = attempt.descriptor() else {
            return;
        };
        let turn = attempt.receive(process, member);
        process
            .channels
            .requests()
            .note_asked(identity, attempt.asked());
        if matches!(turn, AttemptProgress::More) {
            return;
        }
        process.channels.handshakes().remove(fd);
        self.watched.remove(&number);
        match turn {
            AttemptProgress::More | AttemptProgress::BacksOff => (),
            AttemptProgress::Gone => {
                self.attempts.remove(&identity);
                process.end_connection_attempt(identity, ConnectOutcome::Gone);
            }
            AttemptProgress::Made(channel) => {
                self.attempts.remove(&identity);
                // The same descriptor, under the same number.
                self.watched
                    .insert(number, Watched::Peer(channel.peer.clone()));
                process.channels.add_outbound(identity, channel.clone());
                process.end_connection_attempt(identity, ConnectOutcome::Made(&channel));
            }
        }
    }
}
