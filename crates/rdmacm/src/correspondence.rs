//! One side of a conversation with another host: what is said leaves as datagrams, which may be lost or doubled, and is
//! heard once and in order.
//!
//! No I/O and no clock: what leaves is given back, and time is an argument. The law (specification 12.9 and 12.10):
//! - What needs an answer (REQ, REP, DREQ, SIDR_REQ) is sent again until it comes, [`mad::RETRIES`] times or as often as
//!   the peer asks for, and then given up. Between two times lies at most what the peer was promised for its answer; at
//!   first less, for what is sent too often is only answered too often, and a loss costs less.
//! - An MRA asks for patience: then nothing is sent for a while, and whoever asks so lives, so the count begins anew.
//! - What answers (RTU, DREP, SIDR_REP, and REP) is said again when the question comes again; as long as there is no
//!   answer to a question yet, an MRA is.
//! - A request that nobody listens for, or answers for a while, is made at the host's private ports as well, if it has any;
//!   if nobody there listens either, what was said first is the answer.
//! - A message from elsewhere, of another conversation, or out of turn is dropped.

use crate::device::PACKET_LIFE_TIME;
use crate::mad::{self, Bytes, Envelope, Numbers, Proposal, RESPONSE_TIMEOUT, RETRIES};
use crate::message::{INVALID_SERVICE, Kind, Message, SIDR_UNSUPPORTED};
use crate::way::Way;
use std::net::Ipv6Addr;
use verbena_hca::errno::{Errno, Result};
use verbena_hca::link;
use verbena_hca::roce::management::Letter;
use verbena_hca::roce::residence::Residence;
use verbena_hca::sys::udp::Address;
use verbena_wire::Mtu;
use verbena_wire::Qpn;
use verbena_wire::mad::cm::{self, Rejected};

/// How soon something is sent again at first.
const FIRST_PAUSE: u64 = 250_000_000;
/// Words of the peer's host that nobody is there for RoCE before they are believed: somebody may be about to be.
const REFUSALS: u32 = 3;
/// What is added to the number of a request's transaction when it is made elsewhere, so that answers can be told apart.
const ANEW: u64 = 1 << 24;
/// How often a request is made again without an answer before other ports are sought as well.
const SILENCES: u8 = 2;
/// Reason of a REJ of a queue pair that the peer believes to be connected with.
pub const STALE_CONNECTION: u32 = 10;
/// How many of those are not taken for the last word.
const STALE_ANSWERS: u32 = 3;
/// Reason of a REJ that is about the path's MTU. It says which one is good.
pub const INVALID_MTU: u32 = 26;
/// Reason of a REJ from one who has waited in vain.
const TIMEOUT: u16 = 4;

/// The conversation.
pub struct Correspondence {
    numbers: Numbers,
    service: u64,
    way: Way,
    /// Whom the peer is known by beside its number: its adapter and its queue pair. Of who asked us.
    peer: Option<(u64, u32)>,
    remote_queue_pair: u32,
    /// Our own queue pair, which the peer names to end the connection.
    queue_pair: u32,
    patience: Patience,
    awaiting: Option<Awaiting>,
    /// What was said last that answers, and to what.
    answered: Option<(Kind, Bytes)>,
    /// What was asked that nobody has answered yet.
    unanswered: Option<Kind>,
    /// Where somebody called from. It counts as long as no queue pair of his is known, whose number would say.
    origin: Residence,
    /// Where a request is made.
    door: Door,
    /// Times that the peer's host has said, since the peer was heard last, that it has no RoCE port.
    refusals: u32,
    /// What was asked for first, to ask for less.
    request: Option<Box<Message>>,
}

/// Where a request is made. It goes to the port at which everybody is sought; and if nobody there listens, to those of
/// adapters like this one that are at private ports of the same host ([`verbena_hca::roce::residence`]).
#[derive(Debug)]
enum Door {
    /// At the public port.
    Public,
    /// The host is asked for private ports, because of that.
    Sought(Verdict),
    /// At a private one. There may be others to be tried, and this is what came of the public one.
    Private(Residence, Vec<Residence>, Verdict),
    /// At the public port, after all.
    Last,
}

