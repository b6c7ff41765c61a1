//! Reads the counters that processes left behind and sums them.
//!
//! A process writes one JSON object at its exit: `{"pid": 1, "command": "...", "counters":
//! {"name": number, ...}}`. One that was killed writes none, and one that was killed while it
//! wrote leaves a broken file; both are facts to report, not errors.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

/// The counters of one process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub command: String,
    /// What it counted.
    pub counters: BTreeMap<String, u64>,
}

/// The counters of a program: all its processes that used the adapter.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The processes, by number.
    pub processes: Vec<Process>,
    /// Files that could not be read as counters, with the reason.
    pub broken: Vec<String>,
}

impl Collected {
    /// The sum of each counter over the processes. A counter at the end of its range stays there.
    pub fn totals(&self) -> BTreeMap<&str, u64> {
        let mut totals = BTreeMap::new();
        for (name, value) in self.processes.iter().flat_map(|process| &process.counters) {
            let total: &mut u64 = totals.entry(name.as_str()).or_default();
            *total = total.saturating_add(*value);
        }
        totals
    }
}

/// Reads every `*.json` of `directory`.
pub fn read(directory: &Path) -> Collected {
    let mut collected = Collected::default();
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) => {
            collected
                .broken
                .push(format!("{}: {error}", directory.display()));
            return collected;
        }
    };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "json")
    });
    paths.sort();
    for path in paths {
        match process(&path) {
            Ok(process) => collected.processes.push(process),
            Err(reason) => collected
                .broken
                .push(format!("{}: {reason}", path.display())),
        }
    }
    collected.processes.sort_by_key(|process| process.pid);
    collected
}

fn process(path: &Path) -> Result<Process, String> {
    let text = fs::read(path).map_err(|error| error.to_string())?;
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::directory::Directory;

    #[test]
    fn processes_are_summed() {
        let directory = Directory::create().unwrap();
        for (file, text) in [
            (
                "12.json",
                r#"{"pid":12,"command":"a","counters":{"x":1,"y":2}}"#,
            ),
            ("7.json", r#"{"pid":7,"command":"b","counters":{"x":40}}"#),
        ] {
            fs::write(directory.path().join(file), text).unwrap();
        }
        let collected = read(directory.path());
        assert_eq!(collected.totals(), BTreeMap::from([("x", 41), ("y", 2)]));
        assert_eq!(
            collected
                .processes
                .iter()
                .map(|p| p.pid)
                .collect::<Vec<_>>(),
            [7, 12]
        );
        assert!(collected.broken.is_empty());
    }

    #[test]
    fn broken_files_are_named_and_the_rest_counts() {
        let directory = Directory::create().unwrap();
        for (file, text) in [
            ("1.json", r#"{"pid":1,"command":"a","counters":{"x":1}}"#),
            ("2.json", r#"{"pid":2,"comm"#),
            ("3.json", ""),
            ("4.json", r#"{"pid":4,"command":"a","counters":{"x":-1}}"#),
            ("5.partial", "written by a process that was killed"),
        ] {
            fs::write(directory.path().join(file), text).unwrap();
        }
        fs::create_dir(directory.path().join("6.json")).unwrap();
        let collected = read(directory.path());
        assert_eq!(collected.totals(), BTreeMap::from([("x", 1)]));
        assert_eq!(collected.broken.len(), 4);
        assert!(
            collected.broken[0].contains("2.json"),
            "{:?}",
            collected.broken
        );
    }

    #[test]
    fn a_missing_directory_is_reported() {
        let collected = read(Path::new("/nonexistent/verbena"));
        assert!(collected.processes.is_empty());
        assert_eq!(collected.broken.len(), 1);
    }

    #[test]
    fn a_counter_at_the_end_of_its_range_stays_there() {
        let process = |pid| Process {
            pid,
            command: "a".into(),
            counters: BTreeMap::from([("x".into(), u64::MAX)]),
        };
        let collected = Collected {
            processes: vec![process(1), process(2)],
            broken: vec![],
        };
        assert_eq!(collected.totals(), BTreeMap::from([("x", u64::MAX)]));
    }
}
