//! Importing traces of other tracers: `otf2-print` reads OTF2, whose library is C, and what it prints is read here, as it comes.

use std::env;
use std::ffi::OsString;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;

use verbena_trace::otf2::{self, Definitions, Imported};

/// Why an archive cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// There is no archive.
    #[error(
        "{0} is no OTF2 archive: name its anchor file, which ends in .otf2, or the directory that holds traces.otf2"
    )]
    NoArchive(PathBuf),

    /// The program that reads OTF2 is not there.
    #[error(
        "cannot find otf2-print, which reads OTF2: install it (Debian: otf2-tools; Score-P has it as well)"
    )]
    NoPrinter,

    /// It cannot be run.
    #[error("cannot run otf2-print: {0}")]
    Unrunnable(io::Error),

    /// It did not get to the archive's end.
    #[error("otf2-print cannot read {archive}: {words}")]
    Unreadable {
        /// Which.
        archive: PathBuf,
        /// What it said.
        words: String,
    },

    /// What it printed cannot be imported.
    #[error("cannot import {archive}: {source}")]
    Refused {
        /// Which.
        archive: PathBuf,
        /// Why.
        source: otf2::Error,
    },
}

/// The name of an archive's anchor file, as Score-P has it.
const ANCHOR: &str = "traces.otf2";
/// Bytes that are kept of the printer's complaints.
const WORDS: u64 = 2000;

/// Reads an archive: its anchor file, or the directory that holds it.
pub fn otf2(path: &Path) -> Result<Imported, Failure> {
    let archive = match path.is_dir() {
        true => path.join(ANCHOR),
        false => path.to_owned(),
    };
    if !archive.is_file() {
        return Err(Failure::NoArchive(path.to_owned()));
    }
    // A name that begins with a dash is no option.
    let archive = env::current_dir().map_or_else(|_| archive.clone(), |here| here.join(&archive));
    let definitions = printed(&archive, &["--show-global-defs"], |text| {
        Definitions::read(text)
    })?;
    printed(&archive, &[], |text| otf2::import(&definitions, text))
}

/// What is made of what the program prints of an archive.
fn printed<T>(
    archive: &Path,
    options: &[&str],
    read: impl FnOnce(BufReader<ChildStdout>) -> Result<T, otf2::Error>,
) -> Result<T, Failure> {
    let mut child = started(archive, options)?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let complaints = thread::spawn(move || errors.map(first_words).unwrap_or_default());
    let output = output.expect("it was asked for");
    let read = read(BufReader::new(output));
    // The text has not been read to its end: the program would wait for somebody who does.
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

/// The beginning of a text; all of it is taken, so that nobody waits.
fn first_words(mut text: impl Read) -> String {
    let mut words = Vec::new();
    let _ = text.by_ref().take(WORDS).read_to_end(&mut words);
    let _ = io::copy(&mut text, &mut io::sink());
    String::from_utf8_lossy(&words).into_owned()
}
