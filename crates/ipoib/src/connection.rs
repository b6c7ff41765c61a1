//! Connected mode (RFC 4755): the connections of an interface, without I/O and clock.
//!
//! Each end sends by a connection that it has requested itself and receives by those of its peers,
//! as Linux does. So two ends may request connections at the same time, and neither waits for the
//! other. Packets wait while a connection is requested. A neighbour that refuses connections, or
//! does not answer requests, gets datagrams for a while.
//!
//! Times are milliseconds.

pub mod message;

use std::collections::{HashMap, VecDeque};

use crate::encapsulation::Protocol;
use crate::hardware_address::{self, HardwareAddress};
use crate::neighbour::Neighbour;
use crate::station::{Sent, Source};
pub use message::End;
use message::Message;

/// Most connections of each direction; the least recently used is closed.
pub const MOST: usize = 256;
/// Most packets that wait for a connection.
pub const MOST_WAITING: usize = 64;
/// Most bytes of all packets that wait.
pub const MOST_WAITING_BYTES: usize = 4 << 20;
/// Time between requests.
pub const PAUSE: u64 = 250;
/// Most requests for a connection.
pub const REQUESTS: u32 = 12;
/// Time for which a neighbour that has refused a connection gets datagrams.
pub const REFUSED: u64 = 5_000;
/// Time after which the sender closes an unused connection.
pub const UNUSED: u64 = 300_000;
/// Time after which the receiver does, which may not have heard of its end.
pub const UNUSED_INCOMING: u64 = 2 * UNUSED;

/// The side of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It has requested the connection, and sends packets.
    Sender,
    /// It receives them.
    Receiver,
}

/// Queue pairs and datagrams, as the rules use them. The numbers are those of connections.
pub trait Pairs {
    /// Makes a queue pair to send or to receive; returns its number.
    fn create(&mut self, id: u32, side: Side) -> Option<u32>;
    /// Connects a queue pair with the peer's. Returns whether it succeeded.
    fn connect(&mut self, id: u32, peer: &Neighbour, end: &End, psn: u32, side: Side) -> bool;
    /// Destroys a queue pair.
    fn destroy(&mut self, id: u32);
    /// Sends a packet by a connected queue pair.
    fn send(&mut self, id: u32, protocol: Protocol, packet: &[u8]) -> Sent;
    /// Sends a message to the datagram queue pair of a neighbour.
    fn tell(&mut self, to: &Neighbour, message: &Message);
}

/// The decision on a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By this connection to this end.
    Connection(u32, End),
    /// As a datagram.
    Datagram,
    /// It waits.
    Waits,
}

#[derive(Debug)]
enum State {
    Requested { sent: u32, next: u64 },
    Established { peer_id: u32, end: End },
    Refused { until: u64 },
}

#[derive(Debug)]
struct Outgoing {
    id: u32,
    own: End,
    state: State,
    waiting: VecDeque<(Protocol, Vec<u8>)>,
    used: u64,
}

#[derive(Debug)]
struct Incoming {
    peer: Neighbour,
    peer_id: u32,
    own: End,
    /// Whether the peer has agreed on partial checksums.
    offloads: bool,
    used: u64,
}

/// The connections of an interface.
pub struct Connections {
    own: HardwareAddress,
    mtu: u32,
    path_mtu: u8,
    outgoing: HashMap<Neighbour, Outgoing>,
    /// The neighbours of outgoing connections by their numbers.
    neighbours: HashMap<u32, Neighbour>,
    incoming: HashMap<u32, Incoming>,
    newest: u32,
    waiting_bytes: usize,
    waiting: usize,
    /// Packets that were dropped after they had been taken.
    dropped: u64,
    /// Packets of neighbours that have no connection.
    returned: Vec<Vec<u8>>,
}

impl Connections {
    /// Returns the state of an interface without connections. The numbers of connections follow
    /// `first`, which other users of the adapter should not be able to guess.
    pub fn new(own: HardwareAddress, mtu: u32, path_mtu: u8, first: u32) -> Connections {
        Connections {
            own,
            mtu,
            path_mtu,
            outgoing: HashMap::new(),
            neighbours: HashMap::new(),
            incoming: HashMap::new(),
            newest: first,
            waiting_bytes: 0,
            waiting: 0,
            dropped: 0,
            returned: Vec::new(),
        }
    }

