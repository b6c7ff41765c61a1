//! The record of the objects that a process had when it exited: a line of text among those of the
//! firings.

use std::collections::BTreeMap;
use std::fmt;

/// The variable that asks for the record, if it is set.
pub const VARIABLE: &str = "VERBENA_FAULTS_ALIVE";

/// First word of the line.
const WORD: &str = "alive";

/// The objects of a process at its exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alive {
    /// The process.
    pub process: u32,
    /// The number of objects of each kind, named as `verbena trace` names them.
    pub objects: BTreeMap<String, u64>,
    /// The process's command line ([`crate::firing::command_line`]).
    pub command: String,
}

impl Alive {
    /// Reads a line; none if it is none, or was cut by a full disk.
    pub fn read(line: &str) -> Option<Alive> {
        let mut fields = line.splitn(4, '\t');
        if fields.next()? != WORD {
            return None;
        }
        let process = fields.next()?.parse().ok()?;
        let mut objects = BTreeMap::new();
        for object in fields.next()?.split(' ').filter(|word| !word.is_empty()) {
            let (kind, count) = object.split_once('=')?;
            objects.insert(kind.to_owned(), count.parse().ok()?);
        }
        Some(Alive {
            process,
            objects,
            command: fields.next()?.to_owned(),
        })
    }
}

impl fmt::Display for Alive {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects = self.objects.iter();
        let objects: Vec<String> = objects
            .map(|(kind, count)| format!("{kind}={count}"))
            .collect();
        let objects = objects.join(" ");
        writeln!(to, "{WORD}\t{}\t{objects}\t{}", self.process, self.command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firing::Firing;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lines_are_read_as_written(
            process: u32,
            objects in proptest::collection::btree_map("[a-z_]{1,8}", any::<u64>(), 0..4),
            command in "[ -~]{0,40}",
        ) {
            let alive = Alive { process, objects, command };
            let text = alive.to_string();
            let line = text.trim_end_matches('\n');
            prop_assert_eq!(Alive::read(line), Some(alive));
            prop_assert_eq!(Firing::read(line), None);
        }

        #[test]
        fn any_line_is_read_or_refused(line in "(alive\t)?.{0,100}") {
            let _ = Alive::read(&line);
        }
    }
}
