//! Faults of completion queues: `cq1.poll 3: empty`, `cq*.event: delay 5 ms`,
//! `cq1.completion 10: overrun`.

use std::fmt;
use std::time::Duration;

use crate::link;
use crate::site::Objects;

/// The use of a completion queue that a rule counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Polls that find a completion.
    Poll,
    /// Events that the queue raises.
    Event,
    /// Completions that are added.
    Completion,
}

/// The names of the parts in rules.
const PARTS: [(&str, Part); 3] = [
    ("poll", Part::Poll),
    ("event", Part::Event),
    ("completion", Part::Completion),
];

/// The completion queues that a rule is about, and their use that it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// The queues, each of which counts by itself.
    pub objects: Objects,
    /// Their use.
    pub part: Part,
}

impl Queue {
    /// Reads it; none for another text.
    pub(crate) fn read(text: &str) -> Option<Queue> {
        let (objects, part) = text.strip_prefix("cq")?.split_once('.')?;
        let (_, part) = PARTS.into_iter().find(|(name, _)| *name == part)?;
        Some(Queue {
            objects: Objects::read(objects)?,
            part,
        })
    }

    /// Returns the same use of one queue.
    pub(crate) fn at(self, number: u32) -> Queue {
        Queue {
            objects: Objects::One(number),
            ..self
        }
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = PARTS.iter().find(|(_, part)| *part == self.part);
        write!(
            to,
            "cq{}.{}",
            self.objects,
            name.map_or("", |(name, _)| name)
        )
    }
}

/// A fault of a completion queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueFault {
    /// The poll returns nothing: the completion is visible a moment later.
    Empty,
    /// The poll returns one completion, although there may be more.
    Single,
    /// Another event follows, for which there may be no completion.
    Spurious,
    /// The event comes so much later.
    Delay(Duration),
    /// The completion does not fit: the queue fails.
    Overrun,
}

impl QueueFault {
    /// Reads a fault of this part; none for another text.
    pub(crate) fn read(part: Part, text: &str) -> Option<QueueFault> {
        match (part, text) {
            (Part::Poll, "empty") => Some(QueueFault::Empty),
            (Part::Poll, "single") => Some(QueueFault::Single),
            (Part::Event, "spurious") => Some(QueueFault::Spurious),
            (Part::Event, text) => {
                let time = text.strip_prefix("delay ")?;
                link::time(time.trim()).map(QueueFault::Delay)
            }
            (Part::Completion, "overrun") => Some(QueueFault::Overrun),
            _ => None,
        }
    }

    /// Returns the faults of a part, for messages.
    pub(crate) fn names(part: Part) -> &'static str {
        match part {
            Part::Poll => "empty, single",
            Part::Event => "spurious, delay 5 ms",
            Part::Completion => "overrun",
        }
    }

    /// Returns whether it may concern all uses alike.
    pub(crate) fn is_property(self) -> bool {
        matches!(self, QueueFault::Single | QueueFault::Delay(_))
    }
}

impl fmt::Display for QueueFault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            QueueFault::Empty => to.write_str("empty"),
            QueueFault::Single => to.write_str("single"),
            QueueFault::Spurious => to.write_str("spurious"),
            QueueFault::Delay(time) => write!(to, "delay {}", link::in_words(time)),
            QueueFault::Overrun => to.write_str("overrun"),
        }
    }
}
