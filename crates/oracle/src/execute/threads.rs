//! What the threads of a process are doing, for a call that hangs: one that waits for a processor hangs in nothing.

use std::fs;
use std::path::Path;

/// State, kernel function, and milliseconds with and without a processor of each thread (proc(5)).
pub fn of(pid: libc::pid_t) -> String {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let words: Vec<String> = tasks.map(|task| one(&task.path())).collect();
    words.join("; ")
}

fn one(task: &Path) -> String {
    let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
    let (name, status, times) = (read("comm"), read("stat"), read("schedstat"));
    // The name stands in parentheses and may have some of its own.
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
