//! Requests on their way and their replies, matched by number. Nothing here waits for the network.
//!
//! # The law
//!
//! - What errands do is what they would do if the server carried them out in the order of the calls, as far as it keeps any
//!   order ([`verbena_rfio_protocol::order`]): a piece does not leave before one that it must follow. A read may be answered
//!   short, and its rest is asked for later; so what must follow a read leaves when that has ended.
//! - A reply belongs to the request whose number it has, if that one was sent whole, is of that operation, and has no reply
//!   yet. Any other frame is a violation, and ends everything.
//! - Data go to the place in memory that their own request has, and to no other; nobody has that memory but the errand.
//! - An errand ends once, when all of its pieces have ended. After a failure of the connection all have.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::IoSlice;
use std::ops::Range as Span;
use std::time::Duration;

use verbena_rfio_protocol::frame::{HEADER, Kind, TAG};
use verbena_rfio_protocol::order::Order;
use verbena_rfio_protocol::reply::{self, Refusal};
use verbena_rfio_protocol::request::{Cancel, Read, ReadVector, Write};
use verbena_rfio_protocol::types::{Handle, Range, Window};
use verbena_rfio_protocol::{ANY_ORDER, Header, Reply, Request, Status};

use super::errand::{Bounds, Done, Errand, Memory, Piece, UnderWay, What};
use super::input::Input;
use super::parts::Parts;
use crate::client::bounds::Wait;
use crate::client::data::PARTS;
use crate::client::error::Error;
use crate::client::options::Checksums;
use crate::client::session::{Pending, Session, too_much};
use crate::client::transfer::{WORTH_A_WINDOW, checksums_of};

/// Pieces among which one is looked for that may leave.
const NEXT: usize = 64;

/// A request that was made and has no reply yet.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) pending: Pending,
    /// Whether all of it was handed to the network.
    is_sent: bool,
    /// Of whose errand; a request to take another back has none.
    pub(super) piece: Option<Piece>,
    only_looks: bool,
    /// Parts of the landing or of the offering area that its window covers.
    pub(super) window: Option<Lent>,
}

/// Whose parts a window covers.
#[derive(Debug)]
pub(super) enum Lent {
    Landing(Span<usize>),
    Offering(Span<usize>),
}

/// A frame that leaves.
#[derive(Debug)]
struct Leaving {
    id: u64,
    front: Vec<u8>,
    /// Data behind it: whose, and where in the memory.
    data: Option<(u64, Span<usize>)>,
    sent: usize,
}

/// A reply whose data are coming.
#[derive(Debug)]
struct Coming {
    id: u64,
    outcome: Result<Reply, Refusal>,
    length: usize,
    filled: usize,
}

/// All that is under way on one session.
pub struct Traffic {
    pub(super) session: Session,
    bounds: Bounds,
    /// Requests that may be on their way.
    most: usize,
    input: Input,
    coming: Option<Coming>,
    flights: BTreeMap<u64, Flight>,
    leaving: VecDeque<Leaving>,
    pub(super) queue: VecDeque<Piece>,
    pub(super) under_way: HashMap<u64, UnderWay>,
    done: HashMap<u64, Done>,
    /// Errands that have ended since the session began.
    ended: u64,
    pub(super) landing: Parts,
    pub(super) offering: Parts,
    next: u64,
    broken: Option<Error>,
    /// How long the next answer may still take.
    pub(super) quiet: Wait,
}

impl Traffic {
    /// Nothing is under way yet. The session has decided how its data travel.
    pub fn new(session: Session, patience: Duration) -> Self {
        let terms = session.terms();
        let bounds = Bounds {
            bytes: (terms.most_payload as usize / PARTS).max(1),
            ranges: terms.most_ranges as usize,
        };
        // Room for one request that takes another back, whatever else is on its way.
        let most = (terms.most_requests as usize).saturating_sub(1).max(1);
        Self {
            session,
            bounds,
            most,
            input: Input::default(),
            coming: None,
            flights: BTreeMap::new(),
            leaving: VecDeque::new(),
            queue: VecDeque::new(),
            under_way: HashMap::new(),
            done: HashMap::new(),
            ended: 0,
            landing: Parts::default(),
            offering: Parts::default(),
            next: 1,
            broken: None,
            quiet: Wait::new(patience),
        }
    }

    /// Begins an errand; gives its number.
    pub fn begin(&mut self, errand: Errand, memory: Box<dyn Memory>) -> Result<u64, Error> {
        if let Some(why) = &self.broken {
            return Err(why.again());
        }
        let number = self.next;
        self.next += 1;
        let (under_way, pieces) = UnderWay::new(number, errand, memory, self.bounds)?;
        if pieces.is_empty() {
            self.has_ended(number, under_way);
            return Ok(number);
        }
        self.under_way.insert(number, under_way);
        self.queue.extend(pieces);
        self.advance();
        Ok(number)
    }