    /// Returns whether this interface makes and accepts connections.
    pub fn is_enabled(&self) -> bool {
        self.own.flags & hardware_address::RC != 0
    }

    /// Returns the number of packets that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns whether [`Connections::tick`] must be called soon.
    pub fn is_waiting(&self) -> bool {
        let is_requested = |one: &Outgoing| matches!(one.state, State::Requested { .. });
        self.waiting > 0 || self.outgoing.values().any(is_requested)
    }

    /// Returns the number of packets dropped since the last call, all of which had been taken.
    pub fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// Returns the packets that have to be sent again, because their neighbour has no connection.
    pub fn take_returned(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.returned)
    }

    /// Decides how packets reach a neighbour, and requests a connection if one is possible.
    pub fn way(&mut self, to: &Neighbour, now: u64, pairs: &mut impl Pairs) -> Way {
        if !self.is_enabled() || to.hardware.flags & hardware_address::RC == 0 {
            return Way::Datagram;
        }
        if let Some(known) = self.outgoing.get_mut(to) {
            known.used = now;
            match known.state {
                State::Established { end, .. } if known.waiting.is_empty() => {
                    return Way::Connection(known.id, end);
                }
                State::Refused { until } if now < until => return Way::Datagram,
                State::Refused { .. } => {}
                _ => return Way::Waits,
            }
        }
        if self.request(*to, now, pairs) {
            Way::Waits
        } else {
            Way::Datagram
        }
    }

    /// Requests a connection. Returns `false` if there is no queue pair for it.
    fn request(&mut self, to: Neighbour, now: u64, pairs: &mut impl Pairs) -> bool {
        if !self.outgoing.contains_key(&to) && self.outgoing.len() == MOST {
            let oldest = self.outgoing.iter().min_by_key(|(_, one)| one.used);
            if let Some(oldest) = oldest.map(|(to, _)| *to) {
                self.close(&oldest, pairs);
            }
        }
        let id = self.new_id();
        let created = pairs.create(id, Side::Sender);
        let own = self.end(created.unwrap_or(0), id);
        let state = match created {
            Some(_) => State::Requested {
                sent: 1,
                next: now + PAUSE,
            },
            None => State::Refused {
                until: now + REFUSED,
            },
        };
        if created.is_some() {
            self.neighbours.insert(id, to);
            pairs.tell(&to, &self.request_of(id, own, &to));
        }
        let one = Outgoing {
            id,
            own,
            state,
            waiting: VecDeque::new(),
            used: now,
        };
        self.outgoing.insert(to, one);
        created.is_some()
    }

    fn request_of(&self, own: u32, end: End, to: &Neighbour) -> Message {
        Message::Request {
            own,
            end,
            from: self.own.gid,
            to: HardwareAddress {
                flags: 0,
                ..to.hardware
            },
        }
    }

    fn end(&self, queue_pair: u32, id: u32) -> End {
        End {
            queue_pair,
            // Any will do: the number of the queue pair differs from that of the last connection.
            psn: id.wrapping_mul(0x9e_3779) & 0x00ff_ffff,
            datagrams: self.own.queue_pair,
            mtu: self.mtu,
            path_mtu: self.path_mtu,
            offloads: true,
        }
    }

    /// Returns a number without a connection, in 30 bits.
    fn new_id(&mut self) -> u32 {
        loop {
            self.newest = (self.newest + 1) & 0x3fff_ffff;
            let id = self.newest;
            let is_used = self.neighbours.contains_key(&id) || self.incoming.contains_key(&id);
            if id != 0 && !is_used {
                return id;
            }
        }
    }

    /// Has a packet wait for the connection to a neighbour. It must not be longer than the
    /// interface's MTU. Returns whether it was taken.
    pub fn wait(&mut self, to: &Neighbour, protocol: Protocol, packet: &[u8]) -> bool {
        let Some(one) = self.outgoing.get_mut(to) else {
            return false;
        };
        let is_full = one.waiting.len() == MOST_WAITING
            || self.waiting_bytes + packet.len() > MOST_WAITING_BYTES;
        if is_full {
            return false;
        }
        self.waiting_bytes += packet.len();
        self.waiting += 1;
        one.waiting.push_back((protocol, packet.to_vec()));
        true
    }

    /// Sends the packets that wait for connections which exist by now.
    pub fn flush(&mut self, pairs: &mut impl Pairs) {
        if self.waiting == 0 {
            return;
        }
        for one in self.outgoing.values_mut() {
            let State::Established { end, .. } = one.state else {
                continue;
            };
            while let Some((protocol, packet)) = one.waiting.front() {
                if packet.len() > end.mtu as usize {
                    self.returned.push(packet.clone());
                } else {
                    match pairs.send(one.id, *protocol, packet) {
                        Sent::Busy => break,
                        Sent::Done => {}
                        _ => self.dropped += 1,
                    }
                }
                self.waiting_bytes -= packet.len();
                self.waiting -= 1;
                one.waiting.pop_front();
            }
        }
    }

    /// Removes the packets that wait for a connection.
    fn take_waiting(&mut self, to: &Neighbour) -> VecDeque<(Protocol, Vec<u8>)> {
        let one = self.outgoing.get_mut(to);
        let waiting = one.map_or_else(VecDeque::new, |one| std::mem::take(&mut one.waiting));
        self.waiting -= waiting.len();
        self.waiting_bytes -= waiting
            .iter()
            .map(|(_, packet)| packet.len())
            .sum::<usize>();
        waiting
    }

    /// Closes an outgoing connection and tells the peer.
    fn close(&mut self, to: &Neighbour, pairs: &mut impl Pairs) {
        self.dropped += self.take_waiting(to).len() as u64;
        if let Some(one) = self.outgoing.remove(to) {
            if let State::Established { peer_id, .. } = one.state {
                let (own, peer) = (one.id, peer_id);
                pairs.tell(to, &Message::Disconnect { own, peer });
            }
            if self.neighbours.remove(&one.id).is_some() {
                pairs.destroy(one.id);
            }
        }
    }

    /// Closes an incoming connection and tells the peer.
    fn close_incoming(&mut self, id: u32, pairs: &mut impl Pairs) {
        if let Some(one) = self.incoming.remove(&id) {
            pairs.destroy(id);
            let peer = one.peer_id;
            pairs.tell(&one.peer, &Message::Disconnect { own: id, peer });
        }
    }

    /// Closes all connections.
    pub fn close_all(&mut self, pairs: &mut impl Pairs) {
        for to in self.outgoing.keys().copied().collect::<Vec<_>>() {
            self.close(&to, pairs);
        }
        for id in self.incoming.keys().copied().collect::<Vec<_>>() {
            self.close_incoming(id, pairs);
        }
    }

    /// Ends a connection whose queue pair has failed.
    pub fn fail(&mut self, id: u32, pairs: &mut impl Pairs) {
        match self.neighbours.get(&id).copied() {
            Some(to) => self.close(&to, pairs),
            None => self.close_incoming(id, pairs),
        }
    }

    /// Returns the sender of packets of an incoming connection.
    pub fn source(&mut self, id: u32, now: u64) -> Option<Source> {
        let one = self.incoming.get_mut(&id)?;
        one.used = now;
        Some(Source {
            queue_pair: one.peer.hardware.queue_pair,
            path: one.peer.path,
            gid: Some(one.peer.hardware.gid),
        })
    }

    /// Returns whether messages of an incoming connection may have partial checksums.
    pub fn has_partial_checksums(&self, id: u32) -> bool {
        self.incoming.get(&id).is_some_and(|one| one.offloads)
    }

    /// Uses a message. Returns `false` if it is invalid: for another interface, from another sender
    /// than it states, or unknown.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        source: Source,
        now: u64,
        pairs: &mut impl Pairs,
    ) -> bool {
        let Some(message) = Message::parse(bytes) else {
            return false;
        };
        match message {
            Message::Request { own, end, from, to } => {
                let is_for_this = to.queue_pair == self.own.queue_pair && to.gid == self.own.gid;
                if !is_for_this || source.gid.is_some_and(|gid| gid != from) {
                    return false;
                }
                let peer = Neighbour {
                    hardware: HardwareAddress {
                        flags: hardware_address::RC,
                        queue_pair: end.datagrams,
                        gid: from,
                    },
                    path: source.path,
                };
                self.accept(peer, own, end, now, pairs);
            }
            Message::Reply { own, peer, end } => {
                let known = self.neighbours.get(&peer).copied();
                let known = known.filter(|to| is_from(to, source));
                if known.is_some_and(|to| self.establish(&to, own, end, pairs)) {
                    return true;
                }
                // The sender has a connection that nothing uses.
                if let Some(gid) = source.gid {
                    let sender = Neighbour {
                        hardware: HardwareAddress {
                            flags: hardware_address::RC,
                            queue_pair: end.datagrams,
                            gid,
                        },
                        path: source.path,
                    };
                    pairs.tell(&sender, &reject_of_reply(peer, own));
                }
                return false;
            }
            Message::Ready { own, peer } => {
                let known = self.incoming.get_mut(&peer);
                let Some(known) = known.filter(|one| one.is(own, source)) else {
                    return false;
                };
                known.used = now;
            }
            Message::Reject {
                own,
                peer,
                of_request: false,
                ..
            } => {
                if !self.has_incoming(peer, own, source) {
                    return false;
                }
                self.incoming.remove(&peer);
                pairs.destroy(peer);
            }
            Message::Reject { peer, .. } => {
                let known = self.neighbours.get(&peer).copied();
                let is_requested = |to: &Neighbour| {
                    let one = self.outgoing.get(to);
                    one.is_some_and(|one| matches!(one.state, State::Requested { .. }))
                };
                let known = known.filter(|to| is_from(to, source) && is_requested(to));
                let Some(to) = known else {
                    return false;
                };
                self.refuse(&to, now, pairs);
            }
            Message::Disconnect { own, peer } => return self.disconnect(own, peer, source, pairs),
            // The queue pair has been destroyed.
            Message::Disconnected { .. } => {}
        }
        true
    }

    fn has_incoming(&self, id: u32, peer_id: u32, source: Source) -> bool {
        let known = self.incoming.get(&id);
        known.is_some_and(|one| one.is(peer_id, source))
    }

    /// Accepts a connection, or repeats the reply.
    fn accept(
        &mut self,
        peer: Neighbour,
        peer_id: u32,
        end: End,
        now: u64,
        pairs: &mut impl Pairs,
    ) {
        let of_peer = self.incoming.iter().find(|(_, one)| one.peer == peer);
        let of_peer = of_peer.map(|(id, one)| (*id, one.peer_id, one.own));
        if let Some((own, known, end)) = of_peer {
            if known == peer_id {
                let peer_end = peer_id;
                pairs.tell(
                    &peer,
                    &Message::Reply {
                        own,
                        peer: peer_end,
                        end,
                    },
                );
                return;
            }
            // The peer has closed the old one, and the message was lost.
            self.incoming.remove(&own);
            pairs.destroy(own);
        }
        let reject = |reason| Message::Reject {
            own: 0,
            peer: peer_id,
            of_request: true,
            reason,
        };
        if !self.is_enabled() {
            pairs.tell(&peer, &reject(message::NO_SERVICE));
            return;
        }
        if self.incoming.len() == MOST {
            let oldest = self.incoming.iter().min_by_key(|(_, one)| one.used);
            if let Some(oldest) = oldest.map(|(id, _)| *id) {
                self.close_incoming(oldest, pairs);
            }
        }
        let id = self.new_id();
        let created = pairs.create(id, Side::Receiver);
        let own = self.end(created.unwrap_or(0), id);
        if created.is_none() || !pairs.connect(id, &peer, &end, own.psn, Side::Receiver) {
            pairs.destroy(id);
            pairs.tell(&peer, &reject(message::NO_QUEUE_PAIR));
            return;
        }
        let one = Incoming {
            peer,
            peer_id,
            own,
            offloads: end.offloads,
            used: now,
        };
        self.incoming.insert(id, one);
        let reply = Message::Reply {
            own: id,
            peer: peer_id,
            end: own,
        };
        pairs.tell(&peer, &reply);
    }

    /// Uses the reply to a request. Returns `false` if the connection is not requested, or another
    /// is established.
    fn establish(
        &mut self,
        to: &Neighbour,
        peer_id: u32,
        end: End,
        pairs: &mut impl Pairs,
    ) -> bool {
        let Some(one) = self.outgoing.get_mut(to) else {
            return false;
        };
        match one.state {
            State::Requested { .. } => {
                if !pairs.connect(one.id, to, &end, one.own.psn, Side::Sender) {
                    pairs.tell(to, &reject_of_reply(one.id, peer_id));
                    self.close(to, pairs);
                    return true;
                }
                one.state = State::Established { peer_id, end };
            }
            State::Established { peer_id: known, .. } if known == peer_id => {}
            _ => return false,
        }
        let own = one.id;
        pairs.tell(to, &Message::Ready { own, peer: peer_id });
        self.flush(pairs);
        true
    }

    /// The neighbour gets datagrams for a while, also the packets that have waited.
    fn refuse(&mut self, to: &Neighbour, now: u64, pairs: &mut impl Pairs) {
        let waiting = self.take_waiting(to);
        let waiting = waiting.into_iter().map(|(_, packet)| packet);
        if let Some(one) = self.outgoing.get_mut(to) {
            self.returned.extend(waiting);
            let until = now + REFUSED;
            one.state = State::Refused { until };
            if self.neighbours.remove(&one.id).is_some() {
                pairs.destroy(one.id);
            }
        }
    }

    fn disconnect(
        &mut self,
        peer_id: u32,
        id: u32,
        source: Source,
        pairs: &mut impl Pairs,
    ) -> bool {
        let answer = Message::Disconnected {
            own: id,
            peer: peer_id,
        };
        if self.has_incoming(id, peer_id, source) {
            if let Some(one) = self.incoming.remove(&id) {
                pairs.destroy(id);
                pairs.tell(&one.peer, &answer);
            }
            return true;
        }
        let known = self.neighbours.get(&id).copied();
        let Some(to) = known.filter(|to| is_from(to, source)) else {
            return false;
        };
        let state = self.outgoing.get(&to).map(|one| &one.state);
        if !matches!(state, Some(State::Established { peer_id: known, .. }) if *known == peer_id) {
            return false;
        }
        self.dropped += self.take_waiting(&to).len() as u64;
        self.outgoing.remove(&to);
        self.neighbours.remove(&id);
        pairs.destroy(id);
        pairs.tell(&to, &answer);
        true
    }

    /// Repeats requests, gives up those without an answer, and closes unused connections.
    pub fn tick(&mut self, now: u64, pairs: &mut impl Pairs) {
        let mut unanswered = Vec::new();
        let mut unused = Vec::new();
        let mut again = Vec::new();
        for (to, one) in &mut self.outgoing {
            match &mut one.state {
                State::Requested { sent, next } if *next <= now => {
                    if *sent == REQUESTS {
                        unanswered.push(*to);
                        continue;
                    }
                    *sent += 1;
                    *next = now + PAUSE;
                    again.push((one.id, one.own, *to));
                }
                State::Established { .. } if one.used + UNUSED <= now => unused.push(*to),
                State::Refused { until } if *until <= now => unused.push(*to),
                _ => {}
            }
        }
        for (id, own, to) in again {
            pairs.tell(&to, &self.request_of(id, own, &to));
        }
        for to in unanswered {
            self.refuse(&to, now, pairs);
        }
        for to in unused {
            self.close(&to, pairs);
        }
        let is_unused = |one: &Incoming| one.used + UNUSED_INCOMING <= now;
        let incoming = self.incoming.iter().filter(|(_, one)| is_unused(one));
        for id in incoming.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.close_incoming(id, pairs);
        }
        self.flush(pairs);
    }
}

impl Incoming {
    /// Returns whether a message with this number comes from the peer.
    fn is(&self, peer_id: u32, source: Source) -> bool {
        self.peer_id == peer_id && is_from(&self.peer, source)
    }
}

/// Returns the message that refuses a reply.
fn reject_of_reply(own: u32, peer: u32) -> Message {
    Message::Reject {
        own,
        peer,
        of_request: false,
        reason: message::UNKNOWN,
    }
}

/// Returns whether a message can come from a neighbour. Its messages leave by any queue pair.
fn is_from(neighbour: &Neighbour, source: Source) -> bool {
    source.gid.is_none_or(|gid| gid == neighbour.hardware.gid)
}

#[cfg(test)]
mod tests;
