//! Requests in flight and their replies, matched by number. Nothing here blocks on the network.
//!
//! # Rules
//!
//! - Operations take effect as if the server carried them out in the order of the calls, as far as
//!   it guarantees an order ([`verbena_rfio_protocol::order`]): a subrequest is not sent before one
//!   that it must follow. A read may get a short answer, whose rest is requested later; a
//!   subrequest that must follow a read is therefore sent after the read has ended.
//! - A reply matches the request with its number if that request was sent completely, has the same
//!   opcode, and has no reply yet. Any other frame is a protocol violation and ends the session.
//! - Data go only to the location in memory that belongs to their own request, and only the
//!   operation uses that memory.
//! - An operation ends once, when all of its subrequests have ended. After a connection failure all
//!   have.

mod sending;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range as Span;
use std::time::Duration;

use verbena_rfio_protocol::frame::{HEADER, Kind};
use verbena_rfio_protocol::reply::{self, Refusal};
use verbena_rfio_protocol::request::Cancel;
use verbena_rfio_protocol::{ANY_ORDER, Reply, Request, Status};

use super::operation::{
    ActiveOperation, FinishedOperation, Memory, Operation, OperationOutput, RequestBounds,
    Subrequest,
};
use super::parts::Parts;
use crate::area::PARTS;
use crate::bounds::ReplyDeadline;
use crate::error::{Error, too_much};
use crate::session::Session;

/// Minimum transfer length for a window, in bytes; shorter data travel in the frame, which is sent
/// anyway.
const WORTH_A_WINDOW: usize = 16 << 10;

/// Bytes of requests that may be held back for batching.
const HELD_BACK: usize = 32 << 10;

/// Approximate bytes of a frame without its data.
const FRAME: usize = 128;

/// A request without a reply yet.
#[derive(Debug)]
pub(super) struct RequestInFlight {
    pub(super) id: u64,
    opcode: u16,
    /// Maximum length of the reply's data, in bytes.
    most: usize,
    /// Whether it was handed to the network completely.
    is_sent: bool,
    /// The subrequest; a cancel request has none.
    pub(super) subrequest: Option<Subrequest>,
    is_read_only: bool,
    /// The part of the read or write area that its window covers.
    pub(super) window: Option<ExposedPart>,
}

/// A part of an area, covered by a window: of the read area, or of the write area.
#[derive(Debug, Clone, Copy)]
pub(super) enum ExposedPart {
    Read(usize),
    Write(usize),
}

/// A frame being sent.
#[derive(Debug)]
struct OutgoingFrame {
    id: u64,
    head: Vec<u8>,
    /// The data behind it: the operation, and the range of its memory.
    data: Option<(u64, Span<usize>)>,
    sent: usize,
}

impl OutgoingFrame {
    fn length(&self) -> usize {
        self.head.len() + self.data.as_ref().map_or(0, |(_, span)| span.len())
    }
}

/// A reply whose data are being received.
#[derive(Debug)]
struct IncomingReply {
    id: u64,
    outcome: Result<Reply, Refusal>,
    length: usize,
    filled: usize,
}

/// Everything in progress on one session.
pub struct Multiplexer {
    pub(super) session: Session,
    bounds: RequestBounds,
    /// Maximum number of requests in flight.
    most: usize,
    incoming: Option<IncomingReply>,
    in_flight: BTreeMap<u64, RequestInFlight>,
    outgoing: VecDeque<OutgoingFrame>,
    pub(super) queue: VecDeque<Subrequest>,
    pub(super) active: HashMap<u64, ActiveOperation>,
    done: HashMap<u64, FinishedOperation>,
    /// Operations that have ended since the session began.
    ended: u64,
    pub(super) read_parts: Parts,
    pub(super) write_parts: Parts,
    /// Memory of consumed chunks, for reuse.
    pub(super) spare: Vec<Vec<u8>>,
    /// Bytes of requests held back for batching.
    held_back: usize,
    next: u64,
    broken: Option<Error>,
    /// Remaining time for the next answer.
    pub(super) deadline: ReplyDeadline,
}