/// What came of a request at the public port.
#[derive(Debug)]
enum Verdict {
    /// Nobody listens.
    Refused(Box<Message>),
    /// The host says that nobody has the port.
    Unreached(Kind, Errno),
    /// Nothing yet.
    Silence,
}

/// How long and how often the peer is asked.
#[derive(Clone, Copy, Debug)]
struct Patience {
    longest: u64,
    retries: u8,
}

impl Patience {
    /// Of one who promises an answer in that time: 4.096 us * 2^n. A packet's way there and back comes to it.
    fn with(response_timeout: u8, retries: u8) -> Patience {
        Patience {
            longest: (4096 << response_timeout) + (4096 << (PACKET_LIFE_TIME + 1)),
            retries,
        }
    }
}

/// A message that waits for its answer.
struct Awaiting {
    kind: Kind,
    bytes: Bytes,
    left: u8,
    pause: u64,
    next: u64,
    stale: u32,
}

/// What came of something heard.
#[derive(Debug, PartialEq)]
pub enum Heard {
    /// A message for whom the conversation is.
    Message(Box<Message>),
    /// It is to be answered with this again.
    Again(Box<Letter>),
    /// Nobody listens where the request was made.
    Elsewhere(Box<Due>),
    /// Nothing.
    Nothing,
}

/// What came of time.
#[derive(Debug, PartialEq)]
pub enum Due {
    /// It is to be said again.
    Again(Box<Letter>),
    /// Nobody has answered this, for all the times that it was said, and will not. Why.
    GivenUp(Kind, Errno),
    /// There is nobody any more at the other end of the connection.
    Gone,
    /// The host is to be asked for its private ports ([`Correspondence::try_doors`]); and this said again meanwhile.
    Seek(Option<Box<Letter>>),
    /// Nobody there listens, and this was the answer.
    Refused(Box<Message>),
    /// Nothing yet.
    Nothing,
}

impl Correspondence {
    /// With somebody whom we call, for a service.
    pub fn to(local: u32, service: u64, way: Way) -> Correspondence {
        let numbers = Numbers {
            local,
            remote: 0,
            // Two conversations have different numbers of ours at a time; with the service's it is good enough.
            transaction: u64::from(local) << 32 | service & 0xffff_ffff,
        };
        Correspondence::begin(numbers, service, way)
    }

    /// With somebody who calls.
    pub fn of(local: u32, request: &mad::Request, service: u64, way: Way) -> Correspondence {
        let numbers = Numbers {
            local,
            remote: request.number,
            transaction: request.transaction,
        };
        let mut correspondence = Correspondence::begin(numbers, service, way);
        correspondence.unanswered = Some(request.message.kind);
        if let Some(Proposal {
            guid,
            response_timeout,
            retries,
            ..
        }) = request.connection
        {
            correspondence.peer = Some((guid, request.message.queue_pair));
            correspondence.remote_queue_pair = request.message.queue_pair;
            correspondence.patience = Patience::with(response_timeout, retries);
        }
        correspondence
    }

    /// The same with one who called from that port of his.
    pub fn called_from(self, origin: Residence) -> Correspondence {
        Correspondence { origin, ..self }
    }

    fn begin(numbers: Numbers, service: u64, way: Way) -> Correspondence {
        Correspondence {
            numbers,
            service,
            way,
            peer: None,
            remote_queue_pair: 0,
            queue_pair: 0,
            patience: Patience::with(RESPONSE_TIMEOUT, RETRIES),
            awaiting: None,
            answered: None,
            unanswered: None,
            origin: Residence::PUBLIC,
            door: Door::Public,
            refusals: 0,
            request: None,
        }
    }

    /// Our number of it.
    pub fn number(&self) -> u32 {
        self.numbers.local
    }

    /// The peer's; 0 as long as it is not known.
    pub fn remote_number(&self) -> u32 {
        self.numbers.remote
    }

    /// The way.
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// The address at the other end.
    pub fn address(&self) -> Ipv6Addr {
        self.way.destination.into()
    }

    /// At which port the other end is reached, if it is an adapter like this one.
    pub fn residence(&self) -> Residence {
        match (self.remote_queue_pair, &self.door) {
            (0, Door::Private(residence, ..)) => *residence,
            (0, _) => self.origin,
            (number, _) => Residence::of_number(Qpn::new(number)),
        }
    }

