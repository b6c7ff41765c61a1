//! The rules of this process, as the tracer and the adapter follow them, and its part of the
//! record.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::{env, fs, process};

use crate::alive::Alive;
use crate::firing::{self, Firing, command_line};
use crate::rule::Rule;
use crate::rules::{self, BadRules, Rules};

/// The rules in VERBENA_FAULTS that are about this process.
pub struct ProcessRules {
    rules: Rules,
    command: String,
    record: Option<PathBuf>,
    /// The process that has recorded so many firings of each rule. A child of fork(2) begins anew.
    process: AtomicU32,
    recorded: Vec<AtomicU64>,
}

impl ProcessRules {
    /// Reads the rules from the environment; none if there are none. Rules that cannot be read end
    /// the process, which would pass a test that it has not run.
    pub fn from_env() -> Option<ProcessRules> {
        let text = env::var_os(rules::VARIABLE).filter(|text| !text.is_empty())?;
        let rules = decode(&text).unwrap_or_else(|error| {
            eprintln!("verbena: {}: {error}", rules::VARIABLE);
            process::abort();
        });
        Some(ProcessRules {
            command: own_command_line(),
            record: record(),
            process: AtomicU32::new(process::id()),
            recorded: rules.entries.iter().map(|_| AtomicU64::new(0)).collect(),
            rules,
        })
    }

    /// Returns the rules that are about this process, with their numbers.
    pub fn rules(&self) -> impl Iterator<Item = (usize, &Rule)> {
        let meant = |(_, entry): &(usize, &rules::Entry)| self.command.contains(&entry.process);
        let all = self.rules.entries.iter().enumerate().filter(meant);
        all.map(|(number, entry)| (number, &entry.rule))
    }

    /// Returns whether a rule is met by call `count`, where `object` is 0, or by request `count` of
    /// an object. If it is, records that.
    pub fn fires(&self, number: usize, object: u32, count: u64) -> bool {
        let is_met = self.is_met(number, object, count);
        if is_met {
            self.note(number, object, count);
        }
        is_met
    }

    /// As [`ProcessRules::fires`], without recording it.
    pub fn is_met(&self, number: usize, object: u32, count: u64) -> bool {
        let Some(entry) = self.rules.entries.get(number) else {
            return false;
        };
        let draw = || self.rules.draw(number, &self.command, object, count);
        entry.rule.trigger.is_met(count, draw)
    }

    /// Returns the draw of a rule for a count, from 0 to 1.
    pub fn draw(&self, number: usize, object: u32, count: u64) -> f64 {
        self.rules.draw(number, &self.command, object, count)
    }

    /// Records that a rule has fired; one that fires once in a process only the first time.
    pub fn note(&self, rule: usize, object: u32, count: u64) {
        let id = process::id();
        if self.process.swap(id, Ordering::Relaxed) != id {
            self.recorded
                .iter()
                .for_each(|recorded| recorded.store(0, Ordering::Relaxed));
        }
        let most = match self.rules.entries[rule].rule.fires_once() {
            true => 1,
            false => firing::MOST,
        };
        let before = self.recorded[rule].fetch_add(1, Ordering::Relaxed);
        if let (true, Some(path)) = (before < most, &self.record) {
            let firing = Firing {
                rule,
                process: id,
                object,
                count,
                command: self.command.clone(),
            };
            append(path, &firing.to_string());
        }
    }
}

/// Records the objects that this process has, which is about to exit.
pub fn note_alive(objects: BTreeMap<String, u64>) {
    if let Some(path) = record() {
        let alive = Alive {
            process: process::id(),
            objects,
            command: own_command_line(),
        };
        append(&path, &alive.to_string());
    }
}

fn record() -> Option<PathBuf> {
    let path = env::var_os(firing::VARIABLE).filter(|path| !path.is_empty());
    path.map(PathBuf::from)
}

fn own_command_line() -> String {
    command_line(&fs::read("/proc/self/cmdline").unwrap_or_default())
}

/// Appends to the record, in one write. The file is opened each time, because programs close
/// descriptors that they do not know.
fn append(path: &Path, line: &str) {
    let file = OpenOptions::new().append(true).open(path);
    if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        static SAID: AtomicBool = AtomicBool::new(false);
        if !SAID.swap(true, Ordering::Relaxed) {
            let path = path.display();
            eprintln!("verbena: cannot record a fault in {path}: {error}");
        }
    }
}

/// Reads the rules in the variable's value, or in the file that it names.
fn decode(value: &OsStr) -> Result<Rules, String> {
    let bytes = value.as_bytes();
    let text = match bytes.strip_prefix(rules::FILE.to_string().as_bytes()) {
        None => bytes.to_vec(),
        Some(path) => {
            let path = Path::new(OsStr::from_bytes(path));
            read(path)?
        }
    };
    let text = String::from_utf8(text).map_err(|_| "not a text")?;
    Rules::decode(&text).map_err(|error| error.to_string())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => format!(
            "the `verbena run` that this process belongs to has ended, and its rules in {} are \
             removed",
            path.display()
        ),
        _ => format!("cannot read {}: {error}", path.display()),
    };
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    let most = rules::LONGEST as u64 + 1;
    file.take(most).read_to_end(&mut text).map_err(failed)?;
    match text.len() > rules::LONGEST {
        true => Err(BadRules::Length.to_string()),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rules_are_read_from_a_file() {
        let path = env::temp_dir().join(format!("verbena-rules-{}", process::id()));
        let line = "\nqp1.link.out 1: loss\t./client";
        let text = format!("seed 7{}", line.repeat(10_000));
        assert!(text.len() > rules::LONGEST_VARIABLE);
        fs::write(&path, &text).unwrap();
        let read = decode(OsStr::new(&format!("@{}", path.display())));
        fs::remove_file(&path).unwrap();
        assert_eq!(
            read,
            Rules::decode(&text).map_err(|error| error.to_string())
        );
        assert_eq!(read.map(|read| read.entries.len()), Ok(10_000));
        let missing = decode(OsStr::new("@/nonexistent/rules")).unwrap_err();
        assert!(
            missing.contains("has ended, and its rules in /nonexistent/rules are removed"),
            "{missing}"
        );
    }

    #[test]
    fn rules_that_are_too_long_are_refused_and_not_cut() {
        let path = env::temp_dir().join(format!("verbena-long-rules-{}", process::id()));
        let rule = "\nibv_reg_mr: ENOMEM";
        let mut text = String::from("seed 7");
        text.push_str(&rule.repeat((rules::LONGEST - text.len()) / rule.len()));
        text.push_str(&" ".repeat(rules::LONGEST - text.len()));
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            let read = decode(OsStr::new(&format!("@{}", path.display())));
            fs::remove_file(&path).unwrap();
            read.map(|read| read.entries.len())
        };
        assert_eq!(read(&text), Ok((rules::LONGEST - 6) / rule.len()));
        text.push(' ');
        assert_eq!(read(&text), Err(BadRules::Length.to_string()));
    }
}
