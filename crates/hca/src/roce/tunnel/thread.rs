//! The thread that opens fallback connections and receives from them. It starts when the first one
//! is wanted, by this process or by another host.
//!
//! No peer can stall it: sockets are non-blocking, the handshake has a deadline, and each
//! connection gets a bounded turn.

use super::far::{Berth, Far};
use super::frame::{Assembler, Frame, Greeting, Token};
use super::line::Line;
use super::trial::{self, Step, Trial, Verdict};
use super::{Order, Orders, Tunnels, locked, name};
use crate::errno::{Errno, Result};
use crate::link::{self, is_link_local};
use crate::process::Process;
use crate::process::poller::until;
use crate::qp::Qp;
use crate::roce::allow;
use crate::roce::path::{Sender, gid, plain, route};
use crate::roce::pool;
use crate::roce::port::Port;
use crate::sys::clock;
use crate::sys::punctual::be_punctual;
use crate::sys::readiness::{self, Interest};
use crate::sys::socket::Socket;
use crate::sys::start::start;
use crate::sys::tcp::Tcp;
use crate::sys::udp::{Address, Arrived};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write as _;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Nanoseconds for connecting and for the peer's handshake.
const PATIENCE: u64 = 2_000_000_000;
/// Incoming connections without a handshake; the oldest is closed when there is one more.
const MOST_STRANGERS: usize = 64;
/// Incoming connections in total and from one address. More are refused, because the program needs
/// descriptors, too.
const MOST_CALLERS: usize = 256;
const MOST_OF_ONE: usize = 64;
/// How often a message says that packets go over TCP, to spare the program's standard error.
const MOST_WORDS: u32 = 8;
/// Bytes read from a connection before the next one's turn.
const TURN: usize = 1 << 18;
/// Longest wait for the handshake of a connection that another process passes us.
const HANDED: Duration = Duration::from_millis(10);
/// Nanoseconds between UDP probes while packets go over TCP.
const AGAIN: u64 = 10_000_000_000;
/// Hop limit of received packets: Linux' default; it is not transmitted over TCP.
const HOPS: u8 = 64;

/// Starts the thread, if it does not run.
pub(super) fn begin(process: &Arc<Process>, tunnels: &Tunnels) {
    if tunnels.has_thread.swap(true, Ordering::AcqRel) {
        return;
    }
    let process = process.clone();
    let run = move || {
        if let Some(port) = process.roce.get() {
            Thread::new(&process, port).run();
        }
    };
    // If no thread can be created, the next caller tries again.
    if start(c"verbena-tunnels", 256 << 10, run).is_err() {
        tunnels.has_thread.store(false, Ordering::Release);
    }
}

/// A connection before the end of the handshake.
struct Beginning {
    line: Arc<Line>,
    assembler: Assembler,
    deadline: u64,
    stage: Stage,
}

enum Stage {
    Connecting(Order),
    /// Handshake sent, waiting for the peer's.
    Greeted(Order),
    /// Accepted, waiting for the peer's handshake.
    Taken,
}

/// An open fallback connection.
struct Open {
    line: Arc<Line>,
    assembler: Assembler,
    far: Arc<Far>,
    sender: Arc<Sender>,
    peer: Greeting,
    berth: Berth,
    /// Address of the peer if it opened the connection.
    caller: Option<Ipv6Addr>,
    trial: Option<Trial>,
    /// Time of the next probe.
    again: u64,
    /// Whether packets arrive by UDP, in our direction and in the peer's.
    is_content: bool,
    is_far_content: bool,
}

struct Thread<'a> {
    process: &'a Arc<Process>,
    port: &'a Port,
    orders: Arc<Orders>,
    beginning: Vec<Beginning>,
    open: Vec<Open>,
    buffer: Vec<u8>,
}

