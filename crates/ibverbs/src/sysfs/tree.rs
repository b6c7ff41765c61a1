//! The tree of real files in the host's runtime directory: a program's calls are redirected to it,
//! so that the kernel handles all its operations on descriptors, links and the working directory.
//!
//! A tree belongs to one configuration of the adapter, and processes with the same one share it.
//! Each holds a shared lock on the tree's directory; the last one to exit removes it, and so does
//! the last process of the host ([`registry::remove_tree`]). Files are updated in place when the
//! program opens them ([`refresh`]); all files are updated when it first requests the tree or lists
//! a directory.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use verbena_hca_shm::registry;

use super::content::{Entry, entries};
use super::counters::{Totals, totals};

/// The tree of this process.
struct Tree {
    /// The process that made it: a child of fork(2) takes its own lock.
    process: u32,
    path: PathBuf,
    lock: File,
}

static TREE: Mutex<Option<Tree>> = Mutex::new(None);

thread_local! {
    /// Whether this thread is working on the tree: the shim intercepts its file operations and
    /// calls back.
    static IS_AT_WORK: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, unless this thread is working on the tree already.
fn alone<T>(work: impl FnOnce() -> T) -> Option<T> {
    if IS_AT_WORK.replace(true) {
        return None;
    }
    let done = work();
    IS_AT_WORK.set(false);
    Some(done)
}

fn tree() -> MutexGuard<'static, Option<Tree>> {
    TREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the path of the tree. Creates it if necessary.
///
/// # Errors
/// Those of creating a directory and files in the runtime directory.
pub fn root() -> io::Result<PathBuf> {
    alone(find_or_make).unwrap_or_else(|| Err(ErrorKind::WouldBlock.into()))
}

fn find_or_make() -> io::Result<PathBuf> {
    let mut tree = tree();
    if let Some(known) = &*tree
        && known.process == std::process::id()
    {
        return Ok(known.path.clone());
    }
    let all = entries(&Totals::new());
    let made = Tree::open(&all)?;
    let path = made.path.clone();
    if tree.replace(made).is_none() {
        // SAFETY: the function takes no arguments and lives as long as the process.
        unsafe { libc::atexit(leave) };
    }
    Ok(path)
}

/// Updates `path`, relative to the tree: a file, which may appear or disappear with a GID, or all
/// files if it is a directory.
pub fn refresh(path: &str) {
    alone(|| bring_up_to_date(path));
}

fn bring_up_to_date(path: &str) {
    let Some(root) = tree().as_ref().map(|tree| tree.path.clone()) else {
        return;
    };
    let place = place_of(&root.join(path.trim_matches('/')));
    // A path may lead out of the tree.
    let Some(place) = place.filter(|place| place.starts_with(&root)) else {
        return;
    };
    // The path determines whether counters are needed, which takes a query of every process.
    let is_of_counters = |part: &str| part == "counters" || part == "hw_counters";
    let counted = place
        .iter()
        .filter_map(|part| part.to_str())
        .any(is_of_counters);
    let all = entries(&if counted { totals() } else { Totals::new() });
    let mut wanted = BTreeSet::new();
    for (name, entry) in all {
        let target = root.join(&name);
        let is_counter = name.split('/').any(is_of_counters);
        if target.starts_with(&place) {
            if counted || !is_counter {
                // The tree's process may be exiting.
                let _ = put(&target, &entry);
            }
            wanted.insert(target);
        }
    }
    remove_others(&place, &wanted);
}

/// Resolves a path; for a missing file, its parent.
fn place_of(path: &Path) -> Option<PathBuf> {
    let there = path.canonicalize();
    there
        .or_else(|error| match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
            _ => Err(error),
        })
        .ok()
}