    /// Whether a datagram that did not arrive was of it. A host that refuses one port may have others.
    pub fn concerns(&self, whom: Address, why: Errno) -> bool {
        let is_at_port = why != Errno(libc::ECONNREFUSED) || whom.port == self.residence().port();
        self.address() == whom.ip && is_at_port
    }

    /// Whether it is the one that somebody at an address calls so.
    pub fn is_called(&self, address: Ipv6Addr, number: u32) -> bool {
        self.address() == address && self.numbers.remote == number
    }

    /// Whether it is with this queue pair of this adapter.
    pub fn is_with(&self, guid: u64, queue_pair: u32) -> bool {
        self.peer == Some((guid, queue_pair))
    }

    /// Whether it is about a connection: a datagram service only answers.
    pub fn is_connected(&self) -> bool {
        self.peer.is_some()
    }

    /// Whether an answer is still to come.
    pub fn is_waiting(&self) -> bool {
        self.awaiting.is_some()
    }

    /// When something is to be done again.
    pub fn deadline(&self) -> Option<u64> {
        self.awaiting.as_ref().map(|awaiting| awaiting.next)
    }

    /// Says something.
    ///
    /// # Errors
    /// EINVAL for what cannot be said.
    pub fn say(&mut self, message: &Message, now: u64) -> Result<Letter> {
        let bytes = self.envelope().write(message).ok_or(Errno::EINVAL)?;
        if matches!(message.kind, Kind::Req | Kind::Rep) {
            self.queue_pair = message.queue_pair;
        }
        match message.kind {
            Kind::Req | Kind::SidrReq | Kind::Rep | Kind::Dreq => {
                self.awaiting = Some(Awaiting {
                    kind: message.kind,
                    bytes,
                    left: self.patience.retries,
                    pause: FIRST_PAUSE.min(self.patience.longest),
                    next: now + FIRST_PAUSE.min(self.patience.longest),
                    stale: 0,
                });
            }
            Kind::Rej => self.awaiting = None,
            Kind::Rtu | Kind::Drep | Kind::SidrRep => (),
        }
        match (message.kind, self.unanswered.take()) {
            (Kind::Req | Kind::SidrReq, _) => self.request = Some(Box::new(*message)),
            (_, Some(question)) => self.answered = Some((question, bytes)),
            (_, None) => (),
        }
        Ok(self.letter(bytes))
    }

    /// Hears a datagram: from an address, read as `message` of a transaction.
    pub fn hear(
        &mut self,
        from: Ipv6Addr,
        transaction: u64,
        message: &cm::Message<'_>,
        now: u64,
    ) -> Heard {
        if from != self.address() || !self.is_addressed_by(message) {
            return Heard::Nothing;
        }
        self.refusals = 0;
        if let cm::Message::Mra(mra) = message {
            self.be_patient(mra, now);
            return Heard::Nothing;
        }
        let Some(told) = mad::answer(message) else {
            return self.asked_again();
        };
        if let cm::Message::Rej(rej) = message
            && let Some(heard) = self.try_otherwise(rej, now)
        {
            return heard;
        }
        let awaited = self.awaiting.as_ref().map(|awaiting| awaiting.kind);
        if says_that_nobody_listens(message, awaited) {
            // At a port that was asked before and has been slow.
            if transaction != self.numbers.transaction {
                return Heard::Nothing;
            }
            let due = self.turn_away(Verdict::Refused(Box::new(told)), now);
            return Heard::Elsewhere(Box::new(due));
        }
        match (told.kind, awaited) {
            (Kind::Rep, Some(Kind::Req)) => {
                if let cm::Message::Rep(rep) = message {
                    self.numbers.remote = rep.local_comm_id;
                    self.remote_queue_pair = rep.qpn.value();
                    self.peer = Some((rep.ca_guid, rep.qpn.value()));
                }
                self.unanswered = Some(Kind::Rep);
            }
            (Kind::Rep, _) => return self.asked_again(),
            (Kind::SidrRep, Some(Kind::SidrReq)) | (Kind::Rtu, Some(Kind::Rep)) => (),
            // A late word on a request that was granted meanwhile is not meant any more.
            (Kind::Rej, awaited) if !refuses(message, awaited) => return Heard::Nothing,
            (Kind::Rej, _) => (),
            (Kind::Drep, Some(Kind::Dreq)) => (),
            (Kind::Dreq, _) if self.has_answered(Kind::Dreq) => return self.asked_again(),
            // While we wait for an RTU it says as much.
            (Kind::Dreq, Some(Kind::Rep | Kind::Dreq) | None) => {
                self.unanswered = Some(Kind::Dreq);
            }
            _ => return Heard::Nothing,
        }
        self.awaiting = None;
        Heard::Message(Box::new(told))
    }

