//! Runs a command once, in bounded time and with bounded output.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::outcome::End;

/// Time that a command has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// Bytes of the command's output that are kept.
const KEPT: u64 = 4096;
/// Bytes of output from which the earlier ones are dropped while the command runs.
const MOST_OUTPUT: u64 = 16 << 20;
/// Time between two looks at a running command.
const PAUSE: Duration = Duration::from_millis(2);

/// How a run has ended, and the end of its output; none if `stop` was set meanwhile.
pub type Ended = Option<(End, String)>;

/// Runs a command in a separate process group, without input. Its output goes to a file, which is
/// overwritten. Processes that it leaves behind are killed.
///
/// # Errors
/// Fails if the command or the file cannot be used.
pub fn run(
    mut command: Command,
    output: &Path,
    time: Duration,
    stop: &AtomicBool,
) -> io::Result<Ended> {
    let file = OpenOptions::new().append(true).create(true).open(output)?;
    file.set_len(0)?;
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file.try_clone()?)
        .process_group(0);
    let mut child = command.spawn()?;
    let group = Pid::from_child(&child);
    let ended = wait(group, &file, time, stop);
    if !matches!(ended, Ok(Waited::Ended)) {
        // mpirun(1) ends the processes of other groups that it has started.
        let _ = kill_process_group(group, Signal::TERM);
        let _ = wait(group, &file, GRACE, &AtomicBool::new(false));
    }
    // The child has not been waited for yet, so no other group can have its number.
    let _ = kill_process_group(group, Signal::KILL);
    let status = child.wait()?;
    let end = match ended? {
        Waited::Stopped => return Ok(None),
        Waited::TimeIsOver => End::Hang,
        Waited::Ended => End::of(status),
    };
    Ok(Some((end, tail(output)?)))
}

/// Why waiting has ended.
enum Waited {
    Ended,
    TimeIsOver,
    Stopped,
}

/// Waits for the end of a child, which stays a zombie, and keeps its output short.
fn wait(child: Pid, output: &File, time: Duration, stop: &AtomicBool) -> io::Result<Waited> {
    let end = Instant::now() + time;
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(child), options) {
            Ok(None) | Err(Errno::INTR) => {}
            Ok(Some(_)) => return Ok(Waited::Ended),
            Err(error) => return Err(error.into()),
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(Waited::Stopped);
        }
        if Instant::now() >= end {
            return Ok(Waited::TimeIsOver);
        }
        if output.metadata()?.len() > MOST_OUTPUT {
            output.set_len(0)?;
        }
        thread::sleep(PAUSE);
    }
}

fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(KEPT)))?;
    let mut bytes = Vec::new();
    file.take(KEPT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, seconds: f64) -> (End, String) {
        let directory = std::env::temp_dir();
        let name = format!("sweep-{}-{:p}", std::process::id(), script);
        let output = directory.join(name);
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let time = Duration::from_secs_f64(seconds);
        let ended = run(command, &output, time, &AtomicBool::new(false)).unwrap();
        std::fs::remove_file(output).unwrap();
        ended.unwrap()
    }

    #[test]
    fn ends_are_told_apart() {
        assert_eq!(sh("echo a; exit 3", 60.0), (End::Exit(3), "a\n".into()));
        assert_eq!(sh("kill -SEGV $$", 60.0).0, End::Signal(11));
        assert_eq!(sh("sh -c 'kill -ABRT $$'; exit $?", 60.0).0, End::Signal(6));
        assert_eq!(sh("sleep 600 & wait", 0.2).0, End::Hang);
        assert_eq!(sh("trap '' TERM; echo b; sleep 600", 0.2).1, "b\n");
        let (end, output) = sh("yes | head -c 50000000; echo c", 60.0);
        assert!(end == End::Exit(0) && output.len() <= 4096 && output.ends_with("c\n"));
    }
}
