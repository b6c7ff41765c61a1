//! Messages between runner and workers: lists of 64-bit words over a socket pair.

use std::io::{self, Read, Write};

const MOST_WORDS: u64 = 1 << 20;

/// The first word of a message to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Order {
    /// Make the calls of a step: step, then facts.
    Step = 1,
    /// Report completions and events.
    Observe = 2,
    /// Send the arena.
    Memory = 3,
}

impl Order {
    /// Returns the order with this number.
    pub fn from_word(word: u64) -> Option<Order> {
        [Order::Step, Order::Observe, Order::Memory]
            .into_iter()
            .find(|order| *order as u64 == word)
    }
}

/// Numbers that the library assigns and other processes need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Fact {
    /// A queue pair's number.
    QpNumber = 1,
    /// A region's remote key.
    MrKey = 2,
    /// A window's remote key.
    MwKey = 3,
    /// An XRC shared receive queue's number.
    SrqNumber = 4,
    /// The first half of a queue pair's GID, as a number.
    GidPrefix = 5,
    /// The second half.
    GidInterface = 6,
}

impl Fact {
    /// Returns the fact with this number.
    pub fn from_word(word: u64) -> Option<Fact> {
        let all = [
            Fact::QpNumber,
            Fact::MrKey,
            Fact::MwKey,
            Fact::SrqNumber,
            Fact::GidPrefix,
            Fact::GidInterface,
        ];
        all.into_iter().find(|fact| *fact as u64 == word)
    }
}

/// Sends a message.
///
/// # Errors
///
/// Writing fails.
pub fn send(to: &mut impl Write, words: &[u64]) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(8 + 8 * words.len());
    bytes.extend((words.len() as u64).to_le_bytes());
    words
        .iter()
        .for_each(|word| bytes.extend(word.to_le_bytes()));
    to.write_all(&bytes)
}

/// Receives a message.
///
/// # Errors
///
/// Reading fails, or the message is too long.
pub fn receive(from: &mut impl Read) -> io::Result<Vec<u64>> {
    let mut word = [0; 8];
    from.read_exact(&mut word)?;
    let count = u64::from_le_bytes(word);
    if count > MOST_WORDS {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a message too long",
        ));
    }
    let mut bytes = vec![0; 8 * count as usize];
    from.read_exact(&mut bytes)?;
    Ok(bytes
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .collect())
}
