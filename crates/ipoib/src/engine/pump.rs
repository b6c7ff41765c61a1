//! The loop of an interface: packets of the TUN device, completions of the adapter, and time.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use verbena_verbs::WorkCompletion;

use super::groups::{Groups, fixed_groups};
use super::pace::{Pace, Rest};
use super::wire::{Wire, partial};
use super::{Failure, LONGEST, system};
use crate::adapter::{BATCH, Completion, Received, bytes_of_mtu};
use crate::address::Prefixed;
use crate::administration::{Administration, Event, Lookup};
use crate::connected::{Completed, Message};
use crate::connection::Way;
use crate::encapsulation;
use crate::fragment;
use crate::membership;
use crate::netlink::Changes;
use crate::offload::{self, Header};
use crate::published::Published;
use crate::segment::Segments;
use crate::station::{Front, Sent, Source, Station, Taken};
use crate::unacknowledged::{self, Unacknowledged};

/// Packets and segments taken from the device before the adapter's completions are looked at. The
/// segments of a long packet that are sent at once may exceed it.
const TURN: usize = 64;
/// Most turns for which segments wait for more to be joined with.
const MOST_HELD: u32 = 8;
/// Bytes of a packet that have its headers, with those of the link.
const FRONT: usize = 192;
/// Milliseconds between looks at neighbours that have not answered, at a busy link, and at unused
/// entries.
const WAITING: u64 = 100;
const BUSY: u64 = 1;
const IDLE: u64 = 60_000;
/// Milliseconds between looks at unsent packets after the command has ended.
const ENDING: u64 = 10;
/// Longest time in milliseconds for which TCP data that a command has left is sent, and for which
/// other packets are.
const LONGEST_FOR_DATA: u64 = 5_000;
const LONGEST_FOR_PACKETS: u64 = 1_000;

/// The loop and its state.
pub(super) struct Pump {
    pub(super) station: Station,
    pub(super) start: Instant,
    /// The last packet read from the device, and the segments that are left of it.
    pub(super) segments: Segments,
    /// Fragments of a packet that has been cut, and packets that have to be sent again.
    pub(super) pieces: VecDeque<Vec<u8>>,
    /// Number of packets of IPv6 that have been cut.
    pub(super) fragments: u32,
    /// The last segment, which the link has not taken yet if it is pending.
    pub(super) packet: Vec<u8>,
    pub(super) is_pending: bool,
    pub(super) groups: Groups,
    pub(super) changes: Changes,
    /// The entries for the connection manager.
    pub(super) published: Option<Published>,
    /// The files with TCP connections.
    pub(super) connections: [File; 2],
    /// When the command's end was noticed.
    pub(super) ended: Option<u64>,
    pub(super) pace: Pace,
}

impl Pump {
    pub(super) fn run(&mut self, wire: &mut Wire, control: &OwnedFd) -> Result<(), Failure> {
        let mut datagram = vec![0; LONGEST];
        let mut is_readable = true;
        let mut next_tick = 0;
        loop {
            let now = Instant::now();
            wire.adapter.set_time(now);
            wire.now = now.duration_since(self.start).as_millis() as u64;
            let (is_received, _) = self.receive(wire, &mut datagram)?;
            let mut is_idle = !is_received;
            self.use_answers(wire)?;
            self.use_connections(wire);
            let is_left = self.is_pending || !self.pieces.is_empty();
            if is_readable || is_left || self.ended.is_some() {
                let (moved, is_empty) = self.send(wire)?;
                is_readable = !is_empty;
                is_idle &= !moved;
            }
            let discarded = wire.take_discarded();
            self.station.discard(discarded);
            let administration = wire.administration.as_mut();
            self.groups.update(&wire.adapter, administration, wire.now);
            let now = self.now();
            if now >= next_tick {
                self.station.tick(now, wire);
                wire.connections.tick(now, &mut wire.adapter);
                wire.adapter.tick();
                if let Some(administration) = &mut wire.administration {
                    administration.tick(now);
                }
                self.groups.is_changed = true;
                self.use_changes(wire);
                self.use_port_events(wire)?;
                // Peers can keep the loop from waiting.
                if self.ended.is_none() && is_closed(control)? {
                    self.ended = Some(now);
                }
                if self.is_over(wire, now)? {
                    return Ok(());
                }
                next_tick = now + self.ended.map_or(WAITING, |_| ENDING);
            }
            if !is_idle {
                self.pace.resume();
                continue;
            }
            let is_blocked = self.is_pending || wire.connections.waiting() > 0;
            if !wire.is_removed {
                let now = Instant::now();
                match self.pace.rest(now, is_blocked) {
                    Rest::Poll => {
                        is_readable = true;
                        thread::yield_now();
                        self.pace.yielded(now, Instant::now());
                        continue;
                    }
                    Rest::Nap(time) => {
                        is_readable |= self.nap(wire, time)?;
                        continue;
                    }
                    Rest::Sleep => {}
                }
            }
            self.pace.resume();
            wire.adapter.arm(is_blocked)?;
            // A completion before the arming raises no event.
            let (is_received, is_freed) = self.receive(wire, &mut datagram)?;
            let has_connections = wire.adapter.connected().is_some();
            if is_received || is_freed && (is_blocked || has_connections) {
                continue;
            }
            let (from_device, is_closed) = self.wait(wire, control)?;
            is_readable |= from_device;
            if is_closed {
                self.ended = Some(self.now());
                next_tick = 0;
            }
        }
    }

