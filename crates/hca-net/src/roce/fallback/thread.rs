//! The thread that opens fallback connections and receives from them. It starts when the first one
//! is wanted, by this process or by another host.
//!
//! No peer can stall it: sockets are non-blocking, the handshake has a deadline, and each
//! connection gets a bounded turn.

use super::connection::Connection;
use super::frame::{Assembler, Frame, Handshake, Token};
use super::reachability::{Reachability, SlotAddress, slot_address_of_queue_pair};
use super::udp_probe::{self, NextAction, UdpProbe, UdpVerdict};
use super::{ConnectRequest, Fallback, FallbackState, locked, name};
use crate::link::{self, is_link_local};
use crate::roce::adapter::{Adapter, QueuePair};
use crate::roce::allow;
use crate::roce::path::Path;
use crate::roce::port::Port;
use crate::roce::receive::Packets;
use crate::roce::route::{gid, plain, route};
use crate::roce::sender::Sender;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::Write as _;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use verbena_hca_os::clock;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::readiness::{self, Interest};
use verbena_hca_os::socket::Socket;
use verbena_hca_os::start::start;
use verbena_hca_os::tcp::Tcp;
use verbena_hca_os::thread_scheduling::request_fast_wakeup;
use verbena_hca_os::udp::{Address, Arrived};
use verbena_wire::Qpn;

/// Nanoseconds for connecting and for the peer's handshake.
const TIMEOUT: u64 = 2_000_000_000;
/// Incoming connections without a handshake; the oldest is closed when there is one more.
const MOST_HANDSHAKES: usize = 64;
/// Incoming connections in total and from one address. More are refused, because the program needs
/// descriptors, too.
const MOST_CALLERS: usize = 256;
const MOST_OF_ONE: usize = 64;
/// How often a message says that packets go over TCP, to spare the program's standard error.
const MOST_WORDS: u32 = 8;
/// Bytes read from a connection before the next one's turn.
const TURN: usize = 1 << 18;
/// Longest wait for the handshake of a connection that another process passes us.
const HANDOVER_TIMEOUT: Duration = Duration::from_millis(10);
/// Nanoseconds between UDP probes while packets go over TCP.
const AGAIN: u64 = 10_000_000_000;
/// Hop limit of received packets: Linux' default; it is not transmitted over TCP.
const HOPS: u8 = 64;

/// Finds out how packets get from a path's local address to a queue pair's host, if that is not
/// known. Waits, but not for long ([`Reachability::wait_until_known`]).
pub fn learn_reachability<A: Adapter>(adapter: &Arc<A>, path: &Path, number: Qpn) {
    examine_udp(adapter, path, slot_address_of_queue_pair(number));
    if let Some(reachability) = path.reachability() {
        reachability.wait_until_known();
    }
}

/// Starts finding out whether UDP passes on a path, because requests are not answered. Does not
/// wait.
pub fn examine_udp<A: Adapter>(adapter: &Arc<A>, path: &Path, slot_address: SlotAddress) {
    if let (Some(reachability), Some(port)) = (path.reachability(), adapter.port())
        && reachability.examine(slot_address, path.sender())
    {
        begin(adapter, &port.fallback);
    }
}

/// Serves incoming fallback connections.
pub fn serve_callers<A: Adapter>(adapter: &Arc<A>) {
    if let Some(port) = adapter.port() {
        begin(adapter, &port.fallback);
    }
}

/// Starts the thread, if it does not run.
fn begin<A: Adapter>(adapter: &Arc<A>, fallback: &Fallback) {
    if fallback.has_thread.swap(true, Ordering::AcqRel) {
        return;
    }
    let adapter = adapter.clone();
    let run = move || {
        if let Some(port) = adapter.port() {
            Thread::new(&adapter, port).run();
        }
    };
    // If no thread can be created, the next caller tries again.
    if start(c"verbena-tunnels", 256 << 10, run).is_err() {
        fallback.has_thread.store(false, Ordering::Release);
    }
}

/// A connection before the end of the handshake.
struct PendingConnection {
    connection: Arc<Connection>,
    assembler: Assembler,
    deadline: u64,
    stage: HandshakeStage,
}

