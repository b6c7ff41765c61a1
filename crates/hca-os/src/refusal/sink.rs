//! The destination of the lines of [`super`]: standard error, or the file that `VERBENA_LOG_FILE`
//! names.
//!
//! **Contract.**
//! - A line is one write(2) to a file opened with O_APPEND, so lines of several processes do not
//!   mix, and a reader may truncate the file between two lines (a test runner does, before each
//!   test).
//! - The file is opened for each line and closed again. No descriptor stays open that a program
//!   could close, inherit across fork(2) or count.
//! - The name is read once in a process, and made absolute then: a later chdir(2) does not move the
//!   file.
//! - The file grows to [`LIMIT`] bytes. Further lines are dropped, and each process reports that
//!   once on standard error.
//! - A line that cannot be written to the file goes to standard error.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

const VARIABLE: &str = "VERBENA_LOG_FILE";

/// Largest size of the file in bytes.
const LIMIT: u64 = 16 << 20;

/// The file; `None` for standard error.
static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
/// Whether it was reported that the file is full or cannot be written.
static WAS_SAID: AtomicBool = AtomicBool::new(false);

/// Reads the name of the file.
pub(super) fn prepare() {
    file();
}

fn file() -> Option<&'static Path> {
    let read = || {
        let name = std::env::var_os(VARIABLE).filter(|name| !name.is_empty())?;
        // Without a current directory the name stays as it is.
        Some(std::path::absolute(&name).unwrap_or_else(|_| PathBuf::from(name)))
    };
    FILE.get_or_init(read).as_deref()
}

/// Writes a line, which ends with a newline.
pub(super) fn write(line: &str) {
    let Some(path) = file() else {
        return to_standard_error(line);
    };
    match append(path, line, LIMIT) {
        Ok(true) => {}
        Ok(false) => once(|| {
            let size = LIMIT >> 20;
            let path = path.display();
            format!("{path} has reached the limit of {size} MiB; truncate it")
        }),
        Err(error) => {
            once(|| {
                let path = path.display();
                format!("cannot write to {path}: {error}; set {VARIABLE} to another file")
            });
            to_standard_error(line);
        }
    }
}

/// Appends a line; `false` when the file has reached its limit.
fn append(path: &Path, line: &str, limit: u64) -> io::Result<bool> {
    let mut file: File = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        // O_NONBLOCK, so that a pipe without a reader under that name does not stop the program.
        .custom_flags(libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let length = file.metadata()?.len();
    if length.saturating_add(line.len() as u64) > limit {
        return Ok(false);
    }
    match file.write(line.as_bytes())? {
        written if written == line.len() => Ok(true),
        _ => Err(io::ErrorKind::StorageFull.into()),
    }
}

fn once(text: impl FnOnce() -> String) {
    if !WAS_SAID.swap(true, Relaxed) {
        to_standard_error(&super::line(format_args!("{}", text())));
    }
}

/// Writes a line to standard error. Failure is ignored: a program may have closed it.
pub(super) fn to_standard_error(line: &str) {
    let _ = io::stderr().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let name = format!("verbena-sink-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = fs::remove_file(&path);
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn lines_are_appended_and_truncation_starts_over() {
        let scratch = Scratch::new("append");
        assert!(append(&scratch.0, "one\n", LIMIT).unwrap());
        assert!(append(&scratch.0, "two\n", LIMIT).unwrap());
        assert_eq!(fs::read_to_string(&scratch.0).unwrap(), "one\ntwo\n");
        OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(&scratch.0)
            .unwrap();
        assert!(append(&scratch.0, "three\n", LIMIT).unwrap());
        assert_eq!(fs::read_to_string(&scratch.0).unwrap(), "three\n");
    }

    #[test]
    fn file_stays_within_its_limit() {
        let scratch = Scratch::new("limit");
        assert!(append(&scratch.0, "12345678\n", 10).unwrap());
        assert!(!append(&scratch.0, "9\n", 10).unwrap());
        assert_eq!(fs::read_to_string(&scratch.0).unwrap(), "12345678\n");
    }

    #[test]
    fn directory_is_refused_as_log_file() {
        assert!(append(&std::env::temp_dir(), "line\n", LIMIT).is_err());
    }
}
