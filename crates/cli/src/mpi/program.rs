//! The C program: compiled once for each compiler and each version of its source, and kept in the user's cache directory. What
//! it was compiled from, and by what, lies beside it and is compared, so that a hash only names the directory.

use super::library::Library;
use crate::failure::Failure;
use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

macro_rules! sources {
    ($($name:literal),*) => {
        const SOURCES: &[(&str, &str)] = &[$(($name, include_str!(concat!("program/", $name)))),*];
    };
}

sources!(
    "suite.h",
    "main.c",
    "plan.c",
    "clock.c",
    "together.c",
    "data.c",
    "lines.c",
    "sampling.c",
    "rates.c",
    "messages.c",
    "streams.c",
    "one_sided.c",
    "collectives.c",
    "halo.c"
);

/// The program's name.
const PROGRAM: &str = "verbena-mpi";
/// What it was compiled from, and by what.
const IDENTITY: &str = "identity";

/// The program for a library, compiled now if it never was.
pub fn built(library: &Library) -> Result<PathBuf, Failure> {
    let identity = identity(library);
    let mut hasher = DefaultHasher::new();
    identity.hash(&mut hasher);
    let above = cache()?.join("mpi");
    let directory = above.join(format!("{:016x}", hasher.finish()));
    if is_of(&directory, &identity) {
        return Ok(directory.join(PROGRAM));
    }
    let scratch = above.join(format!("{:016x}.{}", hasher.finish(), std::process::id()));
    let outcome =
        compile(library, &scratch, &identity).and_then(|()| put(&scratch, &directory, &identity));
    // What is left of it is of no use to anybody.
    let _ = fs::remove_dir_all(&scratch);
    outcome.map(|()| directory.join(PROGRAM))
}

fn identity(library: &Library) -> String {
    let mut text = format!(
        "{}\n{}\n{}\n",
        library.mpicc.display(),
        library.version,
        library.runs
    );
    for (name, source) in SOURCES {
        text += &format!("{name}\n{source}\n");
    }
    text
}

fn is_of(directory: &Path, identity: &str) -> bool {
    let same = fs::read_to_string(directory.join(IDENTITY)).is_ok_and(|text| text == identity);
    same && directory.join(PROGRAM).is_file()
}

fn compile(library: &Library, scratch: &Path, identity: &str) -> Result<(), Failure> {
    let trouble = |source| Failure::Directory {
        path: scratch.to_owned(),
        source,
    };
    fs::create_dir_all(scratch).map_err(trouble)?;
    for (name, source) in SOURCES {
        fs::write(scratch.join(name), source).map_err(trouble)?;
    }
    let parts = SOURCES
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| name.ends_with(".c"));
    let output = Command::new(&library.mpicc)
        .current_dir(scratch)
        .args(["-std=gnu11", "-O2", "-o", PROGRAM])
        .args(parts)
        .arg("-lm")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::of_exec(library.mpicc.display().to_string(), error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim();
        return Err(Failure::Suite(format!(
            "{} cannot compile the program that measures {}: {said}",
            library.mpicc.display(),
            library.kind.title()
        )));
    }
    fs::write(scratch.join(IDENTITY), identity).map_err(trouble)
}

/// Into its place at once; another process may have been faster, with the same.
fn put(scratch: &Path, directory: &Path, identity: &str) -> Result<(), Failure> {
    if directory.exists() && !is_of(directory, identity) {
        // Something that was cut short, or of another identity with the same hash.
        let _ = fs::remove_dir_all(directory);
    }
    match fs::rename(scratch, directory) {
        Err(_) if is_of(directory, identity) => Ok(()),
        Err(source) => Err(Failure::Directory {
            path: directory.to_owned(),
            source,
        }),
        Ok(()) => Ok(()),
    }
}

/// The user's directory for what can be made again.
fn cache() -> Result<PathBuf, Failure> {
    let named = env::var_os("XDG_CACHE_HOME").filter(|path| Path::new(path).is_absolute());
    let home = || env::var_os("HOME").filter(|path| !path.is_empty());
    let cache = named
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(home()?).join(".cache")));
    let none = "neither HOME nor XDG_CACHE_HOME is set, so there is no place to keep the program that measures the library";
    cache
        .map(|cache| cache.join("verbena"))
        .ok_or_else(|| Failure::Input(none.to_owned()))
}