enum HandshakeStage {
    Connecting(ConnectRequest),
    /// Handshake sent, waiting for the peer's.
    HandshakeSent(ConnectRequest),
    /// Accepted, waiting for the peer's handshake.
    Accepted,
}

/// An open fallback connection.
struct OpenConnection {
    connection: Arc<Connection>,
    assembler: Assembler,
    reachability: Arc<Reachability>,
    sender: Arc<Sender>,
    peer: Handshake,
    slot_address: SlotAddress,
    /// Address of the peer if it opened the connection.
    caller: Option<Ipv6Addr>,
    udp_probe: Option<UdpProbe>,
    /// Time of the next probe.
    again: u64,
    /// Whether packets arrive by UDP, in our direction and in the peer's.
    is_content: bool,
    is_far_content: bool,
}

struct Thread<'a, A> {
    adapter: &'a Arc<A>,
    port: &'a Port,
    shared: Arc<FallbackState>,
    beginning: Vec<PendingConnection>,
    open: Vec<OpenConnection>,
    buffer: Vec<u8>,
}

impl<'a, A: Adapter> Thread<'a, A> {
    fn new(adapter: &'a Arc<A>, port: &'a Port) -> Thread<'a, A> {
        Thread {
            adapter,
            port,
            shared: port.fallback.shared.clone(),
            beginning: Vec::new(),
            open: Vec::new(),
            buffer: vec![0; TURN],
        }
    }

    fn run(&mut self) {
        request_fast_wakeup();
        while !self.adapter.is_stopping() {
            let next = self.run_due_work(clock::now());
            let ready = self.wait(next);
            if ready.first() == Some(&true) {
                self.shared.doorbell.clear();
            }
            let wanted = std::mem::take(&mut *locked(&self.shared.wanted));
            for request in wanted {
                self.connect(request);
            }
            if ready.get(1) == Some(&true) {
                self.accept();
            }
            if ready.get(2) == Some(&true) {
                self.accept_passed();
            }
            self.receive_pending();
            self.receive_open();
        }
    }

    /// Sleeps until a descriptor is ready or until `next`. The result is in the order doorbell,
    /// listener, passed connections, then `beginning` and `open`.
    fn wait(&self, next: u64) -> Vec<bool> {
        let reading = |fd| (fd, Interest::Reading);
        let listener = self.port.fallback_listener().map(Tcp::as_fd);
        let passed = self.port.fallback.passed().map(Socket::as_fd);
        let fixed = [Some(self.shared.doorbell.as_fd()), listener, passed];
        let beginning = self.beginning.iter().map(|one| match one.stage {
            HandshakeStage::Connecting(_) => (one.connection.as_fd(), Interest::Writing),
            HandshakeStage::HandshakeSent(_) | HandshakeStage::Accepted => {
                reading(one.connection.as_fd())
            }
        });
        let open = self.open.iter().map(|one| match one.connection.has_rest() {
            true => (one.connection.as_fd(), Interest::Both),
            false => reading(one.connection.as_fd()),
        });
        let fixed = fixed.map(|fd| fd.map(reading)).into_iter();
        let wanted: Vec<_> = fixed.chain(beginning.chain(open).map(Some)).collect();
        readiness::wait(&wanted, clock::milliseconds_until(next))
    }

    /// Handles expired timers. Returns the time of the next one, `u64::MAX` for none.
    fn run_due_work(&mut self, now: u64) -> u64 {
        let late = |one: &mut PendingConnection| one.deadline <= now || one.connection.is_broken();
        let late: Vec<PendingConnection> = self.beginning.extract_if(.., late).collect();
        for one in late {
            self.give_up(one);
        }
        let mut next = u64::MAX;
        for one in &self.beginning {
            next = next.min(one.deadline);
        }
        for one in &mut self.open {
            if one.connection.has_rest() {
                one.connection.go_on();
            }
            next = next.min(one.run_due_work(now));
        }
        next
    }

    fn connect(&mut self, request: ConnectRequest) {
        let from = request.reachability.local;
        let to = Address {
            ip: request.reachability.remote,
            port: request.slot_address.0.port(),
            scope: 0,
        };
        if let Some(known) = self.open.iter_mut().find(|one| one.is_for(&request)) {
            // Another connection to the same process may have replaced this one, and closed.
            known.connection_opened();
            return;
        }
        match Tcp::connect(from, to) {
            Err(_) => request.reachability.connection_failed(),
            Ok(tcp) => self.add_pending(tcp, HandshakeStage::Connecting(request)),
        }
    }

    fn add_pending(&mut self, tcp: Tcp, stage: HandshakeStage) {
        let is_taken = |one: &PendingConnection| matches!(one.stage, HandshakeStage::Accepted);
        let handshaking = self.beginning.iter().filter(|one| is_taken(one)).count();
        if handshaking >= MOST_HANDSHAKES
            && let Some(oldest) = self.beginning.iter().position(is_taken)
        {
            let oldest = self.beginning.remove(oldest);
            self.give_up(oldest);
        }
        let connection = Arc::new(Connection::new(tcp, token(), self.shared.doorbell.clone()));
        locked(&self.shared.connections).push(connection.clone());
        self.beginning.push(PendingConnection {
            connection,
            assembler: Assembler::default(),
            deadline: clock::now() + TIMEOUT,
            stage,
        });
    }

    fn accept(&mut self) {
        let Some(listener) = self.port.fallback_listener() else {
            return;
        };
        for _ in 0..MOST_HANDSHAKES {
            match listener.accept() {
                Ok(tcp) => self.add_pending(tcp, HandshakeStage::Accepted),
                Err(Errno::EAGAIN) => return,
                // Out of descriptors: the callers stay queued, and we pause before trying again.
                Err(_) => return std::thread::sleep(HANDOVER_TIMEOUT),
            }
        }
    }

    /// Accepts connections for us that other processes accepted.
    fn accept_passed(&mut self) {
        let Some(passed) = self.port.fallback.passed() else {
            return;
        };
        for _ in 0..MOST_HANDSHAKES {
            let socket = match passed.accept() {
                Ok(socket) => socket,
                Err(Errno::EAGAIN) => return,
                Err(_) => return std::thread::sleep(HANDOVER_TIMEOUT),
            };
            if let Ok((handshake, tcp)) = take_passed(&socket) {
                self.add_pending(tcp, HandshakeStage::Accepted);
                if let Some(last) = self.beginning.last_mut() {
                    last.assembler.room().extend(handshake);
                }
            }
        }
    }

    fn receive_pending(&mut self) {
        for mut one in std::mem::take(&mut self.beginning) {
            if let HandshakeStage::Connecting(request) = one.stage {
                one.stage = match self.connected(&one.connection, request) {
                    Ok(stage) => stage,
                    Err(request) => {
                        self.end(&one.connection);
                        request.reachability.connection_failed();
                        continue;
                    }
                };
            }
            if matches!(one.stage, HandshakeStage::Connecting(_)) {
                self.beginning.push(one);
                continue;
            }
            let ended = read(&one.connection, &mut one.assembler, &mut self.buffer).is_err();
            let handshake = match one.assembler.take() {
                Ok(None) if !ended => {
                    self.beginning.push(one);
                    continue;
                }
                Ok(Some(Frame::Handshake(handshake))) => handshake,
                _ => {
                    self.give_up(one);
                    continue;
                }
            };
            match one.stage {
                HandshakeStage::HandshakeSent(request) => {
                    self.welcomed(one.connection, one.assembler, request, handshake)
                }
                _ => self.accept_handshake(one.connection, one.assembler, handshake),
            }
        }
    }

    /// Checks for the end of connecting, and sends the handshake. Returns the order as an error if
    /// the connection failed.
    fn connected(
        &self,
        connection: &Connection,
        request: ConnectRequest,
    ) -> std::result::Result<HandshakeStage, ConnectRequest> {
        if readiness::wait(&[Some((connection.as_fd(), Interest::Writing))], 0) == [false] {
            return Ok(HandshakeStage::Connecting(request));
        }
        let Some(handshake) =
            self.handshake(connection, &request.reachability, request.slot_address.1)
        else {
            return Err(request);
        };
        // Fails if the connection was refused.
        match connection.send(&Frame::Handshake(handshake)) {
            Ok(()) => Ok(HandshakeStage::HandshakeSent(request)),
            Err(_) => Err(request),
        }
    }

    fn handshake(
        &self,
        connection: &Connection,
        reachability: &Reachability,
        wanted: u32,
    ) -> Option<Handshake> {
        Some(Handshake {
            wanted: u8::try_from(wanted).ok()?,
            own: u8::try_from(self.adapter.management_slot().ok()?).ok()?,
            udp_port: self.port.udp_port(),
            token: connection.own_token,
            source: reachability.local,
            destination: reachability.remote,
        })
    }

    /// Handles the handshake of a peer that we connected to.
    fn welcomed(
        &mut self,
        connection: Arc<Connection>,
        assembler: Assembler,
        request: ConnectRequest,
        peer: Handshake,
    ) {
        let is_right = (peer.source, peer.destination)
            == (request.reachability.remote, request.reachability.local)
            && peer.udp_port == request.slot_address.0
            && [0, u32::from(peer.own)].contains(&request.slot_address.1);
        match is_right {
            true => {
                let open = OpenConnection::new(
                    connection,
                    assembler,
                    request.reachability,
                    request.sender,
                    peer,
                    None,
                );
                self.opened(open);
            }
            false => {
                self.end(&connection);
                request.reachability.connection_failed();
            }
        }
    }

    /// Handles the handshake of a peer that connected to us.
    fn accept_handshake(
        &mut self,
        connection: Arc<Connection>,
        assembler: Assembler,
        peer: Handshake,
    ) {
        let wanted = u32::from(peer.wanted);
        if wanted != 0 && self.port.slot_number() != Some(wanted) {
            // Whether or not the process exists, this one no longer has the connection.
            let _ = pass_to_slot(&connection, &peer, (self.port.udp_port(), wanted));
            return self.forget(&connection);
        }
        if let Some((caller, reachability, sender)) = self.check(&connection, &peer)
            && let Some(handshake) = self.handshake(&connection, &reachability, u32::from(peer.own))
            && connection.send(&Frame::Handshake(handshake)).is_ok()
        {
            let open = OpenConnection::new(
                connection,
                assembler,
                reachability,
                sender,
                peer,
                Some(caller),
            );
            self.opened(open);
        } else {
            self.end(&connection);
        }
    }

    /// Returns the address of an incoming connection, its path and our sender, if the peer may
    /// speak for the address that it declares and there is space for another connection.
    fn check(
        &self,
        connection: &Connection,
        peer: &Handshake,
    ) -> Option<(Ipv6Addr, Arc<Reachability>, Arc<Sender>)> {
        let caller = connection.peer().ok()?.ip;
        let allowed = allow::chosen().ok()?;
        let location = link::locate_gid(gid(peer.destination))?;
        let is_ours = link::locate_gid(gid(peer.source)).is_some();
        let is_special = |ip| is_link_local(&ip) || is_no_host(ip);
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
        let reachability = self.shared.reachability_of(peer.destination, peer.source);
        let slot_address = (peer.udp_port, u32::from(peer.own));
        if caller != peer.source && !reachability.may_be_translated(slot_address, caller) {
            return None;
        }
        let sender = self
            .port
            .senders
            .of(location.port, location.index.into())
            .ok()?;
        Some((caller, reachability, sender))
    }

    fn opened(&mut self, mut open: OpenConnection) {
        open.connection_opened();
        self.open.push(open);
    }

    fn receive_open(&mut self) {
        let mut ended = Vec::new();
        for (index, one) in self.open.iter_mut().enumerate() {
            // Also of broken connections: the last acknowledgement of a closed peer may still be
            // unread.
            if !one.receive(&**self.adapter, &mut self.buffer) {
                ended.push(index);
            }
        }
        for index in ended.into_iter().rev() {
            let one = self.open.swap_remove(index);
            one.reachability.connection_closed(&one.connection);
            self.end(&one.connection);
        }
    }

    /// Drops a connection from the list. It closes unless it was passed to another process.
    fn forget(&self, connection: &Arc<Connection>) {
        locked(&self.shared.connections).retain(|one| !Arc::ptr_eq(one, connection));
    }

    fn end(&self, connection: &Arc<Connection>) {
        connection.end();
        self.forget(connection);
    }

    fn give_up(&self, one: PendingConnection) {
        self.end(&one.connection);
        if let HandshakeStage::Connecting(request) | HandshakeStage::HandshakeSent(request) =
            one.stage
        {
            request.reachability.connection_failed();
        }
    }
}

