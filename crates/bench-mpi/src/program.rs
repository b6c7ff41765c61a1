//! Builds and caches the C programs shipped with Verbena: each is compiled once per compiler and
//! source version and kept in the user's cache directory. An identity file beside it records
//! sources and compiler and is compared in full, so the hash only has to name the directory.

use super::library::Library;
use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use verbena_bench::Failure;

/// A C program, compiled for the user's MPI library.
pub struct Program {
    /// Name of the executable, and part of its identity.
    pub name: &'static str,
    /// Its description in the error message of a failed compilation.
    pub title: &'static str,
    /// Its files, all in one directory: those ending in `.c` are compiled, the others are included
    /// by them.
    pub sources: &'static [(&'static str, &'static str)],
}

/// Embeds files of a folder of `programs`, with their names.
macro_rules! sources {
    ($folder:literal: $($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"), "/programs/", $folder, "/", $name
        )))),*]
    };
}
pub(crate) use sources;

/// The program that measures a library from inside.
pub const SUITE: Program = Program {
    name: "verbena-mpi",
    title: "the program that measures it",
    sources: sources!("measure":
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
        "halo.c",
    ),
};

/// Name of the identity file: sources and compiler.
const IDENTITY: &str = "identity";

impl Program {
    /// Returns the executable for a library, compiling it if necessary.
    ///
    /// # Errors
    ///
    /// Fails if it does not compile or the cache directory cannot be used.
    pub fn built(&self, library: &Library) -> Result<PathBuf, Failure> {
        let identity = self.identity(library);
        let mut hasher = DefaultHasher::new();
        identity.hash(&mut hasher);
        let above = cache()?.join("mpi");
        let directory = above.join(format!("{:016x}", hasher.finish()));
        if self.is_there(&directory, &identity) {
            return Ok(directory.join(self.name));
        }
        let scratch = above.join(format!("{:016x}.{}", hasher.finish(), std::process::id()));
        let outcome = self
            .compile(library, &scratch, &identity)
            .and_then(|()| self.put(&scratch, &directory, &identity));
        // Remains only after an error, or if another process was faster.
        let _ = fs::remove_dir_all(&scratch);
        outcome.map(|()| directory.join(self.name))
    }

    fn identity(&self, library: &Library) -> String {
        let mut text = format!(
            "{}\n{}\n{}\n{}\n",
            self.name,
            library.mpicc.display(),
            library.version,
            library.runs
        );
        for (name, source) in self.sources {
            text += &format!("{name}\n{source}\n");
        }
        text
    }

    fn is_there(&self, directory: &Path, identity: &str) -> bool {
        let same = fs::read_to_string(directory.join(IDENTITY)).is_ok_and(|text| text == identity);
        same && directory.join(self.name).is_file()
    }

    fn compile(&self, library: &Library, scratch: &Path, identity: &str) -> Result<(), Failure> {
        let trouble = |source| Failure::Directory {
            path: scratch.to_owned(),
            source,
        };
        fs::create_dir_all(scratch).map_err(trouble)?;
        for (name, source) in self.sources {
            fs::write(scratch.join(name), source).map_err(trouble)?;
        }
        let parts = self
            .sources
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| name.ends_with(".c"));
        let output = Command::new(&library.mpicc)
            .current_dir(scratch)
            .args(["-std=gnu11", "-O2", "-o", self.name])
            .args(parts)
            .arg("-lm")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| Failure::of_exec(library.mpicc.display().to_string(), error))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.trim();
            return Err(Failure::Suite(format!(
                "{} of {} failed to compile {}: {said}",
                library.mpicc.display(),
                library.kind.title(),
                self.title
            )));
        }
        fs::write(scratch.join(IDENTITY), identity).map_err(trouble)
    }

    /// Moves the result into place atomically; another process may already have put the same there.
    fn put(&self, scratch: &Path, directory: &Path, identity: &str) -> Result<(), Failure> {
        if directory.exists() && !self.is_there(directory, identity) {
            // Incomplete, or of another identity with the same hash.
            let _ = fs::remove_dir_all(directory);
        }
        match fs::rename(scratch, directory) {
            Err(_) if self.is_there(directory, identity) => Ok(()),
            Err(source) => Err(Failure::Directory {
                path: directory.to_owned(),
                source,
            }),
            Ok(()) => Ok(()),
        }
    }
}

/// Returns the user's cache directory.
fn cache() -> Result<PathBuf, Failure> {
    let named = env::var_os("XDG_CACHE_HOME").filter(|path| Path::new(path).is_absolute());
    let home = || env::var_os("HOME").filter(|path| !path.is_empty());
    let cache = named
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(home()?).join(".cache")));
    let none = "cannot store the program compiled for the library: neither HOME nor \
                XDG_CACHE_HOME is set";
    cache
        .map(|cache| cache.join("verbena"))
        .ok_or_else(|| Failure::Input(none.to_owned()))
}
