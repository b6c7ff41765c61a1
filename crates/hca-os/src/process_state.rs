//! State of another process (proc_pid_stat(5)).

/// Returns whether a process runs, or waits for a processor or an event. Not if it is stopped,
/// traced or has ended, not if its main thread has ended, and not where that cannot be read.
pub fn is_running(pid: u32) -> bool {
    let text = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and may contain some.
    let end = text.iter().rposition(|byte| *byte == b')');
    let state = end.and_then(|end| text.get(end + 2));
    matches!(state, Some(b'R' | b'S' | b'D'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

    #[test]
    fn stopped_and_ended_processes_do_not_run() {
        assert!(is_running(std::process::id()));
        assert!(!is_running(0));
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        let wait = |options| waitid(WaitId::Pid(pid), options | WaitIdOptions::NOWAIT).unwrap();
        assert!(is_running(child.id()));
        kill_process(pid, Signal::STOP).unwrap();
        wait(WaitIdOptions::STOPPED);
        assert!(!is_running(child.id()));
        child.kill().unwrap();
        wait(WaitIdOptions::EXITED);
        assert!(!is_running(child.id()));
        child.wait().unwrap();
        assert!(!is_running(child.id()));
    }
}
