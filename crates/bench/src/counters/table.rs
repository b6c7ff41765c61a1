//! The counters as a table: operations, paths and incidents. Names and numbers are as
//! written by the adapter, so that scripts can read them.

use std::fmt;

use super::Collected;

/// A title, and a predicate for the names of its counters.
type Section = (&'static str, fn(&str) -> bool);

/// The sections in order; the last one takes the remaining counters.
const SECTIONS: [Section; 3] = [
    ("paths to peers", |name| name.contains("_path_")),
    ("operations", |name| {
        name.ends_with("_operations") || name.ends_with("_bytes")
    }),
    ("incidents", |_| true),
];

fn section_of(name: &str) -> &'static str {
    let holds = |(_, belongs): &&Section| belongs(name);
    SECTIONS
        .iter()
        .find(holds)
        .expect("the last section takes every name")
        .0
}

/// A line for each counter, in sections.
impl fmt::Display for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let processes = &self.processes;
        match processes.as_slice() {
            [] => writeln!(f, "verbena: no process used the adapter")?,
            [one] => writeln!(f, "verbena: 1 process used the adapter: {}", one.command)?,
            all => writeln!(f, "verbena: {} processes used the adapter:", all.len())?,
        }
        if processes.len() > 1 {
            for process in processes {
                writeln!(f, "  {:>8}  {}", process.pid, process.command)?;
            }
        }
        for reason in &self.broken {
            writeln!(f, "verbena: left out unreadable counters: {reason}")?;
        }
        // Counters of 0 are omitted.
        let totals = self.totals().into_iter().filter(|(_, value)| *value != 0);
        let totals: Vec<_> = totals.collect();
        let width = totals.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (section, _) in SECTIONS {
            let mut members = totals
                .iter()
                .filter(|(name, _)| section_of(name) == section);
            let Some(first) = members.next() else {
                continue;
            };
            writeln!(f, "{section}")?;
            for (name, value) in std::iter::once(first).chain(members) {
                writeln!(f, "  {name:<width$}  {value:>15}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Process;
    use std::collections::BTreeMap;

    fn process(pid: u32, counters: &[(&str, u64)]) -> Process {
        let counters = counters
            .iter()
            .map(|(name, value)| (name.to_string(), *value))
            .collect();
        Process {
            pid,
            command: format!("program-{pid}"),
            counters,
        }
    }

    #[test]
    fn totals_are_grouped_and_zeros_are_omitted() {
        let collected = Collected {
            processes: vec![
                process(
                    1,
                    &[
                        ("mapped_path_bytes", 8),
                        ("send_operations", 2),
                        ("rnr_retries", 1),
                    ],
                ),
                process(2, &[("mapped_path_bytes", 4), ("cma_path_bytes", 0)]),
            ],
            broken: vec![],
        };
        let expected = "\
verbena: 2 processes used the adapter:
         1  program-1
         2  program-2
paths to peers
  mapped_path_bytes               12
operations
  send_operations                  2
incidents
  rnr_retries                      1
";
        assert_eq!(collected.to_string(), expected);
    }

    #[test]
    fn a_program_without_the_adapter_is_reported() {
        let text = Collected::default().to_string();
        assert_eq!(text, "verbena: no process used the adapter\n");
    }

    #[test]
    fn unreadable_files_are_listed() {
        let collected = Collected {
            processes: vec![Process {
                pid: 1,
                command: "a".into(),
                counters: BTreeMap::new(),
            }],
            broken: vec!["/tmp/2.counters: EOF".into()],
        };
        let text = collected.to_string();
        assert!(text.contains("1 process used the adapter: a\n"), "{text}");
        assert!(
            text.contains("left out unreadable counters: /tmp/2.counters: EOF\n"),
            "{text}"
        );
    }
}