impl<'a> Thread<'a> {
    fn new(process: &'a Arc<Process>, port: &'a Port) -> Thread<'a> {
        Thread {
            process,
            port,
            orders: port.tunnels.orders.clone(),
            beginning: Vec::new(),
            open: Vec::new(),
            buffer: vec![0; TURN],
        }
    }

    fn run(&mut self) {
        be_punctual();
        while !self.process.stopping.load(Ordering::Relaxed) {
            let next = self.tend(clock::now());
            let ready = self.wait(next);
            if ready.first() == Some(&true) {
                self.orders.doorbell.clear();
            }
            let wanted = std::mem::take(&mut *locked(&self.orders.wanted));
            for order in wanted {
                self.seek(order);
            }
            if ready.get(1) == Some(&true) {
                self.accept();
            }
            if ready.get(2) == Some(&true) {
                self.accept_handed();
            }
            self.hear_beginning();
            self.hear_open();
        }
    }

    /// Sleeps until a descriptor is ready or until `next`. The result is in the order doorbell,
    /// listener, passed connections, then `beginning` and `open`.
    fn wait(&self, next: u64) -> Vec<bool> {
        let reading = |fd| (fd, Interest::Reading);
        let listener = self.port.tunnel_listener().map(Tcp::as_fd);
        let handed = self.port.tunnels.handed().map(Socket::as_fd);
        let fixed = [Some(self.orders.doorbell.as_fd()), listener, handed];
        let beginning = self.beginning.iter().map(|one| match one.stage {
            Stage::Connecting(_) => (one.line.as_fd(), Interest::Writing),
            Stage::Greeted(_) | Stage::Taken => reading(one.line.as_fd()),
        });
        let open = self.open.iter().map(|one| match one.line.has_rest() {
            true => (one.line.as_fd(), Interest::Both),
            false => reading(one.line.as_fd()),
        });
        let fixed = fixed.map(|fd| fd.map(reading)).into_iter();
        let wanted: Vec<_> = fixed.chain(beginning.chain(open).map(Some)).collect();
        readiness::wait(&wanted, until(next))
    }

    /// Handles expired timers. Returns the time of the next one, `u64::MAX` for none.
    fn tend(&mut self, now: u64) -> u64 {
        let late = |one: &mut Beginning| one.deadline <= now || one.line.is_broken();
        let late: Vec<Beginning> = self.beginning.extract_if(.., late).collect();
        for one in late {
            self.give_up(one);
        }
        let mut next = u64::MAX;
        for one in &self.beginning {
            next = next.min(one.deadline);
        }
        for one in &mut self.open {
            if one.line.has_rest() {
                one.line.go_on();
            }
            next = next.min(one.tend(now));
        }
        next
    }

    fn seek(&mut self, order: Order) {
        let from = order.far.local;
        let to = Address {
            ip: order.far.remote,
            port: order.berth.0.port(),
            scope: 0,
        };
        if let Some(known) = self.open.iter_mut().find(|one| one.is_for(&order)) {
            // Another connection to the same process may have replaced this one, and closed.
            known.found();
            return;
        }
        match Tcp::connect(from, to) {
            Err(_) => order.far.not_found(),
            Ok(tcp) => self.begin_with(tcp, Stage::Connecting(order)),
        }
    }

    fn begin_with(&mut self, tcp: Tcp, stage: Stage) {
        let is_taken = |one: &Beginning| matches!(one.stage, Stage::Taken);
        let strangers = self.beginning.iter().filter(|one| is_taken(one)).count();
        if strangers >= MOST_STRANGERS
            && let Some(oldest) = self.beginning.iter().position(is_taken)
        {
            let oldest = self.beginning.remove(oldest);
            self.give_up(oldest);
        }
        let line = Arc::new(Line::new(tcp, token(), self.orders.doorbell.clone()));
        locked(&self.orders.lines).push(line.clone());
        self.beginning.push(Beginning {
            line,
            assembler: Assembler::default(),
            deadline: clock::now() + PATIENCE,
            stage,
        });
    }

    fn accept(&mut self) {
        let Some(listener) = self.port.tunnel_listener() else {
            return;
        };
        for _ in 0..MOST_STRANGERS {
            match listener.accept() {
                Ok(tcp) => self.begin_with(tcp, Stage::Taken),
                Err(Errno::EAGAIN) => return,
                // Out of descriptors: the callers stay queued, and we pause before trying again.
                Err(_) => return std::thread::sleep(HANDED),
            }
        }
    }

    /// Accepts connections for us that other processes accepted.
    fn accept_handed(&mut self) {
        let Some(handed) = self.port.tunnels.handed() else {
            return;
        };
        for _ in 0..MOST_STRANGERS {
            let socket = match handed.accept() {
                Ok(socket) => socket,
                Err(Errno::EAGAIN) => return,
                Err(_) => return std::thread::sleep(HANDED),
            };
            if let Ok((greeting, tcp)) = take_handed(&socket) {
                self.begin_with(tcp, Stage::Taken);
                if let Some(last) = self.beginning.last_mut() {
                    last.assembler.room().extend(greeting);
                }
            }
        }
    }

    fn hear_beginning(&mut self) {
        for mut one in std::mem::take(&mut self.beginning) {
            if let Stage::Connecting(order) = one.stage {
                one.stage = match self.connected(&one.line, order) {
                    Ok(stage) => stage,
                    Err(order) => {
                        self.end(&one.line);
                        order.far.not_found();
                        continue;
                    }
                };
            }
            if matches!(one.stage, Stage::Connecting(_)) {
                self.beginning.push(one);
                continue;
            }
            let ended = read(&one.line, &mut one.assembler, &mut self.buffer).is_err();
            let greeting = match one.assembler.take() {
                Ok(None) if !ended => {
                    self.beginning.push(one);
                    continue;
                }
                Ok(Some(Frame::Greeting(greeting))) => greeting,
                _ => {
                    self.give_up(one);
                    continue;
                }
            };
            match one.stage {
                Stage::Greeted(order) => self.welcomed(one.line, one.assembler, order, greeting),
                _ => self.called(one.line, one.assembler, greeting),
            }
        }
    }

    /// Checks for the end of connecting, and sends the handshake. Returns the order as an error if
    /// the connection failed.
    fn connected(&self, line: &Line, order: Order) -> std::result::Result<Stage, Order> {
        if readiness::wait(&[Some((line.as_fd(), Interest::Writing))], 0) == [false] {
            return Ok(Stage::Connecting(order));
        }
        let Some(greeting) = self.greeting(line, &order.far, order.berth.1) else {
            return Err(order);
        };
        // Fails if the connection was refused.
        match line.send(&Frame::Greeting(greeting)) {
            Ok(()) => Ok(Stage::Greeted(order)),
            Err(_) => Err(order),
        }
    }

    fn greeting(&self, line: &Line, far: &Far, wanted: u32) -> Option<Greeting> {
        Some(Greeting {
            wanted: u8::try_from(wanted).ok()?,
            own: u8::try_from(self.process.management_slot().ok()?).ok()?,
            residence: self.port.residence(),
            token: line.own_token,
            source: far.local,
            destination: far.remote,
        })
    }

    /// Handles the handshake of a peer that we connected to.
    fn welcomed(&mut self, line: Arc<Line>, assembler: Assembler, order: Order, peer: Greeting) {
        let is_right = (peer.source, peer.destination) == (order.far.remote, order.far.local)
            && peer.residence == order.berth.0
            && [0, u32::from(peer.own)].contains(&order.berth.1);
        match is_right {
            true => {
                let open = Open::new(line, assembler, order.far, order.sender, peer, None);
                self.opened(open);
            }
            false => {
                self.end(&line);
                order.far.not_found();
            }
        }
    }

    /// Handles the handshake of a peer that connected to us.
    fn called(&mut self, line: Arc<Line>, assembler: Assembler, peer: Greeting) {
        let wanted = u32::from(peer.wanted);
        if wanted != 0 && self.port.slot_number() != Some(wanted) {
            // Whether or not the process exists, this one no longer has the connection.
            let _ = hand_over(&line, &peer, (self.port.residence(), wanted));
            return self.forget(&line);
        }
        if let Some((caller, far, sender)) = self.check(&line, &peer)
            && let Some(greeting) = self.greeting(&line, &far, u32::from(peer.own))
            && line.send(&Frame::Greeting(greeting)).is_ok()
        {
            let open = Open::new(line, assembler, far, sender, peer, Some(caller));
            self.opened(open);
        } else {
            self.end(&line);
        }
    }

    /// Returns the address of an incoming connection, its path and our sender, if the peer may
    /// speak for the address that it declares and there is room for another connection.
    fn check(&self, line: &Line, peer: &Greeting) -> Option<(Ipv6Addr, Arc<Far>, Arc<Sender>)> {
        let caller = line.peer().ok()?.ip;
        let allowed = allow::chosen().ok()?;
        let place = link::place_of(gid(peer.destination))?;
        let is_ours = link::place_of(gid(peer.source)).is_some();
        let is_special = |ip| is_link_local(&ip) || is_nobody(ip);
        let callers = || self.open.iter().filter_map(|one| one.caller);
        if is_ours
            || is_special(peer.source)
            || is_special(peer.destination)
            || !allowed.includes(caller)
            || !allowed.includes(peer.source)
            || callers().count() >= MOST_CALLERS
            || callers().filter(|one| *one == caller).count() >= MOST_OF_ONE
        {
            return None;
        }
        let far = self.orders.far_of(peer.destination, peer.source);
        let berth = (peer.residence, u32::from(peer.own));
        if caller != peer.source && !far.may_be_translated(berth, caller) {
            return None;
        }
        let sender = self.port.senders.of(place.port, place.index.into()).ok()?;
        Some((caller, far, sender))
    }

    fn opened(&mut self, mut open: Open) {
        open.found();
        self.open.push(open);
    }

    fn hear_open(&mut self) {
        let mut ended = Vec::new();
        for (index, one) in self.open.iter_mut().enumerate() {
            // Also of broken connections: the last acknowledgement of a closed peer may still be
            // unread.
            if !one.hear(self.process, &mut self.buffer) {
                ended.push(index);
            }
        }
        for index in ended.into_iter().rev() {
            let one = self.open.swap_remove(index);
            one.far.lost(&one.line);
            self.end(&one.line);
        }
    }

    /// Drops a connection from the list. It closes unless it was passed to another process.
    fn forget(&self, line: &Arc<Line>) {
        locked(&self.orders.lines).retain(|one| !Arc::ptr_eq(one, line));
    }

    fn end(&self, line: &Arc<Line>) {
        line.end();
        self.forget(line);
    }

    fn give_up(&self, one: Beginning) {
        self.end(&one.line);
        if let Stage::Connecting(order) | Stage::Greeted(order) = one.stage {
            order.far.not_found();
        }
    }
}

