//! Pages held by an io_uring, from the kernel's information on its descriptor (proc_pid_fdinfo(5)).

use std::os::fd::RawFd;

/// Number of attempts: while another thread submits, the kernel gives no information on a ring.
const ATTEMPTS: u32 = 64;

/// Returns whether a ring may hold pages: registered buffers, and targets of transfers in progress
/// on registered files, which may have been opened with O_DIRECT. True if it cannot be found out.
pub fn holds(number: RawFd) -> bool {
    let path = format!("/proc/self/fdinfo/{number}");
    for _ in 0..ATTEMPTS {
        let Ok(text) = std::fs::read_to_string(&path) else {
            return true;
        };
        if let Some(holds) = says(&text) {
            return holds;
        }
        std::thread::yield_now();
    }
    true
}

/// Parses the text; None if it lacks the information.
fn says(text: &str) -> Option<bool> {
    let count = |name: &str| {
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.trim().parse::<u64>().ok()
    };
    Some(count("UserBufs")? > 0 || count("UserFiles")? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_uring_with_buffers_or_files_pins_memory() {
        let text = |files, buffers| {
            format!(
                "pos:\t0\nSqThread:\t-1\nUserFiles:\t{files}\nUserBufs:\t{buffers}\nPollList:\n"
            )
        };
        assert_eq!(says(&text(0, 0)), Some(false));
        assert_eq!(says(&text(0, 1)), Some(true));
        assert_eq!(says(&text(3, 0)), Some(true));
        assert_eq!(says("pos:\t0\nflags:\t02000002\n"), None);
    }
}
