//! What a trace comes to, by name of call.

use crate::part::{Collective, Part};
use crate::trace::Trace;
use serde::Serialize;
use std::collections::BTreeMap;

/// All calls of a name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// How many.
    pub calls: u64,
    /// How many found nothing ready, besides.
    pub polls: u64,
    /// Messages that they sent; accesses to windows are messages, too.
    pub messages: u64,
    /// What these brought.
    pub bytes: u64,
    /// What the program gave to collective operations: its own data, not what an algorithm makes of them.
    pub collective_bytes: u64,
    /// Nanoseconds within them.
    pub within: u64,
}

/// What a trace comes to. Sums that a damaged or forged file makes too large stay at the largest number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// How many ranks there are.
    pub ranks: usize,
    /// Nanoseconds of computing, of all ranks.
    pub computing: u64,
    /// By name.
    pub by_name: BTreeMap<String, Calls>,
    /// All together.
    pub all: Calls,
}

impl Summary {
    /// Counts what is in a trace.
    pub fn of(trace: &Trace) -> Summary {
        let mut summary = Summary {
            ranks: trace.ranks.len(),
            ..Summary::default()
        };
        for rank in &trace.ranks {
            for record in &rank.records {
                summary.computing = summary.computing.saturating_add(record.computing);
                let counted = summary.named(rank.name(record));
                counted.calls += 1;
                counted.within = counted.within.saturating_add(record.within);
                rank.parts(record)
                    .iter()
                    .for_each(|part| counted.count(part));
            }
            for polls in &rank.polls {
                let counted = summary.named(&rank.names[polls.name]);
                counted.polls = counted.polls.saturating_add(polls.count);
                counted.within = counted.within.saturating_add(polls.within);
            }
        }
        for counted in summary.by_name.values() {
            summary.all.add(counted);
        }
        summary
    }

    fn named(&mut self, name: &str) -> &mut Calls {
        if !self.by_name.contains_key(name) {
            self.by_name.insert(name.to_owned(), Calls::default());
        }
        self.by_name.get_mut(name).expect("it has just been put in")
    }
}

impl Calls {
    fn add(&mut self, more: &Calls) {
        self.calls = self.calls.saturating_add(more.calls);
        self.polls = self.polls.saturating_add(more.polls);
        self.messages = self.messages.saturating_add(more.messages);
        self.bytes = self.bytes.saturating_add(more.bytes);
        self.collective_bytes = self.collective_bytes.saturating_add(more.collective_bytes);
        self.within = self.within.saturating_add(more.within);
    }

    fn count(&mut self, part: &Part) {
        match part {
            Part::Send { bytes, .. } | Part::BeginSend { bytes, .. } => self.message(*bytes),
            Part::Access { out, back, .. } => self.message(out.saturating_add(*back)),
            Part::Neighbors { out, .. } => out.iter().for_each(|&(_, bytes)| self.message(bytes)),
            Part::Collective { kind, bytes, .. } if *kind != Collective::Barrier => {
                self.collective_bytes = self.collective_bytes.saturating_add(*bytes);
            }
            Part::Varied { out, back, .. } => {
                let given = if out.is_empty() { back } else { out };
                let all = given
                    .iter()
                    .fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
                self.collective_bytes = self.collective_bytes.saturating_add(all);
            }
            _ => (),
        }
    }

    fn message(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}
