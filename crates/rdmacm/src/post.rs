//! Letters: management datagrams between this host and others, and which conversation each belongs to.
//!
//! Queue pair 1 is the host's and not a process's (`verbena_hca::roce::management`). What belongs to a conversation comes
//! straight to the process that has it, by the number that the process gave to it. What begins one comes to any process,
//! and that one hands it to whoever listens at the port that is asked for, over the same socket by which processes of this
//! host call ([`crate::port`]): so a listener that has died is no listener, and one that is stopped keeps nobody else
//! waiting. If nobody listens, whoever had the letter says so.
//!
//! A process that never uses the connection manager has one all the same over RoCE, from the first letter on that it
//! comes by.

use crate::address;
use crate::alarm::Alarm;
use crate::arrival;
use crate::conversation::Conversation;
use crate::correspondence::{Correspondence, Due, Heard};
use crate::event::{Event, Kind as EventKind};
use crate::line::Line;
use crate::mad::{self, Envelope, Numbers};
use crate::message::{self, Kind, Message};
use crate::service::{Service, State};
use crate::stage::Stage;
use crate::thread::Source;
use crate::way::{Way, mapped};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use verbena_hca::errno::{Errno, Result};
use verbena_hca::link;
use verbena_hca::process::Process;
use verbena_hca::roce::management::{Letter, SLOT_BITS};
use verbena_hca::sys::clock;
use verbena_hca::sys::doorbell::Doorbell;
use verbena_wire::mad::cm::{self, Rejected};

/// Letters that may lie in the box. Those beyond it are lost, as datagrams are, and sent again.
const MOST: usize = 4096;
/// Requests that may wait for somebody to listen.
const MOST_UNCLAIMED: usize = 256;
/// How long they do: as long as one of this host would look for its listener.
const PATIENCE: u64 = 200_000_000;
/// How often they are offered again.
const ROUND: u64 = 10_000_000;
/// How often the hosts of peers are probed. A process that is killed tells nobody, and one that only waits for it would
/// wait for ever; a kernel would disconnect for it. What can be seen from here is that its host has no RoCE port any more,
/// that is, that it was the last process there on the adapter.
const PROBING: u64 = 2_000_000_000;
/// How long a request may be on its way that was sent again before it was answered.
const MEMORY: u64 = 4_000_000_000;

/// The box that letters lie in until the thread takes them.
pub struct Letterbox {
    letters: Mutex<VecDeque<Letter>>,
    bell: Doorbell,
}

impl Letterbox {
    /// An empty one.
    ///
    /// # Errors
    /// What eventfd(2) says.
    pub fn new() -> Result<Letterbox> {
        Ok(Letterbox {
            letters: Mutex::default(),
            bell: Doorbell::new()?,
        })
    }

    /// Has the thread look into it, if letters can come.
    ///
    /// # Errors
    /// As [`crate::thread::Watch::add`].
    pub fn open(&self, state: &mut State) -> Result<()> {
        match link::interface() {
            Some(_) => state.watch.add(&self.bell, Source::Post),
            None => Ok(()),
        }
    }

    fn put(&self, letter: Letter) {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        if letters.len() < MOST {
            letters.push_back(letter);
            self.bell.ring();
        }
    }

