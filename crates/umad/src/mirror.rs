//! A copy of a node's files of sysfs in a directory of the user, for programs that make no calls of
//! the C library. Everything else in the directory leads to `/sys`, so that it takes its place.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use crate::tree::{Entries, Tree, write_new};

/// The directory that the copy takes the place of.
const SYSTEM: &str = "/sys";
/// The directory of device classes below it.
const CLASS: &str = "class";
/// Beginning of the names of classes that do not lead to `/sys`.
const OWN: &str = "infiniband";
/// The file that marks a directory as a copy, and its content if the copy made the directory.
const MARK: &str = ".verbena-fabric";
const NEW: &str = "new\n";
/// The directory of files until all of them are complete.
const STAGED: &str = ".staged";

/// The reason why there is no copy.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The directory has files of others.
    #[error("the directory {0} has other files; give an empty or a new one")]
    Occupied(PathBuf),

    /// Other users could put links into the directory.
    #[error(
        "the directory {0} belongs to another user or can be written by others; give one of yours"
    )]
    Shared(PathBuf),

    /// Another process keeps the directory.
    #[error("another `verbena fabric sysfs` keeps the files in {0}")]
    Taken(PathBuf),

    /// The copy was removed, or moved.
    #[error("the directory {0} or its files were removed; the copy is no longer updated")]
    Removed(PathBuf),

    /// A file cannot be made.
    #[error("cannot {doing} {path}: {source}")]
    System {
        /// The attempted action, as a verb phrase.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A copy. Dropping it removes its files, and the directory if it is new.
#[derive(Debug)]
pub struct Mirror {
    /// The directory of the node.
    source: PathBuf,
    directory: PathBuf,
    is_new: bool,
    tree: Tree,
    /// Locked as long as this process keeps the directory.
    _lock: File,
}

impl Mirror {
    /// Makes a copy of the files in a node's directory. It is complete as soon as `class` is in it.
    ///
    /// # Errors
    ///
    /// Fails if the directory has other content or is kept by another process, or a file cannot be
    /// made.
    pub fn new(source: &Path, directory: &Path) -> Result<Mirror, Failure> {
        let failed = |doing| {
            let path = directory.to_owned();
            move |source| Failure::System {
                doing,
                path,
                source,
            }
        };
        let mut builder = fs::DirBuilder::new();
        let is_new = match builder.mode(0o755).create(directory) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(failed("make the directory")(error)),
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lock = rustix::fs::open(directory, flags, Mode::empty())
            .map_err(|error| failed("open")(error.into()))?;
        let lock = File::from(lock);
        if !is_of_this_user(&lock).map_err(failed("look at"))? {
            return Err(Failure::Shared(directory.to_owned()));
        }
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(Failure::Taken(directory.to_owned())),
            Err(error) => return Err(failed("lock")(error.into())),
        }
        let mut entries = fs::read_dir(directory).map_err(failed("read"))?;
        // Of a process that was killed.
        let mark = mark(directory);
        if entries.next().is_some() && mark.is_none() {
            return Err(Failure::Occupied(directory.to_owned()));
        }
        let mut mirror = Mirror {
            source: source.to_owned(),
            directory: directory.to_owned(),
            is_new: is_new || mark.as_deref() == Some(NEW),
            tree: Tree::new(&directory.join(STAGED)),
            _lock: lock,
        };
        remove_content(directory).map_err(failed("remove old files in"))?;
        mirror.fill().map_err(failed("make files in"))?;
        Ok(mirror)
    }

    fn fill(&mut self) -> io::Result<()> {
        let content = if self.is_new { NEW } else { "" };
        write_new(&self.directory.join(MARK), content)?;
        let staged = self.directory.join(STAGED);
        fs::create_dir_all(staged.join(CLASS))?;
        self.tree.write(files(&self.source)?)?;
        let system = Path::new(SYSTEM);
        link(&system.join(CLASS), &staged.join(CLASS), |name| {
            !name.starts_with(OWN)
        })?;
        link(system, &self.directory, |name| name != CLASS)?;
        fs::rename(staged.join(CLASS), self.directory.join(CLASS))?;
        self.tree.moved(&self.directory);
        fs::remove_dir_all(staged)
    }

    /// Copies the files that have changed.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or written, or the copy was removed.
    pub fn update(&mut self) -> Result<(), Failure> {
        let new = match self.is_there() {
            true => files(&self.source),
            false => return Err(Failure::Removed(self.directory.clone())),
        };
        let written = new.and_then(|new| self.tree.write(new));
        // It may be removed meanwhile.
        written.map_err(|source| match self.is_there() {
            true => Failure::System {
                doing: "update the files in",
                path: self.directory.clone(),
                source,
            },
            false => Failure::Removed(self.directory.clone()),
        })
    }

    /// Returns whether the directory is the one that this process keeps, and has all files.
    fn is_there(&self) -> bool {
        self.is_kept() && self.tree.is_complete()
    }

    /// Returns whether the directory is the one that this process keeps.
    fn is_kept(&self) -> bool {
        let identity = |found: fs::Metadata| (found.dev(), found.ino());
        let kept = self._lock.metadata().map(identity).ok();
        let found = fs::symlink_metadata(&self.directory).map(identity).ok();
        kept.is_some() && found == kept
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // Files at this place may be of others.
        if !self.is_kept() || mark(&self.directory).is_none() {
            return;
        }
        // Files that stay are marked, and the next process removes them.
        let _ = remove_content(&self.directory);
        if self.is_new {
            let _ = fs::remove_dir(&self.directory);
        }
    }
}

