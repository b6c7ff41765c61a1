//! The cache of recorder libraries, one per compiler, built at first use.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Compiler, Failure};
use verbena_bench::temporary::Directory;
use verbena_mpi_trace::recorder::SOURCES;

impl Compiler {
    /// Returns the recorder for the compiler's MPI library, building it if necessary.
    ///
    /// # Errors
    ///
    /// Fails if the recorder cannot be compiled or the cache directory cannot be used.
    pub fn recorder(&self) -> Result<PathBuf, crate::Failure> {
        let directory = directory()?;
        let library = directory.join(format!("{:016x}.so", self.identity()?));
        if library.is_file() {
            return Ok(library);
        }
        fs::create_dir_all(&directory).map_err(unusable(&directory))?;
        let sources = Directory::create()?;
        for (name, text) in SOURCES {
            let file = sources.path().join(name);
            fs::write(&file, text).map_err(unusable(&file))?;
        }
        // Another process may build it at the same time; the later rename atomically replaces the
        // earlier one.
        let made = directory.join(format!("{:016x}.{}", self.identity()?, std::process::id()));
        self.make(sources.path(), &made)?;
        fs::rename(&made, &library).map_err(unusable(&library))?;
        Ok(library)
    }
}

fn unusable(path: &Path) -> impl FnOnce(std::io::Error) -> Failure + use<> {
    let path = path.to_owned();
    |source| Failure::Unusable { path, source }
}

fn directory() -> Result<PathBuf, Failure> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let cache = env::var_os("XDG_CACHE_HOME").and_then(|path| absolute(path.into()));
    let home = || {
        let home = env::var_os("HOME").and_then(|path| absolute(path.into()))?;
        Some(home.join(".cache"))
    };
    let directory = cache
        .or_else(home)
        .ok_or(Failure::NoCache)?
        .join("verbena/mpi-recorder");
    // ld.so(8): LD_PRELOAD is split at colons and white space, and `$` starts a token.
    let splits = |byte: &u8| matches!(byte, b':' | b';' | b' ' | b'\t' | b'\n' | b'$');
    match directory.as_os_str().as_encoded_bytes().iter().any(splits) {
        true => Err(Failure::Splits(directory)),
        false => Ok(directory),
    }
}
