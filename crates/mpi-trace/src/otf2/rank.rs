//! The calls of a rank while its events arrive. The message of a receive is known when it
//! completes, a collective operation when all its ranks have entered it: until then, the calls from
//! there on are buffered.

use crate::part::Part;
use crate::writer::Writer;
use std::collections::{HashMap, VecDeque};

/// Position of a part of a call that may be completed later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    call: u64,
    part: usize,
}

#[derive(Debug)]
struct Call {
    name: String,
    parts: Vec<Option<Part>>,
    /// Number of parts that are still unknown.
    missing: usize,
    computing: u64,
    within: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub slot: usize,
    /// Position of its start.
    pub begun: Place,
    /// Whether the part at its start is already known.
    pub told: bool,
}

/// Spans in which a tracer was off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unmeasured {
    /// Their number, over all ranks.
    pub spans: u64,
    /// Their duration in nanoseconds, over all ranks.
    pub nanoseconds: u64,
    /// The whole duration of the ranks, these spans included, in nanoseconds.
    pub traced: u64,
}

impl Unmeasured {
    /// Adds those of another rank.
    pub(super) fn add(&mut self, other: Unmeasured) {
        self.spans += other.spans;
        self.nanoseconds = self.nanoseconds.saturating_add(other.nanoseconds);
        self.traced = self.traced.saturating_add(other.traced);
    }
}

/// A rank that has ended.
#[derive(Debug)]
pub(super) struct Finished {
    /// Its trace.
    pub file: Vec<u8>,
    /// Number of requests without an end.
    pub open: u64,
    pub unmeasured: Unmeasured,
}

/// State of a rank during the import.
#[derive(Debug)]
pub(super) struct Rank {
    writer: Writer,
    calls: VecDeque<Call>,
    /// Number of written calls.
    written: u64,
    /// Nesting depth of MPI calls.
    depth: usize,
    /// Entry of the outermost call, in nanoseconds.
    entered: u64,
    /// End of the last call, or time of the first event.
    last: u64,
    /// Time of the last event.
    now: u64,
    /// Time since the last call in which the tracer was busy or off.
    flushed: u64,
    /// When the tracer was turned off, if it is off.
    off: Option<u64>,
    unmeasured: Unmeasured,
    /// Time of the first event.
    first: u64,
    communicators: Vec<Part>,
    requests: HashMap<u64, Request>,
    free: Vec<usize>,
    has_events: bool,
    has_begun: bool,
    has_ended: bool,
}

const INIT: [&str; 3] = ["MPI_Init", "MPI_Init_thread", "MPI_Initialized"];
const FINALIZE: &str = "MPI_Finalize";

impl Rank {
    /// Creates a rank of a world of `size` ranks with these communicators.
    pub fn new(rank: usize, size: usize, communicators: Vec<Part>) -> Rank {
        Rank {
            writer: Writer::new(rank, size, "OTF2"),
            calls: VecDeque::new(),
            written: 0,
            depth: 0,
            entered: 0,
            last: 0,
            now: 0,
            flushed: 0,
            off: None,
            unmeasured: Unmeasured::default(),
            first: 0,
            communicators,
            requests: HashMap::new(),
            free: Vec::new(),
            has_events: false,
            has_begun: false,
            has_ended: false,
        }
    }

    /// Sets the time of the next event. Time never goes backwards.
    pub fn at(&mut self, nanoseconds: u64) {
        if !self.has_events {
            self.has_events = true;
            self.last = nanoseconds;
            self.first = nanoseconds;
            self.now = nanoseconds;
        }
        self.now = self.now.max(nanoseconds);
    }

    /// Accounts for time that the tracer used. Within a call it is not computing in any case.
    pub fn flushed(&mut self, nanoseconds: u64) {
        if self.depth == 0 {
            self.flushed += nanoseconds;
        }
    }

    /// Records that the tracer is off from here on.
    pub fn turn_off(&mut self) {
        self.off.get_or_insert(self.now);
    }

    /// Records that the tracer is on. The activity of the rank while it was off is unknown, so that
    /// time is not computing.
    pub fn turn_on(&mut self) {
        if let Some(since) = self.off.take() {
            let span = self.now - since;
            self.unmeasured.spans += 1;
            self.unmeasured.nanoseconds += span;
            self.flushed(span);
        }
    }

    /// Enters a call. Nested calls are ignored.
    pub fn enter(&mut self, name: &str) {
        if self.has_ended {
            return;
        }
        self.turn_on();
        self.depth += 1;
        if self.depth > 1 {
            return;
        }
        let flushed = std::mem::take(&mut self.flushed);
        if !self.has_begun {
            self.has_begun = true;
            let is_first = INIT.contains(&name);
            let communicators = std::mem::take(&mut self.communicators);
            self.calls.push_back(Call {
                name: if is_first { name } else { INIT[0] }.to_owned(),
                parts: communicators.into_iter().map(Some).collect(),
                missing: 0,
                computing: 0,
                within: 0,
            });
            if is_first {
                self.entered = self.now;
                return;
            }
        }
        let computing = (self.now - self.last).saturating_sub(flushed);
        self.entered = self.now;
        self.calls.push_back(Call {
            name: name.to_owned(),
            parts: Vec::new(),
            missing: 0,
            computing,
            within: 0,
        });
    }

