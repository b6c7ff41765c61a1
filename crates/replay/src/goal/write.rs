//! Writes schedules in GOAL's text format.

use super::schedule::{Action, Operation, Schedule};
use std::io::{self, Write};

impl Schedule {
    /// Writes the schedule's text, which [`Schedule::read`] reads back.
    ///
    /// # Errors
    ///
    /// Returns an error if writing fails.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        writeln!(to, "num_ranks {}", self.ranks)?;
        for (rank, operations) in &self.operations {
            writeln!(to, "rank {rank} {{")?;
            for (number, operation) in operations.iter().enumerate() {
                write_operation(number, operation, to)?;
            }
            writeln!(to, "}}")?;
        }
        Ok(())
    }
}

fn write_operation(number: usize, operation: &Operation, to: &mut impl Write) -> io::Result<()> {
    write!(to, "l{number}: ")?;
    match operation.action {
        Action::Send {
            to: peer,
            bytes,
            tag,
        } => write!(to, "send {bytes}b to {peer} tag {tag}")?,
        Action::Receive { from, bytes, tag } => {
            let or_any = |number: Option<u64>| number.map_or("-1".to_owned(), |n| n.to_string());
            let from = or_any(from.map(|from| from as u64));
            let tag = or_any(tag.map(u64::from));
            write!(to, "recv {bytes}b from {from} tag {tag}")?;
        }
        Action::Calculate { nanos } => write!(to, "calc {nanos}")?,
    }
    match operation.cpu {
        0 => writeln!(to)?,
        cpu => writeln!(to, " cpu {cpu}")?,
    }
    for before in &operation.requires {
        writeln!(to, "l{number} requires l{before}")?;
    }
    for before in &operation.requires_begun {
        writeln!(to, "l{number} irequires l{before}")?;
    }
    Ok(())
}
