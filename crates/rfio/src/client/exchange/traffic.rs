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

use verbena_rfio_protocol::frame::{HEADER, Kind};
use verbena_rfio_protocol::order::Order;
use verbena_rfio_protocol::reply::{self, Refusal};
use verbena_rfio_protocol::request::{Cancel, Read, ReadVector, Write};
use verbena_rfio_protocol::types::{Handle, Range, Window};
use verbena_rfio_protocol::{ANY_ORDER, Reply, Request, Status};

use super::errand::{Bounds, Done, Errand, Given, Memory, Piece, UnderWay, What};
use super::parts::Parts;
use crate::client::blocks::checksums_of;
use crate::client::bounds::Wait;
use crate::client::data::PARTS;
use crate::client::error::Error;
use crate::client::options::Checksums;
use crate::client::session::{Session, too_much};

/// Smallest transfer for which a window is opened: below, the data go with the frame that goes
/// anyway.
const WORTH_A_WINDOW: usize = 16 << 10;

/// Pieces among which one is looked for that may leave.
const NEXT: usize = 64;

/// Frames that are handed to the network together.
const TOGETHER: usize = 64;

/// Bytes of requests that may wait for others to leave with them.
const HELD_BACK: usize = 32 << 10;

/// Bytes of a frame beside its data, about.
const FRAME: usize = 128;

/// A request that was made and has no reply yet.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) id: u64,
    operation: u16,
    /// The most data that may come with the reply, in bytes.
    most: usize,
    /// Whether all of it was handed to the network.
    is_sent: bool,
    /// Of whose errand; a request to take another back has none.
    pub(super) piece: Option<Piece>,
    only_looks: bool,
    /// The part of the landing or of the offering area that its window covers.
    pub(super) window: Option<Lent>,
}

/// The part that a window covers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Lent {
    Landing(usize),
    Offering(usize),
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

impl Leaving {
    fn length(&self) -> usize {
        self.front.len() + self.data.as_ref().map_or(0, |(_, span)| span.len())
    }
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
    /// Memory of chunks that were looked at, for the next.
    pub(super) spare: Vec<Vec<u8>>,
    /// Bytes of requests that wait for others.
    held_back: usize,
    next: u64,
    broken: Option<Error>,
    /// How long the next answer may still take.
    pub(super) quiet: Wait,
}

impl Traffic {
    /// Nothing is under way yet. `ahead` is whether requests may leave that the server takes only
    /// when earlier ones have ended.
    pub fn new(session: Session, ahead: bool) -> Self {
        let terms = session.terms();
        let bounds = Bounds {
            bytes: (terms.most_payload as usize / PARTS).max(1),
            ranges: terms.most_ranges as usize,
        };
        // Room for one request that takes another back, whatever else is on its way.
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

    /// Most bytes of one request.
    pub fn most_at_once(&self) -> usize {
        self.bounds.bytes
    }

    /// Begins an errand; gives its number. It leaves when the traffic advances, as it does here if
    /// enough has been held back to leave together.
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

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty() && self.flights.is_empty()
    }

    /// Errands that have ended since the session began.
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

    /// An errand's end, if it has come; it is told once.
    pub fn take(&mut self, number: u64) -> Option<Done> {
        self.done.remove(&number)
    }

    /// Shows what a chunk brought, where it landed, if its end has come; it is shown once.
    pub fn look<T>(
        &mut self,
        number: u64,
        look: &mut dyn FnMut(&[u8]) -> T,
    ) -> Option<Result<T, Error>> {
        let done = self.done.remove(&number)?;
        let length = match done.outcome {
            Ok(Given::Read(length)) => length,
            Ok(_) => return Some(Err(Error::Setup("nothing was read to be looked at".into()))),
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

    /// Whether all that an errand writes has left; its memory is not looked at any more then.
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
                .map(|flight| flight.id)
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
        self.advance(None);
    }

    /// Nobody waits for an errand any more: it is taken back, and its end is told to nobody.
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

    /// Whether something waits to be sent.
    pub fn wants_to_send(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// How long the network may still be waited for; zero is for ever.
    pub fn patience(&self) -> Duration {
        let left = self.quiet.left();
        left.map_or(Duration::ZERO, |left| left.max(Duration::from_millis(1)))
    }

    /// Sends and receives what can be without waiting; receives no more than is needed for one
    /// errand to end, if one is named.
    pub fn advance(&mut self, wanted: Option<u64>) {
        self.act(|traffic| traffic.move_on(wanted));
    }

    /// Sends what can be without waiting.
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

    fn move_on(&mut self, wanted: Option<u64>) -> Result<(), Error> {
        loop {
            self.depart()?;
            self.flush()?;
            if wanted.is_some_and(|number| self.is_done(number)) || !self.arrive()? {
                return Ok(());
            }
        }
    }

    /// Makes requests of the pieces that wait, as many as may be on their way.
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
            // Where all parts are lent its turn comes when one is free; later ones do not overtake
            // it.
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

    /// The first piece that may leave, of those that are next; `reads` are on their way.
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

    /// Opens a window for the data of a piece that waits, if they travel beside the frames: `None`
    /// if
    /// there is no room for that now.
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

    /// Puts a request among those that leave.
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
                // A peer that takes what is sent is not silent.
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

    /// Takes what has come; whether a reply was whole.
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
                    "reply {} to nothing that was asked for",
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
        // Memory that is only written from is not looked at as memory to be filled.
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

/// The memory of an errand, to be filled. A chunk gets it when its first data come, and mostly that
/// of one that was looked at just before.
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
