//! Events of MPI.

use super::records::{Record, leading, reference};

/// A message: communicator, peer, tag and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub comm: u64,
    pub peer: usize,
    pub tag: u32,
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operation {
    pub name: String,
    pub comm: u64,
    pub root: Option<usize>,
    pub sent: u64,
    pub received: u64,
}

/// Kind of an event. Requests have numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    Enter(u64),
    Leave(u64),
    Sent(Message),
    Received(Message),
    SendBegun(Message, u64),
    SendEnded(u64),
    ReceiveBegun(u64),
    ReceiveEnded(Message, u64),
    Cancelled(u64),
    CollectiveBegun,
    CollectiveEnded(Operation),
    RequestedCollective(u64),
    RequestedCollectiveEnded(Operation, u64),
    /// The tracer was busy until this time.
    Flushed(u64),
    /// From here on the tracer records nothing.
    Off,
    /// The tracer records again.
    On,
    /// Regions are unknown: the program was sampled.
    Sampled,
    /// An MPI event that the importer does not support.
    Unknown,
    /// Not an event of MPI.
    Nothing,
}

/// An event: location, time, kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Happened {
    pub location: u64,
    pub ticks: u64,
    pub event: Event,
}

impl Happened {
    /// Parses a line of the event table.
    pub fn of(record: &Record) -> Result<Happened, String> {
        let (kind, rest) = record.split();
        let (location, rest) = rest.split_once(' ').ok_or("as it lacks a time")?;
        let rest = rest.trim_start();
        let (ticks, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let (Ok(location), Ok(ticks)) = (location.parse(), ticks.parse()) else {
            return Err("as it lacks a location or a time".to_owned());
        };
        let lacking = || format!("as a part of {kind} is misplaced");
        Ok(Happened {
            location,
            ticks,
            event: event(kind, rest.trim()).ok_or_else(lacking)?,
        })
    }
}

fn event(kind: &str, rest: &str) -> Option<Event> {
    Some(match kind {
        "ENTER" => Event::Enter(reference(rest)?),
        "LEAVE" => Event::Leave(reference(rest)?),
        "MPI_SEND" => Event::Sent(message(rest)?),
        "MPI_RECV" => Event::Received(message(rest)?),
        "MPI_ISEND" => {
            let (message, request) = requested(rest, message)?;
            Event::SendBegun(message, request)
        }
        "MPI_IRECV" => {
            let (message, request) = requested(rest, message)?;
            Event::ReceiveEnded(message, request)
        }
        "MPI_ISEND_COMPLETE" => Event::SendEnded(request(rest)?),
        "MPI_IRECV_REQUEST" => Event::ReceiveBegun(request(rest)?),
        "MPI_REQUEST_CANCELLED" => Event::Cancelled(request(rest)?),
        "MPI_COLLECTIVE_BEGIN" => Event::CollectiveBegun,
        "MPI_COLLECTIVE_END" => Event::CollectiveEnded(operation(rest)?),
        "NON_BLOCKING_COLLECTIVE_REQUEST" => Event::RequestedCollective(request(rest)?),
        "NON_BLOCKING_COLLECTIVE_COMPLETE" => {
            let (operation, request) = requested(rest, operation)?;
            Event::RequestedCollectiveEnded(operation, request)
        }
        "BUFFER_FLUSH" => Event::Flushed(leading(rest.strip_prefix("Stop Time: ")?)?),
        "CALLING_CONTEXT_ENTER" | "CALLING_CONTEXT_LEAVE" | "CALLING_CONTEXT_SAMPLE" => {
            Event::Sampled
        }
        "MEASUREMENT_ON_OFF" => match rest.strip_prefix("Mode: ")? {
            "OFF" => Event::Off,
            "ON" => Event::On,
            _ => return None,
        },
        // A test that found no request complete.
        "MPI_REQUEST_TEST" => Event::Nothing,
        _ if kind.starts_with("MPI_") || kind.starts_with("RMA_") => Event::Unknown,
        _ => Event::Nothing,
    })
}

fn request(rest: &str) -> Option<u64> {
    rest.strip_prefix("Request: ")?.parse().ok()
}

/// Names may contain any text, so the fields after them are parsed from the end.
fn requested<T>(rest: &str, of: impl Fn(&str) -> Option<T>) -> Option<(T, u64)> {
    let (before, request) = rest.rsplit_once(", Request: ")?;
    Some((of(before)?, request.parse().ok()?))
}

fn message(rest: &str) -> Option<Message> {
    let (before, bytes) = rest.rsplit_once(", Length: ")?;
    let (before, tag) = before.rsplit_once(", Tag: ")?;
    let peer = before
        .strip_prefix("Receiver: ")
        .or_else(|| before.strip_prefix("Sender: "))?;
    Some(Message {
        comm: reference(before)?,
        peer: u32::try_from(leading(peer)?).ok()? as usize,
        tag: tag.parse().ok()?,
        bytes: bytes.parse().ok()?,
    })
}

fn operation(rest: &str) -> Option<Operation> {
    let (before, received) = rest.rsplit_once(", Received: ")?;
    let (before, sent) = before.rsplit_once(", Sent: ")?;
    let (before, root) = before.rsplit_once(", Root: ")?;
    let (name, comm) = before
        .strip_prefix("Operation: ")?
        .split_once(", Communicator: ")?;
    Some(Operation {
        name: name.to_owned(),
        comm: reference(comm)?,
        root: match root {
            "NONE" => None,
            root => Some(u32::try_from(leading(root)?).ok()? as usize),
        },
        sent: sent.parse().ok()?,
        received: received.parse().ok()?,
    })
}