impl OpenConnection {
    fn new(
        connection: Arc<Connection>,
        assembler: Assembler,
        reachability: Arc<Reachability>,
        sender: Arc<Sender>,
        peer: Handshake,
        caller: Option<Ipv6Addr>,
    ) -> OpenConnection {
        OpenConnection {
            connection,
            assembler,
            reachability,
            sender,
            peer,
            slot_address: (peer.udp_port, u32::from(peer.own)),
            caller,
            udp_probe: None,
            again: clock::now() + AGAIN,
            is_content: false,
            is_far_content: false,
        }
    }

    /// Returns whether the peer is behind a NAT.
    fn is_translated(&self) -> bool {
        self.caller
            .is_some_and(|caller| caller != self.reachability.remote)
    }

    fn is_for(&self, request: &ConnectRequest) -> bool {
        let (udp_port, slot) = request.slot_address;
        Arc::ptr_eq(&self.reachability, &request.reachability)
            && self.slot_address.0 == udp_port
            && (slot == 0 || slot == self.slot_address.1)
    }

    /// Records the connection on the path, and starts a probe if packets may not need it.
    fn connection_opened(&mut self) {
        let is_to_be_tried = self
            .reachability
            .connection_opened(self.slot_address, &self.connection);
        match self.is_translated() {
            // Packets to that address would not reach a peer behind a NAT.
            true => self.note_verdict(UdpVerdict::Fails),
            false if is_to_be_tried => self.probe_again(clock::now()),
            false => (),
        }
    }

