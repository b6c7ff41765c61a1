//! The CM state machine for a peer on another host: sends messages as datagrams, which may be lost
//! or duplicated, and delivers received ones once and in order.
//!
//! It does no I/O and reads no clock: it returns the datagrams to send, and time is an argument.
//! The rules (specification 12.9 and 12.10):
//! - A message that needs an answer (REQ, REP, DREQ, SIDR_REQ) is retransmitted until the answer
//!   arrives, [`mad::RETRIES`] times or as often as the peer asks for, and then given up. The
//!   interval is at most the response time the peer was promised. It starts shorter, so that a loss
//!   costs less; a needless retransmission costs only one more answer.
//! - An MRA asks for more time: nothing is sent for a while, and as its sender is alive, the retry
//!   count starts again.
//! - An answer (RTU, DREP, SIDR_REP, and REP) is sent again when the message it answers arrives
//!   again; while there is no answer yet, an MRA is sent.
//! - A request that has no listener, or no answer for a while, is also sent to the host's private
//!   UDP ports, if it has any; if those have no listener either, the first answer counts.
//! - A message from another address, of another connection, or out of turn is dropped.

use crate::device::PACKET_LIFE_TIME;
use crate::mad::{self, Bytes, CmHeader, Numbers, Proposal, RESPONSE_TIMEOUT, RETRIES};
use crate::message::{INVALID_SERVICE, Message, MessageKind, SIDR_UNSUPPORTED};
use crate::path::Path;
use std::net::Ipv6Addr;
use verbena_hca_net::link;
use verbena_hca_net::roce::management::CmMad;
use verbena_hca_net::roce::udp_port::UdpPort;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::udp::Address;
use verbena_wire::Mtu;
use verbena_wire::Qpn;
use verbena_wire::mad::cm::{self, Rejected};

/// Initial retransmission interval, in nanoseconds.
const FIRST_PAUSE: u64 = 250_000_000;
/// Number of ICMP refusals from the peer's host (no RoCE port) before they are believed: a process
/// may be about to open the port.
const REFUSALS: u32 = 3;
/// Added to a request's transaction ID when it is sent to another port, to tell the answers apart.
const ANEW: u64 = 1 << 24;
/// Number of unanswered retransmissions of a request before other ports are looked for as well.
const SILENCES: u8 = 2;
/// Reason of a REJ for a queue pair that the peer believes to be connected already.
pub const STALE_CONNECTION: u32 = 10;
/// Number of such REJs that are ignored.
const STALE_ANSWERS: u32 = 3;
/// Reason of a REJ because of the path's MTU. It carries the acceptable one.
pub const INVALID_MTU: u32 = 26;
/// Reason of a REJ whose sender timed out.
const TIMEOUT: u16 = 4;

/// The CM state machine of one connection or one SIDR exchange.
pub struct StateMachine {
    numbers: Numbers,
    service: u64,
    path: Path,
    /// CA GUID and queue pair number that identify the peer, beside its communication ID. On the
    /// passive side.
    peer: Option<(u64, u32)>,
    remote_queue_pair: u32,
    /// The local queue pair, which the peer names to end the connection.
    queue_pair: u32,
    retransmission: Retransmission,
    awaiting: Option<Awaiting>,
    /// The last answer sent, and the kind of message it answered.
    answered: Option<(MessageKind, Bytes)>,
    /// The kind of the received message that has no answer yet.
    unanswered: Option<MessageKind>,
    /// UDP port a request came from. It counts until the peer's queue pair is known, whose number
    /// encodes the port.
    origin: UdpPort,
    /// The UDP port the request is sent to.
    target_port: TargetPort,
    /// Number of ICMP refusals (no RoCE port) since the last message from the peer.
    refusals: u32,
    /// The request as first sent, to send it again with a smaller MTU.
    request: Option<Box<Message>>,
}

/// UDP port that a request is sent to. It is sent to the public port first; if that has no
/// listener, to the private ports of Verbena adapters on the same host
/// ([`verbena_hca_net::roce::udp_port`]).
#[derive(Debug)]
enum TargetPort {
    /// The public port.
    Public,
    /// The host is being asked for its private ports, because of this result.
    Searching(Verdict),
    /// A private port, the private ports left to try, and the result of the public port.
    Private(UdpPort, Vec<UdpPort>, Verdict),
    /// The public port again, after all others.
    Last,
}