/// Returns whether no other user can change a directory, but those of the user's group.
fn is_of_this_user(directory: &File) -> io::Result<bool> {
    let found = directory.metadata()?;
    let group = match found.gid() == getegid().as_raw() {
        true => 0,
        false => 0o020,
    };
    let is_own = found.uid() == geteuid().as_raw();
    Ok(is_own && found.mode() & (0o002 | group) == 0)
}

/// Returns the mark in a directory; none if there is no regular file.
fn mark(directory: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(directory.join(MARK), flags, Mode::empty()).ok()?;
    let file = File::from(file);
    let is_file = file.metadata().is_ok_and(|found| found.is_file());
    let mut text = String::new();
    let length = NEW.len() as u64 + 1;
    file.take(length).read_to_string(&mut text).ok()?;
    is_file.then_some(text)
}

/// Makes links to the entries of a directory. Without the directory, there are none.
fn link(from: &Path, to: &Path, is_wanted: impl Fn(&str) -> bool) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(from) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if is_wanted(&name.to_string_lossy()) {
            symlink(from.join(&name), to.join(&name))?;
        }
    }
    Ok(())
}

/// Removes the files and links of a copy. The mark is the last one.
fn remove_content(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if fs::read_link(&path).is_ok_and(|target| target.starts_with(SYSTEM)) {
            fs::remove_file(path)?;
        }
    }
    let without = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    for name in [CLASS, STAGED] {
        without(fs::remove_dir_all(directory.join(name)))?;
    }
    for name in [".scratch", MARK] {
        without(fs::remove_file(directory.join(name)))?;
    }
    Ok(())
}