    fn probe_again(&mut self, now: u64) {
        self.udp_probe.get_or_insert_with(|| UdpProbe::new(now));
        self.again = now + AGAIN;
    }

    /// Handles expired timers. Returns the time of the next one.
    fn run_due_work(&mut self, now: u64) -> u64 {
        // If another connection to the host has shown that UDP passes, this one is not needed
        // either.
        let wants_trial = self.reachability.is_over_tcp() || self.reachability.is_direct();
        let is_waiting = wants_trial && !self.is_content && !self.is_translated();
        if is_waiting && self.again <= now {
            self.probe_again(now);
        }
        while let Some(udp_probe) = &mut self.udp_probe {
            match udp_probe.step(now) {
                NextAction::Ask => self.send_probe(),
                NextAction::Wait(until) => return until,
                NextAction::GiveUp => self.note_verdict(UdpVerdict::Fails),
            }
        }
        match is_waiting && !self.is_content {
            true => self.again,
            false => u64::MAX,
        }
    }

    fn send_probe(&self) {
        let to = Address {
            ip: self.reachability.remote,
            port: self.slot_address.0.port(),
            scope: 0,
        };
        let route = route(self.sender.address(), to, 0, 0);
        if let Some(question) = udp_probe::question(self.peer.token, self.peer.own, &route) {
            // A probe that cannot be sent now is repeated later.
            let _ = self.sender.send_probe(&to, &question);
        }
    }