    /// Returns whether the command has ended and nothing is left to send, or the time for it has
    /// passed.
    fn is_over(&mut self, wire: &mut Wire, now: u64) -> Result<bool, Failure> {
        let Some(ended) = self.ended else {
            return Ok(false);
        };
        let left = unacknowledged::read(&self.connections);
        let longest = match left.bytes {
            0 => LONGEST_FOR_PACKETS,
            _ => LONGEST_FOR_DATA,
        };
        if now >= ended + longest {
            if left.bytes > 0 {
                eprintln!(
                    "verbena: the interface ends, and peers have not acknowledged {} bytes of TCP \
                     that the command left",
                    left.bytes
                );
            }
            return Ok(true);
        }
        // The kernel may have acknowledged the end of a peer since the last look at the device.
        let (moved, is_empty) = self.send(wire)?;
        let is_sent = !moved && is_empty && self.station.waiting() == 0;
        let is_sent = is_sent && wire.adapter.in_flight() + wire.connections.waiting() == 0;
        let is_sent = is_sent && wire.held() == 0;
        Ok(is_sent && left == Unacknowledged::default())
    }

    /// Uses changed addresses and routes of the namespace.
    fn use_changes(&mut self, wire: &mut Wire) {
        if !self.changes.take() {
            return;
        }
        wire.next_hops.clear();
        // If the kernel does not answer, the addresses stay as they are.
        if let Ok(addresses) = wire.kernel.addresses(wire.index) {
            self.groups.fixed = fixed_groups(&addresses, wire.adapter.partition());
            self.groups.is_changed = true;
            self.station.set_addresses(&addresses, wire);
            self.publish(&addresses, wire);
        }
    }

    /// Publishes other addresses, or another LID.
    fn publish(&mut self, addresses: &[Prefixed], wire: &Wire) {
        let Some(published) = &mut self.published else {
            return;
        };
        if let Err(error) = published.set_addresses(wire.adapter.lid(), addresses) {
            eprintln!(
                "verbena: cannot publish the addresses of the interface: {error}; librdmacm does \
                 not find them"
            );
        }
    }

    /// Uses the answers of subnet administration, and sends requests to it.
    pub(super) fn use_answers(&mut self, wire: &mut Wire) -> Result<(), Failure> {
        loop {
            wire.exchange()?;
            let events = wire.administration.as_mut();
            let events = events.map(Administration::take_events).unwrap_or_default();
            if events.is_empty() {
                return Ok(());
            }
            for event in events {
                self.use_answer(event, wire)?;
            }
        }
    }

