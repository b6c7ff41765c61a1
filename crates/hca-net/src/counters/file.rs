//! The file with a process's counters: a header of one page, then the shards.
//!
//! The header is five lines of text, padded with zeros: `verbena counters 1`; the process id; its
//! name; the number of shards and the length of each in bytes; the names of the counters, separated
//! by spaces. In a shard each counter is a 64-bit word in the machine's byte order, of which the
//! highest bit does not count. A counter's value is the sum over all shards. Readers:
//! `crates/bench/src/counters.rs`, `tests/harness/counters.py`.

use super::{NAMES, SHARDS, Shard};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::ptr::NonNull;
use verbena_hca_os::shared_words::SharedWords;

const HEADER: usize = 4096;
const LENGTH: usize = HEADER + SHARDS as usize * size_of::<Shard>();

/// A file's memory. A forked child keeps it, because inherited objects may count in it.
pub struct CounterFile {
    words: SharedWords,
}

impl CounterFile {
    /// Creates a file in `directory`.
    ///
    /// # Errors
    /// Those of open(2), write(2), fallocate(2) and mmap(2).
    pub fn create(directory: &Path) -> io::Result<CounterFile> {
        let pid = std::process::id();
        let command = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
        let (file, path) = new_file(directory, pid)?;
        prepare(&file, pid, command.trim())
            .inspect_err(|_| drop(std::fs::remove_file(&path)))
            .map(|words| CounterFile { words })
    }

    /// Returns the first shard.
    pub fn shards(&self) -> NonNull<Shard> {
        // SAFETY: inside the words, which are more than a header.
        unsafe { self.words.first().add(HEADER / 8) }.cast()
    }
}

fn prepare(mut file: &File, pid: u32, command: &str) -> io::Result<SharedWords> {
    let command: String = command
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    let header = format!(
        "verbena counters 1\n{pid}\n{command}\n{SHARDS} {}\n{}\n",
        size_of::<Shard>(),
        NAMES.join(" ")
    );
    debug_assert!(header.len() < HEADER);
    let words =
        SharedWords::of(file, LENGTH / 8).map_err(|error| io::Error::from_raw_os_error(error.0))?;
    file.write_all(header.as_bytes())?;
    Ok(words)
}

/// Creates a new file for a process. Another process with the same id may have left one: one of
/// another PID namespace, or this one before execve(2).
fn new_file(directory: &Path, pid: u32) -> io::Result<(File, std::path::PathBuf)> {
    let first = std::iter::once(format!("{pid}.counters"));
    let names = first.chain((1u32..).map(|further| format!("{pid}-{further}.counters")));
    for name in names {
        let path = directory.join(name);
        let mut options = OpenOptions::new();
        match options.read(true).write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
            Err(error) => return Err(error),
            Ok(file) => return Ok((file, path)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn scratch(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("verbena-counters-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn processes_with_the_same_pid_write_separate_files() {
        let directory = scratch("number");
        const PROCESSES: usize = 40;
        std::thread::scope(|scope| {
            for _ in 0..PROCESSES {
                scope.spawn(|| new_file(&directory, 7).unwrap());
            }
        });
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), PROCESSES);
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(new_file(&directory, 7).is_err());
    }

    #[test]
    fn counts_are_visible_in_the_file_at_once() {
        let directory = scratch("file");
        let file = CounterFile::create(&directory).unwrap();
        // SAFETY: a shard of zeros lies there.
        unsafe { file.shards().as_ref() }.write_operations.add(7);
        let path = directory.join(format!("{}.counters", std::process::id()));
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(bytes.len(), LENGTH);
        let at = HEADER + 8 * NAMES.iter().position(|n| *n == "write_operations").unwrap();
        assert_eq!(bytes[at..at + 8], 7u64.to_ne_bytes());
        drop(file);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
