//! Builds the recorder of MPI calls for the MPI library of a program.

mod cache;
mod compiler;
mod preload;
mod table;

pub use compiler::Compiler;
pub(crate) use preload::put_before;
pub use table::Table;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why nothing can be recorded.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The compiler is not found.
    #[error(
        "cannot find {0}, which builds the recorder for the program's MPI library; install it \
         (Debian: libopenmpi-dev or libmpich-dev), or name another compiler with --mpicc"
    )]
    NoCompiler(String),

    /// The compiler reports an error.
    #[error("{compiler} failed to build the recorder:\n{words}")]
    Refused {
        /// The compiler.
        compiler: String,
        /// Its error message.
        words: String,
    },

    /// A file or directory cannot be used.
    #[error("cannot use {path}: {source}")]
    Unusable {
        /// The file or directory.
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

    /// The directory is not empty.
    #[error("{0} already holds a trace; name a new or empty directory")]
    Taken(PathBuf),

    /// No process wrote a trace.
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

/// Writes one file per rank, all of them or none.
///
/// # Errors
///
/// Fails if a file cannot be written.
pub fn write(directory: &Path, ranks: &[Vec<u8>]) -> Result<(), Failure> {
    let path = |rank| directory.join(format!("rank-{rank}.trace"));
    for (rank, file) in ranks.iter().enumerate() {
        if let Err(source) = fs::write(path(rank), file) {
            // Remaining files would be taken for a trace, also by the next import.
            for written in 0..=rank {
                let _ = fs::remove_file(path(written));
            }
            let path = path(rank);
            return Err(Failure::Unusable { path, source });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_import_leaves_no_files() {
        let directory = std::env::temp_dir().join(format!("verbena-import-{}", std::process::id()));
        // A directory in its place prevents the file of rank 2.
        fs::create_dir_all(directory.join("rank-2.trace/taken")).unwrap();
        let refused = write(&directory, &vec![b"trace".to_vec(); 4]).unwrap_err();
        assert!(refused.to_string().contains("rank-2.trace"), "{refused}");
        let left: Vec<_> = fs::read_dir(&directory).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        fs::remove_dir_all(&directory).unwrap();
    }
}