    /// What is due at a time.
    pub fn due(&mut self, now: u64) -> Due {
        let longest = self.patience.longest;
        let Some(awaiting) = self.awaiting.as_mut().filter(|of| of.next <= now) else {
            return Due::Nothing;
        };
        if awaiting.left == 0 {
            return self.give_up(Errno(libc::ETIMEDOUT));
        }
        awaiting.left -= 1;
        awaiting.pause = longest.min(2 * awaiting.pause);
        awaiting.next = now + awaiting.pause;
        let (bytes, kind) = (awaiting.bytes, awaiting.kind);
        let times = self.patience.retries - awaiting.left;
        let again = Box::new(self.letter(bytes));
        let is_first = matches!(self.door, Door::Public);
        if is_first && times == SILENCES && matches!(kind, Kind::Req | Kind::SidrReq) {
            self.door = Door::Sought(Verdict::Silence);
            return Due::Seek(Some(again));
        }
        Due::Again(again)
    }

    /// A request has come to nobody.
    fn turn_away(&mut self, verdict: Verdict, now: u64) -> Due {
        match std::mem::replace(&mut self.door, Door::Last) {
            Door::Public => {
                self.awaiting = None;
                self.door = Door::Sought(verdict);
                Due::Seek(None)
            }
            // It was silent until now, and is being asked for already.
            Door::Sought(Verdict::Silence) => {
                self.awaiting = None;
                self.door = Door::Sought(verdict);
                Due::Nothing
            }
            sought @ Door::Sought(_) => {
                self.door = sought;
                Due::Nothing
            }
            Door::Private(_, left, first) => self.try_next(left, first, now),
            Door::Last => self.pronounce(verdict, now),
        }
    }

    /// The host has adapters like this one at these private ports.
    pub fn try_doors(&mut self, mut doors: Vec<Residence>, now: u64) -> Due {
        match std::mem::replace(&mut self.door, Door::Last) {
            Door::Sought(Verdict::Silence) if doors.is_empty() => Due::Nothing,
            Door::Sought(verdict) => {
                // The first is to be tried first.
                doors.reverse();
                self.try_next(doors, verdict, now)
            }
            // It has been answered meanwhile.
            door => {
                self.door = door;
                Due::Nothing
            }
        }
    }

    fn try_next(&mut self, mut left: Vec<Residence>, verdict: Verdict, now: u64) -> Due {
        match left.pop() {
            Some(next) => {
                self.door = Door::Private(next, left, verdict);
                self.ask_anew(now)
            }
            None => self.pronounce(verdict, now),
        }
    }

    /// There is nobody at other ports.
    fn pronounce(&mut self, verdict: Verdict, now: u64) -> Due {
        self.awaiting = None;
        match verdict {
            Verdict::Refused(answer) => Due::Refused(answer),
            Verdict::Unreached(kind, why) => Due::GivenUp(kind, why),
            Verdict::Silence => self.ask_anew(now),
        }
    }

    /// Makes the request again, as if for the first time.
    fn ask_anew(&mut self, now: u64) -> Due {
        self.refusals = 0;
        self.numbers.transaction = self.numbers.transaction.wrapping_add(ANEW);
        let request = self.request.clone();
        let letter = request.and_then(|request| self.say(&request, now).ok());
        letter.map_or(Due::Nothing, |letter| Due::Again(Box::new(letter)))
    }

