//! Computing on the critical path of a schedule.
//!
//! An operation goes on after one last event: the end of an operation that it requires, the
//! calculation before it on its core, or the peer's part of its message. The computing on the path
//! to this event is carried forward to the end of the operation, so the path need not be followed
//! backwards through the dependencies of several cores. Where several messages of a rank are under
//! way together, the last one that woke the rank counts for each of them.

use super::schedule::{Action, Operation};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use verbena_model::kernel::Time;
use verbena_model::mpi::Woken;

/// An instant, and the computing on the path to it.
type Reached = (Time, Time);

/// Computing on the paths to the operations of all ranks, during the run. Threads share it: a rank
/// looks up times of another one that are at least a window ago, so they do not change any more.
pub(super) struct Paths {
    ranks: HashMap<usize, Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    /// Computing on the path to each operation: to its begin, after it to its end.
    to: Vec<Time>,
    /// Ends of calculations by core, in order of time.
    calculated: BTreeMap<u8, Vec<Reached>>,
    /// Begins of sends and receives by peer, in order of time; `None` is a receive from any rank.
    messages: HashMap<Option<usize>, Vec<(Reached, u8)>>,
}

impl Log {
    /// Returns the last end of a calculation on a core up to an instant.
    fn calculated(&self, cpu: u8, until: Time) -> Option<Reached> {
        let ends = self.calculated.get(&cpu)?;
        let later = ends.partition_point(|(end, _)| *end <= until);
        ends[..later].last().copied()
    }

    /// Returns the last event before this rank acted at an instant for a message with a peer.
    fn before_acting(&self, peer: usize, at: Time) -> Option<Reached> {
        let last = |peer: Option<usize>| {
            let begun = self.messages.get(&peer)?;
            let later = begun.partition_point(|((begin, _), _)| *begin <= at);
            begun[..later].last().copied()
        };
        let last = last(Some(peer)).max(last(None));
        let (begun, cpu) = last?;
        Some(self.calculated(cpu, at).map_or(begun, |end| end.max(begun)))
    }
}

impl Paths {
    /// Creates the paths of ranks with so many operations each.
    pub fn new(ranks: impl Iterator<Item = (usize, usize)>) -> Paths {
        let ranks = ranks.map(|(rank, operations)| {
            let log = Log {
                to: vec![Time::ZERO; operations],
                ..Log::default()
            };
            (rank, Mutex::new(log))
        });
        Paths {
            ranks: ranks.collect(),
        }
    }

    fn log(&self, rank: usize) -> Option<MutexGuard<'_, Log>> {
        let log = self.ranks.get(&rank)?;
        Some(log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that operation `next` waits no longer for operation `by` of its rank.
    pub fn released(&self, rank: usize, by: usize, next: usize) {
        if let Some(mut log) = self.log(rank) {
            log.to[next] = log.to[by];
        }
    }

    /// Notes the begin of an operation.
    pub fn began(&self, rank: usize, number: usize, operation: &Operation, now: Time) {
        let peer = match operation.action {
            Action::Send { to, .. } => Some(to),
            Action::Receive { from, .. } => from,
            Action::Calculate { .. } => return,
        };
        if let Some(mut log) = self.log(rank) {
            let begun = ((now, log.to[number]), operation.cpu);
            log.messages.entry(peer).or_default().push(begun);
        }
    }

    /// Notes the end of an operation; `woken` is the last wake-up of its rank. Returns the
    /// computing on the path to this end.
    pub fn ended(
        &self,
        (rank, number): (usize, usize),
        operation: &Operation,
        (begun, now): (Time, Time),
        woken: Option<Woken>,
    ) -> Time {
        let span = match operation.action {
            Action::Calculate { nanos } => Time(nanos * 1000),
            _ => Time::ZERO,
        };
        let Some(log) = self.log(rank) else {
            return Time::ZERO;
        };
        let on_its_core = log.calculated(operation.cpu, now.since(span));
        let before = on_its_core.filter(|(end, _)| *end > begun);
        let mut last = before.unwrap_or((begun, log.to[number]));
        drop(log);
        let of_a_peer = |woken: &Woken| {
            let is_message = !matches!(operation.action, Action::Calculate { .. });
            is_message && woken.cause.rank != rank && last.0 < woken.at && woken.at <= now
        };
        if let Some(woken) = woken.filter(of_a_peer)
            && let Some(peer) = self.log(woken.cause.rank)
            && let Some(theirs) = peer.before_acting(rank, woken.cause.at)
            // A peer that acted later, but was ready earlier, had waited for this rank.
            && (theirs.0 > last.0 || woken.cause.at <= last.0)
        {
            last = theirs;
        }
        let computed = last.1 + span;
        if let Some(mut log) = self.log(rank) {
            log.to[number] = computed;
            if span > Time::ZERO {
                let ends = log.calculated.entry(operation.cpu).or_default();
                ends.push((now, computed));
            }
        }
        computed
    }
}
