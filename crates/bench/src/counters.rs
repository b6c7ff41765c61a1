//! Reads and sums the counters of processes.
//!
//! A process counts in a file that it maps (its layout: `counters/file.rs` of the adapter), so the
//! counters survive however it ends. A process killed while creating the file leaves a broken one,
//! which is reported and not an error.

mod table;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

/// The counters of one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Process {
    /// Its process id.
    pub pid: u32,
    /// The command that it ran.
    pub command: String,
    /// The counters by name.
    pub counters: BTreeMap<String, u64>,
}

/// The counters of a program: of all its processes that used the adapter.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The processes, by process id.
    pub processes: Vec<Process>,
    /// Files that are not valid, with the reason.
    pub broken: Vec<String>,
}

impl Collected {
    /// Returns the sum of each counter over the processes, saturating.
    pub fn totals(&self) -> BTreeMap<&str, u64> {
        let mut totals = BTreeMap::new();
        for (name, value) in self.processes.iter().flat_map(|process| &process.counters) {
            let total: &mut u64 = totals.entry(name.as_str()).or_default();
            *total = total.saturating_add(*value);
        }
        totals
    }
}

/// Reads every `*.counters` file of `directory`.
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
            .is_some_and(|extension| extension == "counters")
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

/// Bytes before the first shard.
const HEADER: usize = 4096;
/// The flag bit of a word, not part of its count.
const FLAG: u64 = 1 << 63;

fn process(path: &Path) -> Result<Process, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    parsed(&bytes).ok_or_else(|| "not a file of counters, or not all of one".to_owned())
}

fn parsed(bytes: &[u8]) -> Option<Process> {
    let (header, shards) = bytes.split_at_checked(HEADER)?;
    let text = String::from_utf8_lossy(header);
    let mut lines = text.lines();
    if lines.next()? != "verbena counters 1" {
        return None;
    }
    let pid = lines.next()?.parse().ok()?;
    let command = lines.next()?.to_owned();
    let (number, length) = lines.next()?.split_once(' ')?;
    let (number, length): (usize, usize) = (number.parse().ok()?, length.parse().ok()?);
    let names: Vec<&str> = lines.next()?.split(' ').collect();
    let fits = number.checked_mul(length)? <= shards.len() && names.len() * 8 <= length;
    if !fits || length == 0 {
        return None;
    }
    let mut counters = BTreeMap::new();
    for shard in shards.chunks_exact(length).take(number) {
        for (name, word) in names.iter().zip(shard.as_chunks().0) {
            let value = u64::from_ne_bytes(*word) & !FLAG;
            let sum: &mut u64 = counters.entry((*name).to_owned()).or_default();
            *sum = sum.saturating_add(value);
        }
    }
    Some(Process {
        pid,
        command,
        counters,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporary::Directory;

    /// A file of two shards.
    fn file(pid: u32, names: &str, first: &[u64], second: &[u64]) -> Vec<u8> {
        let mut bytes = format!("verbena counters 1\n{pid}\na b\n2 128\n{names}\n").into_bytes();
        bytes.resize(HEADER, 0);
        for shard in [first, second] {
            let end = bytes.len() + 128;
            bytes.extend(shard.iter().flat_map(|word| word.to_ne_bytes()));
            bytes.resize(end, 0);
        }
        bytes
    }

    #[test]
    fn counters_of_all_processes_are_summed() {
        let directory = Directory::create().unwrap();
        for (name, bytes) in [
            ("12.counters", file(12, "x y", &[1, 2], &[FLAG, FLAG | 3])),
            ("7.counters", file(7, "x", &[40], &[])),
        ] {
            fs::write(directory.path().join(name), bytes).unwrap();
        }
        let collected = read(directory.path());
        assert_eq!(collected.totals(), BTreeMap::from([("x", 41), ("y", 5)]));
        let processes = collected.processes.iter();
        let processes: Vec<_> = processes.map(|p| (p.pid, p.command.as_str())).collect();
        assert_eq!(processes, [(7, "a b"), (12, "a b")]);
        assert!(collected.broken.is_empty());
    }

    #[test]
    fn unreadable_files_are_named_and_the_others_counted() {
        let directory = Directory::create().unwrap();
        let whole = file(1, "x", &[1], &[]);
        let mut long = file(5, "x", &[1], &[]);
        long.truncate(HEADER + 255);
        for (name, bytes) in [
            ("1.counters", &whole[..]),
            ("2.counters", &whole[..100]),
            ("3.counters", &[][..]),
            ("4.counters", &file(4, &"x ".repeat(17), &[], &[])[..]),
            ("5.counters", &long[..]),
            ("7.partial", b"of another kind"),
        ] {
            fs::write(directory.path().join(name), bytes).unwrap();
        }
        fs::create_dir(directory.path().join("6.counters")).unwrap();
        let collected = read(directory.path());
        assert_eq!(collected.totals(), BTreeMap::from([("x", 1)]));
        assert_eq!(collected.broken.len(), 5);
        assert!(
            collected.broken[0].contains("2.counters"),
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
    fn counters_saturate_at_their_maximum() {
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
