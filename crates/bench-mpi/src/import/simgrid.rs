//! Imports time-independent traces of SimGrid: a list of files, one a rank, or the lines
//! themselves.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::Failure;
use verbena_mpi_trace::simgrid::{Error, Imported, Reader};

/// Maximum length of a list of files in bytes.
const LONGEST_LIST: u64 = 1 << 24;

/// Imports a trace; computing takes time by this rate.
///
/// # Errors
///
/// Fails if a file cannot be read or its content cannot be imported.
pub fn simgrid(path: &Path, flops_per_second: Option<f64>) -> Result<Imported, Failure> {
    let refused = |source| Failure::SimGrid {
        trace: path.to_owned(),
        source,
    };
    let mut reader = Reader::new(flops_per_second);
    for file in files(path).map_err(refused)? {
        let name = file.display().to_string();
        let text = open(&file).map_err(refused)?;
        reader.read(&name, text).map_err(refused)?;
    }
    reader.finish().map_err(refused)
}

/// Returns whether a file's first line is an action of a rank, or names a file that begins so or
/// has a name as given by `smpirun`.
pub(super) fn is_trace(path: &Path) -> bool {
    match first_line(path) {
        Some(line) if is_action(&line) => true,
        Some(line) if line.contains("_rank-") => true,
        Some(line) => first_line(&located(path, &line)).is_some_and(|line| is_action(&line)),
        None => false,
    }
}

fn is_action(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let is_rank = words.next().is_some_and(|word| word.parse::<u32>().is_ok());
    let is_name = |word: &str| {
        word.bytes()
            .all(|byte| byte.is_ascii_alphabetic() || byte == b'_')
    };
    is_rank && words.next().is_some_and(is_name)
}

fn files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    if first_line(path).is_some_and(|line| is_action(&line)) {
        return Ok(vec![path.to_owned()]);
    }
    let mut list = String::new();
    let read = open(path)?.take(LONGEST_LIST).read_to_string(&mut list);
    read.map_err(|source| Error::Unreadable {
        file: path.display().to_string(),
        source,
    })?;
    let names = list.lines().map(str::trim).filter(|name| !name.is_empty());
    Ok(names.map(|name| located(path, name)).collect())
}

/// Returns the path of a file in a list. Names are relative to the directory of the traced run,
/// which is usually that of the list.
fn located(list: &Path, name: &str) -> PathBuf {
    let beside = list.parent().unwrap_or(Path::new("")).join(name);
    match beside.exists() {
        true => beside,
        false => PathBuf::from(name),
    }
}

fn open(path: &Path) -> Result<BufReader<File>, Error> {
    let file = File::open(path).map_err(|source| Error::Unreadable {
        file: path.display().to_string(),
        source,
    })?;
    Ok(BufReader::new(file))
}

fn first_line(path: &Path) -> Option<String> {
    if !path.is_file() {
        return None;
    }
    let mut text = BufReader::new(File::open(path).ok()?.take(super::HEAD));
    let mut line = String::new();
    text.read_line(&mut line).ok()?;
    Some(line.trim().to_owned())
}
