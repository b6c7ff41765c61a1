//! Locates the adapter's shared objects: always relative to this executable, never on a search
//! path, so that a program and its libraries are from one build.
//!
//! | executable | libraries |
//! |---|---|
//! | `target/release/verbena` | `target/release/lib/` |
//! | `PREFIX/bin/verbena` | `PREFIX/lib/verbena/` |
//!
//! VERBENA_LIBRARY_DIR overrides both, e.g. for a sanitizer build of the library.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

/// The C library that programs are linked against.
const IBVERBS: &str = "libibverbs.so.1";
/// The preloaded object that provides the device node.
const SHIM: &str = "libverbena_shim.so";
/// The preloaded object that reports the verbs calls.
const TRACER: &str = "libverbena_tracer.so";

/// The shared objects of one build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Libraries {
    directory: PathBuf,
}

/// The reason why the libraries cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The kernel does not report the path of this executable.
    #[error("cannot determine the path of this executable (is /proc mounted?): {0}")]
    Executable(#[source] io::Error),

    /// The build lacks the tracer.
    #[error("cannot find {}; run `make build` or `make install`", .0.display())]
    NoTracer(PathBuf),

    /// No directory searched contains both.
    #[error(
        "cannot find {IBVERBS} and {SHIM} in {}; run `make build` or `make install`",
        list(.0)
    )]
    Absent(Vec<PathBuf>),

    /// The dynamic linker would split the name.
    #[error(
        "the dynamic linker cannot load the libraries from {0:?}: the path has a colon, a \
         semicolon, white space or a dollar sign; move Verbena to another directory"
    )]
    Unusable(PathBuf),
}

impl Libraries {
    /// Finds the libraries that belong to the running executable.
    ///
    /// # Errors
    ///
    /// Fails if no directory has both libraries, or its name cannot be passed to the dynamic
    /// linker.
    pub fn beside_this_executable() -> Result<Self, Failure> {
        if let Some(directory) = env::var_os("VERBENA_LIBRARY_DIR") {
            return Self::in_one_of(vec![directory.into()]);
        }
        let executable = env::current_exe()
            .and_then(|path| path.canonicalize())
            .map_err(Failure::Executable)?;
        Self::in_one_of(candidates(&executable))
    }

    fn in_one_of(candidates: Vec<PathBuf>) -> Result<Self, Failure> {
        let complete = |directory: &PathBuf| {
            [IBVERBS, SHIM]
                .iter()
                .all(|name| directory.join(name).is_file())
        };
        let Some(directory) = candidates.iter().find(|directory| complete(directory)) else {
            return Err(Failure::Absent(candidates));
        };
        let directory = directory.canonicalize().map_err(Failure::Executable)?;
        // ld.so(8): LD_LIBRARY_PATH is split at colons and semicolons, LD_PRELOAD at colons and
        // white space, and `$` starts a token such as $ORIGIN in both.
        let splits = |byte: &u8| matches!(byte, b':' | b';' | b' ' | b'\t' | b'\n' | b'$');
        if directory.as_os_str().as_encoded_bytes().iter().any(splits) {
            return Err(Failure::Unusable(directory));
        }
        Ok(Self { directory })
    }

    /// Returns the directory for LD_LIBRARY_PATH.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the C library.
    pub fn ibverbs(&self) -> PathBuf {
        self.directory.join(IBVERBS)
    }

    /// Returns the object for LD_PRELOAD.
    pub fn shim(&self) -> PathBuf {
        self.directory.join(SHIM)
    }

    /// Returns the object that `verbena trace` adds to LD_PRELOAD.
    ///
    /// # Errors
    ///
    /// Fails if it is missing; other commands do not need it.
    pub fn tracer(&self) -> Result<PathBuf, Failure> {
        let tracer = self.directory.join(TRACER);
        match tracer.is_file() {
            true => Ok(tracer),
            false => Err(Failure::NoTracer(tracer)),
        }
    }
}

fn candidates(executable: &Path) -> Vec<PathBuf> {
    let bin = executable.parent().unwrap_or(Path::new("/"));
    let prefix = bin.parent().unwrap_or(bin);
    vec![bin.join("lib"), prefix.join("lib/verbena")]
}

fn list(paths: &[PathBuf]) -> String {
    let shown: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    shown.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_build_tree_is_searched_before_the_installation() {
        let places = candidates(Path::new("/opt/verbena/bin/verbena"));
        assert_eq!(
            places,
            [
                Path::new("/opt/verbena/bin/lib"),
                Path::new("/opt/verbena/lib/verbena")
            ]
        );
    }

    /// Returns a new directory for a test.
    fn temporary(name: &str) -> PathBuf {
        let path = env::temp_dir().join(format!("verbena-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn a_directory_needs_both_libraries() {
        let place = temporary("libraries");
        let half = place.join("half");
        let full = place.join("full");
        for (directory, names) in [(&half, &[IBVERBS][..]), (&full, &[IBVERBS, SHIM][..])] {
            fs::create_dir(directory).unwrap();
            for name in names {
                fs::write(directory.join(name), "").unwrap();
            }
        }
        let found = Libraries::in_one_of(vec![half.clone(), full.clone()]).unwrap();
        assert_eq!(found.directory(), full.canonicalize().unwrap());

        let message = Libraries::in_one_of(vec![half.clone()])
            .unwrap_err()
            .to_string();
        assert!(message.contains(half.to_str().unwrap()), "{message}");
        assert!(message.contains("make build"), "{message}");
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_directory_with_separators_in_its_name_is_refused() {
        let place = temporary("separators");
        let spaced = place.join("with space");
        fs::create_dir(&spaced).unwrap();
        for name in [IBVERBS, SHIM] {
            fs::write(spaced.join(name), "").unwrap();
        }
        assert!(matches!(
            Libraries::in_one_of(vec![spaced]),
            Err(Failure::Unusable(_))
        ));
        fs::remove_dir_all(place).unwrap();
    }
}
