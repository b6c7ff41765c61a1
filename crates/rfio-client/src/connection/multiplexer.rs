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

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::IoSlice;
use std::ops::Range as Span;
use std::time::Duration;

use verbena_rfio_protocol::frame::{HEADER, Kind};
use verbena_rfio_protocol::order::Order;
use verbena_rfio_protocol::reply::{self, Refusal};
use verbena_rfio_protocol::request::{Cancel, Read, ReadVector, Write};
use verbena_rfio_protocol::types::{Handle, Range, Window};
use verbena_rfio_protocol::{ANY_ORDER, Reply, Request, Status};

use super::errand::{Bounds, Done, Errand, Given, Memory, Piece, UnderWay, What};
use super::parts::Parts;
use crate::blocks::checksums_of;
use crate::bounds::Wait;
use crate::data::PARTS;
use crate::error::Error;
use crate::options::Checksums;
use crate::session::{Session, too_much};

/// Minimum transfer length for a window, in bytes; shorter data travel in the frame, which is sent
/// anyway.
const WORTH_A_WINDOW: usize = 16 << 10;

/// Number of queued subrequests that are searched for one that may be sent.
const NEXT: usize = 64;

/// Maximum number of frames per system call.
const TOGETHER: usize = 64;

/// Bytes of requests that may be held back for batching.
const HELD_BACK: usize = 32 << 10;

/// Approximate bytes of a frame without its data.
const FRAME: usize = 128;

/// A request without a reply yet.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) id: u64,
    operation: u16,
    /// Maximum length of the reply's data, in bytes.
    most: usize,
    /// Whether it was handed to the network completely.
    is_sent: bool,
    /// The subrequest; a cancel request has none.
    pub(super) piece: Option<Piece>,
    only_looks: bool,
    /// The part of the read or write area that its window covers.
    pub(super) window: Option<Lent>,
}

/// A part of an area, covered by a window: of the landing area for reads, of the offering area for
/// writes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lent {
    Landing(usize),
    Offering(usize),
}

/// A frame being sent.
#[derive(Debug)]
struct Leaving {
    id: u64,
    front: Vec<u8>,
    /// The data behind it: the operation, and the range of its memory.
    data: Option<(u64, Span<usize>)>,
    sent: usize,
}

impl Leaving {
    fn length(&self) -> usize {
        self.front.len() + self.data.as_ref().map_or(0, |(_, span)| span.len())
    }
}

/// A reply whose data are being received.
#[derive(Debug)]
struct Coming {
    id: u64,
    outcome: Result<Reply, Refusal>,
    length: usize,
    filled: usize,
}

/// Everything in progress on one session.
pub struct Traffic {
    pub(super) session: Session,
    bounds: Bounds,
    /// Maximum number of requests in flight.
    most: usize,
    coming: Option<Coming>,
    flights: BTreeMap<u64, Flight>,
    leaving: VecDeque<Leaving>,
    pub(super) queue: VecDeque<Piece>,
    pub(super) under_way: HashMap<u64, UnderWay>,
    done: HashMap<u64, Done>,
    /// Operations that have ended since the session began.
    ended: u64,
    pub(super) landing: Parts,
    pub(super) offering: Parts,
    /// Memory of consumed chunks, for reuse.
    pub(super) spare: Vec<Vec<u8>>,
    /// Bytes of requests held back for batching.
    held_back: usize,
    next: u64,
    broken: Option<Error>,
    /// Remaining time for the next answer.
    pub(super) quiet: Wait,
}

impl Traffic {
    /// Creates the state of an idle session. With `ahead`, requests may be sent that the server
    /// processes only after earlier ones have ended.
    pub fn new(session: Session, ahead: bool) -> Self {
        let terms = session.terms();
        let bounds = Bounds {
            bytes: (terms.most_payload as usize / PARTS).max(1),
            ranges: terms.most_ranges as usize,
        };
        // Leaves room for one cancel request in every case.
        let most = (terms.most_requests as usize).saturating_sub(1).max(1);
        let quiet = Wait::new(session.patience());
        Self {
            session,
            bounds,
            most: if ahead { usize::MAX } else { most },
            coming: None,
            flights: BTreeMap::new(),
            leaving: VecDeque::new(),
            queue: VecDeque::new(),
            under_way: HashMap::new(),
            done: HashMap::new(),
            ended: 0,
            landing: Parts::default(),
            offering: Parts::default(),
            spare: Vec::new(),
            held_back: 0,
            next: 1,
            broken: None,
            quiet,
        }
    }

