//! A log of records, one JSON object per line, that never loses a record unnoticed.
//!
//! Invariants: every line of the file is a whole record. Records that could not be written are
//! counted in a record (`"event":"lost"`) before the next one, on standard error and in the
//! metrics. Nothing is buffered: a record is written, by one write(2), before the call returns.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

/// An open log.
#[derive(Debug)]
pub struct Log {
    /// Kind of log, for messages.
    what: &'static str,
    path: PathBuf,
    sink: Mutex<LogFile>,
    lost: AtomicU64,
}

#[derive(Debug)]
struct LogFile {
    file: File,
    /// Whether the file ends in an incomplete line, which the next write must terminate first.
    is_torn: bool,
    /// Records lost since the last one written, and since when.
    gap: Option<Gap>,
}

#[derive(Debug, Clone, Copy)]
struct Gap {
    records: u64,
    since: u64,
}

/// Returns the time in microseconds since 1970, by this host's clock.
pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| u64::try_from(since.as_micros()).ok())
        .unwrap_or(0)
}

/// Prints a message on standard error, ignoring errors: it may be a file on a full disk, or closed.
pub fn print_error(what: impl std::fmt::Display) {
    let _ = writeln!(io::stderr(), "{what}");
}

impl Log {
    /// Opens a file for appending; creates it with mode 0600 if it is missing.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(what: &'static str, path: &Path) -> io::Result<Self> {
        let sink = LogFile {
            file: open(path)?,
            is_torn: false,
            gap: None,
        };
        let log = Self {
            what,
            path: path.to_owned(),
            sink: Mutex::new(sink),
            lost: AtomicU64::new(0),
        };
        log.sink().check_end(path);
        Ok(log)
    }

    /// Reopens the file by its name, after a rotation has renamed it.
    ///
    /// # Errors
    ///
    /// The file cannot be opened; the log then stays with its current file.
    pub fn reopen(&self) -> io::Result<()> {
        let file = open(&self.path)?;
        let mut sink = self.sink();
        sink.file = file;
        sink.check_end(&self.path);
        Ok(())
    }

    /// Changes the file's owner to the user that the process is about to become, which must be able
    /// to reopen it.
    ///
    /// # Errors
    /// The error of fstat(2) or fchown(2).
    pub fn give_to(&self, user: u32, group: u32) -> io::Result<()> {
        let sink = self.sink();
        // A device or a pipe does not belong to the log.
        if !sink.file.metadata()?.is_file() {
            return Ok(());
        }
        std::os::unix::fs::fchown(&sink.file, Some(user), Some(group))
    }

    /// Returns the file's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of records lost since the start.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn sink(&self) -> MutexGuard<'_, LogFile> {
        self.sink
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Writes a record. One that cannot be written is counted; the service continues.
    pub fn record(&self, record: Map<String, Value>) {
        let line = line_of(record);
        let mut sink = self.sink();
        match sink.write(&line) {
            Ok(None) => {}
            Ok(Some(gap)) => print_error(format_args!(
                "rfiod: {} {}: writable again; {} records were lost",
                self.what,
                self.path.display(),
                gap.records
            )),
            Err(error) => {
                self.lost.fetch_add(1, Ordering::Relaxed);
                if sink.count_lost() {
                    print_error(format_args!(
                        "rfiod: {} {}: {error}; records are lost until it can be written",
                        self.what,
                        self.path.display()
                    ));
                }
            }
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Some(gap) = self.sink().gap {
            print_error(format_args!(
                "rfiod: {} {}: the last {} records are lost",
                self.what,
                self.path.display(),
                gap.records
            ));
        }
    }
}

/// Never blocks: a FIFO without a reader loses records like a full disk.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

