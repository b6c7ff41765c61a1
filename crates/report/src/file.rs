//! Writes files atomically: on a full disk the previous contents remain.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Replaces a file's contents.
///
/// # Errors
///
/// Returns an error if the file, or its temporary file beside it, cannot be written.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let is_file = fs::symlink_metadata(path).map_or(true, |found| found.is_file());
    let (true, Some(name)) = (is_file, path.file_name()) else {
        // A terminal, a pipe or a link is written in place.
        return fs::write(path, text);
    };
    let name = format!(".{}.{}", name.to_string_lossy(), std::process::id());
    let scratch = path.with_file_name(name);
    let written = fs::write(&scratch, text).and_then(|()| fs::rename(&scratch, path));
    match written {
        // The directory does not permit new files.
        Err(error) if error.kind() == ErrorKind::PermissionDenied && path.is_file() => {
            fs::write(path, text)
        }
        Err(error) => {
            let _ = fs::remove_file(&scratch);
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn files_are_replaced_without_leftovers() {
        let directory = std::env::temp_dir().join(format!("verbena-file-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("report.html");
        for text in ["first", "second"] {
            replace(&path, text).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        // A link's target is written.
        let link = directory.join("link");
        symlink(&path, &link).unwrap();
        replace(&link, "third").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "third");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2);
        replace(Path::new("/dev/null"), "nothing").unwrap();
        let full = replace(Path::new("/dev/full"), "nothing").unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
        fs::remove_dir_all(directory).unwrap();
    }
}
