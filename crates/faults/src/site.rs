//! The place of a rule: a call (`ibv_reg_mr`), requests or receives of queue pairs (`qp1.write`,
//! `qp*.recv`), a port, the adapter, a link, a completion queue, or a connection manager's call.

use std::fmt;

use crate::call;
use crate::link::Link;
use crate::queue::Queue;
use crate::rule::BadRule;

/// Which objects of a kind a rule is about. `verbena trace` has the same numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objects {
    /// Each, which counts by itself.
    Each,
    /// The one with this number, in the order in which the process created them, from 1.
    One(u32),
}

impl Objects {
    /// Reads `*` or a number from 1; none for another text.
    pub(crate) fn read(text: &str) -> Option<Objects> {
        match text {
            "*" => Some(Objects::Each),
            number => number
                .parse()
                .ok()
                .filter(|number| *number > 0)
                .map(Objects::One),
        }
    }

    /// Returns whether an object of this number is meant.
    pub fn include(self, number: u32) -> bool {
        match self {
            Objects::Each => true,
            Objects::One(one) => one == number,
        }
    }
}

impl fmt::Display for Objects {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Objects::Each => to.write_str("*"),
            Objects::One(number) => write!(to, "{number}"),
        }
    }
}

/// An operation of send requests, with its variants (immediate data, invalidation).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // See the names.
pub enum Operation {
    Any,
    Send,
    Write,
    Read,
    FetchAdd,
    CompareSwap,
    AtomicWrite,
    Flush,
    Bind,
    Invalidate,
}

impl Operation {
    /// All operations, with their names in rules.
    pub const NAMES: [(&'static str, Operation); 10] = [
        ("send", Operation::Send),
        ("write", Operation::Write),
        ("read", Operation::Read),
        ("fetch-add", Operation::FetchAdd),
        ("compare-swap", Operation::CompareSwap),
        ("atomic-write", Operation::AtomicWrite),
        ("flush", Operation::Flush),
        ("bind", Operation::Bind),
        ("invalidate", Operation::Invalidate),
        ("any", Operation::Any),
    ];

    /// Returns whether it concerns local objects only, so that nothing is sent.
    pub fn is_local(self) -> bool {
        matches!(self, Operation::Bind | Operation::Invalidate)
    }
}

/// The calls or requests that a rule counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Site {
    /// Calls of a function.
    Call(&'static str),
    /// Send requests of queue pairs.
    Requests(Objects, Operation),
    /// Receives of queue pairs that messages take.
    Receives(Objects),
    /// Messages of queue pairs on their links.
    Link(Link),
    /// Polls, events and completions of completion queues.
    Queue(Queue),
    /// A port, which counts nothing.
    Port(u8),
    /// The adapter with all of its devices, which counts nothing.
    Adapter,
}

/// The name of receives in rules.
const RECEIVES: &str = "recv";

/// The name of the adapter in rules.
const ADAPTER: &str = "adapter";

impl Site {
    /// Reads it.
    ///
    /// # Errors
    /// Names an unknown call or operation.
    pub fn read(text: &str) -> Result<Site, BadRule> {
        let port = text
            .strip_prefix("port")
            .and_then(|number| number.parse().ok());
        if let Some(port @ 1..) = port {
            return Ok(Site::Port(port));
        }
        if text == ADAPTER {
            return Ok(Site::Adapter);
        }
        if let Some(link) = Link::read(text) {
            return Ok(Site::Link(link));
        }
        if let Some(queue) = Queue::read(text) {
            return Ok(Site::Queue(queue));
        }
        let Some((object, operation)) = text.split_once('.') else {
            return call::named(text)
                .map(|call| Site::Call(call.name))
                .ok_or_else(|| BadRule::Call(text.to_owned(), suggestion(text)));
        };
        let bad = || BadRule::Operation(text.to_owned());
        let objects = object.strip_prefix("qp").and_then(Objects::read);
        let objects = objects.ok_or_else(bad)?;
        if operation == RECEIVES {
            return Ok(Site::Receives(objects));
        }
        let found = Operation::NAMES.iter().find(|(name, _)| *name == operation);
        let (_, operation) = found.ok_or_else(bad)?;
        Ok(Site::Requests(objects, *operation))
    }

    /// Returns whether only events happen there, which are not counted.
    pub fn has_events(self) -> bool {
        matches!(self, Site::Port(_) | Site::Adapter)
    }

    /// Returns the same place at one object; a call has none.
    pub fn at(self, number: u32) -> Site {
        match self {
            Site::Call(_) | Site::Port(_) | Site::Adapter => self,
            Site::Requests(_, operation) => Site::Requests(Objects::One(number), operation),
            Site::Receives(_) => Site::Receives(Objects::One(number)),
            Site::Link(link) => Site::Link(link.at(number)),
            Site::Queue(queue) => Site::Queue(queue.at(number)),
        }
    }
}

impl fmt::Display for Site {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Site::Call(name) => to.write_str(name),
            Site::Port(number) => write!(to, "port{number}"),
            Site::Adapter => to.write_str(ADAPTER),
            Site::Link(link) => write!(to, "{link}"),
            Site::Queue(queue) => write!(to, "{queue}"),
            Site::Receives(objects) => write!(to, "qp{objects}.{RECEIVES}"),
            Site::Requests(objects, operation) => {
                let named = Operation::NAMES.iter().find(|(_, one)| one == operation);
                write!(to, "qp{objects}.{}", named.map_or("any", |(name, _)| name))
            }
        }
    }
}

/// Returns a hint at calls whose names contain the word or are contained in it.
fn suggestion(name: &str) -> String {
    let near: Vec<&str> = call::CALLS
        .iter()
        .map(|call| call.name)
        .filter(|known| !name.is_empty() && (known.contains(name) || name.contains(known)))
        .take(4)
        .collect();
    let others = ["port", "adapter", "link"];
    if others
        .iter()
        .any(|known| name.to_lowercase().starts_with(known))
    {
        return "; other rules begin with port1, port2, ..., adapter, link, link.out, link.in"
            .into();
    }
    match near.is_empty() {
        true => "; `verbena faults calls` lists them".into(),
        false => format!("; did you mean {}?", near.join(", ")),
    }
}

/// Returns the names of all operations, for messages.
pub(crate) fn operation_names() -> String {
    let names: Vec<&str> = Operation::NAMES.iter().map(|(name, _)| *name).collect();
    format!("{RECEIVES}, {}", names.join(", "))
}