impl Multiplexer {
    /// Creates the state of an idle session. With `pipelined`, requests may be sent that the server
    /// processes only after earlier ones have ended.
    pub fn new(session: Session, pipelined: bool) -> Self {
        let terms = session.server_limits();
        let bounds = RequestBounds {
            bytes: (terms.most_payload as usize / PARTS).max(1),
            ranges: terms.most_ranges as usize,
        };
        // Leaves space for one cancel request in every case.
        let most = (terms.most_requests as usize).saturating_sub(1).max(1);
        let deadline = ReplyDeadline::new(session.timeout());
        Self {
            session,
            bounds,
            most: if pipelined { usize::MAX } else { most },
            incoming: None,
            in_flight: BTreeMap::new(),
            outgoing: VecDeque::new(),
            queue: VecDeque::new(),
            active: HashMap::new(),
            done: HashMap::new(),
            ended: 0,
            read_parts: Parts::default(),
            write_parts: Parts::default(),
            spare: Vec::new(),
            held_back: 0,
            next: 1,
            broken: None,
            deadline,
        }
    }

    /// Returns the maximum length of one request, in bytes.
    pub fn max_request_bytes(&self) -> usize {
        self.bounds.bytes
    }

    /// Begins an operation and returns its number. It is sent when the traffic advances, or at once
    /// if enough has been held back.
    ///
    /// # Errors
    /// The error of a broken session, or of an invalid operation.
    pub fn begin(&mut self, operation: Operation, memory: Box<dyn Memory>) -> Result<u64, Error> {
        if let Some(why) = &self.broken {
            return Err(why.duplicate());
        }
        let number = self.next;
        self.next += 1;
        let (active, subrequests) = ActiveOperation::new(number, operation, memory, self.bounds)?;
        let moves = |subrequest: &Subrequest| {
            subrequest.length >= WORTH_A_WINDOW && subrequest.kind.moves_data()
        };
        if subrequests.iter().any(moves) {
            self.choose_data_path()?;
        }
        if subrequests.is_empty() {
            self.has_ended(number, active);
            return Ok(number);
        }
        self.active.insert(number, active);
        for subrequest in subrequests {
            self.held_back +=
                FRAME + usize::from(subrequest.kind.brings_data()) * subrequest.length;
            self.queue.push_back(subrequest);
        }
        if self.held_back > HELD_BACK {
            self.send();
        }
        Ok(number)
    }

    /// Decides how data travel, unless that is decided or something is under way.
    ///
    /// # Errors
    /// Those of connecting a queue pair, if data must travel by RDMA or the session is lost.
    pub fn choose_data_path(&mut self) -> Result<(), Error> {
        if !self.session.is_data_path_undecided() || !self.is_idle() {
            return Ok(());
        }
        let decided = self.session.choose_data_path();
        if self.session.is_broken() {
            self.fail(Error::Dropped("earlier"));
        }
        decided
    }

    /// Returns whether nothing is in progress.
    pub fn is_idle(&self) -> bool {
        self.active.is_empty() && self.in_flight.is_empty()
    }

