//! Matches sent messages with received ones by number and length.

use crate::communicator::{Communicators, Identity};
use crate::part::Part;
use crate::rank::{RankTrace, Record};
use crate::trace::{Error, Trace};
use std::collections::{BTreeMap, HashMap};

/// Properties that messages share if they stay in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct MessageOrder {
    from: usize,
    to: usize,
    within: Identity,
    tag: u32,
}

/// Lengths of the messages of one path, in order.
#[derive(Debug, Default)]
struct Lengths {
    sent: Vec<u64>,
    received: Vec<u64>,
}

/// The messages of a trace, without those of collective operations.
#[derive(Debug, Default)]
pub struct Messages {
    ways: BTreeMap<MessageOrder, Lengths>,
}

/// A difference between sent and received messages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "from rank {from} to rank {to} with tag {tag}: {sent} messages of {sent_bytes} bytes sent, \
     {received} of {received_bytes} received"
)]
pub struct Imbalance {
    /// The sender.
    pub from: usize,
    /// The receiver.
    pub to: usize,
    /// Their tag.
    pub tag: u32,
    /// Number of sent messages.
    pub sent: usize,
    /// Total length of the sent messages in bytes.
    pub sent_bytes: u64,
    /// Number of received messages.
    pub received: usize,
    /// Total length of the received messages in bytes.
    pub received_bytes: u64,
}

impl Messages {
    /// Collects the messages of a trace.
    ///
    /// # Errors
    ///
    /// Returns an error if the calls of a rank are inconsistent.
    pub fn of(trace: &Trace) -> Result<Messages, Error> {
        Messages::of_part(trace, |rank| &rank.records)
    }

    /// Collects the messages of the first calls of each rank, as selected by `first`.
    pub(crate) fn of_part(
        trace: &Trace,
        first: impl Fn(&RankTrace) -> &[Record],
    ) -> Result<Messages, Error> {
        let mut messages = Messages::default();
        let mut communicators = Communicators::default();
        for rank in &trace.ranks {
            communicators.begin_rank();
            messages
                .follow(rank, first(rank), &mut communicators)
                .map_err(|reason| trace.fault(rank.rank, reason))?;
        }
        Ok(messages)
    }

    fn follow(
        &mut self,
        rank: &RankTrace,
        records: &[Record],
        communicators: &mut Communicators,
    ) -> Result<(), String> {
        let mut begun = HashMap::new();
        for part in records.iter().flat_map(|record| rank.parts(record)) {
            communicators.note(part, rank.size)?;
            match *part {
                Part::Send {
                    comm,
                    peer,
                    tag,
                    bytes,
                }
                | Part::BeginSend {
                    comm,
                    peer,
                    tag,
                    bytes,
                    ..
                } => {
                    let group = communicators.group(comm)?;
                    let way = MessageOrder {
                        from: rank.rank,
                        to: group.peer(peer)?,
                        within: group.identity,
                        tag,
                    };
                    self.ways.entry(way).or_default().sent.push(bytes);
                }
                Part::Receive {
                    comm,
                    peer,
                    tag,
                    bytes,
                } => {
                    let group = communicators.group(comm)?;
                    let (from, within) = (group.peer(peer)?, group.identity);
                    self.received(rank.rank, from, within, tag, bytes);
                }
                Part::BeginReceive { slot, comm, .. } => {
                    begun.insert(slot, communicators.group(comm)?.clone());
                }
                Part::Received {
                    slot,
                    peer,
                    tag,
                    bytes,
                } => {
                    let group = begun.remove(&slot);
                    let group =
                        group.ok_or_else(|| format!("request {slot} ends without having begun"))?;
                    self.received(rank.rank, group.peer(peer)?, group.identity, tag, bytes);
                }
                _ => (),
            }
        }
        Ok(())
    }

    fn received(&mut self, to: usize, from: usize, within: Identity, tag: u32, bytes: u64) {
        let way = MessageOrder {
            from,
            to,
            within,
            tag,
        };
        self.ways.entry(way).or_default().received.push(bytes);
    }

    /// Returns the number of sent messages and their total length in bytes.
    pub fn sent(&self) -> (u64, u64) {
        let all = self.ways.values().flat_map(|lengths| &lengths.sent);
        all.fold((0, 0), |(count, bytes), length| {
            (count + 1, u64::saturating_add(bytes, *length))
        })
    }

    /// Returns the differences between sent and received messages: numbers or lengths. Lengths are
    /// compared without order, because receives may have begun in another order than they
    /// completed.
    pub fn imbalances(&self) -> Vec<Imbalance> {
        let sorted = |lengths: &[u64]| {
            let mut sorted = lengths.to_vec();
            sorted.sort_unstable();
            sorted
        };
        let unlike = |(_, lengths): &(&MessageOrder, &Lengths)| {
            sorted(&lengths.sent) != sorted(&lengths.received)
        };
        let told = |(way, lengths): (&MessageOrder, &Lengths)| Imbalance {
            from: way.from,
            to: way.to,
            tag: way.tag,
            sent: lengths.sent.len(),
            sent_bytes: sum(&lengths.sent),
            received: lengths.received.len(),
            received_bytes: sum(&lengths.received),
        };
        self.ways.iter().filter(unlike).map(told).collect()
    }
}

fn sum(lengths: &[u64]) -> u64 {
    lengths
        .iter()
        .fold(0, |sum, length| sum.saturating_add(*length))
}
