//! The calls of a rank, while its events come. What a receive gets is known when it ends, what a collective operation is when all its
//! ranks have made it: until then the calls from there on are kept.

use crate::part::Part;
use crate::writer::Writer;
use std::collections::{HashMap, VecDeque};

/// A part of a call that may be told later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    call: u64,
    part: usize,
}

#[derive(Debug)]
struct Call {
    name: String,
    parts: Vec<Option<Part>>,
    /// Parts that are still to be told.
    missing: usize,
    computing: u64,
    within: u64,
}

/// A request under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub slot: usize,
    /// Where it was begun.
    pub begun: Place,
    /// Whether it is told already what was begun there.
    pub told: bool,
}

/// A rank on its way.
#[derive(Debug)]
pub(super) struct Rank {
    writer: Writer,
    calls: VecDeque<Call>,
    /// Calls that were written.
    written: u64,
    /// MPI calls that have been entered and not left.
    depth: usize,
    /// When the outermost of them was entered.
    entered: u64,
    /// When the last call ended, or the first event was.
    last: u64,
    /// The last event.
    now: u64,
    /// What the tracer took for itself since the last call.
    flushed: u64,
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
    /// Of a world of `size`. It has these communicators.
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
            communicators,
            requests: HashMap::new(),
            free: Vec::new(),
            has_events: false,
            has_begun: false,
            has_ended: false,
        }
    }

    /// Something happens. Time does not run backwards.
    pub fn at(&mut self, nanoseconds: u64) {
        if !self.has_events {
            self.has_events = true;
            self.last = nanoseconds;
        }
        self.now = self.now.max(nanoseconds);
    }

    /// The tracer took so long for itself. Within a call that is no computing anyway.
    pub fn flushed(&mut self, nanoseconds: u64) {
        if self.depth == 0 {
            self.flushed += nanoseconds;
        }
    }

    /// Enters a call. Whatever else it enters is its own affair.
    pub fn enter(&mut self, name: &str) {
        if self.has_ended {
            return;
        }
        self.depth += 1;
        if self.depth > 1 {
            return;
        }
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
        let computing = (self.now - self.last).saturating_sub(self.flushed);
        self.flushed = 0;
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
    pub fn leave(&mut self, name: &str) -> Result<(), String> {
        if self.has_ended {
            return Ok(());
        }
        self.depth = self
            .depth
            .checked_sub(1)
            .ok_or_else(|| format!("as {name} is left and was not entered"))?;
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

    /// Leaves the call that stands for an operation outside of all, if it is in that.
    pub fn leave_outside(&mut self, name: &str) -> Result<(), String> {
        match self.calls.back() {
            Some(call) if call.name == name => self.leave(name),
            _ => Ok(()),
        }
    }

    /// Whether it is in a call.
    pub fn is_within(&self) -> bool {
        self.depth > 0
    }

    /// Adds a part to the call, or room for one that is told later.
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

    /// Tells a part; none, if nothing came of it.
    pub fn tell(&mut self, place: Place, part: Option<Part>) {
        let call = (place.call - self.written) as usize;
        let call = &mut self.calls[call];
        call.parts[place.part] = part;
        call.missing -= 1;
        self.write();
    }

    /// A request begins; `part` makes what it begins of its number, or nothing as yet.
    pub fn begin(
        &mut self,
        number: u64,
        part: impl FnOnce(usize) -> Option<Part>,
    ) -> Result<(), String> {
        if self.requests.contains_key(&number) {
            return Err(format!(
                "as request {number} begins and is under way already"
            ));
        }
        // Slots in use and free ones are all there have been.
        let slot = self.free.pop().unwrap_or(self.requests.len());
        let part = part(slot);
        let told = part.is_some();
        let begun = self.put(part);
        self.requests.insert(number, Request { slot, begun, told });
        Ok(())
    }

    /// A request ends.
    pub fn end(&mut self, number: u64) -> Result<Request, String> {
        let request = self.requests.remove(&number);
        let request =
            request.ok_or_else(|| format!("as request {number} ends and had not begun"))?;
        self.free.push(request.slot);
        Ok(request)
    }

    /// No more events come. The file, and how many requests had no end.
    pub fn finish(mut self) -> Result<(Vec<u8>, u64), String> {
        if self.depth > 0 {
            return Err(
                "its events end within a call of MPI, so the program did not come to its end"
                    .to_owned(),
            );
        }
        if !self.has_ended {
            self.enter(FINALIZE);
            // It has an outermost call now, which leaving it ends.
            self.leave(FINALIZE)?;
        }
        let open: Vec<Request> = self.requests.values().copied().collect();
        for request in open.iter().filter(|request| !request.told) {
            self.tell(request.begun, None);
        }
        match self.calls.is_empty() {
            true => Ok((self.writer.finish(), open.len() as u64)),
            false => Err(
                "it has made a collective operation that others of its communicator have not"
                    .to_owned(),
            ),
        }
    }

    /// Writes the calls of which all is known.
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
