//! The counts of outcomes.

use std::collections::BTreeMap;

use crate::outcome::{Key, Outcome};

/// How often each outcome was seen.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Completions, by status and operation ([`Outcome::Completion`]).
    pub completions: BTreeMap<(i32, i32), u64>,
    /// Results of calls, by name, then by `errno`, 0 for success.
    pub calls: BTreeMap<String, BTreeMap<i32, u64>>,
    /// Asynchronous events.
    pub events: BTreeMap<i32, u64>,
    /// Events of the connection manager, by type and status.
    pub cm_events: BTreeMap<(i32, i32), u64>,
    /// Outcomes that were not counted, because the data file was full.
    pub lost: u64,
    /// Processes that made a call.
    pub processes: u64,
}

impl Seen {
    /// Adds to the count of an outcome.
    pub fn add(&mut self, outcome: Outcome<'_>, count: u64) {
        let slot = match outcome {
            Outcome::Completion(status, operation) => {
                self.completions.entry((status, operation)).or_default()
            }
            Outcome::Call(name, errno) => {
                let results = self.calls.entry(name.to_owned()).or_default();
                results.entry(errno).or_default()
            }
            Outcome::Event(event) => self.events.entry(event).or_default(),
            Outcome::CmEvent(event, status) => self.cm_events.entry((event, status)).or_default(),
        };
        *slot = slot.saturating_add(count);
    }

    /// Adds the counts of other runs.
    pub fn add_all(&mut self, other: &Seen) {
        for (key, count) in other.keys() {
            if let Some(outcome) = key.outcome() {
                self.add(outcome, count);
            }
        }
        self.lost = self.lost.saturating_add(other.lost);
        self.processes = self.processes.saturating_add(other.processes);
    }

    /// Iterates over the outcomes and their counts.
    pub fn keys(&self) -> impl Iterator<Item = (Key, u64)> {
        let completions = self.completions.iter();
        let completions = completions.map(|((status, operation), count)| {
            (Outcome::Completion(*status, *operation).key(), *count)
        });
        let calls = self.calls.iter().flat_map(|(name, results)| {
            let results = results.iter();
            results.map(move |(errno, count)| (Outcome::Call(name, *errno).key(), *count))
        });
        let events = self.events.iter();
        let events = events.map(|(event, count)| (Outcome::Event(*event).key(), *count));
        let cm_events = self.cm_events.iter();
        let cm_events = cm_events
            .map(|((event, status), count)| (Outcome::CmEvent(*event, *status).key(), *count));
        completions.chain(calls).chain(events).chain(cm_events)
    }

    /// Returns whether nothing was seen.
    pub fn is_empty(&self) -> bool {
        self.keys().next().is_none() && self.lost == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_several_runs_are_summed() {
        let mut seen = Seen::default();
        assert!(seen.is_empty());
        seen.add(Outcome::Completion(0, 0), 2);
        seen.add(Outcome::Call("ibv_reg_mr", 12), 1);
        seen.add(Outcome::Event(9), u64::MAX);
        seen.add(Outcome::CmEvent(8, 28), 4);
        let one = seen.clone();
        seen.add_all(&one);
        assert_eq!(seen.completions[&(0, 0)], 4);
        assert_eq!(seen.calls["ibv_reg_mr"][&12], 2);
        assert_eq!(seen.events[&9], u64::MAX);
        assert_eq!(seen.cm_events[&(8, 28)], 8);
    }
}