impl Open {
    fn new(
        line: Arc<Line>,
        assembler: Assembler,
        far: Arc<Far>,
        sender: Arc<Sender>,
        peer: Greeting,
        caller: Option<Ipv6Addr>,
    ) -> Open {
        Open {
            line,
            assembler,
            far,
            sender,
            peer,
            berth: (peer.residence, u32::from(peer.own)),
            caller,
            trial: None,
            again: clock::now() + AGAIN,
            is_content: false,
            is_far_content: false,
        }
    }

    /// Returns whether the peer is behind a NAT.
    fn is_translated(&self) -> bool {
        self.caller.is_some_and(|caller| caller != self.far.remote)
    }

    fn is_for(&self, order: &Order) -> bool {
        let (residence, slot) = order.berth;
        Arc::ptr_eq(&self.far, &order.far)
            && self.berth.0 == residence
            && (slot == 0 || slot == self.berth.1)
    }

    /// Records the connection on the path, and starts a probe if packets may not need it.
    fn found(&mut self) {
        let is_to_be_tried = self.far.found(self.berth, &self.line);
        match self.is_translated() {
            // Packets to that address would not reach a peer behind a NAT.
            true => self.tried(Verdict::Fails),
            false if is_to_be_tried => self.try_again(clock::now()),
            false => (),
        }
    }