/// Returns the files of the device classes in a node's directory.
fn files(root: &Path) -> io::Result<Entries> {
    let mut all = Entries::new();
    let mut open = vec![CLASS.to_owned()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(root.join(&at))? {
            let entry = entry?;
            let path = format!("{at}/{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                open.push(path);
                continue;
            }
            match fs::read_to_string(entry.path()) {
                Ok(text) => drop(all.insert(path, text)),
                // The fabric's process has removed it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;
    use std::sync::atomic::{AtomicU32, Ordering};

    const RATE: &str = "class/infiniband/verbena0/ports/1/rate";

    /// A directory for a test, with a node's files in `source`.
    struct Place(PathBuf);

    impl Place {
        fn new() -> Place {
            static NUMBER: AtomicU32 = AtomicU32::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = std::env::temp_dir().join(format!("mirror-{}-{number}", process::id()));
            let place = Place(path);
            place.set(RATE, "200 Gb/sec (4X HDR)\n");
            place
        }

        fn source(&self) -> PathBuf {
            self.0.join("source")
        }

        fn copy(&self) -> PathBuf {
            self.0.join("copy")
        }

        fn set(&self, path: &str, text: &str) {
            let file = self.source().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }

        fn mirror(&self) -> Result<Mirror, Failure> {
            Mirror::new(&self.source(), &self.copy())
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_follow_the_source_and_go_with_the_copy() {
        let place = Place::new();
        let mut mirror = place.mirror().unwrap();
        let read = |path: &str| fs::read_to_string(place.copy().join(path)).ok();
        assert_eq!(read(RATE).as_deref(), Some("200 Gb/sec (4X HDR)\n"));
        assert!(!place.copy().join(STAGED).exists());
        let lid = "class/infiniband/verbena0/ports/1/lid";
        place.set(lid, "0x2\n");
        fs::remove_file(place.source().join(RATE)).unwrap();
        mirror.update().unwrap();
        assert_eq!((read(lid).as_deref(), read(RATE)), (Some("0x2\n"), None));
        drop(mirror);
        assert!(!place.copy().exists());
    }

    #[test]
    fn a_copy_is_kept_by_one_process_and_taken_over_after_its_death() {
        let place = Place::new();
        let mirror = place.mirror().unwrap();
        assert!(matches!(place.mirror(), Err(Failure::Taken(_))));
        let kept = mirror.directory.clone();
        // As if killed: the lock ends, the files stay.
        let lock = mirror._lock.try_clone().unwrap();
        std::mem::forget(mirror);
        flock(&lock, FlockOperation::Unlock).unwrap();
        fs::write(kept.join("class/infiniband/stale"), "").unwrap();
        let mirror = place.mirror().unwrap();
        assert!(!kept.join("class/infiniband/stale").exists());
        drop(mirror);
        assert!(!kept.exists());
    }

    #[test]
    fn a_removed_or_replaced_copy_ends_and_leaves_other_files_alone() {
        for is_replaced in [false, true] {
            let place = Place::new();
            let mut mirror = place.mirror().unwrap();
            mirror.update().unwrap();
            fs::rename(place.copy(), place.0.join("moved")).unwrap();
            let other = place.copy().join("class/other");
            if is_replaced {
                fs::create_dir_all(other.parent().unwrap()).unwrap();
                fs::write(&other, "").unwrap();
            }
            assert!(matches!(mirror.update(), Err(Failure::Removed(_))));
            drop(mirror);
            assert_eq!(other.exists(), is_replaced);
        }
    }

    #[test]
    fn a_copy_without_one_of_its_files_ends_and_removes_the_others() {
        for removed in [CLASS, RATE] {
            let place = Place::new();
            let mut mirror = place.mirror().unwrap();
            let path = place.copy().join(removed);
            match path.is_dir() {
                true => fs::remove_dir_all(path).unwrap(),
                false => fs::remove_file(path).unwrap(),
            }
            let error = mirror.update().unwrap_err();
            assert!(error.to_string().contains("were removed"), "{error}");
            drop(mirror);
            assert!(!place.copy().exists(), "{removed}");
        }
    }

    #[test]
    fn files_of_others_in_an_emptied_directory_stay() {
        let place = Place::new();
        let mirror = place.mirror().unwrap();
        remove_content(&place.copy()).unwrap();
        let other = place.copy().join("class/other");
        fs::create_dir(other.parent().unwrap()).unwrap();
        fs::write(&other, "").unwrap();
        drop(mirror);
        assert!(other.exists());
    }

    #[test]
    fn an_empty_directory_stays() {
        let place = Place::new();
        fs::create_dir(place.copy()).unwrap();
        drop(place.mirror().unwrap());
        assert_eq!(fs::read_dir(place.copy()).unwrap().count(), 0);
    }

    #[test]
    fn files_of_others_are_left_alone() {
        let place = Place::new();
        fs::create_dir_all(place.copy().join(CLASS)).unwrap();
        assert!(matches!(place.mirror(), Err(Failure::Occupied(_))));
        assert!(place.copy().join(CLASS).exists());
    }

    #[test]
    fn a_directory_without_a_parent_is_refused_by_name() {
        let place = Place::new();
        let directory = place.0.join("none/copy");
        let error = Mirror::new(&place.source(), &directory).unwrap_err();
        assert!(error.to_string().contains("none/copy"), "{error}");
    }
}
