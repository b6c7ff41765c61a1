//! A directory private to this user, in which the processes of a job exchange files. File names are
//! predictable, but no other user can create or read them.

use crate::failure::Failure;
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use verbena_hca_shm::registry;

/// Longest file read, in bytes.
const LONGEST: u64 = 64 << 10;
/// Attempts to create a directory that other processes remove when they end and it is empty.
const TRIES: u32 = 100;

/// A directory with mode 0700 owned by this user.
#[derive(Debug, Clone)]
pub struct RuntimeDirectory {
    path: PathBuf,
}

impl RuntimeDirectory {
    /// Opens this host's directory, which also holds the registry of processes.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be created or is not private.
    pub fn open() -> Result<RuntimeDirectory, Failure> {
        RuntimeDirectory::at(registry::directory())
    }

    /// Opens the directory in the user's home, which the hosts of a cluster usually share.
    ///
    /// # Errors
    ///
    /// Fails if there is no home, or the directory cannot be created or is not private.
    pub fn shared() -> Result<RuntimeDirectory, Failure> {
        let state = std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty());
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
        let Some(above) = state.map(PathBuf::from).or_else(home) else {
            let text = "the job's processes have no shared directory: neither HOME nor \
                        XDG_STATE_HOME is set";
            return Err(Failure::Input(text.to_owned()));
        };
        fs::create_dir_all(&above).map_err(|source| Failure::Directory {
            path: above.clone(),
            source,
        })?;
        RuntimeDirectory::at(above.join("verbena"))
    }

    /// Opens this directory, creating it if necessary.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be created or is not private.
    pub fn at(path: PathBuf) -> Result<RuntimeDirectory, Failure> {
        match make(&path) {
            Ok(()) => Ok(RuntimeDirectory { path }),
            Err(source) => Err(Failure::Directory { path, source }),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file for the user's other processes, atomically replacing an existing one.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub fn leave(&self, name: &str, text: &str) -> io::Result<()> {
        let scratch = self.path(&format!("{name}.{}", std::process::id()));
        let mut tries = 0;
        loop {
            let _ = fs::remove_file(&scratch);
            let written =
                write_new(&scratch, text).and_then(|()| fs::rename(&scratch, self.path(name)));
            match written {
                // The last process on the adapter has removed the directory in the meantime.
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < TRIES => {
                    make(&self.path)?;
                    tries += 1;
                }
                other => return other,
            }
        }
    }

    /// Reads such a file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or another user could have written or read it.
    pub fn read(&self, name: &str) -> io::Result<String> {
        // Reading the directory first makes a network file system fetch its current state from the
        // server.
        let _ = fs::read_dir(&self.path)?.next();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc_flags())
            .open(self.path(name))?;
        let metadata = file.metadata()?;
        if metadata.uid() != geteuid().as_raw() || metadata.mode() & 0o077 != 0 {
            return Err(not_private(&metadata, 0o600));
        }
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text)?;
        Ok(text)
    }

    /// Removes a file, and the directory if it is empty.
    pub fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path(name));
        let _ = fs::remove_dir(&self.path);
    }
}

fn libc_flags() -> i32 {
    (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC).bits() as i32
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file: File = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
}

/// Creates the directory, or checks that it is private to this user.
fn make(path: &Path) -> io::Result<()> {
    for _ in 0..TRIES {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other,
        }
        let metadata = match fs::symlink_metadata(path) {
            // Removed between the two calls.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        let private = metadata.is_dir()
            && metadata.uid() == geteuid().as_raw()
            && metadata.mode() & 0o077 == 0;
        return match private {
            true => Ok(()),
            false => Err(not_private(&metadata, 0o700)),
        };
    }
    Err(io::Error::other("other processes keep removing it"))
}

fn not_private(metadata: &fs::Metadata, wanted: u32) -> io::Error {
    let text = format!(
        "it belongs to user {} with mode {:04o}; for privacy it must belong to user {} with mode \
         {wanted:04o}",
        metadata.uid(),
        metadata.mode() & 0o7777,
        geteuid().as_raw(),
    );
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn place(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("verbena-runtime-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn notes_are_readable_only_by_their_owner() {
        let directory = RuntimeDirectory::at(place("left")).unwrap();
        directory.leave("note", "old").unwrap();
        directory.leave("note", "new").unwrap();
        assert_eq!(directory.read("note").unwrap(), "new");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(
            (mode(&directory.path), mode(&directory.path("note"))),
            (0o700, 0o600)
        );
        directory.remove("note");
        assert!(!directory.path.exists());
        // Writing another file creates the directory again.
        directory.leave("note", "again").unwrap();
        directory.remove("note");
    }

    #[test]
    fn directories_accessible_to_others_are_refused() {
        let path = place("open");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let words = RuntimeDirectory::at(path.clone()).unwrap_err().to_string();
        assert!(
            words.contains("mode 0755") && words.contains(path.to_str().unwrap()),
            "{words}"
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let directory = RuntimeDirectory::at(path.clone()).unwrap();
        // A symbolic link for the directory, one for a file, and a world-writable file.
        let link = place("link");
        symlink(&path, &link).unwrap_or_default();
        assert!(RuntimeDirectory::at(link.clone()).is_err());
        symlink("/etc/passwd", directory.path("note")).unwrap();
        assert!(directory.read("note").is_err());
        directory.leave("note", "mine").unwrap();
        assert!(
            !fs::symlink_metadata(directory.path("note"))
                .unwrap()
                .is_symlink()
        );
        fs::set_permissions(directory.path("note"), fs::Permissions::from_mode(0o666)).unwrap();
        let words = directory.read("note").unwrap_err().to_string();
        assert!(words.contains("mode 0666"), "{words}");
        fs::remove_dir_all(&path).unwrap();
        fs::remove_file(&link).unwrap();
    }
}
