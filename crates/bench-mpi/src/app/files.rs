//! Files of an application: the program, its data and its output.

use std::fs::File;
use std::path::{Path, PathBuf};
use verbena_bench::Failure;

/// Paths of a program and its data.
pub struct Found {
    /// The executable.
    pub program: PathBuf,
    /// Empty if the program needs no data.
    pub data: PathBuf,
}

/// File name of the program's terminal output, in its working directory.
pub const OUTPUT: &str = "output";

/// Creates that file.
///
/// # Errors
///
/// Fails if the file cannot be created.
pub fn output_file(directory: &Path) -> Result<File, Failure> {
    let path = directory.join(OUTPUT);
    File::create(&path).map_err(|source| Failure::Directory { path, source })
}
