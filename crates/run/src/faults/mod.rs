//! Programs whose verbs calls and requests fail by rules: the rules' [`schedule`], the record of
//! the failures, the [`sweep`] that fails each call or request by itself, random faults
//! ([`explore`]) and the fewest that make a command fail ([`shrink`]).

pub mod execution;
pub mod explore;
pub mod junit;
pub mod leaks;
pub mod outcome;
pub mod schedule;
pub mod shrink;
pub mod sweep;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use verbena_faults::alive::{self, Alive};
use verbena_faults::firing::{self, Firing};
use verbena_faults::rules::{self, Rules};

use crate::environment::Environment;

/// Reads the objects of each process from a record.
///
/// # Errors
/// The system's.
pub fn read_alive(record: &Path) -> io::Result<Vec<Alive>> {
    let bytes = fs::read(record)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().filter_map(Alive::read).collect())
}

/// Returns the environment in which tracer and adapter follow the rules, and append to the record.
/// The tracer is there only for rules about calls or the adapter, and to record the objects that
/// each process has when it exits, if they are wanted.
///
/// # Errors
/// Fails if the rules cannot be passed on.
pub fn environment(
    environment: Environment,
    tracer: &Path,
    rules: &Rules,
    record: &Path,
    objects: bool,
) -> Result<Environment, rules::BadRules> {
    let environment = match rules.need_the_tracer() || objects {
        true => environment.with_tracer(tracer),
        false => environment,
    };
    let environment = match objects {
        true => environment.with(alive::VARIABLE, "1"),
        false => environment,
    };
    Ok(environment
        .with(rules::VARIABLE, variable(rules, record)?)
        .with(firing::VARIABLE, record))
}

/// Returns the variable with the rules; long ones are in a file beside the record.
fn variable(rules: &Rules, record: &Path) -> Result<OsString, rules::BadRules> {
    let text = rules.encode()?;
    if text.len() <= rules::LONGEST_VARIABLE {
        return Ok(text.into());
    }
    let path = record.with_extension("rules");
    fs::write(&path, text)
        .map_err(|error| rules::BadRules::File(path.display().to_string(), error.to_string()))?;
    let mut value = OsString::from(rules::FILE.to_string());
    value.push(path);
    Ok(value)
}

/// Makes an empty record.
///
/// # Errors
/// The system's.
pub fn begin(record: &Path) -> io::Result<()> {
    fs::write(record, "")
}

/// Reads a record, in the order of the calls. Lines that a full disk has cut are left out.
///
/// # Errors
/// The system's.
pub fn read(record: &Path) -> io::Result<Vec<Firing>> {
    let bytes = fs::read(record)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().filter_map(Firing::read).collect())
}

/// Returns whether a process may have had more such calls than it recorded.
pub fn is_cut(firings: &[&Firing]) -> bool {
    let mut by_process: BTreeMap<u32, u64> = BTreeMap::new();
    for firing in firings {
        *by_process.entry(firing.process).or_default() += 1;
    }
    by_process.values().any(|count| *count >= firing::MOST)
}

/// How often each rule was met, and in which processes.
pub fn by_rule(firings: &[Firing]) -> BTreeMap<usize, Vec<&Firing>> {
    let mut all: BTreeMap<usize, Vec<&Firing>> = BTreeMap::new();
    for firing in firings {
        all.entry(firing.rule).or_default().push(firing);
    }
    all
}
