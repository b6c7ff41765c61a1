//! Records MPI programs: builds the recorder for their MPI library and summarises traces.

mod cache;
mod compiler;
mod preload;
mod table;

pub use compiler::Compiler;
pub use preload::put_before;
pub use table::Table;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(
        "cannot find {0}, which makes the recorder for the program's MPI library: install what has it (Debian: \
         libopenmpi-dev or libmpich-dev), or name another with --mpicc"
    )]
    NoCompiler(String),

    #[error("{compiler} cannot make the recorder:\n{words}")]
    Refused {
        compiler: String,
        /// Its error message.
        words: String,
    },

    /// A file or directory cannot be used.
    #[error("cannot use {path}: {source}")]
    Unusable {
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// No cache directory is known.
    #[error("there is no place to keep the recorder: set XDG_CACHE_HOME or HOME")]
    NoCache,

    /// The dynamic linker would split the name.
    #[error(
        "the recorder is kept in {0:?}, and the dynamic linker cannot take a directory with a colon, a semicolon, white \
         space or a dollar sign in its name; set XDG_CACHE_HOME to another"
    )]
    Splits(PathBuf),

    #[error("{0} has a trace already; name a directory that is new or empty")]
    Taken(PathBuf),

    #[error(
        "no process has recorded anything: the program must be linked with an MPI library dynamically and call MPI_Init; \
         on other hosts its launcher must pass on LD_PRELOAD and VERBENA_RECORD (Open MPI: -x LD_PRELOAD -x VERBENA_RECORD)"
    )]
    Nothing,
}

/// Creates the directory of a new trace and returns its absolute path, because the program may
/// change its working directory.
///
/// # Errors
///
/// Fails if the directory cannot be created or is not empty.
pub fn new_directory(directory: &Path) -> Result<PathBuf, Failure> {
    let unusable = |source| Failure::Unusable {
        path: directory.to_owned(),
        source,
    };
    fs::create_dir_all(directory).map_err(unusable)?;
    match fs::read_dir(directory).map_err(unusable)?.next() {
        Some(_) => Err(Failure::Taken(directory.to_owned())),
        None => directory.canonicalize().map_err(unusable),
    }
}
