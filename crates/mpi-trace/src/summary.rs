//! Counts the contents of a trace by name of call.

use crate::part::{Collective, Part};
use crate::trace::Trace;
use serde::Serialize;
use std::collections::BTreeMap;

/// All calls with the same name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Calls {
    /// Number of calls.
    pub calls: u64,
    /// Number of additional calls that found no message or request ready.
    pub polls: u64,
    /// Number of sent messages, including accesses to windows.
    pub messages: u64,
    /// Bytes of these messages.
    pub bytes: u64,
    /// Bytes that the program passed to collective operations, not those that an algorithm sends.
    pub collective_bytes: u64,
    /// Time within the calls in nanoseconds.
    pub within: u64,
}

/// Summary of a trace. Sums saturate, because a damaged or forged file may contain any numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Number of ranks.
    pub ranks: usize,
    /// Computing time of all ranks in nanoseconds.
    pub computing: u64,
    /// Counts by name.
    pub by_name: BTreeMap<String, Calls>,
    /// Counts of all calls.
    pub all: Calls,
}

impl Summary {
    /// Counts the contents of a trace.
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