    /// Empties it.
    pub fn take(&self) -> VecDeque<Letter> {
        self.bell.clear();
        std::mem::take(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What the adapter calls with every management datagram: it only puts it into the box.
pub fn deliver(letter: Letter) {
    if let Ok(service) = Service::current() {
        service.letterbox.put(letter);
    }
}

/// What a process knows of its correspondences.
#[derive(Default)]
pub struct Office {
    /// Whose they are, by our numbers.
    owners: HashMap<u32, u32>,
    /// Those whose identifier is gone, and that have asked to disconnect.
    farewells: HashMap<u32, Correspondence>,
    /// Those that others began and that are over, with the end of the time in which the request may come again.
    ended: VecDeque<(u64, Ipv6Addr, u32)>,
    /// Requests that nobody listens for, and until when they wait.
    unclaimed: Vec<(u64, Letter)>,
    /// Whether the alarm is set that probes the hosts of peers.
    probes: bool,
    /// Numbers given out.
    count: u32,
}

impl Office {
    /// A correspondence is over, whatever the peer believes.
    pub fn forget(&mut self, correspondence: &Correspondence) {
        self.owners.remove(&correspondence.number());
        if self.ended.len() == MOST {
            self.ended.pop_front();
        }
        let (address, number) = (correspondence.address(), correspondence.remote_number());
        let until = clock::now() + MEMORY;
        self.ended.push_back((until, address, number));
    }

    /// Whether a request is late: of a correspondence that is over.
    pub fn is_late(&mut self, letter: &Letter, number: u32) -> bool {
        let now = clock::now();
        while self.ended.front().is_some_and(|(until, ..)| *until <= now) {
            self.ended.pop_front();
        }
        let mut ended = self.ended.iter();
        ended.any(|(_, address, called)| (*address, *called) == (letter.source, number))
    }
}

fn send(letter: &Letter) {
    if let Ok(process) = Process::current() {
        // What cannot leave is lost, as datagrams are.
        let _ = process.send_management(letter);
    }
}

impl State {
    /// A number for a correspondence of identifier `owner`, by which letters come to this process.
    ///
    /// # Errors
    /// ENODEV without a port over which other hosts are reached.
    pub fn number_correspondence(&mut self, owner: u32) -> Result<u32> {
        let slot = Process::current()?.management_slot()?;
        let Office { owners, count, .. } = &mut self.office;
        if *count == 0 {
            // Late letters to a process that had our slot shall find nobody.
            *count = crate::port::random_word();
        }
        loop {
            *count = count.wrapping_add(SLOT_BITS + 1);
            let number = *count & !SLOT_BITS | slot;
            if number != 0 && !owners.contains_key(&number) {
                owners.insert(number, owner);
                return Ok(number);
            }
        }
    }

    /// Begins a correspondence of an identifier.
    pub fn correspond(&mut self, owner: u32, correspondence: Correspondence) {
        if let Some(identifier) = self.identifiers.get_mut(owner) {
            identifier.line = Some(Line::Distant(Box::new(correspondence)));
        }
        if !std::mem::replace(&mut self.office.probes, true) {
            self.set_alarm(clock::now() + PROBING, Alarm::Probe);
        }
    }

    /// Asks the hosts of those that we are connected with whether they still have a RoCE port.
    pub fn probe_peers(&mut self) {
        self.note_failures();
        let peers: BTreeSet<([u8; 16], [u8; 16])> = self
            .correspondences()
            .filter(|(_, of)| of.is_connected())
            .map(|(_, of)| (of.way().source, of.way().destination))
            .collect();
        if let Ok(process) = Process::current() {
            for (source, destination) in peers {
                // What cannot leave is asked for the next time.
                let _ = process.probe_port(source.into(), destination.into());
            }
        }
        self.office.probes = !self.office.owners.is_empty();
        if self.office.probes {
            self.set_alarm(clock::now() + PROBING, Alarm::Probe);
        }
    }

    /// Says something in a correspondence.
    pub(crate) fn write(&mut self, owner: u32, message: &Message) -> Result<()> {
        let line = self
            .identifiers
            .get_mut(owner)
            .and_then(|of| of.line.as_mut());
        let correspondence = line.and_then(Line::correspondence).ok_or(Errno::EINVAL)?;
        let letter = correspondence.say(message, clock::now())?;
        let (number, deadline) = (correspondence.number(), correspondence.deadline());
        send(&letter);
        self.remind(number, deadline);
        Ok(())
    }

    fn remind(&mut self, number: u32, deadline: Option<u64>) {
        if let Some(deadline) = deadline {
            self.set_alarm(deadline, Alarm::Correspondence(number));
        }
    }

    /// An identifier in `stage` is gone, and its peer is to know.
    pub fn take_leave(&mut self, stage: Stage, mut correspondence: Correspondence) {
        let number = correspondence.number();
        self.office.forget(&correspondence);
        match stage {
            Stage::Established if correspondence.is_connected() => {
                if let Ok(letter) = correspondence.say(&Message::bare(Kind::Dreq), clock::now()) {
                    send(&letter);
                }
            }
            Stage::Disconnecting => (),
            _ => {
                if let Some(letter) = correspondence.break_off() {
                    send(&letter);
                }
            }
        }
        if correspondence.is_waiting() {
            self.remind(number, correspondence.deadline());
            self.office.farewells.insert(number, correspondence);
        }
    }

    /// Whether everybody has heard that we have left.
    pub fn has_left(&self) -> bool {
        self.office.farewells.is_empty()
    }

    /// A letter has come.
    pub fn take_letter(&mut self, letter: Letter) {
        let Some((transaction, message)) = mad::read(&letter.mad) else {
            return;
        };
        let ours = match &message {
            cm::Message::Req(_) | cm::Message::SidrReq(_) => {
                self.offer(letter, clock::now() + PATIENCE);
                return;
            }
            cm::Message::Mra(mra) => mra.remote_comm_id,
            cm::Message::Rej(rej) => rej.remote_comm_id,
            cm::Message::Rep(rep) => rep.remote_comm_id,
            cm::Message::Rtu(rtu) => rtu.remote_comm_id,
            cm::Message::Dreq(dreq) => dreq.remote_comm_id,
            cm::Message::Drep(drep) => drep.remote_comm_id,
            cm::Message::SidrRep(rep) => rep.request_id,
        };
        if !self.hear(ours, &letter, &message) && is_of_this_process(ours) {
            answer_for_nobody(&letter, transaction, &message);
        }
    }

    /// Hears a letter in the correspondence that has a number of ours. False when there is none.
    fn hear(&mut self, number: u32, letter: &Letter, message: &cm::Message<'_>) -> bool {
        let now = clock::now();
        let owner = self.office.owners.get(&number).copied();
        let line = owner
            .and_then(|owner| self.identifiers.get_mut(owner))
            .and_then(|identifier| identifier.line.as_mut());
        let (heard, deadline, way) = match line.and_then(Line::correspondence) {
            Some(correspondence) => {
                let heard = correspondence.hear(letter.source, message, now);
                (heard, correspondence.deadline(), *correspondence.way())
            }
            None => return self.hear_farewell(number, letter, message, now),
        };
        self.remind(number, deadline);
        match (heard, owner) {
            (Heard::Message(told), Some(owner)) => arrival::receive(self, owner, &told),
            (Heard::Again(again), Some(owner)) => {
                send(&again);
                if let Some(identifier) = self.identifiers.get_mut(owner) {
                    // What was asked for may have been less this time.
                    identifier.way = way;
                }
            }
            _ => (),
        }
        true
    }

    fn hear_farewell(
        &mut self,
        number: u32,
        letter: &Letter,
        message: &cm::Message<'_>,
        now: u64,
    ) -> bool {
        let Some(farewell) = self.office.farewells.get_mut(&number) else {
            return false;
        };
        let heard = farewell.hear(letter.source, message, now);
        if let Heard::Message(told) = &heard {
            if told.kind == Kind::Dreq
                && let Ok(answer) = farewell.say(&Message::bare(Kind::Drep), now)
            {
                send(&answer);
            }
            self.office.farewells.remove(&number);
        }
        true
    }

    /// Offers a request to whoever listens for it.
    fn offer(&mut self, letter: Letter, deadline: u64) {
        let Some((transaction, message)) = mad::read(&letter.mad) else {
            return;
        };
        let request = mad::request(transaction, &message);
        let Some(request) = request.filter(|of| mapped(of.destination.ip()) == letter.destination)
        else {
            return decline(&letter);
        };
        match self.ports.connect(request.space, request.destination) {
            Ok(stream) => {
                if let Ok(mut line) = Conversation::new(stream) {
                    // One that does not take it has just gone; the request comes again.
                    let _ = line.hand_on(&letter);
                }
            }
            Err(Errno(libc::ECONNREFUSED)) if clock::now() < deadline => {
                let unclaimed = &mut self.office.unclaimed;
                if unclaimed.len() < MOST_UNCLAIMED {
                    unclaimed.push((deadline, letter));
                    self.set_alarm(clock::now() + ROUND, Alarm::Unclaimed);
                }
            }
            Err(Errno(libc::ECONNREFUSED)) => decline(&letter),
            // It does not keep up, or we have no descriptors: the request comes again.
            Err(_) => (),
        }
    }

    /// Offers what nobody has claimed again.
    pub fn offer_unclaimed(&mut self) {
        for (deadline, letter) in std::mem::take(&mut self.office.unclaimed) {
            self.offer(letter, deadline);
        }
    }

    /// Says again what is due in a correspondence, or gives it up.
    pub fn tend_correspondence(&mut self, number: u32, now: u64) {
        self.note_failures();
        let Some((due, deadline)) = self.with(number, |correspondence| {
            (correspondence.due(now), correspondence.deadline())
        }) else {
            return;
        };
        self.remind(number, deadline.filter(|_| matches!(due, Due::Again(_))));
        self.carry_out(number, due);
    }

    /// Does something with the correspondence that has a number of ours, if there is one.
    fn with<T>(&mut self, number: u32, body: impl FnOnce(&mut Correspondence) -> T) -> Option<T> {
        if let Some(farewell) = self.office.farewells.get_mut(&number) {
            return Some(body(farewell));
        }
        let owner = *self.office.owners.get(&number)?;
        let line = self.identifiers.get_mut(owner)?.line.as_mut()?;
        line.correspondence().map(body)
    }

    /// What the network says of what has not arrived.
    fn note_failures(&mut self) {
        let Ok(process) = Process::current() else {
            return;
        };
        for (whom, why) in process.take_management_failures() {
            let farewells = self.office.farewells.keys();
            let numbers: Vec<u32> = self
                .office
                .owners
                .keys()
                .chain(farewells)
                .copied()
                .collect();
            for number in numbers {
                let due = self.with(number, |correspondence| {
                    match correspondence.address() == whom {
                        true => correspondence.note_failure(why),
                        false => Due::Nothing,
                    }
                });
                self.carry_out(number, due.unwrap_or(Due::Nothing));
            }
        }
    }

    fn carry_out(&mut self, number: u32, due: Due) {
        match due {
            Due::Nothing => (),
            Due::Again(letter) => send(&letter),
            Due::Gone => {
                if let Some(owner) = self.office.owners.get(&number).copied() {
                    self.lost(owner);
                }
            }
            Due::GivenUp(kind, why) => {
                self.office.farewells.remove(&number);
                if let Some(owner) = self.office.owners.get(&number).copied() {
                    self.unanswered(owner, kind, why);
                }
            }
        }
    }

    /// Nobody has answered what an identifier has said (events and their status as Linux' rdma_cm has them).
    fn unanswered(&mut self, owner: u32, kind: Kind, why: Errno) {
        let Some(identifier) = self.identifiers.get_mut(owner) else {
            return;
        };
        if kind == Kind::Dreq {
            self.raise(owner, Event::plain(EventKind::Disconnected, -why.0));
            self.begin_time_wait(owner);
        } else {
            identifier.stage = Stage::Over;
            self.raise(owner, Event::plain(EventKind::Unreachable, -why.0));
        }
    }

    /// The correspondence of this host with somebody who calls it so, if there is one already.
    pub fn correspondence_called(&self, letter: &Letter, number: u32) -> Option<u32> {
        self.correspondences()
            .find(|(_, of)| of.is_called(letter.source, number))
            .map(|(_, of)| of.number())
    }

    /// The identifier that is connected with a queue pair.
    pub fn connected_with(&self, guid: u64, queue_pair: u32) -> Option<u32> {
        let connected = self.correspondences().find(|(owner, of)| {
            let identifier = self.identifiers.get(*owner);
            of.is_with(guid, queue_pair) && identifier.is_some_and(|of| of.stage.is_connected())
        });
        connected.map(|(owner, _)| owner)
    }

    fn correspondences(&self) -> impl Iterator<Item = (u32, &Correspondence)> {
        self.office.owners.values().filter_map(|owner| {
            match self.identifiers.get(*owner)?.line.as_ref()? {
                Line::Distant(correspondence) => Some((*owner, &**correspondence)),
                Line::Neighbour(_) => None,
            }
        })
    }

    /// A request has come again that there is a correspondence about.
    pub fn hear_again(&mut self, number: u32, letter: &Letter) {
        if let Some((_, message)) = mad::read(&letter.mad) {
            self.hear(number, letter, &message);
        }
    }
}

/// Whether we have given a number, or could have. Datagrams of one sender that come close together the kernel may give to
/// one socket, whomever each is for; what is another process's is lost then, and sent again.
fn is_of_this_process(number: u32) -> bool {
    let process = Process::current();
    process.is_ok_and(|process| process.has_management_slot(number & SLOT_BITS))
}

/// The answer to what is about no conversation of ours: who wants to end one is told that there is none, and who offers
/// one that it is not wanted.
fn answer_for_nobody(letter: &Letter, transaction: u64, message: &cm::Message<'_>) {
    match *message {
        cm::Message::Dreq(dreq) => {
            let numbers = Numbers {
                local: dreq.remote_comm_id,
                remote: dreq.local_comm_id,
                transaction,
            };
            reply(letter, numbers, Rejected::Other, &Message::bare(Kind::Drep));
        }
        cm::Message::Rep(rep) => {
            let numbers = Numbers {
                local: rep.remote_comm_id,
                remote: rep.local_comm_id,
                transaction,
            };
            reply(
                letter,
                numbers,
                Rejected::Rep,
                &rejection(message::INVALID_NUMBER),
            );
        }
        _ => (),
    }
}

/// The answer to a request that nobody listens for.
fn decline(letter: &Letter) {
    refuse(letter, message::INVALID_SERVICE, &[]);
}

/// Refuses a request, for a reason of a REJ, with what would help. A request for a datagram service has reasons of its
/// own, of which one is meant: that there is no such service.
pub fn refuse(letter: &Letter, reason: u32, helpful: &[u8]) {
    let Some((transaction, request)) = mad::read(&letter.mad) else {
        return;
    };
    match request {
        cm::Message::Req(req) => {
            let numbers = Numbers {
                local: 0,
                remote: req.local_comm_id,
                transaction,
            };
            let way = Way::home();
            let envelope = envelope(numbers, &way, Rejected::Req);
            if let Some(mad) = envelope.rejection(reason as u16, helpful, &[]) {
                send(&back(letter, mad));
            }
        }
        cm::Message::SidrReq(req) => {
            let numbers = Numbers {
                local: 0,
                remote: req.request_id,
                transaction,
            };
            let unsupported = Message {
                status: message::SIDR_UNSUPPORTED,
                ..Message::bare(Kind::SidrRep)
            };
            reply(letter, numbers, Rejected::Req, &unsupported);
        }
        _ => (),
    }
}

fn reply(letter: &Letter, numbers: Numbers, refused: Rejected, message: &Message) {
    let way = Way::home();
    if let Some(mad) = envelope(numbers, &way, refused).write(message) {
        send(&back(letter, mad));
    }
}

fn envelope(numbers: Numbers, way: &Way, refused: Rejected) -> Envelope<'_> {
    Envelope {
        numbers,
        way,
        service: 0,
        refused,
        remote_queue_pair: 0,
    }
}

fn rejection(reason: u32) -> Message {
    Message {
        status: reason,
        ..Message::bare(Kind::Rej)
    }
}

/// To whom a letter is from.
fn back(letter: &Letter, mad: mad::Bytes) -> Letter {
    Letter {
        source: letter.destination,
        destination: letter.source,
        mad,
    }
}

/// The way of a request, from its receiver's side.
///
/// # Errors
/// As [`Way::between`].
pub fn way_of(request: &mad::Request) -> Result<Way> {
    let source: Option<SocketAddr> = address::parse(&request.message.source)?;
    let peer = source.ok_or(Errno::EINVAL)?;
    let way = Way::between(request.destination, peer)?;
    Ok(match request.connection {
        Some(proposal) => Way {
            mtu: proposal.mtu,
            ack_timeout: proposal.ack_timeout,
            ..way
        },
        None => way,
    })
}