    /// The network says that what was sent did not arrive.
    pub fn note_failure(&mut self, why: Errno, now: u64) -> Due {
        self.refusals += u32::from(why.0 == libc::ECONNREFUSED);
        let awaited = self.awaiting.as_ref().map(|awaiting| awaiting.kind);
        match (why.0, awaited) {
            // Its host has no RoCE port any more: then neither has it a connection.
            (libc::ECONNREFUSED, Some(Kind::Dreq)) => self.give_up(why),
            (libc::ECONNREFUSED, Some(kind @ (Kind::Req | Kind::SidrReq)))
                if self.refusals >= REFUSALS =>
            {
                self.turn_away(Verdict::Unreached(kind, why), now)
            }
            (libc::ECONNREFUSED, Some(_)) if self.refusals >= REFUSALS => self.give_up(why),
            (libc::ECONNREFUSED, None) if self.refusals >= REFUSALS && self.is_connected() => {
                Due::Gone
            }
            // As the kernel's own resolution of the address would have ended.
            (libc::EHOSTUNREACH | libc::ENETUNREACH, Some(_)) => self.give_up(why),
            _ => Due::Nothing,
        }
    }

    fn give_up(&mut self, why: Errno) -> Due {
        match self.awaiting.take() {
            Some(awaiting) => Due::GivenUp(awaiting.kind, why),
            None => Due::Nothing,
        }
    }

    /// Ends it before it has come to a connection: what the peer may still believe is not so.
    pub fn break_off(&mut self) -> Option<Letter> {
        let letter = self.breach();
        self.awaiting = None;
        letter
    }

    /// What there would be to say if its connection ended now.
    pub fn disconnection(&self) -> Option<Letter> {
        let bytes = self.envelope().write(&Message::bare(Kind::Dreq));
        bytes.map(|bytes| self.letter(bytes))
    }

    /// What there would be to say if it ended now and had not come to a connection.
    pub fn breach(&self) -> Option<Letter> {
        let awaited = self.awaiting.as_ref().map(|awaiting| awaiting.kind);
        let bytes = match (awaited, self.unanswered) {
            (Some(Kind::Req), _) => {
                let guid = self.way.device().0.guid().to_be_bytes();
                self.envelope_refusing(Rejected::Other)
                    .rejection(TIMEOUT, &guid, &[])
            }
            (Some(Kind::Rep), _) => self
                .envelope_refusing(Rejected::Other)
                .write(&refusal(Kind::Rej)),
            (None, Some(Kind::Req | Kind::Rep)) => self.envelope().write(&refusal(Kind::Rej)),
            (None, Some(Kind::SidrReq)) => self.envelope().write(&refusal(Kind::SidrRep)),
            _ => None,
        };
        bytes.map(|bytes| self.letter(bytes))
    }

    /// A question has come again: the answer to it once more, or the request to wait for one.
    fn asked_again(&self) -> Heard {
        let bytes = match (&self.unanswered, &self.answered) {
            (Some(Kind::Req), _) => self.envelope_refusing(Rejected::Req).patience(),
            (Some(Kind::Rep), _) => self.envelope_refusing(Rejected::Rep).patience(),
            (Some(_), _) | (None, None) => None,
            (None, Some((_, bytes))) => Some(*bytes),
        };
        match bytes {
            Some(bytes) => Heard::Again(Box::new(self.letter(bytes))),
            None => Heard::Nothing,
        }
    }

    fn has_answered(&self, question: Kind) -> bool {
        self.unanswered.is_none()
            && self
                .answered
                .as_ref()
                .is_some_and(|(answered, _)| *answered == question)
    }

    /// Of a message to us, whether it names this conversation as the peer does.
    fn is_addressed_by(&self, message: &cm::Message<'_>) -> bool {
        let remote = self.numbers.remote;
        match message {
            cm::Message::Req(req) => req.local_comm_id == remote,
            cm::Message::SidrReq(req) => req.request_id == remote,
            // Its sender is about to tell us its number.
            cm::Message::Rep(rep) => remote == 0 || rep.local_comm_id == remote,
            // Who refuses a request may have given it no number.
            cm::Message::Rej(rej) => remote == 0 || rej.local_comm_id == remote,
            cm::Message::Mra(mra) => remote == 0 || mra.local_comm_id == remote,
            cm::Message::Rtu(rtu) => rtu.local_comm_id == remote,
            cm::Message::Dreq(dreq) => {
                dreq.local_comm_id == remote && dreq.remote_qpn.value() == self.queue_pair
            }
            cm::Message::Drep(drep) => drep.local_comm_id == remote,
            cm::Message::SidrRep(_) => true,
        }
    }