    /// Leaves a call.
    ///
    /// # Errors
    ///
    /// Returns an error if no call was entered.
    pub fn leave(&mut self, name: &str) -> Result<(), String> {
        if self.has_ended {
            return Ok(());
        }
        self.depth = self
            .depth
            .checked_sub(1)
            .ok_or_else(|| format!("as {name} is left without being entered"))?;
        if self.depth == 0 {
            if name == FINALIZE {
                self.put(Some(Part::Finalized));
                self.has_ended = true;
            }
            self.last = self.now;
            let within = self.now - self.entered;
            if let Some(call) = self.calls.back_mut() {
                call.within = within;
            }
            self.write();
        }
        Ok(())
    }

    /// Leaves the call that represents an operation outside all regions, if the rank is in it.
    ///
    /// # Errors
    ///
    /// As for [`leave`](Rank::leave).
    pub fn leave_outside(&mut self, name: &str) -> Result<(), String> {
        match self.calls.back() {
            Some(call) if call.name == name => self.leave(name),
            _ => Ok(()),
        }
    }

    pub fn is_within(&self) -> bool {
        self.depth > 0
    }

    /// Adds a part to the call, or reserves space for a part that is completed later.
    pub fn put(&mut self, part: Option<Part>) -> Place {
        let call = self.written + self.calls.len() as u64 - 1;
        let current = self.calls.back_mut().expect("it is in a call");
        current.missing += usize::from(part.is_none());
        current.parts.push(part);
        Place {
            call,
            part: current.parts.len() - 1,
        }
    }

    /// Completes a part; `None` if there is none.
    pub fn tell(&mut self, place: Place, part: Option<Part>) {
        let call = (place.call - self.written) as usize;
        let call = &mut self.calls[call];
        call.parts[place.part] = part;
        call.missing -= 1;
        self.write();
    }

    /// Begins a request; `part` makes the part from its slot, or returns `None` if it is not yet
    /// known.
    ///
    /// # Errors
    ///
    /// Returns an error if the request is active already.
    pub fn begin(
        &mut self,
        number: u64,
        part: impl FnOnce(usize) -> Option<Part>,
    ) -> Result<(), String> {
        if self.requests.contains_key(&number) {
            return Err(format!("as request {number} begins twice"));
        }
        // Used and free slots together are all slots so far.
        let slot = self.free.pop().unwrap_or(self.requests.len());
        let part = part(slot);
        let told = part.is_some();
        let begun = self.put(part);
        self.requests.insert(number, Request { slot, begun, told });
        Ok(())
    }

    /// Ends a request.
    ///
    /// # Errors
    ///
    /// Returns an error if it has not begun.
    pub fn end(&mut self, number: u64) -> Result<Request, String> {
        let request = self.requests.remove(&number);
        let request =
            request.ok_or_else(|| format!("as request {number} ends without having begun"))?;
        self.free.push(request.slot);
        Ok(request)
    }

    /// Ends the rank.
    ///
    /// # Errors
    ///
    /// Returns an error if the rank is within a call or has incomplete parts.
    pub fn finish(mut self) -> Result<Finished, String> {
        if self.depth > 0 {
            return Err(
                "its events end within an MPI call, so the program did not complete".to_owned(),
            );
        }
        self.turn_on();
        if !self.has_ended {
            self.enter(FINALIZE);
            // It has an outermost call now, which this ends.
            self.leave(FINALIZE)?;
        }
        let open: Vec<Request> = self.requests.values().copied().collect();
        for request in open.iter().filter(|request| !request.told) {
            self.tell(request.begun, None);
        }
        match self.calls.is_empty() {
            true => Ok(Finished {
                file: self.writer.finish(),
                open: open.len() as u64,
                unmeasured: Unmeasured {
                    traced: self.now - self.first,
                    ..self.unmeasured
                },
            }),
            false => Err(
                "it has made a collective operation that others of its communicator have not"
                    .to_owned(),
            ),
        }
    }

    /// Writes the calls whose parts are all known.
    fn write(&mut self) {
        let open = usize::from(self.depth > 0);
        while self.calls.len() > open && self.calls[0].missing == 0 {
            let Some(call) = self.calls.pop_front() else {
                break;
            };
            let parts: Vec<Part> = call.parts.into_iter().flatten().collect();
            self.writer
                .call(&call.name, &parts, call.computing, call.within);
            self.written += 1;
        }
    }
}
