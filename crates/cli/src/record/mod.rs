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
        "cannot find {0}, which builds the recorder for the program's MPI library; install it \
         (Debian: libopenmpi-dev or libmpich-dev), or name another compiler with --mpicc"
    )]
    NoCompiler(String),

    #[error("{compiler} failed to build the recorder:\n{words}")]
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
    #[error("cannot store the recorder: set XDG_CACHE_HOME or HOME")]
    NoCache,

    /// The dynamic linker would split the name.
    #[error(
        "the dynamic linker cannot load the recorder from {0:?}: the path has a colon, a \
         semicolon, white space or a dollar sign; set XDG_CACHE_HOME to another directory"
    )]
    Splits(PathBuf),

    #[error("{0} already holds a trace; name a new or empty directory")]
    Taken(PathBuf),

    #[error(
        "no process recorded anything; the program must be dynamically linked with an MPI library \
         and call MPI_Init, and its launcher must pass LD_PRELOAD and VERBENA_RECORD to other \
         hosts (Open MPI: -x LD_PRELOAD -x VERBENA_RECORD)"
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