/// Removes the files at and below `place` that are not `wanted`.
fn remove_others(place: &Path, wanted: &BTreeSet<PathBuf>) {
    if let Ok(listed) = fs::read_dir(place) {
        for entry in listed.flatten() {
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if !is_link {
                remove_others(&entry.path(), wanted);
            }
        }
    } else if !wanted.contains(place) {
        // A missing file need not be removed.
        let _ = fs::remove_file(place);
    }
}

/// Files by whose text trees differ: devices, and those of other processes of the user, have
/// others.
const FIXED: [&str; 4] = ["/ifindex", "/vendor", "/device", "/revision"];

impl Tree {
    fn open(all: &BTreeMap<String, Entry>) -> io::Result<Tree> {
        let directory =
            registry::prepare().map_err(|error| io::Error::from_raw_os_error(error.0))?;
        let mut hasher = DefaultHasher::new();
        for (name, entry) in all {
            let is_fixed =
                matches!(entry, Entry::Link(_)) || FIXED.iter().any(|file| name.ends_with(file));
            (name, is_fixed.then_some(format!("{entry:?}"))).hash(&mut hasher);
        }
        let path = directory.join(format!("{}{:016x}", registry::TREE, hasher.finish()));
        loop {
            make(&path, all)?;
            let lock = match File::open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                opened => opened?,
            };
            // SAFETY: flock(2) takes integers; the descriptor is owned here.
            if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_SH) } != 0 {
                return Err(io::Error::last_os_error());
            }
            // Its last user may have removed it between the two calls.
            let is_it = |there: fs::Metadata, of: fs::Metadata| there.ino() == of.ino();
            if let (Ok(there), Ok(of)) = (fs::metadata(&path), lock.metadata())
                && is_it(there, of)
            {
                let process = std::process::id();
                let path = path.canonicalize()?;
                let tree = Tree {
                    process,
                    path,
                    lock,
                };
                return Ok(tree);
            }
        }
    }
}

/// Creates the tree under a temporary name and renames it, unless it exists.
fn make(path: &Path, all: &BTreeMap<String, Entry>) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let scratch = path.with_extension(format!("{}", std::process::id()));
    let _ = fs::remove_dir_all(&scratch);
    DirBuilder::new().mode(0o700).create(&scratch)?;
    let written = all
        .iter()
        .try_for_each(|(name, entry)| put(&scratch.join(name), entry));
    let placed = written.and_then(|()| match fs::rename(&scratch, path) {
        Err(_) if path.is_dir() => fs::remove_dir_all(&scratch),
        placed => placed,
    });
    placed.inspect_err(|_| drop(fs::remove_dir_all(&scratch)))
}

/// Creates or replaces an entry.
fn put(path: &Path, entry: &Entry) -> io::Result<()> {
    let text = match entry {
        Entry::Link(target) => {
            if fs::read_link(path).is_ok_and(|there| there == Path::new(target)) {
                return Ok(());
            }
            make_parent(path)?;
            return match symlink(target, path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                made => made,
            };
        }
        Entry::File(text) => text,
    };
    if fs::read(path).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(());
    }
    make_parent(path)?;
    let mut options = File::options();
    options.write(true).create(true).truncate(false);
    let open = || options.open(path);
    let mut file = match open() {
        // Written before: it was left read-only.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            fs::set_permissions(path, Permissions::from_mode(0o644))?;
            open()?
        }
        opened => opened?,
    };
    // In place, so that an open descriptor reads the new text; and never empty meanwhile.
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)?;
    fs::set_permissions(path, Permissions::from_mode(0o444))
}

fn make_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => fs::create_dir_all(parent),
        None => Ok(()),
    }
}

/// Removes the tree at exit, if this process is its last user.
extern "C" fn leave() {
    // A thread that was stopped during an update may hold the lock.
    let Ok(mut tree) = TREE.try_lock() else {
        return;
    };
    if let Some(tree) = tree
        .take()
        .filter(|tree| tree.process == std::process::id())
    {
        alone(|| {
            drop(tree.lock);
            registry::remove_tree(&tree.path);
        });
    }
}
