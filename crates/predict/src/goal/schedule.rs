//! A schedule: what each rank does, and what has to come before.

use super::text::{Fault, read};
use std::collections::BTreeMap;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Sends a message.
    Send {
        /// To this rank.
        to: usize,
        /// So long.
        bytes: u64,
        /// Marked so.
        tag: u32,
    },
    /// Receives one.
    Receive {
        /// From this rank; from any without.
        from: Option<usize>,
        /// At most so long.
        bytes: u64,
        /// Marked so; however it is marked without.
        tag: Option<u32>,
    },
    /// Computes.
    Calculate {
        /// For so long.
        nanos: u64,
    },
}

/// Something that a rank does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Where it stands in the text.
    pub line: usize,
    /// What it does.
    pub act: Act,
    /// On which of its rank's cores.
    pub cpu: u8,
    /// Operations of the same rank that must have ended before it begins.
    pub requires: Vec<usize>,
    /// Operations of the same rank that must have begun before it begins.
    pub requires_begun: Vec<usize>,
}

impl Operation {
    /// All that must have begun at least.
    pub(super) fn before(&self) -> impl Iterator<Item = usize> {
        self.requires.iter().chain(&self.requires_begun).copied()
    }
}

/// What all ranks do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schedule {
    /// How many ranks there are.
    pub ranks: usize,
    /// The operations of those that have any, in the order of the text.
    pub operations: BTreeMap<usize, Vec<Operation>>,
}

impl Schedule {
    /// Reads a text. What is wrong with it is told with the line.
    pub fn read(text: &str) -> Result<Schedule, Fault> {
        let schedule = read(text)?;
        for operations in schedule.operations.values() {
            refuse_circles(operations)?;
        }
        Ok(schedule)
    }

    /// Operations of all ranks.
    pub fn size(&self) -> usize {
        self.operations.values().map(Vec::len).sum()
    }

    /// Bytes of all messages, and how many there are.
    pub fn sent(&self) -> (u64, u64) {
        let all = self.operations.values().flatten();
        all.fold((0, 0), |(bytes, messages), operation| match operation.act {
            Act::Send { bytes: more, .. } => (bytes + more, messages + 1),
            _ => (bytes, messages),
        })
    }
}

/// Lines of a circle that an error names.
const TOLD: usize = 8;

/// Refuses operations that wait for each other.
fn refuse_circles(operations: &[Operation]) -> Result<(), Fault> {
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
    // Who lacks something waits for another who does: following them leads round.
    let mut seen = vec![false; operations.len()];
    let mut way = Vec::new();
    while !seen[here] {
        seen[here] = true;
        way.push(here);
        let waits_for = operations[here].before().find(|&n| lacking[n] > 0);
        here = waits_for.expect("something of what it waits for waits itself");
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

/// For each operation those that name it.
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
