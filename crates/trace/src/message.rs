//! Messages from those who sent them to those who received them: as many, and as long.

use crate::communicator::{Communicators, Identity};
use crate::part::Part;
use crate::rank::{RankTrace, Record};
use crate::trace::{Error, Trace};
use std::collections::{BTreeMap, HashMap};

/// Messages that keep their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Way {
    from: usize,
    to: usize,
    within: Identity,
    tag: u32,
}

/// What went one way: the lengths in their order.
#[derive(Debug, Default)]
struct Lengths {
    sent: Vec<u64>,
    received: Vec<u64>,
}

/// The messages of a trace, without those of collective operations.
#[derive(Debug, Default)]
pub struct Messages {
    ways: BTreeMap<Way, Lengths>,
}

/// Messages that came otherwise than they went.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "from rank {from} to rank {to} with tag {tag}: {sent} messages of {sent_bytes} bytes were sent, {received} of {received_bytes} received"
)]
pub struct Imbalance {
    /// Who sent them.
    pub from: usize,
    /// Who received them.
    pub to: usize,
    /// Their mark.
    pub tag: u32,
    /// How many went.
    pub sent: usize,
    /// How long they were together.
    pub sent_bytes: u64,
    /// How many came.
    pub received: usize,
    /// How long they were together.
    pub received_bytes: u64,
}

impl Messages {
    /// Follows the messages of a trace.
    pub fn of(trace: &Trace) -> Result<Messages, Error> {
        Messages::of_part(trace, |rank| &rank.records)
    }

    /// Follows the messages of the first calls of each rank, those that `first` names.
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
            communicators.see(part, rank.size)?;
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
                    let way = Way {
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
                        group.ok_or_else(|| format!("request {slot} ends and had not begun"))?;
                    self.received(rank.rank, group.peer(peer)?, group.identity, tag, bytes);
                }
                _ => (),
            }
        }
        Ok(())
    }

    fn received(&mut self, to: usize, from: usize, within: Identity, tag: u32, bytes: u64) {
        let way = Way {
            from,
            to,
            within,
            tag,
        };
        self.ways.entry(way).or_default().received.push(bytes);
    }

    /// How many were sent, and how long they were together.
    pub fn sent(&self) -> (u64, u64) {
        let all = self.ways.values().flat_map(|lengths| &lengths.sent);
        all.fold((0, 0), |(count, bytes), length| {
            (count + 1, u64::saturating_add(bytes, *length))
        })
    }

    /// What came otherwise than it went: on a way more, fewer, or others. Those that were begun to be received out of the order in
    /// which they ended are counted by their lengths alone.
    pub fn imbalances(&self) -> Vec<Imbalance> {
        let sorted = |lengths: &[u64]| {
            let mut sorted = lengths.to_vec();
            sorted.sort_unstable();
            sorted
        };
        let unlike =
            |(_, lengths): &(&Way, &Lengths)| sorted(&lengths.sent) != sorted(&lengths.received);
        let told = |(way, lengths): (&Way, &Lengths)| Imbalance {
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
