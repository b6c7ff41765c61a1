//! Thread states of a process, to diagnose a call that hangs: a thread that waits for a CPU does
//! not hang.

use std::fs;
use std::path::Path;

/// Returns state, kernel function, and milliseconds of running and waiting for a CPU, for each
/// thread (proc(5)).
pub fn of(pid: libc::pid_t) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let words: Vec<String> = tasks.map(|task| one(&task.path())).collect();
    words.join("; ")
}

fn one(task: &Path) -> String {
    let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
    let (name, status, times) = (read("comm"), read("stat"), read("schedstat"));
    // The name is in parentheses and may contain some.
    let state = status
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    let milliseconds: Vec<u64> = times
        .split_whitespace()
        .take(2)
        .map(|nanoseconds| nanoseconds.parse::<u64>().unwrap_or(0) / 1_000_000)
        .collect();
    format!(
        "{} {} in {}, ran and waited {milliseconds:?} ms",
        name.trim(),
        state.unwrap_or('?'),
        read("wchan")
    )
}
