//! The input of a replay. It is opened once, because a pipe can be read only once.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

use verbena_mpi_trace::{Error, Trace, is_bundle};

/// Number of bytes that distinguish a trace of all ranks from a schedule.
const BEGINNING: u64 = 8;
/// Maximum size of a schedule's text in bytes; it is kept in memory together with its parsed form.
const MOST_TEXT: u64 = 1 << 30;

/// A trace or a schedule, of which only the first bytes have been read.
pub struct Source {
    path: PathBuf,
    contents: Contents,
}

enum Contents {
    /// A trace with one file per rank.
    Directory,
    /// A trace of all ranks, possibly from a pipe.
    Bundle(Bytes),
    /// A schedule, possibly from a pipe.
    Schedule(Bytes),
}

/// The bytes already read, followed by the rest.
type Bytes = io::Chain<Cursor<Vec<u8>>, File>;

impl Source {
    /// Opens a file, a directory or a pipe.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read.
    pub fn open(path: &Path) -> Result<Source, Error> {
        let contents = match path.is_dir() {
            true => Contents::Directory,
            false => begun(path).map_err(|error| unreadable(path, error))?,
        };
        Ok(Source {
            path: path.to_owned(),
            contents,
        })
    }

    /// Returns the path as given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether it is a trace rather than a schedule.
    pub fn is_trace(&self) -> bool {
        !matches!(self.contents, Contents::Schedule(_))
    }

    /// Reads the trace.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read, or is a schedule.
    pub fn trace(self) -> Result<Trace, Error> {
        match self.contents {
            Contents::Directory if holds_otf2(&self.path) => {
                let reason = "it is an OTF2 archive; convert it with `verbena import`";
                Err(unreadable(&self.path, io::Error::other(reason)))
            }
            Contents::Directory => Trace::open(&self.path),
            Contents::Bundle(mut bytes) | Contents::Schedule(mut bytes) => {
                let mut file = Vec::new();
                let read = bytes.read_to_end(&mut file);
                read.map_err(|error| unreadable(&self.path, error))?;
                Trace::of_bundle(&self.path, &file)
            }
        }
    }

    /// Reads the schedule's text, up to a limit, because a pipe may never end.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read, or exceeds the limit.
    pub fn schedule(self) -> Result<String, Error> {
        let path = self.path;
        let text = match self.contents {
            Contents::Directory => Err(io::ErrorKind::IsADirectory.into()),
            Contents::Bundle(bytes) | Contents::Schedule(bytes) => text_of(bytes),
        };
        text.map_err(|error| unreadable(&path, error))
    }
}

fn begun(path: &Path) -> io::Result<Contents> {
    let mut file = File::open(path)?;
    let mut beginning = Vec::new();
    (&mut file).take(BEGINNING).read_to_end(&mut beginning)?;
    let is_trace = is_bundle(&beginning);
    let bytes = Cursor::new(beginning).chain(file);
    Ok(match is_trace {
        true => Contents::Bundle(bytes),
        false => Contents::Schedule(bytes),
    })
}

fn text_of(bytes: impl Read) -> io::Result<String> {
    let mut text = String::new();
    let read = bytes.take(MOST_TEXT + 1).read_to_string(&mut text)?;
    match read as u64 > MOST_TEXT {
        true => Err(io::Error::other(format!(
            "it is longer than {MOST_TEXT} bytes, the limit of a schedule"
        ))),
        false => Ok(text),
    }
}

/// Returns whether a directory has the anchor file of an OTF2 archive.
fn holds_otf2(directory: &Path) -> bool {
    let entries = directory.read_dir().into_iter().flatten().flatten();
    let mut names = entries.map(|entry| PathBuf::from(entry.file_name()));
    names.any(|name| name.extension().is_some_and(|end| end == "otf2"))
}

fn unreadable(path: &Path, source: io::Error) -> Error {
    Error::Unreadable {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::thread;

    const SCHEDULE: &[u8] = b"num_ranks 2\nrank 0 {\nl1: calc 1500\n}\nrank 1 {\n}\n";
    const TRACE: &[u8] = include_bytes!("../../../papers/traces/nas-is-8.trace");

    /// Reads from a pipe that receives these bytes in two writes, split where no part of the
    /// program splits them.
    fn through_a_pipe<T>(bytes: &'static [u8], read: impl FnOnce(Source) -> T) -> T {
        let (reader, mut writer) = io::pipe().expect("there are pipes");
        let path = PathBuf::from(format!("/dev/fd/{}", reader.as_raw_fd()));
        let writes = thread::spawn(move || {
            let (begin, rest) = bytes.split_at(5);
            writer
                .write_all(begin)
                .and_then(|()| writer.write_all(rest))
        });
        let source = Source::open(&path).expect("a pipe is opened");
        let read = read(source);
        writes.join().unwrap().expect("all is read");
        read
    }

    #[test]
    fn a_schedule_is_read_from_a_pipe() {
        let text = through_a_pipe(SCHEDULE, |source| {
            assert!(!source.is_trace());
            source.schedule().unwrap()
        });
        assert_eq!(text.as_bytes(), SCHEDULE);
    }

    #[test]
    fn a_trace_is_read_from_a_pipe() {
        let trace = through_a_pipe(TRACE, |source| {
            assert!(source.is_trace());
            source.trace().unwrap()
        });
        assert_eq!(trace.bundle(), TRACE);
    }

    #[test]
    fn input_shorter_than_the_magic_is_a_schedule() {
        let text = through_a_pipe(b"num_r", |source| source.schedule().unwrap());
        assert_eq!(text, "num_r");
    }

    #[test]
    fn an_archive_of_otf2_is_recognised() {
        let name = format!("verbena-otf2-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("traces.otf2"), "").unwrap();
        let error = Source::open(&directory).unwrap().trace();
        std::fs::remove_dir_all(&directory).unwrap();
        let reason = error.expect_err("is refused").to_string();
        assert!(reason.contains("`verbena import`"), "{reason}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let Err(error) = Source::open(Path::new("/nowhere/at.all")) else {
            panic!("nothing is opened");
        };
        let reason = error.to_string();
        assert!(
            reason.starts_with("cannot read /nowhere/at.all: "),
            "{reason}"
        );
    }
}
