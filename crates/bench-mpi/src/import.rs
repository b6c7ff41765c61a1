//! Imports traces of other tracers: OTF2, SimGrid's and DUMPI's by [`import`]; Chakra's, which
//! become schedules, by [`chakra`]. `otf2-print` reads OTF2, whose library is in C; this module
//! parses its output as a stream.

mod chakra;
mod dumpi;
mod simgrid;
mod unsupported;

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use verbena_mpi_trace::otf2::{self, Definitions};
use verbena_mpi_trace::simgrid as simgrid_trace;

pub use chakra::{chakra, is_trace as is_chakra};
use unsupported::Unsupported;

/// The reason why an archive cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// There is no such file, or it cannot be looked at.
    #[error("cannot read {path}: {source}")]
    Absent {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// There is no archive.
    #[error(
        "{0} is not an OTF2 archive or a trace of SimGrid, DUMPI or Chakra; name the archive's \
         anchor file, which ends in .otf2, the directory that holds traces.otf2, the file that \
         smpirun -trace-ti wrote, or a directory of files such as dumpi-DATE-0000.bin or NAME.0.et"
    )]
    NoArchive(PathBuf),

    /// A format that is not read.
    #[error("{path} is {}, which is not read; {}", .format.name, .format.remedy)]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// Its format, and the remedy.
        format: Unsupported,
    },

    /// `otf2-print` is not installed.
    #[error(
        "cannot find otf2-print, which reads OTF2; install it (Debian: otf2-tools; also part of \
         Score-P)"
    )]
    NoPrinter,

    /// `otf2-print` cannot be started.
    #[error("cannot run otf2-print: {0}")]
    Unrunnable(io::Error),

    /// `otf2-print` did not reach the end of the archive.
    #[error("otf2-print cannot read {archive}: {words}")]
    Unreadable {
        /// The archive.
        archive: PathBuf,
        /// Its error message.
        words: String,
    },

    /// The archive's content cannot be imported.
    #[error("cannot import {archive}: {source}")]
    Refused {
        /// The archive.
        archive: PathBuf,
        /// The defect.
        source: otf2::Error,
    },

    /// The content of a trace of SimGrid cannot be imported.
    #[error("cannot import {trace}: {source}")]
    SimGrid {
        /// The trace.
        trace: PathBuf,
        /// The defect.
        source: simgrid_trace::Error,
    },

    /// The content of a DUMPI trace cannot be imported.
    #[error("cannot import {trace}: {source}")]
    Dumpi {
        /// The trace.
        trace: PathBuf,
        /// The defect.
        source: verbena_mpi_trace::dumpi::Error,
    },

    /// The content of a Chakra trace cannot be imported.
    #[error("cannot import {trace}: {source}")]
    Chakra {
        /// The trace.
        trace: PathBuf,
        /// The defect.
        source: verbena_mpi_trace::chakra::Error,
    },
}

/// An imported trace.
pub enum Imported {
    /// From an OTF2 archive.
    Otf2(otf2::Imported),
    /// From a time-independent trace of SimGrid.
    SimGrid(simgrid_trace::Imported),
    /// From a DUMPI trace.
    Dumpi(verbena_mpi_trace::dumpi::Imported),
}

/// Number of bytes of a file by which its format is recognised.
const HEAD: u64 = 4096;

/// Imports a trace of a format that is recognised; computing in flops takes time by this rate.
///
/// # Errors
///
/// Fails if the format is unknown or not read, or the trace cannot be read or imported.
pub fn import(path: &Path, flops_per_second: Option<f64>) -> Result<Imported, Failure> {
    std::fs::metadata(path).map_err(|source| Failure::Absent {
        path: path.to_owned(),
        source,
    })?;
    let is_archive = path
        .extension()
        .is_some_and(|extension| extension == "otf2");
    if is_archive || path.join(ANCHOR).is_file() {
        return otf2(path).map(Imported::Otf2);
    }
    if dumpi::is_trace(path) {
        return dumpi::dumpi(path).map(Imported::Dumpi);
    }
    if let Some(format) = unsupported::recognise(path, &head(path)) {
        let path = path.to_owned();
        return Err(Failure::Unsupported { path, format });
    }
    match simgrid::is_trace(path) {
        true => simgrid::simgrid(path, flops_per_second).map(Imported::SimGrid),
        false => Err(Failure::NoArchive(path.to_owned())),
    }
}

/// Returns the beginning of a file; nothing if it is not a readable file.
fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    if path.is_file()
        && let Ok(file) = File::open(path)
    {
        let _ = file.take(HEAD).read_to_end(&mut head);
    }
    head
}

/// Name of an archive's anchor file, as written by Score-P.
const ANCHOR: &str = "traces.otf2";
/// Number of bytes kept of error messages.
const WORDS: u64 = 2000;

/// Imports an archive, given its anchor file or its directory.
///
/// # Errors
///
/// Fails if there is no archive, `otf2-print` cannot read it, or its content cannot be imported.
fn otf2(path: &Path) -> Result<otf2::Imported, Failure> {
    let archive = match path.is_dir() {
        true => path.join(ANCHOR),
        false => path.to_owned(),
    };
    if !archive.is_file() {
        return Err(Failure::NoArchive(path.to_owned()));
    }
    // Absolute, so that a name with a leading dash is not taken for an option.
    let archive = env::current_dir().map_or_else(|_| archive.clone(), |here| here.join(&archive));
    let definitions = printed(&archive, &["--show-global-defs"], |text| {
        Definitions::read(text)
    })?;
    printed(&archive, &[], |text| otf2::import(&definitions, text))
}

/// Passes the output of `otf2-print` for an archive to `read` and returns its result.
fn printed<T>(
    archive: &Path,
    options: &[&str],
    read: impl FnOnce(BufReader<ChildStdout>) -> Result<T, otf2::Error>,
) -> Result<T, Failure> {
    let mut child = started(archive, options)?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let complaints = thread::spawn(move || errors.map(first_words).unwrap_or_default());
    let output = output.expect("it was requested");
    let read = read(BufReader::new(output));
    // The rest of the output is not read, and the program would block on the full pipe.
    if matches!(read, Err(otf2::Error::Line { .. })) {
        let _ = child.kill();
    }
    let status = child.wait().map_err(Failure::Unrunnable)?;
    let words = complaints.join().unwrap_or_default();
    if status.code().is_some_and(|code| code != 0) {
        let words = match words.trim() {
            "" => format!("it ended with {status}"),
            words => words.to_owned(),
        };
        let archive = archive.to_owned();
        return Err(Failure::Unreadable { archive, words });
    }
    read.map_err(|source| Failure::Refused {
        archive: archive.to_owned(),
        source,
    })
}

fn started(archive: &Path, options: &[&str]) -> Result<Child, Failure> {
    let child = Command::new("otf2-print")
        .args(options)
        .arg::<OsString>(archive.into())
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    child.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::NoPrinter,
        _ => Failure::Unrunnable(error),
    })
}

/// Returns the beginning of a text; reads all of it, so that the writer does not block.
fn first_words(mut text: impl Read) -> String {
    let mut words = Vec::new();
    let _ = text.by_ref().take(WORDS).read_to_end(&mut words);
    let _ = io::copy(&mut text, &mut io::sink());
    String::from_utf8_lossy(&words).into_owned()
}
