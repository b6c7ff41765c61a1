//! The report as text.

use std::fmt::{self, Display, Write as _};

use crate::possible::{self, GROUPS, Group, Item};
use crate::seen::Seen;
use crate::{errno, label};

/// An item with the parts of its count, for tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The item.
    pub item: Item,
    /// Calls, of which the item's count failed; otherwise 0.
    pub calls: u64,
    /// The parts of the count by operation, `errno` or status, most frequent first.
    pub parts: Vec<(String, u64)>,
}

/// Returns the rows of a group.
pub fn rows(group: Group, seen: &Seen) -> Vec<Row> {
    let row = |item: Item| {
        let mut calls = 0;
        let mut parts: Vec<(String, u64)> = match group {
            Group::Statuses => {
                let found = seen.completions.iter();
                let found = found.filter(|((status, _), _)| label::status(*status) == item.name);
                found
                    .map(|((_, operation), count)| (label::operation(*operation), *count))
                    .collect()
            }
            Group::Calls => {
                let results = seen.calls.get(&item.name).into_iter().flatten();
                calls = results
                    .clone()
                    .fold(0, |sum: u64, (_, count)| sum.saturating_add(*count));
                let failures = results.filter(|(errno, _)| **errno != 0);
                failures
                    .map(|(errno, count)| (errno::name(*errno), *count))
                    .collect()
            }
            Group::Events => Vec::new(),
            Group::CmEvents => {
                let found = seen.cm_events.iter();
                let found = found.filter(|((event, status), _)| {
                    label::cm_event(*event) == item.name && *status != 0
                });
                found
                    .map(|((_, status), count)| (cm_status(*status), *count))
                    .collect()
            }
        };
        parts.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
        Row { item, calls, parts }
    };
    group.items(seen).into_iter().map(row).collect()
}

/// Returns the name of an event's status: an error, or the reason of a reject.
fn cm_status(status: i32) -> String {
    match status {
        0.. => format!("status {status}"),
        _ => errno::name(status.saturating_neg()),
    }
}

impl Row {
    /// Returns the parts as text.
    pub fn detail(&self) -> String {
        let parts: Vec<String> = self
            .parts
            .iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        parts.join(", ")
    }
}

/// Returns the number of processes, `completion statuses 5 of 17` for each group, and the share of
/// all.
pub fn summary(seen: &Seen) -> String {
    let mut text = match seen.processes {
        1 => "1 process: ".to_owned(),
        number => format!("{number} processes: "),
    };
    for group in GROUPS {
        let (count, all) = group.covered(seen);
        if all > 0 {
            let _ = write!(text, "{} {count} of {all}, ", group.title());
        }
    }
    let total = possible::percent(possible::covered(seen));
    let _ = write!(text, "total {total:.1} %");
    text
}

impl Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for group in GROUPS {
            let rows = rows(group, self);
            if rows.is_empty() {
                continue;
            }
            let (shown, unseen): (Vec<Row>, Vec<Row>) =
                rows.into_iter().partition(|row| row.item.count > 0);
            match group {
                Group::Calls => writeln!(f, "{:>10} {:>8}  {}", "calls", "failed", group.title())?,
                _ => writeln!(f, "{:>10}  {}", "count", group.title())?,
            }
            for row in &shown {
                let count = row.item.count;
                let start = match group {
                    Group::Calls => format!("{:>10} {count:>8}", row.calls),
                    _ => format!("{count:>10}"),
                };
                let line = format!("{start}  {:<24} {}", row.item.name, row.detail());
                writeln!(f, "{}", line.trim_end())?;
            }
            if !unseen.is_empty() {
                let names: Vec<&str> = unseen.iter().map(|row| &*row.item.name).collect();
                let words = if group == Group::Calls {
                    "never failed"
                } else {
                    "never seen"
                };
                writeln!(f, "{words}: {}", names.join(", "))?;
            }
            writeln!(f)?;
        }
        if self.lost > 0 {
            writeln!(
                f,
                "not counted, as the data file is full: {} outcomes",
                self.lost
            )?;
        }
        writeln!(f, "{}", summary(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    #[test]
    fn the_report_names_what_was_seen_and_what_was_not() {
        let mut seen = Seen {
            processes: 2,
            ..Seen::default()
        };
        seen.add(Outcome::Completion(0, 0), 1000);
        seen.add(Outcome::Completion(0, 128), 2000);
        seen.add(Outcome::Call("ibv_reg_mr", 0), 5);
        seen.add(Outcome::Call("ibv_reg_mr", libc::ENOMEM), 1);
        seen.add(Outcome::Call("rdma_connect", 0), 1);
        seen.add(Outcome::CmEvent(8, 28), 3);
        seen.add(Outcome::CmEvent(1, -libc::ENODEV), 1);
        let text = seen.to_string();
        for line in [
            "      3000  SUCCESS                  RECV 2000, SEND 1000",
            "         6        1  ibv_reg_mr               ENOMEM 1",
            "never failed: rdma_connect",
            "         3  REJECTED                 status 28 3",
            "         1  ADDR_ERROR               ENODEV 1",
            "2 processes: completion statuses 1 of 17, failures of calls 1 of 2, \
             asynchronous events 0 of 19, connection manager events 2 of 16, total 7.4 %",
        ] {
            assert!(
                text.lines().any(|one| one == line),
                "{line:?} is missing:\n{text}"
            );
        }
        assert!(text.contains("RETRY_EXC_ERR, RNR_RETRY_EXC_ERR,"), "{text}");
        seen.lost = 4;
        assert!(
            seen.to_string()
                .contains("not counted, as the data file is full: 4 outcomes")
        );
    }
}