    fn note_verdict(&mut self, verdict: UdpVerdict) {
        self.udp_probe = None;
        let is_new = self.reachability.note_verdict(verdict);
        match verdict {
            UdpVerdict::Passes if !self.is_content => {
                self.is_content = true;
                let _ = self.connection.send(&Frame::Content);
            }
            UdpVerdict::Fails if self.is_content => {
                self.is_content = false;
                let _ = self.connection.send(&Frame::Discontent);
            }
            _ => (),
        }
        if verdict == UdpVerdict::Fails && is_new {
            report_fallback(self.reachability.remote);
        }
    }

    /// Receives from the connection. Returns whether it stays open.
    fn receive<A: Adapter>(&mut self, adapter: &A, buffer: &mut [u8]) -> bool {
        let goes_on = read(&self.connection, &mut self.assembler, buffer).is_ok();
        let mut answering = Vec::new();
        let mut is_seen = false;
        let is_right = loop {
            match self.assembler.take() {
                Err(_) | Ok(Some(Frame::Handshake(_))) => break false,
                Ok(None) => break true,
                Ok(Some(Frame::Content)) => self.is_far_content = true,
                Ok(Some(Frame::Discontent)) => self.is_far_content = false,
                // Also after the probe was given up: the report may be late.
                Ok(Some(Frame::Seen)) => is_seen = true,
                Ok(Some(Frame::Packets { envelope, bytes })) => {
                    let arrived = Arrived {
                        source: Address {
                            ip: self.reachability.remote,
                            port: envelope.source_port,
                            scope: 0,
                        },
                        destination: self.reachability.local,
                        interface: 0,
                        traffic_class: envelope.traffic_class,
                        hop_limit: HOPS,
                        bytes,
                        segment: envelope.segment.into(),
                    };
                    let packets = bytes.len().div_ceil(arrived.segment) as u64;
                    adapter
                        .counters()
                        .shard()
                        .tunnel_packets_received
                        .add(packets);
                    let to = envelope.destination_port;
                    Packets::of(adapter).dispatch(&arrived, to, &mut answering);
                }
            }
        };
        if is_seen {
            self.note_verdict(UdpVerdict::Passes);
        }
        answer(adapter, &answering);
        goes_on && is_right && !(self.is_content && self.is_far_content)
    }
}

