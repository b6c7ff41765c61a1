//! Imports Chakra execution traces: files `PREFIX.RANK.et`, one a rank, or `.json` in the older
//! form.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use super::Failure;
use verbena_mpi_trace::chakra::{Error, Reader};
use verbena_replay::goal::{Converted, convert};

/// Endings of files' names.
const BINARY: &str = "et";
const JSON: &str = "json";
/// Maximum length of a file of process groups in bytes.
const LONGEST_GROUPS: u64 = 1 << 26;

/// Imports a trace, given its directory or one of its files; computing that has only operations
/// takes time by this rate.
///
/// # Errors
///
/// Fails if a file cannot be read or its content cannot be imported.
pub fn chakra(
    path: &Path,
    flops_per_second: Option<f64>,
    groups: Option<&Path>,
) -> Result<Converted, Failure> {
    imported(path, flops_per_second, groups).map_err(|source| Failure::Chakra {
        trace: path.to_owned(),
        source,
    })
}

/// Returns whether a path is a file of a trace, or a directory with such files.
pub fn is_trace(path: &Path) -> bool {
    if path.is_dir() {
        return fs::read_dir(path)
            .is_ok_and(|mut files| files.any(|file| file.is_ok_and(|file| is_file(&file.path()))));
    }
    path.is_file() && is_file(path)
}

/// Returns whether a file is one of a trace: by its name, and JSON also by its beginning.
fn is_file(path: &Path) -> bool {
    match rank_of(path) {
        Some((_, JSON, _)) => {
            let head = super::head(path);
            let head = String::from_utf8_lossy(&head);
            head.contains("\"workload_graph\"")
        }
        Some(_) => true,
        None => false,
    }
}

/// Splits a file's name into the prefix, the ending and the rank.
fn rank_of(path: &Path) -> Option<(&str, &'static str, usize)> {
    let (name, ending) = path.file_name()?.to_str()?.rsplit_once('.')?;
    let ending = [BINARY, JSON].into_iter().find(|known| *known == ending)?;
    let (prefix, rank) = name.rsplit_once('.')?;
    let rank = rank.parse().ok()?;
    Some((prefix, ending, rank))
}

fn imported(
    path: &Path,
    flops_per_second: Option<f64>,
    groups: Option<&Path>,
) -> Result<Converted, Error> {
    let unreadable = |path: &Path, source| Error::Unreadable {
        file: path.display().to_string(),
        source,
    };
    let mut reader = Reader::default();
    for file in files(path)? {
        let opened = File::open(&file).map_err(|error| unreadable(&file, error))?;
        reader.read(&file.display().to_string(), BufReader::new(opened))?;
    }
    if let Some(groups) = groups {
        let length = fs::metadata(groups).map(|known| known.len());
        if length.map_err(|error| unreadable(groups, error))? > LONGEST_GROUPS {
            let reason = format!("{} is too long for process groups", groups.display());
            return Err(Error::Lacking(reason));
        }
        let json = fs::read(groups).map_err(|error| unreadable(groups, error))?;
        reader.read_groups(&groups.display().to_string(), &json)?;
    }
    convert(&reader.finish()?, flops_per_second)
}

/// Returns the files of all ranks, in order.
fn files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let (directory, wanted) = match path.is_dir() {
        true => (path, None),
        false => (path.parent().unwrap_or(Path::new("")), rank_of(path)),
    };
    // The directory of a file without one.
    let listed = match directory.as_os_str().is_empty() {
        true => Path::new("."),
        false => directory,
    };
    let entries = fs::read_dir(listed).map_err(|source| Error::Unreadable {
        file: listed.display().to_string(),
        source,
    })?;
    let mut traces: BTreeMap<(String, &'static str), BTreeMap<usize, PathBuf>> = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(|source| Error::Unreadable {
            file: listed.display().to_string(),
            source,
        })?;
        let file = directory.join(entry.file_name());
        let Some((prefix, ending, rank)) = rank_of(&file) else {
            continue;
        };
        let is_wanted = match wanted {
            Some((known, of, _)) => known == prefix && of == ending,
            None => is_file(&file),
        };
        if is_wanted {
            let trace = traces.entry((prefix.to_owned(), ending)).or_default();
            trace.insert(rank, file);
        }
    }
    if traces.len() > 1 {
        let names = traces.keys().take(4);
        let names: Vec<_> = names
            .map(|(prefix, ending)| format!("{prefix}.*.{ending}"))
            .collect();
        return Err(Error::Lacking(format!(
            "the directory has several traces ({}); name a file of one",
            names.join(", ")
        )));
    }
    let Some(((prefix, ending), files)) = traces.into_iter().next() else {
        return Err(Error::Lacking("there are no files of ranks".to_owned()));
    };
    for (expected, &rank) in files.keys().enumerate() {
        if rank != expected {
            return Err(Error::Lacking(format!(
                "{prefix}.{expected}.{ending} is missing"
            )));
        }
    }
    Ok(files.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_prefix_and_a_rank() {
        let of = |name: &'static str| rank_of(Path::new(name));
        assert_eq!(of("a/llama.70b.12.et"), Some(("llama.70b", "et", 12)));
        assert_eq!(of("x.0.json"), Some(("x", "json", 0)));
        for name in ["x.et", "x.a.et", "x.0.bin", "0.et"] {
            assert_eq!(of(name), None, "{name}");
        }
    }

    #[test]
    fn a_missing_rank_and_a_second_trace_are_named() {
        let directory = std::env::temp_dir().join(format!("chakra-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let file = |name: &str| directory.join(name);
        for name in ["x.0.et", "x.2.et", "notes.json"] {
            fs::write(file(name), b"\x07\x0a\x050.0.4").unwrap();
        }
        assert!(is_trace(&directory) && is_trace(&file("x.0.et")));
        assert!(!is_trace(&file("notes.json")));
        let refused = |path: &Path| match chakra(path, None, None) {
            Err(failure) => failure.to_string(),
            Ok(_) => panic!("it is refused"),
        };
        assert!(refused(&directory).ends_with("x.1.et is missing"));
        fs::write(file("y.0.et"), b"").unwrap();
        assert!(refused(&directory).contains("several traces (x.*.et, y.*.et)"));
        assert!(refused(&file("x.0.et")).ends_with("x.1.et is missing"));
        fs::remove_file(file("x.2.et")).unwrap();
        let converted = chakra(&file("x.0.et"), None, None).unwrap();
        assert_eq!((converted.schedule.ranks, converted.nodes), (1, 0));
        assert!(refused(&file("y.0.et")).ends_with("byte 0: the file is empty"));
        fs::remove_dir_all(directory).unwrap();
    }
}
