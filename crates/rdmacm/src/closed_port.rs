//! Ports where a living process of the host stopped listening a moment ago.
//!
//! Some programs listen anew for their next connection, and tell their peer before they do
//! (perftest with `-R`). A kernel refuses a request that comes too early, but there its caller is
//! rarely fast enough; here it is, above all on a busy machine. So a request waits for such a
//! listener. The port's last listener leaves a symbolic link in the runtime directory, whose target
//! is its process ID; the link's time is that of its closing.

use crate::hosts::Host;
use rustix::fs::{AtFlags, readlinkat, statat, symlinkat, unlinkat};
use rustix::process::{Pid, test_kill_process};
use std::fs::File;
use std::time::{Duration, SystemTime};

/// Longest time, after the port was closed, that a request waits for a new listener.
const LONGEST: Duration = Duration::from_secs(10);

/// Records that this process stopped listening at a port.
pub fn record(directory: &File, host: &Host, space: u16, port: u16) {
    forget(directory, host, space, port);
    // Without the record, a request waits no longer than for any port.
    let _ = symlinkat(
        std::process::id().to_string(),
        directory,
        name(host, space, port),
    );
}

/// Removes the record of a port, as a process listens there again.
pub fn forget(directory: &File, host: &Host, space: u16, port: u16) {
    let _ = unlinkat(directory, name(host, space, port), AtFlags::empty());
}

/// Returns the living process that stopped listening at a port a moment ago, if there is one.
pub fn recent_listener(directory: &File, host: &Host, space: u16, port: u16) -> Option<Pid> {
    let name = name(host, space, port);
    let status = statat(directory, &*name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let closed = SystemTime::UNIX_EPOCH + Duration::from_secs(status.st_ctime.try_into().ok()?);
    // A time in the future is that of a clock that was set back.
    if !closed.elapsed().is_ok_and(|age| age < LONGEST) {
        return None;
    }
    let target = readlinkat(directory, &*name, Vec::new()).ok()?;
    let number: u32 = target.to_str().ok()?.parse().ok()?;
    let process = Pid::from_raw(number.try_into().ok()?)?;
    let is_alive = matches!(
        test_kill_process(process),
        Ok(()) | Err(rustix::io::Errno::PERM)
    );
    is_alive.then_some(process)
}

fn name(host: &Host, space: u16, port: u16) -> String {
    format!("cm-{host}{space:04x}-{port}.closed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_a_living_process_may_listen_again() {
        let path = std::env::temp_dir().join(format!("verbena-closed-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        let directory = File::open(&path).unwrap();
        let host = Host::default();
        assert_eq!(recent_listener(&directory, &host, 0x106, 18515), None);
        record(&directory, &host, 0x106, 18515);
        let own = Pid::from_raw(std::process::id() as i32);
        assert_eq!(recent_listener(&directory, &host, 0x106, 18515), own);
        assert_eq!(recent_listener(&directory, &host, 0x106, 18516), None);
        assert_eq!(recent_listener(&directory, &host, 0x13f, 18515), None);
        forget(&directory, &host, 0x106, 18515);
        assert_eq!(recent_listener(&directory, &host, 0x106, 18515), None);

        let mut gone = Command::new("true").spawn().unwrap();
        let process = gone.id().to_string();
        gone.wait().unwrap();
        for target in [&*process, "0", "-1", "99999999999", "none", ""] {
            forget(&directory, &host, 0x106, 18515);
            let _ = symlinkat(target, &directory, name(&host, 0x106, 18515));
            assert_eq!(
                recent_listener(&directory, &host, 0x106, 18515),
                None,
                "{target}"
            );
        }
        std::fs::remove_dir_all(path).unwrap();
    }
}
