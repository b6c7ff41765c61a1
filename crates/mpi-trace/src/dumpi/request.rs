//! The requests of a rank.

use super::call::Status;
use crate::part::Part;
use std::collections::{HashMap, VecDeque};

/// The null request (`dumpi_native_requests`).
const NULL: i32 = 1;

/// Message that a request stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    /// To or from MPI_PROC_NULL.
    Nothing,
    Send {
        comm: usize,
        peer: usize,
        tag: u32,
        bytes: u64,
    },
    Receive {
        comm: usize,
        peer: Option<usize>,
        tag: Option<u32>,
        bytes: u64,
        /// Number of ranks of the communicator.
        size: usize,
    },
}

#[derive(Debug)]
struct Request {
    slot: usize,
    kind: Kind,
    is_persistent: bool,
    is_started: bool,
    is_cancelled: bool,
}

impl Request {
    fn begin(&mut self) -> Option<Part> {
        self.is_started = true;
        let slot = self.slot;
        match self.kind {
            Kind::Nothing => None,
            Kind::Send {
                comm,
                peer,
                tag,
                bytes,
            } => Some(Part::BeginSend {
                slot,
                comm,
                peer,
                tag,
                bytes,
            }),
            Kind::Receive {
                comm,
                peer,
                tag,
                bytes,
                ..
            } => Some(Part::BeginReceive {
                slot,
                comm,
                peer,
                tag,
                bytes,
            }),
        }
    }

    fn end(&mut self, status: Option<&Status>) -> Result<Option<Part>, String> {
        self.is_started = false;
        let slot = self.slot;
        let is_cancelled = status.map_or(self.is_cancelled, |status| status.is_cancelled);
        Ok(match self.kind {
            Kind::Nothing => None,
            _ if is_cancelled => Some(Part::Cancelled { slot }),
            Kind::Send { .. } => Some(Part::Done { slot }),
            Kind::Receive { .. } => match received(&self.kind, status)? {
                Some((peer, tag, bytes)) => Some(Part::Received {
                    slot,
                    peer,
                    tag,
                    bytes,
                }),
                None => Some(Part::Cancelled { slot }),
            },
        })
    }
}

/// Returns source, tag and length of the message that a receive got; `None` if it was from
/// MPI_PROC_NULL.
///
/// # Errors
///
/// Returns the reason if they are unknown.
pub(super) fn received(
    kind: &Kind,
    status: Option<&Status>,
) -> Result<Option<(usize, u32, u64)>, String> {
    let &Kind::Receive {
        peer,
        tag,
        bytes,
        size,
        ..
    } = kind
    else {
        return Ok(None);
    };
    let Some(status) = status else {
        return match (peer, tag) {
            (Some(peer), Some(tag)) => Ok(Some((peer, tag, bytes))),
            _ => Err(
                "a receive from any rank or with any tag has no status in the trace, which would \
                 name its message"
                    .to_owned(),
            ),
        };
    };
    let source = match (peer, usize::try_from(status.source)) {
        (Some(peer), _) => peer,
        (None, Ok(source)) if source < size => source,
        (None, Ok(source)) => {
            return Err(format!(
                "a status names rank {source} of a communicator of {size} ranks"
            ));
        }
        // Only MPI_PROC_NULL is below 0; some libraries give it the number that stands for any.
        (None, Err(_)) => return Ok(None),
    };
    let of_status = status.tag.and_then(|tag| u32::try_from(tag).ok());
    let tag = tag.or(of_status);
    let tag = tag.ok_or("a receive with any tag has no tag in its status")?;
    let length = u64::try_from(status.bytes).unwrap_or(bytes);
    Ok(Some((source, tag, length)))
}

/// The requests by number. One number can stand for several sends that ended at once.
#[derive(Debug, Default)]
pub(super) struct Requests {
    by_number: HashMap<i32, VecDeque<Request>>,
    free: Vec<usize>,
    slots: usize,
}

impl Requests {
    /// Begins a request; returns its part.
    pub fn begin(&mut self, number: i32, kind: Kind) -> Option<Part> {
        let slot = self.slot();
        let mut request = Request {
            slot,
            kind,
            is_persistent: false,
            is_started: false,
            is_cancelled: false,
        };
        let part = request.begin();
        if number != NULL {
            self.by_number.entry(number).or_default().push_back(request);
        }
        part
    }

    /// Adds a persistent request. A former one with this number, which was freed without a record,
    /// is forgotten.
    pub fn prepare(&mut self, number: i32, kind: Kind) {
        let slot = self.slot();
        let request = Request {
            slot,
            kind,
            is_persistent: true,
            is_started: false,
            is_cancelled: false,
        };
        self.by_number.insert(number, VecDeque::from([request]));
    }

    fn slot(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        })
    }

    /// Starts a persistent request.
    pub fn start(&mut self, number: i32) -> Result<Option<Part>, String> {
        let known = self
            .by_number
            .get_mut(&number)
            .and_then(VecDeque::front_mut);
        match known {
            Some(request) if request.is_persistent && !request.is_started => Ok(request.begin()),
            _ => Err(format!("there is no persistent request {number} to start")),
        }
    }

    /// Marks a request as cancelled, for the case that its status is missing.
    pub fn cancel(&mut self, number: i32) {
        let known = self
            .by_number
            .get_mut(&number)
            .and_then(VecDeque::front_mut);
        if let Some(request) = known {
            request.is_cancelled = true;
        }
    }

    /// Ends a request; returns its part. Null, inactive and unknown requests have none: those of
    /// files and of the program's own.
    pub fn end(&mut self, number: i32, status: Option<&Status>) -> Result<Option<Part>, String> {
        let Some(requests) = self.by_number.get_mut(&number) else {
            return Ok(None);
        };
        let Some(request) = requests.front_mut().filter(|request| request.is_started) else {
            return Ok(None);
        };
        let part = request.end(status)?;
        if !request.is_persistent {
            self.free.push(request.slot);
            requests.pop_front();
            if requests.is_empty() {
                self.by_number.remove(&number);
            }
        }
        Ok(part)
    }

    /// Frees a request; returns its part if it is active.
    pub fn free(&mut self, number: i32) -> Option<Part> {
        let requests = self.by_number.get_mut(&number)?;
        let request = requests.pop_front()?;
        if requests.is_empty() {
            self.by_number.remove(&number);
        }
        self.free.push(request.slot);
        let is_active = request.is_started && request.kind != Kind::Nothing;
        is_active.then_some(Part::Freed { slot: request.slot })
    }
}