    fn be_patient(&mut self, mra: &cm::Mra<'_>, now: u64) {
        let asked = match mra.message {
            Rejected::Req => Kind::Req,
            Rejected::Rep => Kind::Rep,
            Rejected::Other => return,
        };
        let Patience { longest, retries } = self.patience;
        if matches!(self.door, Door::Public | Door::Sought(Verdict::Silence)) {
            // Somebody there has it.
            self.door = Door::Last;
        }
        if let Some(awaiting) = self.awaiting.as_mut().filter(|of| of.kind == asked) {
            // As long as is asked for would be too long: the answer may come soon, and be lost.
            awaiting.next = now + longest.min(4096 << mra.service_timeout);
            awaiting.left = retries;
        }
    }

    /// A request may be refused for what can be done otherwise. One of too large an MTU is made again with the one that the
    /// peer names. And one that the peer takes for a sign that its connection with our queue pair is stale, as it is when
    /// a process had the number that has died, will do when it is sent again: the peer has ended that connection now.
    fn try_otherwise(&mut self, rej: &cm::Rej<'_>, now: u64) -> Option<Heard> {
        let awaiting = self.awaiting.as_mut().filter(|of| of.kind == Kind::Req)?;
        match u32::from(rej.reason) {
            STALE_CONNECTION if awaiting.stale < STALE_ANSWERS => {
                awaiting.stale += 1;
                Some(Heard::Nothing)
            }
            INVALID_MTU if rej.information_length > 0 => {
                let good = Mtu::from_code(rej.information[0])?.code();
                if good >= self.way.mtu {
                    return None;
                }
                self.way.mtu = good;
                let request = *self.request.clone()?;
                let letter = self.say(&request, now).ok()?;
                Some(Heard::Again(Box::new(letter)))
            }
            _ => None,
        }
    }

    fn envelope(&self) -> Envelope<'_> {
        self.envelope_refusing(match self.unanswered {
            Some(Kind::Rep) => Rejected::Rep,
            _ => Rejected::Req,
        })
    }

    fn envelope_refusing(&self, refused: Rejected) -> Envelope<'_> {
        Envelope {
            numbers: self.numbers,
            way: &self.way,
            service: self.service,
            refused,
            remote_queue_pair: self.remote_queue_pair,
        }
    }

    fn letter(&self, mad: Bytes) -> Letter {
        Letter {
            interface: link::interface_number(self.way.port),
            source: self.way.source.into(),
            destination: self.address(),
            residence: self.residence(),
            mad,
        }
    }
}

/// Whether the answer to a request is that there is no such service.
fn says_that_nobody_listens(message: &cm::Message<'_>, awaited: Option<Kind>) -> bool {
    match (message, awaited) {
        (cm::Message::Rej(rej), Some(Kind::Req)) => {
            rej.message == Rejected::Req && u32::from(rej.reason) == INVALID_SERVICE
        }
        (cm::Message::SidrRep(rep), Some(Kind::SidrReq)) => {
            u32::from(rep.status) == SIDR_UNSUPPORTED
        }
        _ => false,
    }
}

/// Whether a rejection is of what waits for an answer, or of nothing that we know.
fn refuses(message: &cm::Message<'_>, awaited: Option<Kind>) -> bool {
    match message {
        cm::Message::Rej(rej) => match rej.message {
            Rejected::Req => awaited == Some(Kind::Req),
            Rejected::Rep => awaited == Some(Kind::Rep),
            Rejected::Other => true,
        },
        _ => false,
    }
}

fn refusal(kind: Kind) -> Message {
    Message {
        status: match kind {
            Kind::SidrRep => crate::message::SIDR_REJECTED,
            _ => crate::message::CONSUMER_DEFINED,
        },
        ..Message::bare(kind)
    }
}

#[cfg(test)]
mod tests;
