//! Imports DUMPI traces: files `NAME-RANK.bin`, one a rank.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::Failure;
use verbena_mpi_trace::dumpi::{Error, Imported, import};

/// Begins a file.
const MAGIC: &[u8] = b"\xff\xaa\xdd\x44UMPI";

/// Imports a trace, given its directory or one of its files.
///
/// # Errors
///
/// Fails if a file cannot be read or its content cannot be imported.
pub(super) fn dumpi(path: &Path) -> Result<Imported, Failure> {
    imported(path).map_err(|source| Failure::Dumpi {
        trace: path.to_owned(),
        source,
    })
}

/// Returns whether a path is a file of a trace, or a directory with such files.
pub(super) fn is_trace(path: &Path) -> bool {
    match path.is_dir() {
        true => fs::read_dir(path).is_ok_and(|files| {
            files.flatten().any(|file| {
                let path = file.path();
                rank_of(&path).is_some() && super::head(&path).starts_with(MAGIC)
            })
        }),
        false => is_meta(path) || super::head(path).starts_with(MAGIC),
    }
}

/// Returns whether a file is the description beside the files of the ranks.
fn is_meta(path: &Path) -> bool {
    let is_named = path.extension().is_some_and(|ending| ending == "meta");
    is_named && String::from_utf8_lossy(&super::head(path)).contains("fileprefix=")
}

/// Splits a file's name into the prefix and the rank.
fn rank_of(path: &Path) -> Option<(&str, usize)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".bin")?;
    let (prefix, rank) = name.rsplit_once('-')?;
    Some((prefix, rank.parse().ok()?))
}

fn imported(path: &Path) -> Result<Imported, Error> {
    let files = files(path)?;
    let names: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    import(&names, |rank| fs::read(&files[rank]))
}

/// Returns the files of all ranks, in order.
fn files(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let (directory, wanted) = match path.is_dir() {
        true => (path, None),
        false => {
            let meta = || path.file_name()?.to_str()?.strip_suffix(".meta");
            let wanted = rank_of(path).map(|(prefix, _)| prefix).or_else(meta);
            let Some(wanted) = wanted else {
                let reason = "the name of a rank's file ends in -RANK.bin".to_owned();
                return Err(Error::Lacking(reason));
            };
            (path.parent().unwrap_or(Path::new("")), Some(wanted))
        }
    };
    let listed = match directory.as_os_str().is_empty() {
        true => Path::new("."),
        false => directory,
    };
    let unreadable = |source| Error::Unreadable {
        file: listed.display().to_string(),
        source,
    };
    let mut traces: BTreeMap<String, BTreeMap<usize, PathBuf>> = BTreeMap::new();
    for entry in fs::read_dir(listed).map_err(unreadable)? {
        let file = directory.join(entry.map_err(unreadable)?.file_name());
        let Some((prefix, rank)) = rank_of(&file) else {
            continue;
        };
        if wanted.is_none_or(|wanted| wanted == prefix) {
            let trace = traces.entry(prefix.to_owned()).or_default();
            trace.insert(rank, file);
        }
    }
    if traces.len() > 1 {
        let names: Vec<_> = traces.keys().take(4).map(String::as_str).collect();
        return Err(Error::Lacking(format!(
            "the directory has several traces ({}); name a file of one",
            names.join(", ")
        )));
    }
    let files = traces.into_values().next().unwrap_or_default();
    for (expected, (&rank, file)) in files.iter().enumerate() {
        if rank != expected {
            return Err(Error::Lacking(format!(
                "there is {}, and no file of rank {expected}",
                file.display()
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
        let name = "a/dumpi-2014.03.03.14.12.46-0017.bin";
        assert_eq!(of(name), Some(("dumpi-2014.03.03.14.12.46", 17)));
        assert_eq!(of("dumpi-x.bin"), None);
        assert_eq!(of("dumpi-2014.03.03.14.12.46.meta"), None);
    }

    #[test]
    fn a_missing_rank_is_named() {
        let directory = std::env::temp_dir().join(format!("dumpi-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        for rank in [0, 2] {
            fs::write(directory.join(format!("x-{rank:04}.bin")), MAGIC).unwrap();
        }
        let meta = directory.join("x.meta");
        fs::write(&meta, "numprocs=3\nfileprefix=x\n").unwrap();
        for path in [&directory, &meta, &directory.join("x-0000.bin")] {
            assert!(is_trace(path));
            let refused = dumpi(path).unwrap_err().to_string();
            assert!(
                refused.ends_with("x-0002.bin, and no file of rank 1"),
                "{refused}"
            );
        }
        fs::remove_dir_all(directory).unwrap();
    }
}