    /// Returns the number of operations that have ended since the session began.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    fn has_ended(&mut self, number: u64, operation: ActiveOperation) {
        self.ended += 1;
        match operation.is_abandoned {
            false => drop(self.done.insert(number, operation.into_done())),
            true => self.release_read_part(operation.read_part),
        }
    }

    fn release_read_part(&mut self, read_part: Option<usize>) {
        if let Some(part) = read_part {
            self.read_parts.free(part);
        }
    }

    /// Returns the result of an operation once it has ended; a result is returned once.
    pub fn take(&mut self, number: u64) -> Option<FinishedOperation> {
        self.done.remove(&number)
    }

    /// Passes the received data of a chunk to `look` in place once it has ended; this happens once.
    pub fn look<T>(
        &mut self,
        number: u64,
        look: &mut dyn FnMut(&[u8]) -> T,
    ) -> Option<Result<T, Error>> {
        let done = self.done.remove(&number)?;
        let length = match done.outcome {
            Ok(OperationOutput::Read(length)) => length,
            Ok(_) => return Some(Err(Error::Setup("no data were read to be checked".into()))),
            Err(error) => {
                self.release_read_part(done.read_part);
                return Some(Err(error));
            }
        };
        let looked = match (done.read_part, self.session.data_path()) {
            (Some(part), Some(data)) => data.content(part, length).map(look),
            _ => Ok(look(&done.memory.bytes()[..length])),
        };
        self.release_read_part(done.read_part);
        let memory = done.memory.into_bytes();
        if self.spare.len() < PARTS && !memory.is_empty() {
            self.spare.push(memory);
        }
        Some(looked)
    }

    /// Returns whether all data that an operation writes have been sent. Its memory is not accessed
    /// any more then.
    pub fn has_sent_all(&mut self, number: u64) -> bool {
        let waits = self
            .queue
            .iter()
            .any(|subrequest| subrequest.operation == number);
        let is_of_it = |(operation, _): &(u64, Span<usize>)| *operation == number;
        let sends_it = |outgoing: &OutgoingFrame| outgoing.data.as_ref().is_some_and(is_of_it);
        if waits || self.outgoing.iter().any(sends_it) {
            return false;
        }
        let nothing = || Box::new(Vec::new());
        if let Some(operation) = self.active.get_mut(&number) {
            operation.memory = nothing();
        } else if let Some(done) = self.done.get_mut(&number) {
            done.memory = nothing();
        }
        true
    }

    /// Returns whether an operation has ended and its result was not taken.
    pub fn is_done(&self, number: u64) -> bool {
        self.done.contains_key(&number)
    }

    /// Cancels an operation: drops its unsent subrequests, and asks the server to cancel those
    /// already sent. The operation still ends, refused or done.
    pub fn cancel(&mut self, number: u64) {
        if let Some(operation) = self.active.get_mut(&number) {
            operation.is_canceled = true;
        }
        let before = self.queue.len();
        self.queue
            .retain(|subrequest| subrequest.operation != number);
        let dropped = before - self.queue.len();
        let is_of_it = |flight: &&RequestInFlight| {
            let mut subrequest = flight.subrequest.iter();
            flight.is_read_only && subrequest.any(|subrequest| subrequest.operation == number)
        };
        let asked: Vec<u64> = match self.session.version() >= ANY_ORDER {
            true => self
                .in_flight
                .values()
                .filter(is_of_it)
                .map(|flight| flight.id)
                .collect(),
            false => Vec::new(),
        };
        for id in asked {
            // There is space for one such request at a time; without space the reply arrives as
            // usual.
            if self.in_flight.len() <= self.most {
                self.enqueue(&Request::Cancel(Cancel { id }), None, None);
            }
        }
        self.drop_subrequests(number, dropped, canceled);
        self.advance(None);
    }

    /// Abandons an operation: cancels it and discards its result.
    pub fn abandon(&mut self, number: u64) {
        if let Some(done) = self.done.remove(&number) {
            self.release_read_part(done.read_part);
        }
        if let Some(operation) = self.active.get_mut(&number) {
            operation.is_abandoned = true;
            self.cancel(number);
        }
    }

    fn drop_subrequests(&mut self, number: u64, count: usize, why: fn() -> Error) {
        if let Some(operation) = self.active.get_mut(&number)
            && count > 0
        {
            operation.left -= count;
            operation.error.get_or_insert_with(why);
            self.end_if_done(number);
        }
    }

    /// Returns whether output is pending.
    pub fn wants_to_send(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Returns how long to wait for the network at most; zero means no limit.
    pub fn poll_timeout(&self) -> Duration {
        let left = self.deadline.left();
        left.map_or(Duration::ZERO, |left| left.max(Duration::from_millis(1)))
    }

    /// Sends and receives as much as possible without blocking. If `wanted` names an operation,
    /// receives nothing beyond its end.
    pub fn advance(&mut self, wanted: Option<u64>) {
        self.act(|multiplexer| multiplexer.make_progress(wanted));
    }

    /// Sends as much as possible without blocking.
    pub fn send(&mut self) {
        self.act(|multiplexer| {
            multiplexer
                .start_queued()
                .and_then(|()| multiplexer.flush())
        });
    }

    fn act(&mut self, act: impl FnOnce(&mut Self) -> Result<(), Error>) {
        if self.broken.is_none()
            && let Err(error) = act(self)
        {
            self.fail(error);
        }
    }

    /// Fails the session if an expected answer is overdue.
    pub fn check_timeout(&mut self) {
        if !self.in_flight.is_empty() && self.broken.is_none() && self.deadline.is_over() {
            self.fail(Error::TimedOut);
        }
    }

    /// Ends the session and all operations.
    fn fail(&mut self, error: Error) {
        self.queue.clear();
        self.outgoing.clear();
        self.in_flight.clear();
        self.incoming = None;
        for (number, mut operation) in std::mem::take(&mut self.active) {
            operation.left = 0;
            operation.error = Some(error.duplicate());
            self.has_ended(number, operation);
        }
        self.session.abort();
        self.broken = Some(error);
    }

    /// Leaves all memory as it is, since it belongs to another process.
    pub fn forget(&mut self) {
        std::mem::forget(std::mem::take(&mut self.active));
        std::mem::forget(std::mem::take(&mut self.done));
    }

    fn make_progress(&mut self, wanted: Option<u64>) -> Result<(), Error> {
        loop {
            self.start_queued()?;
            self.flush()?;
            if wanted.is_some_and(|number| self.is_done(number)) || !self.receive()? {
                return Ok(());
            }
        }
    }

    /// Receives available data; returns whether a reply was completed.
    fn receive(&mut self) -> Result<bool, Error> {
        if self.incoming.is_none() {
            let Some(head) = self.session.frame_head()? else {
                return Ok(false);
            };
            self.deadline.count(HEADER + head.body.len());
            let header = head.header;
            let flight = self.in_flight.get(&header.id);
            let flight =
                flight.filter(|flight| flight.is_sent && header.kind == Kind::reply(flight.opcode));
            let oldest = self.in_flight.keys().next() == Some(&header.id);
            let Some(flight) = flight.filter(|_| oldest || self.session.version() >= ANY_ORDER)
            else {
                return Err(Error::Protocol(format!(
                    "reply {} without a request",
                    header.id
                )));
            };
            let length = header.payload as usize;
            if length > flight.most {
                return Err(too_much());
            }
            self.incoming = Some(IncomingReply {
                id: header.id,
                outcome: reply::decode(header.kind.operation(), &head.body)?,
                length,
                filled: 0,
            });
        }
        let Some(incoming) = &mut self.incoming else {
            return Ok(false);
        };
        let flight = self.in_flight.get(&incoming.id);
        // Only replies with data need memory to receive into; the memory of a write is read-only.
        if incoming.length > 0
            && let Some(subrequest) = flight.and_then(|flight| flight.subrequest.as_ref())
            && let Some(operation) = self.active.get_mut(&subrequest.operation)
        {
            let place = &mut memory(operation, &mut self.spare)
                [subrequest.at..subrequest.at + incoming.length];
            while incoming.filled < incoming.length {
                match self
                    .session
                    .stream()
                    .receive_some(&mut place[incoming.filled..])?
                {
                    Some(more) => {
                        incoming.filled += more;
                        self.deadline.count(more);
                    }
                    None => return Ok(false),
                }
            }
        }
        if let Some(incoming) = self.incoming.take()
            && let Some(flight) = self.in_flight.remove(&incoming.id)
        {
            self.handle_reply(flight, incoming.outcome, incoming.length)?;
        }
        Ok(true)
    }

    pub(super) fn subrequest_ended(&mut self, number: u64, error: Option<Error>) {
        let Some(operation) = self.active.get_mut(&number) else {
            return;
        };
        operation.left -= 1;
        let failed = error.is_some();
        if let Some(error) = error {
            operation.error.get_or_insert(error);
        }
        self.end_if_done(number);
        // The rest of a failed operation is not requested.
        if failed {
            let before = self.queue.len();
            self.queue
                .retain(|subrequest| subrequest.operation != number);
            self.drop_subrequests(number, before - self.queue.len(), canceled);
        }
    }

    /// Returns whether the rest of an operation is still requested.
    pub(super) fn is_wanted(&self, number: u64) -> bool {
        let operation = self.active.get(&number);
        operation.is_some_and(|operation| !operation.is_canceled && operation.error.is_none())
    }

    fn end_if_done(&mut self, number: u64) {
        let ended = self
            .active
            .get(&number)
            .is_some_and(|operation| operation.left == 0);
        if ended && let Some(operation) = self.active.remove(&number) {
            self.has_ended(number, operation);
        }
    }
}

/// Returns the memory of an operation, to be filled. A chunk gets its memory when its first data
/// arrive, usually that of a chunk consumed just before.
pub(super) fn memory<'a>(
    operation: &'a mut ActiveOperation,
    spare: &mut Vec<Vec<u8>>,
) -> &'a mut [u8] {
    let missing = operation.missing_memory();
    if missing > 0 {
        let mut bytes = spare.pop().unwrap_or_default();
        if bytes.len() < missing {
            bytes.resize(missing, 0);
        }
        operation.memory = Box::new(bytes);
    }
    operation.memory.bytes_mut()
}

pub(super) fn canceled() -> Error {
    Error::Refused(Refusal::new(
        Status::errno(libc::ECANCELED),
        "taken back before it was asked for",
    ))
}