/// Result of a request at the public port.
#[derive(Debug)]
enum Verdict {
    /// No listener.
    Refused(Box<Message>),
    /// The host reports that the port is not open.
    Unreached(MessageKind, Errno),
    /// No answer yet.
    Silence,
}

/// Longest retransmission interval (ns) and number of retransmissions.
#[derive(Clone, Copy, Debug)]
struct Retransmission {
    longest: u64,
    retries: u8,
}

impl Retransmission {
    /// For a peer that promises an answer within 4.096 us * 2^n. The round trip of a packet is
    /// added.
    fn with(response_timeout: u8, retries: u8) -> Retransmission {
        Retransmission {
            longest: (4096 << response_timeout) + (4096 << (PACKET_LIFE_TIME + 1)),
            retries,
        }
    }
}

/// A message that waits for its answer.
struct Awaiting {
    kind: MessageKind,
    bytes: Bytes,
    left: u8,
    pause: u64,
    next: u64,
    stale: u32,
}

/// Result of a received datagram.
#[derive(Debug, PartialEq)]
pub enum ReceiveOutcome {
    /// A message to be processed by the identifier.
    Message(Box<Message>),
    /// This MAD is to be sent again in reply.
    Again(Box<CmMad>),
    /// The port that the request was sent to has no listener.
    Elsewhere(Box<Due>),
    /// Nothing to do.
    Nothing,
}

/// Result of a timeout or of a delivery failure.
#[derive(Debug, PartialEq)]
pub enum Due {
    /// This MAD is to be sent again.
    Again(Box<CmMad>),
    /// All retransmissions of this message stayed unanswered, or the network reports this error.
    GivenUp(MessageKind, Errno),
    /// The peer of the connection no longer exists.
    Gone,
    /// The host is to be asked for its private ports ([`StateMachine::try_private_ports`]);
    /// meanwhile this MAD is to be sent again.
    SearchPorts(Option<Box<CmMad>>),
    /// There is no listener at any port, and this was the first answer.
    Refused(Box<Message>),
    /// Nothing to do.
    Nothing,
}

impl StateMachine {
    /// Returns the state machine of the active side, for a service ID.
    pub fn to(local: u32, service: u64, path: Path) -> StateMachine {
        let numbers = Numbers {
            local,
            remote: 0,
            // Simultaneous exchanges have different local IDs; together with the service ID that is
            // unique enough.
            transaction: u64::from(local) << 32 | service & 0xffff_ffff,
        };
        StateMachine::begin(numbers, service, path)
    }

    /// Returns the state machine of the passive side, for a received request.
    pub fn of(local: u32, request: &mad::Request, service: u64, path: Path) -> StateMachine {
        let numbers = Numbers {
            local,
            remote: request.number,
            transaction: request.transaction,
        };
        let mut machine = StateMachine::begin(numbers, service, path);
        machine.unanswered = Some(request.message.kind);
        if let Some(Proposal {
            guid,
            response_timeout,
            retries,
            ..
        }) = request.connection
        {
            machine.peer = Some((guid, request.message.queue_pair));
            machine.remote_queue_pair = request.message.queue_pair;
            machine.retransmission = Retransmission::with(response_timeout, retries);
        }
        machine
    }

    /// Sets the UDP port that the request came from.
    pub fn from_port(self, origin: UdpPort) -> StateMachine {
        StateMachine { origin, ..self }
    }

    fn begin(numbers: Numbers, service: u64, path: Path) -> StateMachine {
        StateMachine {
            numbers,
            service,
            path,
            peer: None,
            remote_queue_pair: 0,
            queue_pair: 0,
            retransmission: Retransmission::with(RESPONSE_TIMEOUT, RETRIES),
            awaiting: None,
            answered: None,
            unanswered: None,
            origin: UdpPort::PUBLIC,
            target_port: TargetPort::Public,
            refusals: 0,
            request: None,
        }
    }

    /// Returns the local communication ID.
    pub fn number(&self) -> u32 {
        self.numbers.local
    }