    fn use_answer(&mut self, event: Event, wire: &mut Wire) -> Result<(), Failure> {
        match event {
            Event::Ready(waiting) => {
                for one in &waiting {
                    self.station.resume(one, wire.now, wire);
                }
            }
            Event::Failed(waiting, reason) => {
                for one in &waiting {
                    self.station.fail(one, reason);
                }
            }
            Event::Joined(gid, lid) => self.groups.join(&wire.adapter, gid, lid),
            Event::Left(gid) => self.groups.leave(&wire.adapter, gid),
            Event::Refused(gid, refusal) => self.groups.refuse(gid, refusal),
            Event::Changed(properties) => {
                wire.adapter.set_properties(&properties)?;
                if bytes_of_mtu(properties.mtu) != wire.adapter.longest() {
                    eprintln!(
                        "verbena: the MTU of the broadcast group is {} now; start the interface \
                         again to use it",
                        bytes_of_mtu(properties.mtu)
                    );
                }
            }
        }
        Ok(())
    }

    /// Drops packets that wait for answers of subnet administration.
    pub(super) fn end_waiting(&mut self, wire: &mut Wire) -> Result<(), Failure> {
        if let Some(administration) = &mut wire.administration {
            administration.end();
            for event in administration.take_events() {
                self.use_answer(event, wire)?;
            }
        }
        Ok(())
    }

    /// Announces the addresses again after changes of the port: neighbours send to the LID of the
    /// last message. After a change of the LID, connections are set up anew, because their peers
    /// acknowledge to the old one; also if the partition has another P_Key index.
    fn use_port_events(&mut self, wire: &mut Wire) -> Result<(), Failure> {
        let Some(change) = wire.adapter.take_port_events()? else {
            return Ok(());
        };
        if change.is_outside {
            eprintln!(
                "verbena: the port is not in partition {:#06x} any more; packets are lost until it \
                 is again",
                wire.adapter.partition()
            );
        }
        if !change.are_paths_changed {
            return Ok(());
        }
        if let Some(administration) = &mut wire.administration {
            administration.renew(wire.now);
        }
        self.station.announce(wire);
        if let Ok(addresses) = wire.kernel.addresses(wire.index) {
            self.publish(&addresses, wire);
        }
        if change.is_moved {
            wire.connections.close_all(&mut wire.adapter);
        }
        Ok(())
    }