impl LogFile {
    /// Checks whether a killed writer, or a power failure, left an incomplete line.
    fn check_end(&mut self, path: &Path) {
        let Ok(about) = self.file.metadata() else {
            return;
        };
        self.is_torn = about.is_file() && about.len() > 0 && {
            let mut last = [0];
            let is_read = File::open(path).is_ok_and(|file| {
                file.metadata().is_ok_and(|it| it.ino() == about.ino())
                    && file.read_exact_at(&mut last, about.len() - 1).is_ok()
            });
            !is_read || last != *b"\n"
        };
    }

    /// Writes a line, preceded by a record of lost ones if there are any: both or neither. Returns
    /// the gap that was recorded.
    fn write(&mut self, line: &str) -> io::Result<Option<Gap>> {
        let mut text = String::with_capacity(line.len() + 128);
        if self.is_torn {
            text.push('\n');
        }
        if let Some(gap) = self.gap {
            text += &line_of(object(json!({
                "time_us": now(), "event": "lost",
                "records": gap.records, "since_us": gap.since,
            })));
        }
        text += line;
        let before = self.file.metadata().map_or(0, |about| about.len());
        let mut written = 0;
        while written < text.len() {
            match self.file.write(&text.as_bytes()[written..]) {
                Ok(0) => break,
                Ok(more) => written += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.remove_partial_line(before, written as u64);
                    return Err(error);
                }
            }
        }
        self.is_torn = false;
        Ok(self.gap.take())
    }

    /// Removes an incomplete line, unless another process has appended to it; otherwise the next
    /// write terminates it.
    fn remove_partial_line(&mut self, before: u64, written: u64) {
        if written == 0 {
            return;
        }
        let end = self.file.metadata().map(|about| about.len());
        let is_last = end.is_ok_and(|end| end == before + written);
        if !is_last || rustix::fs::ftruncate(self.file.as_fd(), before).is_err() {
            self.is_torn = true;
        }
    }

    /// Counts a lost record; returns whether it is the first of a gap.
    fn count_lost(&mut self) -> bool {
        let is_first = self.gap.is_none();
        let gap = self.gap.get_or_insert(Gap {
            records: 0,
            since: now(),
        });
        gap.records += 1;
        is_first
    }
}

/// Returns the fields of a JSON object.
pub fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Adds a name given by a client. If it is not UTF-8, it is stored with replacement characters, and
/// its bytes as hexadecimal digits in a second field, `KEY_hex`.
pub fn put_name(record: &mut Map<String, Value>, key: &str, name: &[u8]) {
    record.insert(key.into(), String::from_utf8_lossy(name).into());
    if std::str::from_utf8(name).is_err() {
        let hex: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
        record.insert(format!("{key}_hex"), hex.into());
    }
}