    fn try_again(&mut self, now: u64) {
        self.trial.get_or_insert_with(|| Trial::new(now));
        self.again = now + AGAIN;
    }

    /// Handles expired timers. Returns the time of the next one.
    fn tend(&mut self, now: u64) -> u64 {
        // If another connection to the host has shown that UDP passes, this one is not needed
        // either.
        let wants_trial = self.far.is_tunnelled() || self.far.is_direct();
        let is_waiting = wants_trial && !self.is_content && !self.is_translated();
        if is_waiting && self.again <= now {
            self.try_again(now);
        }
        while let Some(trial) = &mut self.trial {
            match trial.step(now) {
                Step::Ask => self.ask(),
                Step::Wait(until) => return until,
                Step::GiveUp => self.tried(Verdict::Fails),
            }
        }
        match is_waiting && !self.is_content {
            true => self.again,
            false => u64::MAX,
        }
    }

    fn ask(&self) {
        let to = Address {
            ip: self.far.remote,
            port: self.berth.0.port(),
            scope: 0,
        };
        let route = route(self.sender.address(), to, 0, 0);
        if let Some(question) = trial::question(self.peer.token, self.peer.own, &route) {
            // A probe that cannot be sent now is repeated later.
            let _ = self.sender.ask(&to, &question);
        }
    }

    fn tried(&mut self, verdict: Verdict) {
        self.trial = None;
        let is_new = self.far.tried(verdict);
        match verdict {
            Verdict::Passes if !self.is_content => {
                self.is_content = true;
                let _ = self.line.send(&Frame::Content);
            }
            Verdict::Fails if self.is_content => {
                self.is_content = false;
                let _ = self.line.send(&Frame::Discontent);
            }
            _ => (),
        }
        if verdict == Verdict::Fails && is_new {
            say(self.far.remote);
        }
    }