    /// Returns the maximum length of one request, in bytes.
    pub fn most_at_once(&self) -> usize {
        self.bounds.bytes
    }

    /// Begins an operation and returns its number. It is sent when the traffic advances, or at once
    /// if enough has been held back.
    ///
    /// # Errors
    /// The error of a broken session, or of an invalid operation.
    pub fn begin(&mut self, errand: Errand, memory: Box<dyn Memory>) -> Result<u64, Error> {
        if let Some(why) = &self.broken {
            return Err(why.again());
        }
        let number = self.next;
        self.next += 1;
        let (under_way, pieces) = UnderWay::new(number, errand, memory, self.bounds)?;
        let moves = |piece: &Piece| piece.length >= WORTH_A_WINDOW && piece.what.moves_data();
        if pieces.iter().any(moves) {
            self.decide_route()?;
        }
        if pieces.is_empty() {
            self.has_ended(number, under_way);
            return Ok(number);
        }
        self.under_way.insert(number, under_way);
        for piece in pieces {
            self.held_back += FRAME + usize::from(piece.what.brings_data()) * piece.length;
            self.queue.push_back(piece);
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
    pub fn decide_route(&mut self) -> Result<(), Error> {
        if !self.session.is_undecided() || !self.is_idle() {
            return Ok(());
        }
        let decided = self.session.decide_route();
        if self.session.is_broken() {
            self.fail(Error::Dropped("earlier"));
        }
        decided
    }

    /// Returns whether nothing is in progress.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.flights.is_empty()
    }

    /// Returns the number of operations that have ended since the session began.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    fn has_ended(&mut self, number: u64, errand: UnderWay) {
        self.ended += 1;
        match errand.is_abandoned {
            false => drop(self.done.insert(number, errand.into_done())),
            true => self.forget_landed(errand.landed),
        }
    }

    fn forget_landed(&mut self, landed: Option<usize>) {
        if let Some(part) = landed {
            self.landing.free(part);
        }
    }