/// Sends the answers to received requests. The rest of long answers is left to threads that poll or
/// to the adapter's thread.
fn answer<A: Adapter>(adapter: &A, queue_pairs: &[Arc<A::QueuePair>]) {
    let has_more = |queue_pair: &&Arc<A::QueuePair>| queue_pair.answer_by_packets();
    let left = queue_pairs.iter().filter(has_more);
    let left: Vec<u32> = left.map(|queue_pair| queue_pair.number()).collect();
    if let Some(port) = adapter.port()
        && !left.is_empty()
    {
        port.note_pending_acks(left);
        adapter.wake();
    }
}

/// Reports on standard error that packets go over TCP.
fn report_fallback(remote: Ipv6Addr) {
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
fn read(connection: &Connection, assembler: &mut Assembler, buffer: &mut [u8]) -> Result<()> {
    match connection.read(buffer) {
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
fn pass_to_slot(
    connection: &Connection,
    handshake: &Handshake,
    (udp_port, slot): SlotAddress,
) -> Result<()> {
    let socket = Socket::connect_abstract(&name(udp_port, slot))?;
    socket.check_user()?;
    socket.send(&Frame::Handshake(*handshake).head(), &[connection.as_fd()])
}

/// Receives a connection that another process passes us.
fn take_passed(socket: &Socket) -> Result<(Vec<u8>, Tcp)> {
    const LONGEST: usize = 256;
    socket.check_user()?;
    socket.wait_readable(HANDOVER_TIMEOUT)?;
    let mut handshake = vec![0; LONGEST];
    let received = socket.receive(&mut handshake)?;
    handshake.truncate(received.length);
    let fd = received
        .descriptors
        .into_iter()
        .next()
        .ok_or(Errno::EPROTO)?;
    Ok((handshake, Tcp::of(fd)))
}

/// Returns whether an address belongs to no host: multicast, broadcast or unspecified.
fn is_no_host(ip: Ipv6Addr) -> bool {
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
    fn non_host_addresses_are_recognized_in_both_families() {
        for nobody in [
            "::",
            "ff02::1",
            "::ffff:0.0.0.0",
            "::ffff:224.0.0.1",
            "::ffff:255.255.255.255",
        ] {
            assert!(is_no_host(nobody.parse().unwrap()), "{nobody}");
        }
        for host in [
            "::1",
            "fe80::1",
            "2001:db8::1",
            "::ffff:10.9.0.1",
            "::ffff:127.0.0.1",
        ] {
            assert!(!is_no_host(host.parse().unwrap()), "{host}");
        }
    }
}
