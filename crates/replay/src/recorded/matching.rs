//! Matches receives with messages: on each path, the n-th receive that was begun gets the n-th
//! message.

use std::collections::HashMap;
use verbena_mpi_trace::Identity;

/// Properties that messages share to keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Channel {
    /// A communicator and a tag.
    Tagged(Identity, u32),
    /// Exchanges with neighbors.
    Neighbors(Identity),
    /// Permissions to access a window.
    Posted(Identity, usize),
    /// Completions of accesses to a window.
    Completed(Identity, usize),
}

/// Sender, receiver and channel.
pub(super) type Stream = (usize, usize, Channel);

#[derive(Debug, Default)]
pub(super) struct Streams {
    numbers: HashMap<Stream, usize>,
    ways: Vec<Messages>,
    /// Number of messages from one rank to another.
    between: HashMap<(usize, usize), u32>,
}

#[derive(Debug)]
struct Messages {
    way: Stream,
    /// Mark and length of each sent message.
    sent: Vec<(u32, u64)>,
    received: usize,
}

/// A receive: its path, and the number of earlier receives on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    way: usize,
    turn: usize,
}

impl Streams {
    fn way(&mut self, way: Stream) -> usize {
        let next = self.ways.len();
        let number = *self.numbers.entry(way).or_insert(next);
        if number == next {
            self.ways.push(Messages {
                way,
                sent: Vec::new(),
                received: 0,
            });
        }
        number
    }

    /// Adds a sent message; returns its mark.
    pub fn send(&mut self, way: Stream, bytes: u64) -> u32 {
        let number = self.way(way);
        let before = self.between.entry((way.0, way.1)).or_default();
        let mark = *before;
        *before += 1;
        self.ways[number].sent.push((mark, bytes));
        mark
    }

    /// Adds a receive.
    pub fn receive(&mut self, way: Stream) -> Turn {
        let number = self.way(way);
        let messages = &mut self.ways[number];
        messages.received += 1;
        Turn {
            way: number,
            turn: messages.received - 1,
        }
    }

    /// Returns the mark and length of the message that a receive gets.
    pub fn message(&self, turn: Turn) -> (u32, u64) {
        self.ways[turn.way].sent[turn.turn]
    }

    /// Describes a path with different numbers of sends and receives, if any.
    pub fn unlike(&self) -> Option<String> {
        let unlike = self
            .ways
            .iter()
            .find(|one| one.sent.len() != one.received)?;
        let (from, to, channel) = unlike.way;
        let by = match channel {
            Channel::Tagged(_, tag) => format!("with tag {tag}"),
            Channel::Neighbors(_) => "between neighbors".to_owned(),
            Channel::Posted(..) | Channel::Completed(..) => "about a window".to_owned(),
        };
        Some(format!(
            "{} messages {by} were sent from rank {from} to rank {to}, but {} were received",
            unlike.sent.len(),
            unlike.received
        ))
    }
}