    /// Receives from the connection. Returns whether it stays open.
    fn hear(&mut self, process: &Process, buffer: &mut [u8]) -> bool {
        let goes_on = read(&self.line, &mut self.assembler, buffer).is_ok();
        let mut answering = Vec::new();
        let mut is_seen = false;
        let is_right = loop {
            match self.assembler.take() {
                Err(_) | Ok(Some(Frame::Greeting(_))) => break false,
                Ok(None) => break true,
                Ok(Some(Frame::Content)) => self.is_far_content = true,
                Ok(Some(Frame::Discontent)) => self.is_far_content = false,
                // Also after the probe was given up: the report may be late.
                Ok(Some(Frame::Seen)) => is_seen = true,
                Ok(Some(Frame::Packets { envelope, bytes })) => {
                    let arrived = Arrived {
                        source: Address {
                            ip: self.far.remote,
                            port: envelope.source_port,
                            scope: 0,
                        },
                        destination: self.far.local,
                        interface: 0,
                        traffic_class: envelope.traffic_class,
                        hop_limit: HOPS,
                        bytes,
                        segment: envelope.segment.into(),
                    };
                    let packets = bytes.len().div_ceil(arrived.segment) as u64;
                    process
                        .counters
                        .shard()
                        .tunnel_packets_received
                        .add(packets);
                    process.sort(&arrived, envelope.destination_port, &mut answering);
                }
            }
        };
        if is_seen {
            self.tried(Verdict::Passes);
        }
        answer(process, &answering);
        goes_on && is_right && !(self.is_content && self.is_far_content)
    }
}

/// Sends the answers to received requests. The rest of long answers is left to threads that poll or
/// to the adapter's thread.
fn answer(process: &Process, queue_pairs: &[Arc<Qp>]) {
    let has_more = |queue_pair: &&Arc<Qp>| queue_pair.answer_by_packets();
    let left = queue_pairs.iter().filter(has_more);
    let left: Vec<u32> = left.map(|queue_pair| queue_pair.number()).collect();
    if let Some(port) = process.roce.get()
        && !left.is_empty()
    {
        port.note_talkative(left);
        process.doorbell.ring();
    }
}

/// Reports on standard error that packets go over TCP.
fn say(remote: Ipv6Addr) {
    static SAID: AtomicU32 = AtomicU32::new(0);
    if SAID.fetch_add(1, Ordering::Relaxed) < MOST_WORDS {
        // Standard error may be closed.
        let _ = writeln!(
            std::io::stderr(),
            "verbena: UDP packets to {} do not arrive intact; using TCP instead",
            plain(remote)
        );
    }
}

/// Reads from a connection, at most one turn.
///
/// # Errors
/// ENOTCONN or the network's error when the connection has ended.
fn read(line: &Line, assembler: &mut Assembler, buffer: &mut [u8]) -> Result<()> {
    match line.read(buffer) {
        Ok(0) => Err(Errno(libc::ENOTCONN)),
        Ok(count) => {
            assembler.room().extend_from_slice(&buffer[..count]);
            Ok(())
        }
        Err(Errno(libc::EAGAIN | libc::EINTR)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Passes a connection and its handshake to the process that it is for.
///
/// # Errors
/// The system's error if that process does not exist, EPERM if it belongs to another user.
fn hand_over(line: &Line, greeting: &Greeting, (residence, slot): Berth) -> Result<()> {
    let socket = Socket::connect_abstract(&name(residence, slot))?;
    pool::check_user(&socket)?;
    socket.send(&Frame::Greeting(*greeting).head(), &[line.as_fd()])
}

/// Receives a connection that another process passes us.
fn take_handed(socket: &Socket) -> Result<(Vec<u8>, Tcp)> {
    const LONGEST: usize = 256;
    pool::check_user(socket)?;
    socket.wait_readable(HANDED)?;
    let mut greeting = vec![0; LONGEST];
    let received = socket.receive(&mut greeting)?;
    greeting.truncate(received.length);
    let fd = received
        .descriptors
        .into_iter()
        .next()
        .ok_or(Errno::EPROTO)?;
    Ok((greeting, Tcp::of(fd)))
}

/// Returns whether an address belongs to no host: multicast, broadcast or unspecified.
fn is_nobody(ip: Ipv6Addr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_multicast() || ip.is_unspecified() || ip.is_broadcast(),
        IpAddr::V6(ip) => ip.is_multicast() || ip.is_unspecified(),
    }
}

/// Returns a random token that others cannot guess.
fn token() -> Token {
    RandomState::new().build_hasher().finish().to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_no_host_are_known_in_both_families() {
        for nobody in [
            "::",
            "ff02::1",
            "::ffff:0.0.0.0",
            "::ffff:224.0.0.1",
            "::ffff:255.255.255.255",
        ] {
            assert!(is_nobody(nobody.parse().unwrap()), "{nobody}");
        }
        for host in [
            "::1",
            "fe80::1",
            "2001:db8::1",
            "::ffff:10.9.0.1",
            "::ffff:127.0.0.1",
        ] {
            assert!(!is_nobody(host.parse().unwrap()), "{host}");
        }
    }
}