/// Formats a record as one line. Everything but printable ASCII is escaped, as JSON permits: some
/// readers end lines at U+0085 or U+2028, and terminals obey control characters and change the
/// direction of text.
fn line_of(record: Map<String, Value>) -> String {
    let text = Value::Object(record).to_string();
    let mut line = String::with_capacity(text.len() + 1);
    for letter in text.chars() {
        match letter {
            ' '..='~' => line.push(letter),
            _ => {
                let mut units = [0; 2];
                for unit in letter.encode_utf16(&mut units) {
                    line += &format!("\\u{unit:04x}");
                }
            }
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use verbena_rfio_common::scratch::Scratch;

    fn record(number: u64) -> Map<String, Value> {
        object(json!({"event": "test", "number": number, "filling": "x".repeat(100)}))
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = fs::read_to_string(path).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect()
    }

    #[test]
    fn after_reopen_records_go_to_the_new_file() {
        let scratch = Scratch::new();
        let path = scratch.path("log");
        let log = Log::open("log", &path).unwrap();
        log.record(record(1));
        fs::rename(&path, scratch.path("log.1")).unwrap();
        log.record(record(2));
        log.reopen().unwrap();
        log.record(record(3));
        let numbers = |path: &Path| -> Vec<u64> {
            let lines = lines(path);
            lines
                .iter()
                .map(|l| l["number"].as_u64().unwrap())
                .collect()
        };
        assert_eq!(numbers(&scratch.path("log.1")), [1, 2]);
        assert_eq!(numbers(&path), [3]);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_failed_reopen_keeps_the_old_file() {
        let scratch = Scratch::new();
        fs::create_dir(scratch.path("d")).unwrap();
        let log = Log::open("log", &scratch.path("d/log")).unwrap();
        fs::rename(scratch.path("d"), scratch.path("e")).unwrap();
        assert!(log.reopen().is_err());
        log.record(record(1));
        assert_eq!(lines(&scratch.path("e/log")).len(), 1);
    }

    #[test]
    fn an_incomplete_last_line_is_terminated() {
        let scratch = Scratch::new();
        let path = scratch.path("log");
        fs::write(&path, "{\"event\":\"ha").unwrap();
        let log = Log::open("log", &path).unwrap();
        log.record(record(1));
        log.record(record(2));
        let text = fs::read_to_string(&path).unwrap();
        let found: Vec<&str> = text.lines().collect();
        assert_eq!((found.len(), found[0]), (3, "{\"event\":\"ha"));
        assert!(serde_json::from_str::<Value>(found[1]).is_ok());
    }

    const IS_CHILD: &str = "FULL_DISK_TEST_CHILD";

    /// Fills the disk and frees it again many times, with every possible amount of space left. The
    /// disk's size is simulated by a per-process limit, so the test runs in a child process.
    #[test]
    fn a_full_disk_leaves_complete_lines_and_a_count_of_lost_records() {
        if std::env::var_os(IS_CHILD).is_some() {
            return fill_a_disk();
        }
        let ended = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("log::tests::a_full_disk_leaves_complete_lines_and_a_count_of_lost_records")
            .env(IS_CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ended.stdout);
        assert!(
            ended.status.success() && said.contains("1 passed"),
            "{ended:?}"
        );
    }

    fn fill_a_disk() {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let scratch = Scratch::new();
        let path = scratch.path("log");
        let log = Log::open("log", &path).unwrap();
        let mut number = 0;
        let mut write = |log: &Log| {
            number += 1;
            log.record(record(number));
        };
        for room in 0..600 {
            write(&log);
            limit_files(Some(fs::metadata(&path).unwrap().len() + room));
            for _ in 0..6 {
                write(&log);
            }
            limit_files(None);
        }
        write(&log);
        let (mut next, mut lost) = (1, 0);
        for line in lines(&path) {
            if line["event"] == "lost" {
                lost += line["records"].as_u64().unwrap();
                next += line["records"].as_u64().unwrap();
            } else {
                assert_eq!(line["number"], next, "every record is there or counted");
                next += 1;
            }
        }
        assert_eq!(next, number + 1);
        assert_eq!(lost, log.lost());
        assert!(lost > 1000, "{lost}");
    }

    fn limit_files(size: Option<u64>) {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let maximum = getrlimit(Resource::Fsize).maximum;
        let current = size.or(maximum);
        setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
    }

    #[test]
    fn any_name_round_trips_in_one_line_of_json() {
        for name in [
            &b"plain"[..],
            b"a\nb\r\t\0\x07\x1b[31m\x7f",
            "\u{85}\u{2028}\u{2029}\u{202e}evil\u{feff}\u{1f600}".as_bytes(),
            b"\"},{\"event\":\"forged\"",
            b"\xff\xfe not UTF-8 \n",
        ] {
            let mut record = Map::new();
            put_name(&mut record, "path", name);
            let line = line_of(record);
            assert!(
                line.trim_end()
                    .bytes()
                    .all(|byte| (b' '..=b'~').contains(&byte))
            );
            let read: Value = serde_json::from_str(&line).unwrap();
            let bytes = match read["path_hex"].as_str() {
                Some(hex) => (0..hex.len() / 2)
                    .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
                    .collect(),
                None => read["path"].as_str().unwrap().as_bytes().to_vec(),
            };
            assert_eq!(bytes, name);
        }
    }
}