    /// Errands that have ended since the session began.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    fn has_ended(&mut self, number: u64, errand: UnderWay) {
        self.ended += 1;
        if !errand.is_abandoned {
            self.done.insert(number, errand.into_done());
        }
    }

    /// An errand's end, if it has come; it is told once.
    pub fn take(&mut self, number: u64) -> Option<Done> {
        self.done.remove(&number)
    }

    /// Whether an errand has ended and was not taken.
    pub fn is_done(&self, number: u64) -> bool {
        self.done.contains_key(&number)
    }

    /// Takes an errand back: what was not asked for yet is not, and the server is told of what was. It ends all the same,
    /// refused or done.
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
                .map(|flight| flight.pending.id)
                .collect(),
            false => Vec::new(),
        };
        for id in asked {
            // One such request at a time has room; without room the reply comes as ever.
            if self.flights.len() <= self.most {
                self.emit(&Request::Cancel(Cancel { id }), None, None);
            }
        }
        self.drop_pieces(number, dropped, taken_back);
        self.advance();
    }

    /// Nobody waits for an errand any more: it is taken back, and its end is told to nobody.
    pub fn abandon(&mut self, number: u64) {
        self.done.remove(&number);
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

    /// Whether something waits to be sent.
    pub fn wants_to_send(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// How long the network may still be waited for; zero is for ever.
    pub fn patience(&self) -> Duration {
        let left = self.quiet.left();
        left.map_or(Duration::ZERO, |left| left.max(Duration::from_millis(1)))
    }

    /// Sends and receives what can be without waiting.
    pub fn advance(&mut self) {
        if self.broken.is_some() {
            return;
        }
        if let Err(error) = self.move_on() {
            self.fail(error);
        }
    }

    /// What should have come has not.
    pub fn look_for_silence(&mut self) {
        if !self.flights.is_empty() && self.broken.is_none() && self.quiet.is_over() {
            self.fail(Error::TimedOut);
        }
    }

    /// The session is over: everything ends.
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

    /// Leaves everything as it is, for it is another process's.
    pub fn forget(&mut self) {
        std::mem::forget(std::mem::take(&mut self.under_way));
        std::mem::forget(std::mem::take(&mut self.done));
    }

    fn move_on(&mut self) -> Result<(), Error> {
        loop {
            self.depart()?;
            self.flush()?;
            if !self.arrive()? {
                return Ok(());
            }
        }
    }

    /// Makes requests of the pieces that wait, as many as may be on their way.
    fn depart(&mut self) -> Result<(), Error> {
        while self.flights.len() < self.most
            && let Some(index) = self.may_leave()
        {
            let (length, what) = (self.queue[index].length, self.queue[index].what.clone());
            let Some((window, lent)) = self.window_for(&what, length)? else {
                // Its turn comes when a part is free; later ones do not overtake it.
                return Ok(());
            };
            let Some(piece) = self.queue.remove(index) else {
                return Ok(());
            };
            if let (Some(Lent::Offering(parts)), Some(errand)) =
                (&lent, self.under_way.get(&piece.errand))
            {
                let bytes = &errand.memory.bytes()[piece.at..piece.at + piece.length];
                if let Some(data) = self.session.data_path()? {
                    let window = data.offer(parts.start, bytes)?;
                    let request = self.request_of(&piece, Some(window));
                    self.emit(&request, Some(piece), lent);
                    continue;
                }
            }
            let request = self.request_of(&piece, window);
            self.emit(&request, Some(piece), lent);
        }
        Ok(())
    }

    /// The first piece that may leave, of those that are next.
    fn may_leave(&self) -> Option<usize> {
        let returning = |flight: &&Flight| {
            let mut piece = flight.piece.iter();
            piece.any(|piece| piece.what.may_be_short())
        };
        let reads: Vec<Order> = self
            .flights
            .values()
            .filter(returning)
            .filter_map(|flight| Some(flight.piece.as_ref()?.what.order()))
            .collect();
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

    /// Where the data of a piece travel, beside the frames: `None` if there is no room for that now.
    #[allow(clippy::type_complexity, reason = "a window and who has it")]
    fn window_for(
        &mut self,
        what: &What,
        length: usize,
    ) -> Result<Option<(Option<Window>, Option<Lent>)>, Error> {
        if length < WORTH_A_WINDOW || matches!(what, What::Call(_)) {
            return Ok(Some((None, None)));
        }
        let checksums = self.session.checksums();
        let Some(data) = self.session.data_path()? else {
            return Ok(Some((None, None)));
        };
        if matches!(what, What::Write(..)) {
            let taken = self.offering.take(1);
            return Ok(taken.map(|parts| (None, Some(Lent::Offering(parts)))));
        }
        let Some(parts) = self.landing.take(1) else {
            return Ok(None);
        };
        if checksums == Checksums::Off {
            data.expect_notice()?;
        }
        let window = data.open_landing(parts.start, length)?;
        Ok(Some((Some(window), Some(Lent::Landing(parts)))))
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

    /// Puts a request among those that leave.
    fn emit(&mut self, request: &Request, piece: Option<Piece>, window: Option<Lent>) {
        let data = match (&piece, request.brings_data()) {
            (Some(piece), true) if piece.length > 0 => {
                Some((piece.errand, piece.at..piece.at + piece.length))
            }
            _ => None,
        };
        let id = self.session.take_number();
        let body = request.encode();
        let header = Header {
            kind: Kind::request(request.operation()),
            body: body.len() as u32,
            payload: data.as_ref().map_or(0, |(_, span)| span.len() as u32),
            id,
        };
        let raw = header.emit();
        let mut front = Vec::with_capacity(HEADER + body.len() + TAG);
        front.extend_from_slice(&raw);
        front.extend_from_slice(&body);
        if let Some(tag) = self.session.tag(&raw, &body) {
            front.extend_from_slice(&tag);
        }
        if self.flights.is_empty() {
            self.quiet.restart();
        }
        let most = piece.as_ref().map_or(0, |piece| piece.length);
        let flight = Flight {
            pending: Pending {
                id,
                operation: request.operation(),
                most: request.most_data().min(most),
            },
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
        while let Some(first) = self.leaving.front_mut() {
            let data = match &first.data {
                Some((errand, span)) => self
                    .under_way
                    .get(errand)
                    .map_or(&[][..], |errand| &errand.memory.bytes()[span.clone()]),
                None => &[],
            };
            let whole = first.front.len() + data.len();
            if first.sent < whole {
                let front = &first.front[first.sent.min(first.front.len())..];
                let data = &data[first.sent.saturating_sub(first.front.len())..];
                let slices = [IoSlice::new(front), IoSlice::new(data)];
                match self.session.stream().send_some(&slices)? {
                    Some(taken) => {
                        first.sent += taken;
                        // A peer that takes what is sent is not silent.
                        self.quiet.count(taken);
                    }
                    None => return Ok(()),
                }
                if first.sent < whole {
                    continue;
                }
            }
            if let Some(flight) = self.flights.get_mut(&first.id) {
                flight.is_sent = true;
            }
            if !self.session.stream().flush_some()? {
                return Ok(());
            }
            self.leaving.pop_front();
        }
        Ok(())
    }

    /// Takes what has come; whether a reply was whole.
    fn arrive(&mut self) -> Result<bool, Error> {
        if self.coming.is_none() {
            let (stream, tagger) = self.session.incoming();
            let Some(front) = self.input.front(stream, tagger)? else {
                return Ok(false);
            };
            self.quiet.count(HEADER + front.body.len());
            let header = front.header;
            let flight = self.flights.get(&header.id);
            let flight =
                flight.filter(|flight| flight.is_sent && flight.pending.is_answered_by(&header));
            let oldest = self.flights.keys().next() == Some(&header.id);
            let Some(flight) = flight.filter(|_| oldest || self.session.version() >= ANY_ORDER)
            else {
                return Err(Error::Protocol(format!(
                    "reply {} to nothing that was asked for",
                    header.id
                )));
            };
            let length = header.payload as usize;
            if length > flight.pending.most {
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
        // Memory that is only written from is not looked at as memory to be filled.
        if coming.length > 0
            && let Some(piece) = flight.and_then(|flight| flight.piece.as_ref())
            && let Some(errand) = self.under_way.get_mut(&piece.errand)
        {
            let place = &mut errand.memory.bytes_mut()[piece.at..piece.at + coming.length];
            while coming.filled < coming.length {
                let (stream, _) = self.session.incoming();
                match stream.receive_some(&mut place[coming.filled..])? {
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
        // What is left of an errand that has failed is not asked for.
        if failed {
            let before = self.queue.len();
            self.queue.retain(|piece| piece.errand != number);
            self.drop_pieces(number, before - self.queue.len(), taken_back);
        }
    }

    /// Whether what is left of an errand is still asked for.
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

pub(super) fn taken_back() -> Error {
    Error::Refused(Refusal::new(
        Status::errno(libc::ECANCELED),
        "taken back before it was asked for",
    ))
}
