//! Finds and ends the descendants of this process, including those started by a launcher such as
//! `mpirun`.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// Time for killed processes to disappear: the kernel first releases their memory.
const GRACE: Duration = Duration::from_secs(2);

/// Kills all descendants of this process and returns when they have ended, at the latest after
/// [`GRACE`].
pub(crate) fn end_all() {
    let begun = Instant::now();
    // A process may start another one before it ends.
    loop {
        let all = below(std::process::id(), &parents());
        if all.is_empty() || begun.elapsed() > GRACE {
            return;
        }
        all.into_iter().for_each(end);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Kills the descendants of a launcher that have no children, but not the launcher itself, which
/// then notices the end of its job and cleans up.
pub fn end_leaves(launcher: u32) {
    let parents = parents();
    let all = below(launcher, &parents);
    let is_leaf = |process: &&u32| !parents.values().any(|parent| parent == *process);
    all.iter().filter(is_leaf).for_each(|leaf| end(*leaf));
}

/// Kills a process.
pub(crate) fn end(process: u32) {
    if let Some(pid) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn below(process: u32, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let mut found = vec![process];
    let mut next = 0;
    while let Some(above) = found.get(next).copied() {
        let children = parents.iter().filter(|(_, parent)| **parent == above);
        found.extend(children.map(|(child, _)| *child));
        next += 1;
    }
    found.split_off(1)
}

/// Returns the parent of each running process, by proc(5): fields 3 and 4 of `stat`.
fn parents() -> BTreeMap<u32, u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let running = numbers.filter_map(|process: u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name in parentheses may contain any character.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        (!matches!(state, "Z" | "X")).then_some((process, parent))
    });
    running.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn descendants_include_grandchildren_only_of_the_process() {
        let parents = BTreeMap::from([(2, 1), (3, 1), (4, 2), (5, 4), (7, 6)]);
        assert_eq!(below(2, &parents), [4, 5]);
        assert_eq!(below(1, &parents), [2, 3, 4, 5]);
        assert!(below(5, &parents).is_empty());
    }

    #[test]
    fn only_leaf_processes_of_a_launcher_are_killed() {
        let script = "sleep 1000 & wait $!; exit 7";
        let mut launcher = Command::new("sh").args(["-c", script]).spawn().unwrap();
        while below(launcher.id(), &parents()).is_empty() {
            std::thread::yield_now();
        }
        end_leaves(launcher.id());
        assert_eq!(launcher.wait().unwrap().code(), Some(7));
    }
}
