//! Summarises calls in a table: number, failures, bytes and time.

use std::collections::BTreeMap;
use std::fmt;

use super::record::Record;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Row {
    calls: u64,
    failed: u64,
    bytes: u64,
    duration: u64,
}

/// The calls by name. Its text has a row for each, sorted by time.
#[derive(Debug, Default)]
pub struct Table {
    rows: BTreeMap<String, Row>,
    /// Failed calls by name and reason.
    failures: BTreeMap<(String, String), u64>,
}

impl Table {
    /// Adds a record.
    pub fn add(&mut self, record: &Record) {
        let row = self.rows.entry(record.name.clone()).or_default();
        row.calls = row.calls.saturating_add(record.calls);
        row.bytes = row.bytes.saturating_add(record.bytes);
        row.duration = row.duration.saturating_add(record.duration);
        if record.errno != 0 {
            row.failed = row.failed.saturating_add(record.calls);
            let reason = record.result.split(' ').next().unwrap_or_default();
            *self
                .failures
                .entry((record.name.clone(), reason.to_owned()))
                .or_default() += record.calls;
        }
    }

    /// Returns whether there are no calls.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_by(|(one, left), (other, right)| {
            right.duration.cmp(&left.duration).then(one.cmp(other))
        });
        writeln!(
            f,
            "{:>10} {:>8} {:>14} {:>12} {:>12}  call",
            "calls", "failed", "bytes", "seconds", "us a call"
        )?;
        for (name, row) in rows {
            writeln!(
                f,
                "{:>10} {:>8} {:>14} {:>12.6} {:>12.3}  {name}",
                row.calls,
                row.failed,
                row.bytes,
                row.duration as f64 / 1e9,
                row.duration as f64 / 1e3 / row.calls as f64,
            )?;
        }
        for ((name, reason), count) in &self.failures {
            writeln!(f, "{name} failed with {reason}: {count}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_summed_by_name_and_sorted_by_time() {
        let mut table = Table::default();
        for text in [
            "verbena-trace-1\t1\t1\t0\t2000\t4\t0\t0\tibv_poll_cq\tcq1\t0",
            "verbena-trace-1\t1\t1\t0\t9000\t1\t64\t0\tibv_post_send\tqp1\t0",
            "verbena-trace-1\t2\t2\t0\t1000\t1\t64\t12\tibv_post_send\tqp1\tENOMEM (request 0)",
        ] {
            table.add(&text.parse().unwrap());
        }
        let text = table.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[1].split_whitespace().collect::<Vec<_>>(),
            ["2", "1", "128", "0.000010", "5.000", "ibv_post_send"]
        );
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["4", "0", "0", "0.000002", "0.500", "ibv_poll_cq"]
        );
        assert_eq!(lines[3], "ibv_post_send failed with ENOMEM: 1");
    }
}