    /// Uses them for a packet that has just come, once for all packets of a turn: it was sent after
    /// the changes.
    fn use_changes_before(&mut self, wire: &mut Wire, are_used: &mut bool) {
        if !std::mem::replace(are_used, true) {
            self.use_changes(wire);
        }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Uses completions. Returns whether there were any of receives, and any of sends.
    fn receive(&mut self, wire: &mut Wire, datagram: &mut [u8]) -> Result<(bool, bool), Failure> {
        let mut completions = [WorkCompletion::default(); BATCH];
        let (mut are_received, mut are_sent) = (false, false);
        for _ in 0..TURN / BATCH {
            let count = wire.adapter.poll(&mut completions)?;
            are_received |= count > 0;
            for completion in &completions[..count] {
                self.pace.count(1, completion.length as usize);
                match wire.adapter.complete(completion) {
                    Completion::Nothing => {}
                    Completion::Connected(completed) => {
                        self.receive_connected(wire, completed, datagram);
                    }
                    Completion::Datagram(received) => {
                        self.receive_datagram(wire, &received, datagram);
                        wire.adapter.release(&received);
                    }
                }
            }
            if count < BATCH {
                if let Some(connected) = wire.adapter.connected() {
                    connected.note_drained();
                }
                break;
            }
        }
        loop {
            let count = wire.adapter.poll_sent(&mut completions)?;
            are_sent |= count > 0;
            for completion in &completions[..count] {
                if let Completion::Connected(completed) = wire.adapter.complete(completion) {
                    self.receive_connected(wire, completed, datagram);
                }
            }
            if count < BATCH {
                break;
            }
        }
        // More segments of the same packet may be under way.
        wire.held += 1;
        if !are_received || wire.held > MOST_HELD {
            let refused = wire.flush();
            self.station.undeliver(refused);
        }
        Ok((are_received, are_sent))
    }

    /// Uses a received datagram; `buffer` gets it if it is not for programs.
    fn receive_datagram(&mut self, wire: &mut Wire, received: &Received, buffer: &mut [u8]) {
        let (region, at) = wire.adapter.datagram(received);
        let mut front = [0; FRONT];
        let front = &mut front[..received.length.min(FRONT)];
        let whole = &mut buffer[..received.length];
        if !received.is_success || region.read(at, front).is_err() {
            self.station.receive_failed();
            return;
        }
        if self.station.is_own(&received.source) {
            return;
        }
        if self.station.receive_front(front, received.length) == Front::Deliver {
            if !wire.deliver_datagram(received, front) {
                self.station.undeliver(1);
            }
        } else if region.read(at, whole).is_ok() {
            let source = received.source;
            self.station.receive(whole, source, wire.now, wire);
        }
    }

    /// Uses a completion of a connection.
    fn receive_connected(&mut self, wire: &mut Wire, completed: Completed, buffer: &mut [u8]) {
        match completed {
            Completed::Failed(id) => wire.connections.fail(id, &mut wire.adapter),
            Completed::Received(message) => {
                match wire.connections.source(message.id, wire.now) {
                    Some(source) => self.receive_message(wire, &message, source, buffer),
                    None => self.station.receive_failed(),
                }
                if let Some(connected) = wire.adapter.connected() {
                    connected.release(message.buffer);
                }
            }
            Completed::Lost => self.station.receive_failed(),
            Completed::Sent | Completed::Nothing => {}
        }
    }

    /// Delivers a message of a connection; `buffer` gets it if it is not for programs.
    fn receive_message(
        &mut self,
        wire: &mut Wire,
        message: &Message,
        source: Source,
        buffer: &mut [u8],
    ) {
        let Some(connected) = wire.adapter.connected() else {
            return;
        };
        let (region, at) = connected.message(message);
        let mut front = [0; FRONT];
        let front = &mut front[..message.length.min(FRONT)];
        if region.read(at, front).is_err() {
            return;
        }
        match self.station.receive_front(front, message.length) {
            Front::Deliver => {
                // Datagrams of the same connection of TCP that came before.
                let refused = wire.flush();
                self.station.undeliver(refused);
                let is_marked = encapsulation::is_marked(front)
                    && wire.connections.has_partial_checksums(message.id);
                match wire.deliver_message(message, front, is_marked) {
                    Some(true) => {}
                    _ => self.station.undeliver(1),
                }
            }
            Front::Whole => {
                let whole = &mut buffer[..message.length];
                if region.read(at, whole).is_ok() {
                    self.station.receive(whole, source, wire.now, wire);
                }
            }
        }
    }

    /// Sends the packets that wait for connections, and takes back those of connections that were
    /// refused.
    fn use_connections(&mut self, wire: &mut Wire) {
        wire.connections.flush(&mut wire.adapter);
        let returned = wire.connections.take_returned();
        self.station.take_back(returned.len() as u64);
        self.pieces.extend(returned);
    }

    /// Returns the number of packets of the device that are not sent, when the interface ends.
    pub(super) fn take_left(&mut self, wire: &mut Wire) -> u64 {
        self.use_connections(wire);
        let mut left = u64::from(self.is_pending) + self.pieces.len() as u64;
        while self.segments.next(&mut self.packet) {
            left += 1;
        }
        left
    }

    /// Takes a packet from the device into the memory of a request, and sends it by a connection if
    /// its neighbour has one. Else the packet is in the memory of `segments`. Returns the number of
    /// bytes, and whether they were sent. `are_used` is set once changes of the namespace are used.
    fn read(
        &mut self,
        wire: &mut Wire,
        now: u64,
        are_used: &mut bool,
    ) -> io::Result<(usize, bool)> {
        let slot = wire.adapter.connected().and_then(|connected| {
            let slot = connected.next_slot()?;
            let (region, at) = connected.slot(slot);
            let (header, _) = self.segments.buffer().split_at_mut(offload::LENGTH);
            let at = at + encapsulation::LENGTH;
            let longest = LONGEST - offload::LENGTH;
            Some((
                slot,
                region.read_vectored(wire.device.as_fd(), header, at, longest),
            ))
        });
        let Some((slot, length)) = slot else {
            let length = wire.device.read(self.segments.buffer())?;
            self.use_changes_before(wire, are_used);
            return Ok((length, false));
        };
        let length = length?;
        self.use_changes_before(wire, are_used);
        if self.send_slot(wire, slot, length, now) {
            return Ok((length, true));
        }
        if let Some(connected) = wire.adapter.connected()
            && length > offload::LENGTH
        {
            let (region, at) = connected.slot(slot);
            let into = &mut self.segments.buffer()[offload::LENGTH..length];
            region
                .read(at + encapsulation::LENGTH, into)
                .map_err(io::Error::other)?;
        }
        Ok((length, false))
    }

    /// Sends a packet that stands in a slot by a connection, if its neighbour has one. `length` is
    /// that of the device's header, which is in the buffer, and the packet.
    fn send_slot(&mut self, wire: &mut Wire, slot: u32, length: usize, now: u64) -> bool {
        let header = self.segments.buffer().first_chunk();
        let header = header.and_then(Header::parse);
        let header = header.filter(|header| header.long.is_none());
        let (Some(header), Some(length)) = (header, length.checked_sub(offload::LENGTH)) else {
            return false;
        };
        let mut front = [0; FRONT];
        let front = &mut front[..length.min(FRONT)];
        let Some(connected) = wire.adapter.connected() else {
            return false;
        };
        let (region, at) = connected.slot(slot);
        if region.read(at + encapsulation::LENGTH, front).is_err() {
            return false;
        }
        let Some((protocol, to)) = self.station.known(front, (length, length), now, wire) else {
            return false;
        };
        let Lookup::Known(to) = wire.route(&to) else {
            return false;
        };
        let way = wire.connections.way(&to, now, &mut wire.adapter);
        let Way::Connection(id, end) = way else {
            return false;
        };
        let is_partial = header.partial.is_some();
        if length > end.mtu as usize
            || is_partial
                && !(end.offloads
                    && partial(front).is_some_and(|one| one.partial == header.partial))
        {
            return false;
        }
        let own = match is_partial {
            true => encapsulation::marked(protocol.header()),
            false => protocol.header(),
        };
        let Some(connected) = wire.adapter.connected() else {
            return false;
        };
        let (region, at) = connected.slot(slot);
        if region.write(at, &own).is_err() {
            return false;
        }
        let length = encapsulation::LENGTH + length;
        let is_sent = connected.send_slot(id, slot, length) == Sent::Done;
        if is_sent {
            self.station.count_sent(1);
        }
        is_sent
    }

    /// Cuts a long packet in the memory of requests, if its neighbour is known and gets datagrams.
    /// Returns the number of segments that were sent or refused.
    fn send_segments(&mut self, wire: &mut Wire, now: u64) -> u64 {
        if self.is_pending || !self.pieces.is_empty() {
            return 0;
        }
        let Some((front, length, longest)) = self.segments.long() else {
            return 0;
        };
        if longest > wire.datagram_mtu {
            return 0;
        }
        let known = self.station.known(front, (length, longest), now, wire);
        let Some((protocol, to)) = known else {
            return 0;
        };
        let (sent, refused) = wire.unicast_segments(&to, protocol, &mut self.segments);
        self.station.count_sent(sent);
        self.station.count_refused(refused);
        self.pace.count(sent, longest);
        sent + refused
    }

    /// Takes packets from the device. Returns whether there were any, and whether it is empty now.
    fn send(&mut self, wire: &mut Wire) -> Result<(bool, bool), Failure> {
        let (mut moved, mut are_used) = (false, false);
        let now = self.now();
        let mut budget = TURN;
        while budget > 0 {
            let segments = self.send_segments(wire, now) as usize;
            budget = budget.saturating_sub(segments.max(1));
            if segments > 0 {
                moved = true;
                continue;
            }
            if !self.is_pending && !self.next_piece() && !self.segments.next(&mut self.packet) {
                match self.read(wire, now, &mut are_used) {
                    // A connection has it.
                    Ok((length, true)) => {
                        self.pace.count(1, length);
                        moved = true;
                    }
                    Ok((length, false)) => {
                        if self.segments.take(length).is_err() {
                            self.station.take_invalid();
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // None is there, or the interface is down or removed.
                    Err(_) => return Ok((moved, true)),
                }
                continue;
            }
            self.groups.is_changed |= membership::is_report(&self.packet);
            let taken = self.station.take(&self.packet, now, wire);
            self.is_pending = taken == Taken::Busy;
            match taken {
                Taken::Done => {}
                Taken::Busy => return Ok((moved, false)),
                Taken::Cut(mtu) => {
                    self.fragments = self.fragments.wrapping_add(1);
                    match fragment::cut(&self.packet, mtu, self.fragments) {
                        Some(fragments) => self.pieces.extend(fragments),
                        None => self.station.take_uncuttable(),
                    }
                }
            }
            self.pace.count(1, self.packet.len());
            moved = true;
        }
        Ok((moved, false))
    }

    /// Takes a fragment of a packet, or one that has to be sent again.
    fn next_piece(&mut self) -> bool {
        let piece = self.pieces.pop_front();
        let is_there = piece.is_some();
        self.packet = piece.unwrap_or_else(|| std::mem::take(&mut self.packet));
        is_there
    }

    /// Waits for the device for a time. Returns whether it is readable.
    fn nap(&mut self, wire: &Wire, time: Duration) -> Result<bool, Failure> {
        let of_device = match self.is_pending {
            true => PollFlags::empty(),
            false => PollFlags::IN,
        };
        let mut device = [PollFd::from_borrowed_fd(wire.device.as_fd(), of_device)];
        ready(&mut device, time)?;
        Ok(!device[0].revents().is_empty())
    }

    /// Waits for work. Returns whether the device is readable, and whether the peer of `control` is
    /// closed, which is returned once.
    fn wait(&mut self, wire: &mut Wire, control: &OwnedFd) -> Result<(bool, bool), Failure> {
        let is_waiting = self.station.is_waiting() || wire.connections.is_waiting();
        let is_waiting = is_waiting || wire.adapter.is_ending();
        let is_waiting = is_waiting || wire.is_asking();
        let is_busy = self.is_pending || wire.connections.waiting() > 0;
        let timeout = match (is_busy, is_waiting) {
            (true, _) => BUSY,
            _ if self.ended.is_some() => ENDING,
            (false, true) => WAITING,
            (false, false) => IDLE,
        };
        let of_device = match self.is_pending {
            true => PollFlags::empty(),
            false => PollFlags::IN,
        };
        let device = PollFd::from_borrowed_fd(wire.device.as_fd(), of_device);
        // A closed socket and a removed interface are always ready.
        let (with_control, with_device) = (self.ended.is_none(), !wire.is_removed);
        let control = with_control.then(|| PollFd::new(control, PollFlags::IN));
        let mut descriptors = vec![
            PollFd::from_borrowed_fd(wire.adapter.events(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.changes.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(wire.adapter.port_events(), PollFlags::IN),
        ];
        descriptors.extend(control.into_iter().chain(with_device.then_some(device)));
        ready(&mut descriptors, Duration::from_millis(timeout))?;
        let mut found = descriptors.iter().map(PollFd::revents);
        let mut next = |is_there: bool| match is_there {
            true => found.next().unwrap_or(PollFlags::empty()),
            false => PollFlags::empty(),
        };
        let (events, changes, port_events) = (next(true), next(true), next(true));
        let (control, device) = (next(with_control), next(with_device));
        if !changes.is_empty() {
            self.use_changes(wire);
        }
        if events.contains(PollFlags::IN) {
            wire.adapter.take_event()?;
        }
        if port_events.contains(PollFlags::IN) {
            self.use_port_events(wire)?;
        }
        if device.intersects(PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL) {
            wire.is_removed = true;
            eprintln!("verbena: the interface was removed; the command goes on without it");
        }
        Ok((device.contains(PollFlags::IN), !control.is_empty()))
    }
}

/// Waits until a descriptor is ready, or for a time.
fn ready(descriptors: &mut [PollFd<'_>], time: Duration) -> Result<(), Failure> {
    let timeout = Timespec {
        tv_sec: time.as_secs().cast_signed(),
        tv_nsec: time.subsec_nanos().into(),
    };
    match poll(descriptors, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(system("wait for packets")(error.into())),
    }
}

/// Returns whether the peer of a socket is closed.
fn is_closed(control: &OwnedFd) -> Result<bool, Failure> {
    let mut control = [PollFd::new(control, PollFlags::IN)];
    ready(&mut control, Duration::ZERO)?;
    Ok(!control[0].revents().is_empty())
}