    /// Returns the result of an operation once it has ended; a result is returned once.
    pub fn take(&mut self, number: u64) -> Option<Done> {
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
            Ok(Given::Read(length)) => length,
            Ok(_) => return Some(Err(Error::Setup("no data were read to be checked".into()))),
            Err(error) => {
                self.forget_landed(done.landed);
                return Some(Err(error));
            }
        };
        let looked = match (done.landed, self.session.data_path()) {
            (Some(part), Some(data)) => data.content(part, length).map(look),
            _ => Ok(look(&done.memory.bytes()[..length])),
        };
        self.forget_landed(done.landed);
        let memory = done.memory.into_bytes();
        if self.spare.len() < PARTS && !memory.is_empty() {
            self.spare.push(memory);
        }
        Some(looked)
    }

    /// Returns whether all data that an operation writes have been sent. Its memory is not accessed
    /// any more then.
    pub fn has_left(&mut self, number: u64) -> bool {
        let waits = self.queue.iter().any(|piece| piece.errand == number);
        let is_of_it = |(errand, _): &(u64, Span<usize>)| *errand == number;
        let leaves = |leaving: &Leaving| leaving.data.as_ref().is_some_and(is_of_it);
        if waits || self.leaving.iter().any(leaves) {
            return false;
        }
        let nothing = || Box::new(Vec::new());
        if let Some(errand) = self.under_way.get_mut(&number) {
            errand.memory = nothing();
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
        if let Some(errand) = self.under_way.get_mut(&number) {
            errand.is_taken_back = true;
        }
        let before = self.queue.len();
        self.queue.retain(|piece| piece.errand != number);
        let dropped = before - self.queue.len();
        let is_of_it = |flight: &&Flight| {
            let mut piece = flight.piece.iter();
            flight.only_looks && piece.any(|piece| piece.errand == number)
        };
        let asked: Vec<u64> = match self.session.version() >= ANY_ORDER {
            true => self
                .flights
                .values()
                .filter(is_of_it)
                .map(|flight| flight.id)
                .collect(),
            false => Vec::new(),
        };
        for id in asked {
            // There is space for one such request at a time; without space the reply arrives as
            // usual.
            if self.flights.len() <= self.most {
                self.emit(&Request::Cancel(Cancel { id }), None, None);
            }
        }
        self.drop_pieces(number, dropped, taken_back);
        self.advance(None);
    }

    /// Abandons an operation: cancels it and discards its result.
    pub fn abandon(&mut self, number: u64) {
        if let Some(done) = self.done.remove(&number) {
            self.forget_landed(done.landed);
        }
        if let Some(errand) = self.under_way.get_mut(&number) {
            errand.is_abandoned = true;
            self.cancel(number);
        }
    }

    fn drop_pieces(&mut self, number: u64, count: usize, why: fn() -> Error) {
        if let Some(errand) = self.under_way.get_mut(&number)
            && count > 0
        {
            errand.left -= count;
            errand.error.get_or_insert_with(why);
            self.end_if_done(number);
        }
    }

    /// Returns whether output is pending.
    pub fn wants_to_send(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Returns how long to wait for the network at most; zero means no limit.
    pub fn patience(&self) -> Duration {
        let left = self.quiet.left();
        left.map_or(Duration::ZERO, |left| left.max(Duration::from_millis(1)))
    }

    /// Sends and receives as much as possible without blocking. If `wanted` names an operation,
    /// receives nothing beyond its end.
    pub fn advance(&mut self, wanted: Option<u64>) {
        self.act(|traffic| traffic.move_on(wanted));
    }

    /// Sends as much as possible without blocking.
    pub fn send(&mut self) {
        self.act(|traffic| traffic.depart().and_then(|()| traffic.flush()));
    }

    fn act(&mut self, act: impl FnOnce(&mut Self) -> Result<(), Error>) {
        if self.broken.is_none()
            && let Err(error) = act(self)
        {
            self.fail(error);
        }
    }

    /// Fails the session if an expected answer is overdue.
    pub fn look_for_silence(&mut self) {
        if !self.flights.is_empty() && self.broken.is_none() && self.quiet.is_over() {
            self.fail(Error::TimedOut);
        }
    }

    /// Ends the session and all operations.
    fn fail(&mut self, error: Error) {
        self.queue.clear();
        self.leaving.clear();
        self.flights.clear();
        self.coming = None;
        for (number, mut errand) in std::mem::take(&mut self.under_way) {
            errand.left = 0;
            errand.error = Some(error.again());
            self.has_ended(number, errand);
        }
        self.session.give_up();
        self.broken = Some(error);
    }

    /// Leaves all memory as it is, since it belongs to another process.
    pub fn forget(&mut self) {
        std::mem::forget(std::mem::take(&mut self.under_way));
        std::mem::forget(std::mem::take(&mut self.done));
    }

    fn move_on(&mut self, wanted: Option<u64>) -> Result<(), Error> {
        loop {
            self.depart()?;
            self.flush()?;
            if wanted.is_some_and(|number| self.is_done(number)) || !self.arrive()? {
                return Ok(());
            }
        }
    }

    /// Turns queued subrequests into requests, as many as may be in flight.
    fn depart(&mut self) -> Result<(), Error> {
        self.held_back = 0;
        if self.queue.is_empty() {
            return Ok(());
        }
        let pieces = self
            .flights
            .values()
            .filter_map(|flight| flight.piece.as_ref());
        let mut reads: Vec<Order> = pieces
            .filter(|piece| piece.what.may_be_short())
            .map(|piece| piece.what.order())
            .collect();
        while self.flights.len() < self.most
            && let Some(index) = self.may_leave(&reads)
        {
            // If all parts are in use, the subrequest waits for a free one; later ones do not
            // overtake it.
            let Some(window) = self.window_for(index)? else {
                return Ok(());
            };
            let Some(piece) = self.queue.remove(index) else {
                return Ok(());
            };
            if piece.what.may_be_short() {
                reads.push(piece.what.order());
            }
            let (window, lent) = window.unzip();
            let request = self.request_of(&piece, window);
            self.emit(&request, Some(piece), lent);
        }
        Ok(())
    }

    /// Returns the first of the next queued subrequests that may be sent; `reads` are in flight.
    fn may_leave(&self, reads: &[Order]) -> Option<usize> {
        let mut earlier: Vec<Order> = Vec::new();
        for (index, piece) in self.queue.iter().take(NEXT).enumerate() {
            let order = piece.what.order();
            let free = |other: &Order| !order.must_follow(other);
            if reads.iter().all(free) && earlier.iter().all(free) {
                return Some(index);
            }
            earlier.push(order);
        }
        None
    }

    /// Opens a window for the data of a queued subrequest if they travel by RDMA; returns `None` if
    /// there is no space for it now.
    #[allow(clippy::option_option, reason = "no room, or no need of any")]
    fn window_for(&mut self, index: usize) -> Result<Option<Option<(Window, Lent)>>, Error> {
        let piece = &self.queue[index];
        let checksums = self.session.checksums();
        let Some(data) = self.session.data_path() else {
            return Ok(Some(None));
        };
        if piece.length < WORTH_A_WINDOW || !piece.what.moves_data() {
            return Ok(Some(None));
        }
        if matches!(piece.what, What::Write(..)) {
            let (Some(part), Some(errand)) =
                (self.offering.take(), self.under_way.get(&piece.errand))
            else {
                return Ok(None);
            };
            let bytes = &errand.memory.bytes()[piece.at..piece.at + piece.length];
            return Ok(Some(Some((data.offer(part, bytes)?, Lent::Offering(part)))));
        }
        let Some(part) = self.landing.take() else {
            return Ok(None);
        };
        if checksums == Checksums::Off {
            data.expect_notice()?;
        }
        let window = data.open_landing(part, piece.length)?;
        Ok(Some(Some((window, Lent::Landing(part)))))
    }

    fn request_of(&self, piece: &Piece, window: Option<Window>) -> Request {
        let checksums = self.session.checksums() == Checksums::On;
        let length = piece.length as u32;
        let read = |handle: Handle, offset: u64, window| {
            Request::Read(Read {
                handle,
                range: Range { offset, length },
                checksums,
                window,
            })
        };
        match &piece.what {
            What::Call(request) => request.clone(),
            What::Read(handle, offset) | What::Part(handle, _, offset) => {
                read(*handle, *offset, window)
            }
            What::Vector(handle, _, ranges) => Request::ReadVector(ReadVector {
                handle: *handle,
                ranges: ranges.clone(),
                checksums,
                window,
            }),
            What::Write(handle, offset) => {
                let bytes = self.under_way.get(&piece.errand).map_or(&[][..], |errand| {
                    &errand.memory.bytes()[piece.at..piece.at + piece.length]
                });
                Request::Write(Write {
                    handle: *handle,
                    range: Range {
                        offset: *offset,
                        length,
                    },
                    checksums: match checksums {
                        true => checksums_of(*offset, bytes, self.session.terms().block),
                        false => Vec::new(),
                    },
                    window,
                })
            }
        }
    }

    /// Queues a request for sending.
    fn emit(&mut self, request: &Request, piece: Option<Piece>, window: Option<Lent>) {
        let data = match (&piece, request.brings_data()) {
            (Some(piece), true) if piece.length > 0 => {
                Some((piece.errand, piece.at..piece.at + piece.length))
            }
            _ => None,
        };
        let length = data.as_ref().map_or(0, |(_, span)| span.len());
        let (id, front) = self.session.frame(request, length);
        if self.flights.is_empty() {
            self.quiet.restart();
        }
        let most = piece.as_ref().map_or(0, |piece| piece.length);
        let flight = Flight {
            id,
            operation: request.operation(),
            most: request.most_data().min(most),
            is_sent: false,
            piece,
            only_looks: request.only_looks(),
            window,
        };
        self.flights.insert(id, flight);
        self.leaving.push_back(Leaving {
            id,
            front,
            data,
            sent: 0,
        });
    }

    fn flush(&mut self) -> Result<(), Error> {
        while !self.leaving.is_empty() {
            let mut slices = Vec::with_capacity(2 * self.leaving.len().min(TOGETHER));
            for one in self.leaving.iter().take(TOGETHER) {
                let errand = one
                    .data
                    .as_ref()
                    .and_then(|(errand, span)| Some((self.under_way.get(errand)?, span.clone())));
                let data = errand.map_or(&[][..], |(errand, span)| &errand.memory.bytes()[span]);
                let behind = one.sent.saturating_sub(one.front.len()).min(data.len());
                let rest = [&one.front[one.sent.min(one.front.len())..], &data[behind..]];
                let rest = rest.into_iter().filter(|rest| !rest.is_empty());
                slices.extend(rest.map(IoSlice::new));
            }
            if !slices.is_empty() {
                let Some(mut taken) = self.session.stream().send_some(&slices)? else {
                    return Ok(());
                };
                // A peer that takes data is not silent.
                self.quiet.count(taken);
                for one in &mut self.leaving {
                    let now = taken.min(one.length() - one.sent);
                    taken -= now;
                    one.sent += now;
                    if one.sent < one.length() {
                        break;
                    }
                    if let Some(flight) = self.flights.get_mut(&one.id) {
                        flight.is_sent = true;
                    }
                }
            }
            if !self.session.stream().flush_some()? {
                return Ok(());
            }
            while self
                .leaving
                .front()
                .is_some_and(|one| one.sent == one.length())
            {
                self.leaving.pop_front();
            }
        }
        Ok(())
    }

    /// Receives available data; returns whether a reply was completed.
    fn arrive(&mut self) -> Result<bool, Error> {
        if self.coming.is_none() {
            let Some(front) = self.session.front()? else {
                return Ok(false);
            };
            self.quiet.count(HEADER + front.body.len());
            let header = front.header;
            let flight = self.flights.get(&header.id);
            let flight = flight
                .filter(|flight| flight.is_sent && header.kind == Kind::reply(flight.operation));
            let oldest = self.flights.keys().next() == Some(&header.id);
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
            self.coming = Some(Coming {
                id: header.id,
                outcome: reply::decode(header.kind.operation(), &front.body)?,
                length,
                filled: 0,
            });
        }
        let Some(coming) = &mut self.coming else {
            return Ok(false);
        };
        let flight = self.flights.get(&coming.id);
        // Only replies with data need memory to receive into; the memory of a write is read-only.
        if coming.length > 0
            && let Some(piece) = flight.and_then(|flight| flight.piece.as_ref())
            && let Some(errand) = self.under_way.get_mut(&piece.errand)
        {
            let place = &mut memory(errand, &mut self.spare)[piece.at..piece.at + coming.length];
            while coming.filled < coming.length {
                match self
                    .session
                    .stream()
                    .receive_some(&mut place[coming.filled..])?
                {
                    Some(more) => {
                        coming.filled += more;
                        self.quiet.count(more);
                    }
                    None => return Ok(false),
                }
            }
        }
        if let Some(coming) = self.coming.take()
            && let Some(flight) = self.flights.remove(&coming.id)
        {
            self.answered(flight, coming.outcome, coming.length)?;
        }
        Ok(true)
    }

    pub(super) fn piece_ended(&mut self, number: u64, error: Option<Error>) {
        let Some(errand) = self.under_way.get_mut(&number) else {
            return;
        };
        errand.left -= 1;
        let failed = error.is_some();
        if let Some(error) = error {
            errand.error.get_or_insert(error);
        }
        self.end_if_done(number);
        // The rest of a failed operation is not requested.
        if failed {
            let before = self.queue.len();
            self.queue.retain(|piece| piece.errand != number);
            self.drop_pieces(number, before - self.queue.len(), taken_back);
        }
    }

    /// Returns whether the rest of an operation is still requested.
    pub(super) fn is_wanted(&self, number: u64) -> bool {
        let errand = self.under_way.get(&number);
        errand.is_some_and(|errand| !errand.is_taken_back && errand.error.is_none())
    }

    fn end_if_done(&mut self, number: u64) {
        let ended = self
            .under_way
            .get(&number)
            .is_some_and(|errand| errand.left == 0);
        if ended && let Some(errand) = self.under_way.remove(&number) {
            self.has_ended(number, errand);
        }
    }
}

/// Returns the memory of an operation, to be filled. A chunk gets its memory when its first data
/// arrive, usually that of a chunk consumed just before.
pub(super) fn memory<'a>(errand: &'a mut UnderWay, spare: &mut Vec<Vec<u8>>) -> &'a mut [u8] {
    let missing = errand.missing_memory();
    if missing > 0 {
        let mut bytes = spare.pop().unwrap_or_default();
        if bytes.len() < missing {
            bytes.resize(missing, 0);
        }
        errand.memory = Box::new(bytes);
    }
    errand.memory.bytes_mut()
}

pub(super) fn taken_back() -> Error {
    Error::Refused(Refusal::new(
        Status::errno(libc::ECANCELED),
        "taken back before it was asked for",
    ))
}
