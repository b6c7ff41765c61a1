//! Reads files that decide on access. Ownership and mode are checked on the open file, not on the
//! name, which could change in between.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Why such a file is rejected.
#[derive(Debug, thiserror::Error)]
pub enum BadFile {
    /// It cannot be read.
    #[error("{0}: {1}")]
    Unreadable(PathBuf, io::Error),
    /// Other users can read or replace it.
    #[error("{0} has mode {1:o}: others may read or change it; run chmod 600 {0}")]
    Exposed(PathBuf, u32),
    /// Other users can replace it.
    #[error("{0} has mode {1:o}: others may change it; run chmod go-w {0}")]
    Changeable(PathBuf, u32),
    /// It belongs to another user.
    #[error("{0} belongs to user id {1}, not to the user who reads it; change its owner")]
    Foreign(PathBuf, u32),
}

/// Reads a private file, such as a secret or a key.
///
/// # Errors
/// It cannot be read, other users can read or write it, or it belongs to another user.
pub(crate) fn read_private(path: &Path) -> Result<Vec<u8>, BadFile> {
    read(path, 0o077, BadFile::Exposed)
}

/// Reads a file that other users may read but not change.
///
/// # Errors
/// It cannot be read, other users can write it, or it belongs to another user.
pub fn read_unchanged(path: &Path) -> Result<Vec<u8>, BadFile> {
    read(path, 0o022, BadFile::Changeable)
}

fn read(
    path: &Path,
    forbidden: u32,
    bad: impl Fn(PathBuf, u32) -> BadFile,
) -> Result<Vec<u8>, BadFile> {
    let unreadable = |error| BadFile::Unreadable(path.to_owned(), error);
    let mut file = File::open(path).map_err(unreadable)?;
    let about = file.metadata().map_err(unreadable)?;
    if about.mode() & forbidden != 0 {
        return Err(bad(path.to_owned(), about.mode() & 0o7777));
    }
    if about.uid() != 0 && about.uid() != rustix::process::geteuid().as_raw() {
        return Err(BadFile::Foreign(path.to_owned(), about.uid()));
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Converts the contents of a file to text.
///
/// # Errors
/// They are not UTF-8.
pub(crate) fn text_of(path: &Path, bytes: Vec<u8>) -> Result<String, BadFile> {
    String::from_utf8(bytes).map_err(|_| {
        let not_text = io::Error::new(io::ErrorKind::InvalidData, "is not UTF-8");
        BadFile::Unreadable(path.to_owned(), not_text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;
    use verbena_rfio_common::scratch::Scratch;

    #[test]
    fn file_mode_and_owner_decide_whether_a_file_is_used() {
        let scratch = Scratch::new();
        let path = scratch.path("f");
        write(&path, "x").unwrap();
        for (mode, is_private, is_unchanged) in [
            (0o600, true, true),
            (0o400, true, true),
            (0o640, false, true),
            (0o644, false, true),
            (0o660, false, false),
            (0o602, false, false),
        ] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_private(&path).is_ok(), is_private, "{mode:o}");
            assert_eq!(read_unchanged(&path).is_ok(), is_unchanged, "{mode:o}");
        }
    }
}