    /// Returns the remote communication ID, or 0 while it is unknown.
    pub fn remote_number(&self) -> u32 {
        self.numbers.remote
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the peer's IP address.
    pub fn address(&self) -> Ipv6Addr {
        self.path.destination.into()
    }

    /// Returns the UDP port of the peer, if it is a Verbena adapter.
    pub fn residence(&self) -> UdpPort {
        match (self.remote_queue_pair, &self.target_port) {
            (0, TargetPort::Private(residence, ..)) => *residence,
            (0, _) => self.origin,
            (number, _) => UdpPort::of_number(Qpn::new(number)),
        }
    }

    /// Returns whether an undelivered datagram belonged to this exchange. A host that refuses one
    /// port may have others.
    pub fn concerns(&self, whom: Address, why: Errno) -> bool {
        let is_at_port = why != Errno(libc::ECONNREFUSED) || whom.port == self.residence().port();
        self.address() == whom.ip && is_at_port
    }

    /// Returns whether the peer at `address` uses `number` as its communication ID.
    pub fn has_remote_id(&self, address: Ipv6Addr, number: u32) -> bool {
        self.address() == address && self.numbers.remote == number
    }

    /// Returns whether the peer is queue pair `queue_pair` of the adapter `guid`.
    pub fn has_peer(&self, guid: u64, queue_pair: u32) -> bool {
        self.peer == Some((guid, queue_pair))
    }

    /// Returns whether this is about a connection; a datagram service only answers.
    pub fn is_connected(&self) -> bool {
        self.peer.is_some()
    }

    /// Returns whether a sent message still waits for its answer.
    pub fn is_waiting(&self) -> bool {
        self.awaiting.is_some()
    }

    /// Returns the time of the next retransmission, in nanoseconds.
    pub fn deadline(&self) -> Option<u64> {
        self.awaiting.as_ref().map(|awaiting| awaiting.next)
    }

    /// Encodes a message to send and starts its retransmission, if it needs an answer.
    ///
    /// # Errors
    /// EINVAL for a message that cannot be encoded.
    pub fn send(&mut self, message: &Message, now: u64) -> Result<CmMad> {
        let bytes = self.header().write(message).ok_or(Errno::EINVAL)?;
        if matches!(message.kind, MessageKind::Req | MessageKind::Rep) {
            self.queue_pair = message.queue_pair;
        }
        match message.kind {
            MessageKind::Req | MessageKind::SidrReq | MessageKind::Rep | MessageKind::Dreq => {
                self.awaiting = Some(Awaiting {
                    kind: message.kind,
                    bytes,
                    left: self.retransmission.retries,
                    pause: FIRST_PAUSE.min(self.retransmission.longest),
                    next: now + FIRST_PAUSE.min(self.retransmission.longest),
                    stale: 0,
                });
            }
            MessageKind::Rej => self.awaiting = None,
            MessageKind::Rtu | MessageKind::Drep | MessageKind::SidrRep => (),
        }
        match (message.kind, self.unanswered.take()) {
            (MessageKind::Req | MessageKind::SidrReq, _) => self.request = Some(Box::new(*message)),
            (_, Some(question)) => self.answered = Some((question, bytes)),
            (_, None) => (),
        }
        Ok(self.cm_mad(bytes))
    }

    /// Processes a datagram from an address, which was parsed as `message` of `transaction`.
    pub fn receive(
        &mut self,
        from: Ipv6Addr,
        transaction: u64,
        message: &cm::Message<'_>,
        now: u64,
    ) -> ReceiveOutcome {
        if from != self.address() || !self.is_addressed_by(message) {
            return ReceiveOutcome::Nothing;
        }
        self.refusals = 0;
        if let cm::Message::Mra(mra) = message {
            self.apply_mra(mra, now);
            return ReceiveOutcome::Nothing;
        }
        let Some(told) = mad::answer(message) else {
            return self.repeat_answer();
        };
        if let cm::Message::Rej(rej) = message
            && let Some(outcome) = self.handle_rej(rej, now)
        {
            return outcome;
        }
        let awaited = self.awaiting.as_ref().map(|awaiting| awaiting.kind);
        if is_no_listener_answer(message, awaited) {
            // It comes from a port that was tried earlier and answered late.
            if transaction != self.numbers.transaction {
                return ReceiveOutcome::Nothing;
            }
            let due = self.no_listener_at_port(Verdict::Refused(Box::new(told)), now);
            return ReceiveOutcome::Elsewhere(Box::new(due));
        }
        match (told.kind, awaited) {
            (MessageKind::Rep, Some(MessageKind::Req)) => {
                if let cm::Message::Rep(rep) = message {
                    self.numbers.remote = rep.local_comm_id;
                    self.remote_queue_pair = rep.qpn.value();
                    self.peer = Some((rep.ca_guid, rep.qpn.value()));
                }
                self.unanswered = Some(MessageKind::Rep);
            }
            (MessageKind::Rep, _) => return self.repeat_answer(),
            (MessageKind::SidrRep, Some(MessageKind::SidrReq))
            | (MessageKind::Rtu, Some(MessageKind::Rep)) => (),
            // A late REJ for a request that was accepted meanwhile no longer counts.
            (MessageKind::Rej, awaited) if !refuses(message, awaited) => {
                return ReceiveOutcome::Nothing;
            }
            (MessageKind::Rej, _) => (),
            (MessageKind::Drep, Some(MessageKind::Dreq)) => (),
            (MessageKind::Dreq, _) if self.has_answered(MessageKind::Dreq) => {
                return self.repeat_answer();
            }
            // While an RTU is awaited, a DREQ implies it.
            (MessageKind::Dreq, Some(MessageKind::Rep | MessageKind::Dreq) | None) => {
                self.unanswered = Some(MessageKind::Dreq);
            }
            _ => return ReceiveOutcome::Nothing,
        }
        self.awaiting = None;
        ReceiveOutcome::Message(Box::new(told))
    }

    /// Returns the action that is due at `now`: a retransmission or the end of the attempt.
    pub fn due(&mut self, now: u64) -> Due {
        let longest = self.retransmission.longest;
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
        let times = self.retransmission.retries - awaiting.left;
        let again = Box::new(self.cm_mad(bytes));
        let is_first = matches!(self.target_port, TargetPort::Public);
        if is_first && times == SILENCES && matches!(kind, MessageKind::Req | MessageKind::SidrReq)
        {
            self.target_port = TargetPort::Searching(Verdict::Silence);
            return Due::SearchPorts(Some(again));
        }
        Due::Again(again)
    }

    /// Handles a request that reached no listener: tries the next port, or ends with the result.
    fn no_listener_at_port(&mut self, verdict: Verdict, now: u64) -> Due {
        match std::mem::replace(&mut self.target_port, TargetPort::Last) {
            TargetPort::Public => {
                self.awaiting = None;
                self.target_port = TargetPort::Searching(verdict);
                Due::SearchPorts(None)
            }
            // The request was silent until now, and private ports are already being looked for.
            TargetPort::Searching(Verdict::Silence) => {
                self.awaiting = None;
                self.target_port = TargetPort::Searching(verdict);
                Due::Nothing
            }
            searching @ TargetPort::Searching(_) => {
                self.target_port = searching;
                Due::Nothing
            }
            TargetPort::Private(_, left, first) => self.try_next(left, first, now),
            TargetPort::Last => self.finish_search(verdict, now),
        }
    }

    /// Sends the request to the private ports `private_ports` of the host, one after the other.
    pub fn try_private_ports(&mut self, mut private_ports: Vec<UdpPort>, now: u64) -> Due {
        match std::mem::replace(&mut self.target_port, TargetPort::Last) {
            TargetPort::Searching(Verdict::Silence) if private_ports.is_empty() => Due::Nothing,
            TargetPort::Searching(verdict) => {
                // `try_next` takes from the end.
                private_ports.reverse();
                self.try_next(private_ports, verdict, now)
            }
            // The request was answered meanwhile.
            target_port => {
                self.target_port = target_port;
                Due::Nothing
            }
        }
    }

    fn try_next(&mut self, mut left: Vec<UdpPort>, verdict: Verdict, now: u64) -> Due {
        match left.pop() {
            Some(next) => {
                self.target_port = TargetPort::Private(next, left, verdict);
                self.resend_request(now)
            }
            None => self.finish_search(verdict, now),
        }
    }

    /// Ends the search for other ports with the result of the public one.
    fn finish_search(&mut self, verdict: Verdict, now: u64) -> Due {
        self.awaiting = None;
        match verdict {
            Verdict::Refused(answer) => Due::Refused(answer),
            Verdict::Unreached(kind, why) => Due::GivenUp(kind, why),
            Verdict::Silence => self.resend_request(now),
        }
    }

    /// Sends the request again with a new transaction ID and a new retry count.
    fn resend_request(&mut self, now: u64) -> Due {
        self.refusals = 0;
        self.numbers.transaction = self.numbers.transaction.wrapping_add(ANEW);
        let request = self.request.clone();
        let cm_mad = request.and_then(|request| self.send(&request, now).ok());
        cm_mad.map_or(Due::Nothing, |cm_mad| Due::Again(Box::new(cm_mad)))
    }

    /// Handles a delivery failure that the network reports.
    pub fn note_failure(&mut self, why: Errno, now: u64) -> Due {
        self.refusals += u32::from(why.0 == libc::ECONNREFUSED);
        let awaited = self.awaiting.as_ref().map(|awaiting| awaiting.kind);
        match (why.0, awaited) {
            // The host no longer has a RoCE port, so it has no connection either.
            (libc::ECONNREFUSED, Some(MessageKind::Dreq)) => self.give_up(why),
            (libc::ECONNREFUSED, Some(kind @ (MessageKind::Req | MessageKind::SidrReq)))
                if self.refusals >= REFUSALS =>
            {
                self.no_listener_at_port(Verdict::Unreached(kind, why), now)
            }
            (libc::ECONNREFUSED, Some(_)) if self.refusals >= REFUSALS => self.give_up(why),
            (libc::ECONNREFUSED, None) if self.refusals >= REFUSALS && self.is_connected() => {
                Due::Gone
            }
            // The kernel's address resolution would have ended with the same error.
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

    /// Ends the exchange before a connection exists. Returns the message that cancels the peer's
    /// state.
    pub fn cancel(&mut self) -> Option<CmMad> {
        let cm_mad = self.cancellation();
        self.awaiting = None;
        cm_mad
    }

    /// Returns the DREQ that would end the connection now.
    pub fn disconnection(&self) -> Option<CmMad> {
        let bytes = self.header().write(&Message::bare(MessageKind::Dreq));
        bytes.map(|bytes| self.cm_mad(bytes))
    }

    /// Returns the message that would cancel the exchange now, before a connection exists.
    pub fn cancellation(&self) -> Option<CmMad> {
        let awaited = self.awaiting.as_ref().map(|awaiting| awaiting.kind);
        let bytes = match (awaited, self.unanswered) {
            (Some(MessageKind::Req), _) => {
                let guid = self.path.device().0.guid().to_be_bytes();
                self.header_refusing(Rejected::Other)
                    .rejection(TIMEOUT, &guid, &[])
            }
            (Some(MessageKind::Rep), _) => self
                .header_refusing(Rejected::Other)
                .write(&refusal(MessageKind::Rej)),
            (None, Some(MessageKind::Req | MessageKind::Rep)) => {
                self.header().write(&refusal(MessageKind::Rej))
            }
            (None, Some(MessageKind::SidrReq)) => {
                self.header().write(&refusal(MessageKind::SidrRep))
            }
            _ => None,
        };
        bytes.map(|bytes| self.cm_mad(bytes))
    }

    /// Handles a retransmitted message of the peer: repeats the answer, or sends an MRA if there is
    /// none.
    fn repeat_answer(&self) -> ReceiveOutcome {
        let bytes = match (&self.unanswered, &self.answered) {
            (Some(MessageKind::Req), _) => self.header_refusing(Rejected::Req).mra(),
            (Some(MessageKind::Rep), _) => self.header_refusing(Rejected::Rep).mra(),
            (Some(_), _) | (None, None) => None,
            (None, Some((_, bytes))) => Some(*bytes),
        };
        match bytes {
            Some(bytes) => ReceiveOutcome::Again(Box::new(self.cm_mad(bytes))),
            None => ReceiveOutcome::Nothing,
        }
    }

    fn has_answered(&self, question: MessageKind) -> bool {
        self.unanswered.is_none()
            && self
                .answered
                .as_ref()
                .is_some_and(|(answered, _)| *answered == question)
    }

    /// Returns whether a message names this exchange by the peer's communication ID.
    fn is_addressed_by(&self, message: &cm::Message<'_>) -> bool {
        let remote = self.numbers.remote;
        match message {
            cm::Message::Req(req) => req.local_comm_id == remote,
            cm::Message::SidrReq(req) => req.request_id == remote,
            // Its sender is about to tell its ID.
            cm::Message::Rep(rep) => remote == 0 || rep.local_comm_id == remote,
            // The sender of a REJ may have assigned no ID.
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

    fn apply_mra(&mut self, mra: &cm::Mra<'_>, now: u64) {
        let asked = match mra.message {
            Rejected::Req => MessageKind::Req,
            Rejected::Rep => MessageKind::Rep,
            Rejected::Other => return,
        };
        let Retransmission { longest, retries } = self.retransmission;
        if matches!(
            self.target_port,
            TargetPort::Public | TargetPort::Searching(Verdict::Silence)
        ) {
            // The host has a process that handles the request.
            self.target_port = TargetPort::Last;
        }
        if let Some(awaiting) = self.awaiting.as_mut().filter(|of| of.kind == asked) {
            // The full requested time would be too long: the answer may come soon, and be lost.
            awaiting.next = now + longest.min(4096 << mra.service_timeout);
            awaiting.left = retries;
        }
    }

    /// Handles a REJ that does not end the request. A too large MTU: the request is sent again with
    /// the MTU that the peer names. A stale connection: a process that has died had this queue
    /// pair number. The peer has ended that connection now, so the next retransmission succeeds.
    fn handle_rej(&mut self, rej: &cm::Rej<'_>, now: u64) -> Option<ReceiveOutcome> {
        let awaiting = self
            .awaiting
            .as_mut()
            .filter(|of| of.kind == MessageKind::Req)?;
        match u32::from(rej.reason) {
            STALE_CONNECTION if awaiting.stale < STALE_ANSWERS => {
                awaiting.stale += 1;
                Some(ReceiveOutcome::Nothing)
            }
            INVALID_MTU if rej.information_length > 0 => {
                let good = Mtu::from_code(rej.information[0])?.code();
                if good >= self.path.mtu {
                    return None;
                }
                self.path.mtu = good;
                let request = *self.request.clone()?;
                let cm_mad = self.send(&request, now).ok()?;
                Some(ReceiveOutcome::Again(Box::new(cm_mad)))
            }
            _ => None,
        }
    }

    fn header(&self) -> CmHeader<'_> {
        self.header_refusing(match self.unanswered {
            Some(MessageKind::Rep) => Rejected::Rep,
            _ => Rejected::Req,
        })
    }

    fn header_refusing(&self, refused: Rejected) -> CmHeader<'_> {
        CmHeader {
            numbers: self.numbers,
            path: &self.path,
            service: self.service,
            refused,
            remote_queue_pair: self.remote_queue_pair,
        }
    }

    fn cm_mad(&self, mad: Bytes) -> CmMad {
        CmMad {
            interface: link::interface_number(self.path.port),
            source: self.path.source.into(),
            destination: self.address(),
            udp_port: self.residence(),
            mad,
        }
    }
}

/// Returns whether the answer to a request is that there is no such service.
fn is_no_listener_answer(message: &cm::Message<'_>, awaited: Option<MessageKind>) -> bool {
    match (message, awaited) {
        (cm::Message::Rej(rej), Some(MessageKind::Req)) => {
            rej.message == Rejected::Req && u32::from(rej.reason) == INVALID_SERVICE
        }
        (cm::Message::SidrRep(rep), Some(MessageKind::SidrReq)) => {
            u32::from(rep.status) == SIDR_UNSUPPORTED
        }
        _ => false,
    }
}

/// Returns whether a REJ refuses the awaited message, or names none.
fn refuses(message: &cm::Message<'_>, awaited: Option<MessageKind>) -> bool {
    match message {
        cm::Message::Rej(rej) => match rej.message {
            Rejected::Req => awaited == Some(MessageKind::Req),
            Rejected::Rep => awaited == Some(MessageKind::Rep),
            Rejected::Other => true,
        },
        _ => false,
    }
}

fn refusal(kind: MessageKind) -> Message {
    Message {
        status: match kind {
            MessageKind::SidrRep => crate::message::SIDR_REJECTED,
            _ => crate::message::CONSUMER_DEFINED,
        },
        ..Message::bare(kind)
    }
}

#[cfg(test)]
mod tests;
