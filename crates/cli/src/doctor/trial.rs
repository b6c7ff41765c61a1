//! Two processes that exchange data on the adapter, and what they counted, operation by operation.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use verbena_hca::describe;
use verbena_hca::shm::registry;

use super::end::{DONE, Operation};
use super::probe::Probe;
use crate::info::description::Answer;
use crate::launch::environment::Path;

/// The paths that an operation took, by name.
pub type Taken = BTreeMap<&'static str, BTreeSet<String>>;

/// Runs one between two such ends, by this path alone or as the adapter chooses. The paths taken, or in words what failed.
pub fn run(end: Probe, path: Option<Path>) -> Result<Taken, String> {
    let mut ends = [Side::start(end, path)?, Side::start(end, path)?];
    let outcome = exchange(&mut ends);
    let words = ends.map(Side::end);
    outcome.map_err(|reason| {
        // What a process said itself tells more than that it is gone.
        let said = words.into_iter().find(|words| !words.is_empty());
        said.unwrap_or(reason)
    })
}

fn exchange(ends: &mut [Side; 2]) -> Result<Taken, String> {
    let [first, second] = ends;
    let (one, other) = (first.hear()?, second.hear()?);
    first.tell(&other)?;
    second.tell(&one)?;
    let mut taken = Taken::new();
    done([first, second])?;
    for operation in Operation::ALL {
        let before = counted([first, second])?;
        first.tell(operation.name())?;
        second.tell(operation.name())?;
        done([first, second])?;
        let after = counted([first, second])?;
        let grown = after
            .into_iter()
            .filter(|(name, value)| before.get(name).is_none_or(|old| value > old));
        taken.insert(operation.name(), grown.map(|(name, _)| name).collect());
    }
    Ok(taken)
}

fn done(ends: [&mut Side; 2]) -> Result<(), String> {
    for end in ends {
        let line = end.hear()?;
        if line != DONE {
            return Err(format!("a process of the trial said {line:?}"));
        }
    }
    Ok(())
}

/// Operations by path, of both together, as they tell `verbena info`.
fn counted(ends: [&mut Side; 2]) -> Result<BTreeMap<String, u64>, String> {
    let pids = ends.map(|end| end.child.id());
    let answers = describe::processes(&registry::directory()).map_err(|error| error.to_string())?;
    let mut sums = BTreeMap::new();
    for (pid, text) in answers.into_iter().filter(|(pid, _)| pids.contains(pid)) {
        match Answer::of(pid, text) {
            Answer::Silent { reason, .. } => return Err(reason),
            Answer::Said(said) => {
                for (name, value) in said.counters {
                    if let Some(path) = name.strip_suffix("_path_operations") {
                        *sums.entry(path.to_owned()).or_default() += value;
                    }
                }
            }
        }
    }
    Ok(sums)
}

/// A process of the trial as we see it.
struct Side {
    child: Child,
    /// Closed first at the end, which ends the process.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Side {
    fn start(end: Probe, path: Option<Path>) -> Result<Side, String> {
        let mut command = end.command().map_err(|error| error.to_string())?;
        if let Some(path) = path {
            command.env("VERBENA_PATH", path.to_string());
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start a process: {error}"))?;
        let orders = child.stdin.take();
        let answers = child.stdout.take().map(BufReader::new);
        Ok(Side {
            child,
            orders,
            answers: answers.ok_or("a pipe is missing")?,
        })
    }

    fn tell(&mut self, line: &str) -> Result<(), String> {
        let orders = self.orders.as_mut().ok_or("it has been told to end")?;
        writeln!(orders, "{line}").map_err(|error| format!("a process ended: {error}"))
    }

    fn hear(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(length) if length > 0 => Ok(line.trim_end().to_owned()),
            _ => Err("a process of the trial ended early".to_owned()),
        }
    }

    /// Lets it end; what it said on standard error, or how it ended if that was by a signal.
    fn end(mut self) -> String {
        drop(self.orders.take());
        let mut said = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            let _ = errors.read_to_string(&mut said);
        }
        let killed = self.child.wait().ok().filter(|how| how.code().is_none());
        match killed {
            Some(how) if said.trim().is_empty() => how.to_string(),
            _ => said.trim().to_owned(),
        }
    }
}
