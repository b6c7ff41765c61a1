//! A schedule: the operations of each rank and their dependencies.

use super::msccl;
use super::text::{Fault, read};
use std::collections::BTreeMap;

/// Action of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Sends a message.
    Send {
        /// Destination rank.
        to: usize,
        /// Length in bytes.
        bytes: u64,
        /// Message tag.
        tag: u32,
    },
    /// Receives a message.
    Receive {
        /// Source rank; `None` for any.
        from: Option<usize>,
        /// Maximum length in bytes.
        bytes: u64,
        /// Message tag; `None` for any.
        tag: Option<u32>,
    },
    /// Computes.
    Calculate {
        /// Duration in nanoseconds.
        nanos: u64,
    },
}

/// An operation of a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its line in the text.
    pub line: usize,
    /// Its action.
    pub action: Action,
    /// The core of its rank.
    pub cpu: u8,
    /// Operations of the same rank that must have ended before it begins.
    pub requires: Vec<usize>,
    /// Operations of the same rank that must have begun before it begins.
    pub requires_begun: Vec<usize>,
}

impl Operation {
    /// Returns all operations that must at least have begun.
    pub(super) fn before(&self) -> impl Iterator<Item = usize> {
        self.requires.iter().chain(&self.requires_begun).copied()
    }
}

/// The operations of all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schedule {
    /// Number of ranks.
    pub ranks: usize,
    /// The operations of each rank that has any, in the order of the text.
    pub operations: BTreeMap<usize, Vec<Operation>>,
}

impl Schedule {
    /// Parses a text.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`] with the line if the text is invalid or operations wait for each other
    /// in a cycle.
    pub fn read(text: &str) -> Result<Schedule, Fault> {
        let schedule = read(text)?;
        for operations in schedule.operations.values() {
            refuse_circles(operations)?;
        }
        Ok(schedule)
    }

    /// Reads an algorithm of MSCCL (XML) that transfers a buffer of `bytes` bytes in one loop.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`] with the line if the text is invalid, the sends and receives of a
    /// connection differ, or steps wait for each other in a cycle.
    pub fn of_msccl(text: &str, bytes: u64) -> Result<Schedule, Fault> {
        msccl::read(text, bytes)
    }

    /// Returns the number of operations of all ranks.
    pub fn size(&self) -> usize {
        self.operations.values().map(Vec::len).sum()
    }

    /// Returns the bytes and the number of all messages.
    pub fn sent(&self) -> (u64, u64) {
        let all = self.operations.values().flatten();
        all.fold((0, 0), |(bytes, messages), operation| {
            match operation.action {
                Action::Send { bytes: more, .. } => (bytes + more, messages + 1),
                _ => (bytes, messages),
            }
        })
    }
}

/// Maximum number of lines of a cycle that an error lists.
const TOLD: usize = 8;

/// Refuses operations that wait for each other.
pub(super) fn refuse_circles(operations: &[Operation]) -> Result<(), Fault> {
    let mut lacking: Vec<usize> = operations.iter().map(|one| one.before().count()).collect();
    let after = followers(operations, Operation::before);
    let mut ready: Vec<usize> = (0..operations.len()).filter(|&n| lacking[n] == 0).collect();
    while let Some(done) = ready.pop() {
        for &next in &after[done] {
            lacking[next] -= 1;
            if lacking[next] == 0 {
                ready.push(next);
            }
        }
    }
    let Some(mut here) = lacking.iter().position(|&count| count > 0) else {
        return Ok(());
    };
    // Each operation that still waits does so for another that waits: following them leads into a
    // cycle.
    let mut seen = vec![false; operations.len()];
    let mut way = Vec::new();
    while !seen[here] {
        seen[here] = true;
        way.push(here);
        let waits_for = operations[here].before().find(|&n| lacking[n] > 0);
        here = waits_for.expect("one of its dependencies waits, too");
    }
    let circle = way.into_iter().skip_while(|&n| n != here).skip(1);
    let lines: Vec<_> = circle.map(|n| operations[n].line.to_string()).collect();
    let by_way = match lines.len() {
        0 => String::new(),
        1..=TOLD => format!(", by way of line {}", lines.join(", ")),
        more => format!(
            ", by way of line {} and {} more",
            lines[..TOLD].join(", "),
            more - TOLD
        ),
    };
    Err(Fault {
        line: operations[here].line,
        reason: format!("the operation waits for itself{by_way}"),
    })
}

/// Returns for each operation the operations that name it.
pub(super) fn followers<'a, I: Iterator<Item = usize>>(
    operations: &'a [Operation],
    named: impl Fn(&'a Operation) -> I,
) -> Vec<Vec<usize>> {
    let mut after = vec![Vec::new(); operations.len()];
    for (number, operation) in operations.iter().enumerate() {
        for before in named(operation) {
            after[before].push(number);
        }
    }
    after
}
