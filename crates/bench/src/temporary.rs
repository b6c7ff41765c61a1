//! A private temporary directory.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Failure;
use crate::interrupt::Scratch;

/// The longest parent of a directory with a socket, in bytes. unix(7) allows 107 for the socket's
/// path; the rest is for `/verbena-PID-NANOSECONDS/` and a name.
const LONGEST_PARENT: usize = 64;

/// A directory that only this user can enter, removed with its contents when dropped.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    _scratch: Scratch,
}

impl Directory {
    /// Creates a new directory for temporary files.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be created.
    pub fn create() -> Result<Self, Failure> {
        Self::create_in(env::temp_dir())
    }

    /// Creates a new directory for a Unix socket, whose path must be short: in /tmp if TMPDIR is
    /// too long.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be created.
    pub fn for_socket() -> Result<Self, Failure> {
        let usual = env::temp_dir();
        if usual.as_os_str().len() <= LONGEST_PARENT {
            return Self::create_in(usual);
        }
        Self::create_in("/tmp".into()).map_err(|failure| match failure {
            Failure::Temporary { path, source } => Failure::LongTemporary {
                path,
                longest: LONGEST_PARENT,
                source,
            },
            other => other,
        })
    }

    fn create_in(parent: PathBuf) -> Result<Self, Failure> {
        loop {
            // The name is only probably free: if it is taken, creation fails and is repeated.
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            let path = parent.join(format!(
                "verbena-{}-{:09}",
                process::id(),
                now.subsec_nanos()
            ));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let _scratch = Scratch::new(&path);
                    return Ok(Self { path, _scratch });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => {
                    return Err(Failure::Temporary {
                        path: parent,
                        source,
                    });
                }
            }
        }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A late descendant may still write into it; a small file left among temporary files is not
        // an error.
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_directory_is_private_and_removed_on_drop() {
        let directory = Directory::create().unwrap();
        let path = directory.path().to_path_buf();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o700
        );
        fs::write(path.join("1.counters"), "x").unwrap();
        drop(directory);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_fits_into_its_directory() {
        let directory = Directory::for_socket().unwrap();
        let path = directory.path().join("sixteen-bytes-in");
        std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    }

    #[test]
    fn a_socket_fits_below_the_longest_parent() {
        let start = format!("/tmp/verbena-test-{}-", process::id());
        let parent = PathBuf::from(format!("{start:x<LONGEST_PARENT$}"));
        assert_eq!(parent.as_os_str().len(), LONGEST_PARENT);
        fs::create_dir(&parent).unwrap();
        let directory = Directory::create_in(parent.clone()).unwrap();
        let path = directory.path().join("sixteen-bytes-in");
        let bound = std::os::unix::net::UnixDatagram::bind(&path);
        drop(directory);
        fs::remove_dir(&parent).unwrap();
        bound.unwrap();
    }

    #[test]
    fn two_directories_have_different_paths() {
        let (one, two) = (Directory::create().unwrap(), Directory::create().unwrap());
        assert_ne!(one.path(), two.path());
    }
}
