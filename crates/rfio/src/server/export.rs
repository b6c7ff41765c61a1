//! Exported directories, and the only way from a path in a request to a file.
//!
//! A path is never joined to a string and never checked before it is used: it is handed to openat2(2) relative to the
//! export's open root with `RESOLVE_BENEATH`, so the kernel itself refuses, at every step of the walk, to leave it:
//! by `..`, by an absolute symbolic link, or by a link that is swapped in while the walk is under way. The operations
//! for which Linux has no such call (unlink, rename, ...) open the parent in this way and then act on one name in it.

//!
//! Rights by user and path are judged here, by the real path of what was opened ([`Permit`]). It is
//! taken from the descriptor, so no link and no rename during the walk makes it another one.

mod root;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path as LocalPath;
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use verbena_rfio_protocol::types::Path;

use super::rights::{Need, Operations, Rights, components};
use root::Pin;
pub use root::Root;

/// What clients may do below an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Look and read.
    ReadOnly,
    /// Change as well.
    ReadWrite,
}

/// One exported directory.
#[derive(Debug)]
pub struct Export {
    name: Vec<u8>,
    pin: Pin,
    access: Access,
}

/// An error that has words for the client.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub struct Told {
    /// Its number.
    pub errno: Errno,
    /// The words.
    pub words: &'static str,
}

fn told(errno: Errno, words: &'static str) -> io::Error {
    io::Error::other(Told { errno, words })
}

fn denied() -> io::Error {
    told(Errno::ACCESS, "this user has no right to do that here")
}

/// What a request may do by path: all that the kernel allows, or what the rights of its user cover.
#[derive(Debug)]
pub struct Permit<'a> {
    rights: Option<(Arc<Rights>, &'a str)>,
    need: Need,
}

impl<'a> Permit<'a> {
    /// A request of a user who needs this.
    pub fn new(rights: Option<Arc<Rights>>, user: &'a str, need: Need) -> Self {
        let rights = rights.map(|rights| (rights, user));
        Self { rights, need }
    }

    /// Everything.
    pub const FREE: Permit<'static> = Permit {
        rights: None,
        need: Need::Look,
    };

    /// Fails unless the rights cover what has this real path.
    pub fn check(&self, path: &[u8]) -> io::Result<()> {
        match &self.rights {
            Some((rights, user)) if !rights.allow(user, path, self.need) => Err(denied()),
            _ => Ok(()),
        }
    }

    /// The result, where a failure tells nothing of what the user may not look at.
    fn conceal<T>(&self, path: &Path, result: io::Result<T>) -> io::Result<T> {
        match (&self.rights, result) {
            (Some(_), Err(error)) => {
                self.check(&lexical(path))?;
                Err(error)
            }
            (_, result) => result,
        }
    }
}

/// The path as it is written, without `..`.
fn lexical(path: &Path) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in components(path.as_bytes()) {
        match part {
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join(&b'/')
}

/// A file that was opened by what the kernel remembers: on the export's own, local file system.
#[derive(Debug)]
pub struct Remembered {
    /// The file, open for reading.
    pub file: OwnedFd,
    /// What it was when it was looked at.
    pub about: Stat,
    /// Whether all of it is in memory, for its file system is.
    pub is_of_memory: bool,
}

impl Export {
    /// Opens `directory` for export under `name`; the empty name makes it the root of the service.
    pub fn open(name: &str, directory: &LocalPath, access: Access) -> io::Result<Self> {
        Self::pinned(name, Pin::open(directory, false)?, access)
    }

    /// The same of a directory that must be a mount point, now and whenever it is used.
    pub fn open_mounted(name: &str, directory: &LocalPath, access: Access) -> io::Result<Self> {
        Self::pinned(name, Pin::open(directory, true)?, access)
    }

    fn pinned(name: &str, pin: Pin, access: Access) -> io::Result<Self> {
        Ok(Self {
            name: name.as_bytes().to_vec(),
            pin,
            access,
        })
    }

    /// What clients may do here.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The directory on this host, for logs.
    pub fn directory(&self) -> &LocalPath {
        self.pin.path()
    }

    /// Whether this process notices when the path leads elsewhere.
    pub fn is_watched(&self) -> bool {
        self.pin.is_watched()
    }
}

/// A path within an export, its parts separated; `..` stays, for the kernel to judge.
#[derive(Debug, PartialEq, Eq)]
pub struct Beneath {
    relative: Vec<u8>,
}

impl Beneath {
    fn as_os_str(&self) -> &OsStr {
        if self.relative.is_empty() {
            OsStr::new(".")
        } else {
            OsStr::from_bytes(&self.relative)
        }
    }

    /// The parent's path and the last name, where the path has a name that can be made or removed.
    fn split(&self) -> Option<(Beneath, &OsStr)> {
        let (parent, name) = match self.relative.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&self.relative[..slash], &self.relative[slash + 1..]),
            None => (&[][..], &self.relative[..]),
        };
        if name.is_empty() || name == b".." {
            return None;
        }
        Some((
            Beneath {
                relative: parent.to_vec(),
            },
            OsStr::from_bytes(name),
        ))
    }
}

/// Where a path of a request leads.
#[derive(Debug)]
pub enum Place<'a> {
    /// Below an export.
    In(&'a Export, Beneath),
    /// The directory above several named exports, which exists only here.
    Above,
}

/// A parent directory, open, and one name in it.
#[derive(Debug)]
pub struct Named {
    /// The parent.
    pub parent: OwnedFd,
    /// The name.
    pub name: OsString,
    /// The exported directory that it is in, if it was found by a path of a request.
    pub root: Option<Arc<Root>>,
    /// The real path, where rights are judged by it.
    path: Option<Vec<u8>>,
}

impl Named {
    /// A name in a directory that no client has named.
    pub fn of(parent: OwnedFd, name: OsString) -> Self {
        Self {
            parent,
            name,
            root: None,
            path: None,
        }
    }

    /// Fails if what was done by this name is not where clients look for it.
    pub fn confirm(&self) -> io::Result<()> {
        match &self.root {
            Some(root) => root.must_be_at_its_path(),
            None => Ok(()),
        }
    }

    /// Fails unless what has this name may have another one as well, or instead.
    pub fn may_become(&self, to: &Self, permit: &Permit<'_>, takes: Takes) -> io::Result<()> {
        let (Some((rights, user)), Some(from), Some(to)) = (&permit.rights, &self.path, &to.path)
        else {
            return Ok(());
        };
        let is_same_directory = parent_of(from) == parent_of(to);
        let needs = match takes {
            Takes::Away if !is_same_directory => Operations::DELETE,
            // The data are the new name's as well.
            Takes::Shared => Operations::READ.and(Operations::WRITE),
            Takes::Away => Operations::WRITE,
        };
        match rights.allow(user, from, Need::All(needs)) && rights.may_move(user, from, to) {
            true => Ok(()),
            false => Err(denied()),
        }
    }
}

/// What becomes of the old name of something that gets a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// It is gone.
    Away,
    /// It stays.
    Shared,
}

fn parent_of(path: &[u8]) -> &[u8] {
    let slash = path.iter().rposition(|&byte| byte == b'/');
    &path[..slash.unwrap_or(0)]
}

/// All exports of a service.
#[derive(Debug)]
pub struct Exports {
    exports: Vec<Export>,
}

/// Why a set of exports makes no sense.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadExports {
    /// Nothing to serve.
    #[error("no directory is exported; name one with --export DIR")]
    None,
    /// Two exports with one name.
    #[error("two exports are called '{0}'; give one of them another name with --export NAME=DIR")]
    Twice(String),
    /// A root export beside named ones would hide them.
    #[error(
        "an export without a name is the root of the service, so it must be the only one; use --export NAME=DIR"
    )]
    RootBesideOthers,
    /// A name with a slash.
    #[error("export name '{0}' must be a single path component")]
    Name(String),
}

impl Exports {
    /// The exports, if their names fit together.
    pub fn new(exports: Vec<Export>) -> Result<Self, BadExports> {
        if exports.is_empty() {
            return Err(BadExports::None);
        }
        for (index, export) in exports.iter().enumerate() {
            let name = String::from_utf8_lossy(&export.name).into_owned();
            if export.name.is_empty() && exports.len() > 1 {
                return Err(BadExports::RootBesideOthers);
            }
            if export.name.contains(&b'/') || name == "." || name == ".." {
                return Err(BadExports::Name(name));
            }
            if exports[..index]
                .iter()
                .any(|other| other.name == export.name)
            {
                return Err(BadExports::Twice(name));
            }
        }
        Ok(Self { exports })
    }

    /// Every export.
    pub fn iter(&self) -> impl Iterator<Item = &Export> {
        self.exports.iter()
    }

    /// Names of the exports, for the directory above them.
    pub fn names(&self) -> impl Iterator<Item = (&[u8], Arc<Root>)> {
        self.exports
            .iter()
            .map(|export| (&export.name[..], export.pin.last()))
    }

    /// Looks again where the paths of the exports lead, as when they were opened.
    ///
    /// # Errors
    /// One of them cannot be exported. Then none is changed.
    pub fn reopen(&self) -> Result<(), String> {
        let found = self.exports.iter().map(|export| {
            let pin = &export.pin;
            let root = pin.look_again();
            root.map_err(|error| format!("export {}: {error}", pin.path().display()))
        });
        let found: Vec<_> = found.collect::<Result<_, _>>()?;
        for (export, root) in self.exports.iter().zip(found) {
            export.pin.take(root);
        }
        Ok(())
    }

    /// Finds the export that a path names. Purely textual: nothing is looked up yet.
    pub fn locate(&self, path: &Path) -> io::Result<Place<'_>> {
        let mut parts = path
            .as_bytes()
            .split(|&byte| byte == b'/')
            .filter(|part| !part.is_empty() && *part != b".");
        let export = match &self.exports[..] {
            [only] if only.name.is_empty() => only,
            several => match parts.next() {
                None => return Ok(Place::Above),
                Some(name) => several
                    .iter()
                    .find(|export| export.name == name)
                    .ok_or(io::Error::from(Errno::NOENT))?,
            },
        };
        let relative = parts.collect::<Vec<_>>().join(&b'/');
        Ok(Place::In(export, Beneath { relative }))
    }

    fn within(&self, path: &Path) -> io::Result<(&Export, Beneath)> {
        match self.locate(path)? {
            Place::In(export, beneath) => Ok((export, beneath)),
            Place::Above => Err(Errno::ISDIR.into()),
        }
    }

    /// Opens what a path names.
    pub fn open(
        &self,
        path: &Path,
        flags: OFlags,
        mode: Mode,
        permit: &Permit<'_>,
    ) -> io::Result<OwnedFd> {
        let (export, beneath) = self.within(path)?;
        if flags.intersects(CHANGES) && !flags.contains(OFlags::PATH) {
            export.must_be_writable()?;
        }
        let root = export.pin.current()?;
        let opened = root.open_beneath(&beneath, flags, mode);
        let opened = opened.and_then(|opened| export.permitted(&root, opened, permit));
        permit.conceal(path, opened)
    }

    /// Opens a regular file. What else a path names is refused without being opened: to open a FIFO or a device is to do
    /// something to it.
    pub fn open_file(
        &self,
        path: &Path,
        flags: OFlags,
        mode: Mode,
        permit: &Permit<'_>,
    ) -> io::Result<(OwnedFd, Arc<Root>)> {
        let (export, beneath) = self.within(path)?;
        if flags.intersects(CHANGES) {
            export.must_be_writable()?;
        }
        let root = export.pin.current()?;
        let opened = export.open_file(&root, &beneath, flags, mode, permit);
        permit.conceal(path, opened).map(|file| (file, root))
    }

    /// Opens a regular file that is there for reading, as [`Exports::open_file`] does, by what the kernel remembers alone;
    /// `None` where it would have to ask storage, or somebody who has the file to himself.
    pub fn open_file_at_once(
        &self,
        path: &Path,
        permit: &Permit<'_>,
    ) -> io::Result<Option<Remembered>> {
        let (export, beneath) = self.within(path)?;
        let Some(root) = export.pin.recent() else {
            return Ok(None);
        };
        let seen = root.look_beneath_at_once(&beneath, OFlags::PATH);
        let Some(seen) = permit.conceal(path, seen)? else {
            return Ok(None);
        };
        let seen = permit.conceal(path, export.permitted(&root, seen, permit))?;
        let about = rustix::fs::fstat(&seen)?;
        match open_seen(
            &seen,
            &about,
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
        ) {
            // Another process has a lease of the file (fcntl(2)).
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            opened => Ok(Some(Remembered {
                file: opened?,
                about,
                is_of_memory: root.is_of_memory,
            })),
        }
    }

    /// Opens what a path names without the right to do anything but ask about it. A final symbolic link is not followed
    /// when `flags` has `NOFOLLOW`.
    pub fn look(&self, path: &Path, flags: OFlags, permit: &Permit<'_>) -> io::Result<OwnedFd> {
        self.open(path, OFlags::PATH | flags, Mode::empty(), permit)
    }

    /// As [`Exports::look`], by what the kernel remembers alone; `None` where it would have to ask storage.
    pub fn look_at_once(
        &self,
        path: &Path,
        flags: OFlags,
        permit: &Permit<'_>,
    ) -> io::Result<Option<OwnedFd>> {
        let (export, beneath) = self.within(path)?;
        let Some(root) = export.pin.recent() else {
            return Ok(None);
        };
        let seen = root.look_beneath_at_once(&beneath, OFlags::PATH | flags);
        let seen = seen.and_then(|seen| {
            let permitted = seen.map(|seen| export.permitted(&root, seen, permit));
            permitted.transpose()
        });
        permit.conceal(path, seen)
    }

    /// Opens the parent of a path of which the last name is to be made, changed or removed.
    pub fn name(&self, path: &Path, permit: &Permit<'_>) -> io::Result<Named> {
        let (export, beneath) = self.within(path)?;
        export.must_be_writable()?;
        let root = export.pin.current()?;
        let named = export.name(&root, &beneath, permit);
        permit.conceal(path, named)
    }

    /// Fails with EROFS unless what a path names may be changed.
    pub fn must_be_writable(&self, path: &Path) -> io::Result<()> {
        self.within(path)?.0.must_be_writable()
    }

    /// Whether any export may be changed.
    pub fn any_writable(&self) -> bool {
        self.exports
            .iter()
            .any(|export| export.access == Access::ReadWrite)
    }
}

/// What a file is opened with to be changed.
const CHANGES: OFlags = OFlags::WRONLY
    .union(OFlags::RDWR)
    .union(OFlags::CREATE)
    .union(OFlags::TRUNC)
    .union(OFlags::APPEND);

impl Export {
    fn must_be_writable(&self) -> io::Result<()> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(Errno::ROFS.into()),
        }
    }

    fn open_file(
        &self,
        root: &Root,
        beneath: &Beneath,
        flags: OFlags,
        mode: Mode,
        permit: &Permit<'_>,
    ) -> io::Result<OwnedFd> {
        // A file that must not be there is not opened but made.
        if flags.contains(OFlags::CREATE | OFlags::EXCL) {
            return self.make_file(root, beneath, flags, mode, permit);
        }
        // Made or removed in between: tried again.
        for _ in 0..64 {
            let look = OFlags::PATH | (flags & OFlags::NOFOLLOW);
            match root.open_beneath(beneath, look, Mode::empty()) {
                Ok(seen) => {
                    let seen = self.permitted(root, seen, permit)?;
                    let about = rustix::fs::fstat(&seen)?;
                    return open_seen(&seen, &about, flags - OFlags::CREATE - OFlags::NOFOLLOW);
                }
                Err(error)
                    if flags.contains(OFlags::CREATE)
                        && error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) =>
                {
                    match self.make_file(root, beneath, flags | OFlags::EXCL, mode, permit) {
                        Err(error) if error.raw_os_error() == Some(Errno::EXIST.raw_os_error()) => {
                        }
                        other => return other,
                    }
                }
                Err(error) => return Err(error),
            }
        }
        // A link that leads to nothing is there and is not.
        Err(Errno::NOENT.into())
    }

    /// Makes a file, in a directory that was opened and judged before.
    fn make_file(
        &self,
        root: &Root,
        beneath: &Beneath,
        flags: OFlags,
        mode: Mode,
        permit: &Permit<'_>,
    ) -> io::Result<OwnedFd> {
        if beneath.split().is_none() {
            return Err(Errno::ISDIR.into());
        }
        let (parent, name) = self.open_parent(root, beneath, permit)?;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = flags | OFlags::CLOEXEC;
        Ok(rustix::fs::openat2(&parent.0, name, flags, mode, resolve)?)
    }

    /// The parent of a path, with the real path of the name where that is judged, and the name.
    #[allow(clippy::type_complexity)]
    fn open_parent<'a>(
        &self,
        root: &Root,
        beneath: &'a Beneath,
        permit: &Permit<'_>,
    ) -> io::Result<((OwnedFd, Option<Vec<u8>>), &'a OsStr)> {
        let (parent, name) = beneath.split().ok_or(io::Error::from(Errno::BUSY))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let parent = root.open_beneath(&parent, flags, Mode::empty())?;
        let path = match permit.rights {
            None => None,
            Some(_) => {
                let parent = self.real_path(root, &parent)?;
                let path = [&parent[..], b"/", name.as_bytes()].concat();
                permit.check(&path)?;
                Some(path)
            }
        };
        Ok(((parent, path), name))
    }

    fn name(&self, root: &Arc<Root>, beneath: &Beneath, permit: &Permit<'_>) -> io::Result<Named> {
        let ((parent, path), name) = self.open_parent(root, beneath, permit)?;
        Ok(Named {
            parent,
            name: name.to_owned(),
            root: Some(Arc::clone(root)),
            path,
        })
    }

    /// What was opened, if the user has the rights for it.
    fn permitted(&self, root: &Root, opened: OwnedFd, permit: &Permit<'_>) -> io::Result<OwnedFd> {
        if permit.rights.is_some() {
            permit.check(&self.real_path(root, &opened)?)?;
        }
        Ok(opened)
    }

    /// Where something that was opened beneath the root is now, seen from the service's root.
    fn real_path(&self, root: &Root, opened: &OwnedFd) -> io::Result<Vec<u8>> {
        /// What the kernel puts behind the path of what has lost its name.
        const LOST: &[u8] = b" (deleted)";
        // The root may get another name between two looks.
        for _ in 0..8 {
            let (above, path) = (path_of(root)?, path_of(opened)?);
            if path.ends_with(LOST) {
                return Err(told(
                    Errno::NOENT,
                    "it was removed meanwhile (nor can a name end in ' (deleted)' where rights \
                     are by path)",
                ));
            }
            let above = above.strip_suffix(b"/").unwrap_or(&above);
            match path.strip_prefix(above) {
                Some(rest) if rest.is_empty() || rest[0] == b'/' => {
                    return Ok([b"/", &self.name[..], rest].concat());
                }
                _ => {}
            }
        }
        Err(denied())
    }
}

/// The path of what a descriptor names.
fn path_of(opened: impl AsFd) -> io::Result<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd());
    Ok(std::fs::read_link(link)?.into_os_string().into_vec())
}

impl Root {
    fn open_beneath(&self, beneath: &Beneath, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        // EAGAIN: the kernel saw a rename race with a `..` and asks to try again (openat2(2)).
        for _ in 0..64 {
            match rustix::fs::openat2(self, beneath.as_os_str(), flags, mode, resolve) {
                Err(Errno::AGAIN) => {}
                // The kernel's EXDEV would puzzle the user of a copy tool: what happened is a refusal.
                Err(Errno::XDEV) => return Err(Errno::ACCESS.into()),
                other => return Ok(other?),
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// The walk ends at another file system: that one may have to be asked.
    fn look_beneath_at_once(
        &self,
        beneath: &Beneath,
        flags: OFlags,
    ) -> io::Result<Option<OwnedFd>> {
        if !self.is_local {
            return Ok(None);
        }
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV
            | ResolveFlags::CACHED;
        let flags = flags | OFlags::CLOEXEC;
        match rustix::fs::openat2(self, beneath.as_os_str(), flags, Mode::empty(), resolve) {
            // Not remembered, or not within this file system; or a kernel before 5.12, which does not know the question.
            Err(Errno::AGAIN | Errno::XDEV | Errno::INVAL) => Ok(None),
            other => Ok(Some(other?)),
        }
    }
}

/// Opens what was looked at, if it is a regular file.
fn open_seen(seen: &OwnedFd, about: &Stat, flags: OFlags) -> io::Result<OwnedFd> {
    match FileType::from_raw_mode(about.st_mode) {
        FileType::RegularFile => {
            // The descriptor's name in /proc leads to exactly the file that was looked at.
            let name = format!("/proc/self/fd/{}", seen.as_raw_fd());
            Ok(rustix::fs::open(
                name,
                flags | OFlags::CLOEXEC,
                Mode::empty(),
            )?)
        }
        FileType::Directory => Err(Errno::ISDIR.into()),
        FileType::Symlink => Err(Errno::LOOP.into()),
        _ => Err(Errno::INVAL.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::os::unix::fs::symlink;

    const FREE: &Permit<'static> = &Permit::FREE;

    fn path(text: &str) -> Path {
        Path::new(text).unwrap()
    }

    fn exports(scratch: &Scratch, access: Access) -> Exports {
        std::fs::create_dir_all(scratch.path("root/sub")).unwrap();
        std::fs::write(scratch.path("root/sub/file"), "inside").unwrap();
        std::fs::write(scratch.path("secret"), "outside").unwrap();
        Exports::new(vec![
            Export::open("", &scratch.path("root"), access).unwrap(),
        ])
        .unwrap()
    }

    fn read(exports: &Exports, name: &str) -> io::Result<String> {
        let file = exports.open(&path(name), OFlags::RDONLY, Mode::empty(), FREE)?;
        io::read_to_string(std::fs::File::from(file))
    }

    #[test]
    fn a_file_inside_opens_by_every_spelling() {
        let scratch = Scratch::new();
        let exports = exports(&scratch, Access::ReadOnly);
        for name in ["/sub/file", "sub/file", "//sub/./file", "/sub/../sub/file"] {
            assert_eq!(read(&exports, name).unwrap(), "inside", "{name}");
        }
    }

    #[test]
    fn nothing_but_a_regular_file_is_opened() {
        let scratch = Scratch::new();
        let exports = exports(&scratch, Access::ReadWrite);
        let fifo = scratch.path("root/fifo");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &fifo,
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        // A writer without a reader is refused (fifo(7)), unless somebody opens the other end: inotify tells.
        let watch = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::NONBLOCK).unwrap();
        rustix::fs::inotify::add_watch(&watch, &fifo, rustix::fs::inotify::WatchFlags::OPEN)
            .unwrap();
        let create = OFlags::RDWR | OFlags::CREATE;
        for flags in [OFlags::RDONLY, OFlags::WRONLY, create] {
            let flags = flags | OFlags::NONBLOCK;
            let mode = Mode::from_raw_mode(0o600);
            assert!(
                exports
                    .open_file(&path("/fifo"), flags, mode, FREE)
                    .is_err()
            );
        }
        let seen = rustix::io::read(&watch, &mut [0u8; 256]);
        assert_eq!(seen.unwrap_err(), Errno::AGAIN, "the FIFO was opened");
        assert!(
            exports
                .open_file(&path("/sub"), OFlags::RDONLY, Mode::empty(), FREE)
                .is_err()
        );
        for name in ["/new", "/sub/file", "/new"] {
            let mode = Mode::from_raw_mode(0o600);
            exports.open_file(&path(name), create, mode, FREE).unwrap();
        }
        symlink("nowhere", scratch.path("root/dangling")).unwrap();
        assert!(
            exports
                .open_file(&path("/dangling"), create, Mode::empty(), FREE)
                .is_err()
        );
    }

    #[test]
    fn no_path_leaves_the_root() {
        let scratch = Scratch::new();
        let exports = exports(&scratch, Access::ReadWrite);
        symlink("../secret", scratch.path("root/up")).unwrap();
        symlink(scratch.path("secret"), scratch.path("root/absolute")).unwrap();
        symlink("..", scratch.path("root/parent")).unwrap();
        symlink("/proc/self/root", scratch.path("root/magic")).unwrap();
        for name in [
            "/../secret",
            "/sub/../../secret",
            "/up",
            "/absolute",
            "/parent/secret",
            "/magic/etc/passwd",
        ] {
            let error = read(&exports, name).unwrap_err();
            assert_eq!(
                error.raw_os_error(),
                Some(Errno::ACCESS.raw_os_error()),
                "{name}: {error}"
            );
            // Nor does a name below such a path.
            assert!(
                exports.name(&path(&format!("{name}/new")), FREE).is_err(),
                "{name}"
            );
        }
        assert!(exports.name(&path("/../new"), FREE).is_err());
    }

    #[test]
    fn a_link_that_stays_inside_is_followed() {
        let scratch = Scratch::new();
        let exports = exports(&scratch, Access::ReadOnly);
        symlink("sub/file", scratch.path("root/link")).unwrap();
        assert_eq!(read(&exports, "/link").unwrap(), "inside");
    }

    #[test]
    fn a_directory_that_becomes_a_link_during_the_walk_never_leads_out() {
        // The race that a check before the open loses: one thread swaps a directory for a link to the outside.
        let scratch = Scratch::new();
        let exports = exports(&scratch, Access::ReadOnly);
        std::fs::create_dir(scratch.path("outside")).unwrap();
        std::fs::write(scratch.path("outside/file"), "outside").unwrap();
        symlink("../outside", scratch.path("root/evil")).unwrap();
        let (sub, evil) = (scratch.path("root/sub"), scratch.path("root/evil"));
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let exchange = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(
                        rustix::fs::CWD,
                        &sub,
                        rustix::fs::CWD,
                        &evil,
                        exchange,
                    )
                    .unwrap();
                }
            });
            for _ in 0..20_000 {
                if let Ok(text) = read(&exports, "/sub/file") {
                    assert_eq!(text, "inside");
                }
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn a_directory_that_becomes_a_link_during_the_walk_never_leads_to_other_rights() {
        let scratch = Scratch::new();
        let exports = exports(&scratch, Access::ReadWrite);
        for name in ["ann", "ann/d", "bob"] {
            std::fs::create_dir(scratch.path("root").join(name)).unwrap();
        }
        std::fs::write(scratch.path("root/ann/d/f"), "own").unwrap();
        std::fs::write(scratch.path("root/bob/f"), "secret").unwrap();
        symlink("../bob", scratch.path("root/ann/evil")).unwrap();
        let rights = Arc::new(Rights::parse(b"ann all /ann").unwrap());
        let permit =
            |operation| Permit::new(Some(Arc::clone(&rights)), "ann", Need::All(operation));
        let (may_read, may_write) = (permit(Operations::READ), permit(Operations::WRITE));
        let (dir, evil) = (scratch.path("root/ann/d"), scratch.path("root/ann/evil"));
        let stop = std::sync::atomic::AtomicBool::new(false);
        let mut opened = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let exchange = rustix::fs::RenameFlags::EXCHANGE;
                let here = rustix::fs::CWD;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    rustix::fs::renameat_with(here, &dir, here, &evil, exchange).unwrap();
                }
            });
            for number in 0..5_000 {
                let file =
                    exports.open_file(&path("/ann/d/f"), OFlags::RDONLY, Mode::empty(), &may_read);
                if let Ok((file, _)) = file {
                    let text = io::read_to_string(std::fs::File::from(file)).unwrap();
                    assert_eq!(text, "own");
                    opened += 1;
                }
                let (new, mode) = (format!("/ann/d/{number}"), Mode::from_raw_mode(0o600));
                let make = OFlags::WRONLY | OFlags::CREATE;
                let _ = exports.open_file(&path(&new), make, mode, &may_write);
                if let Ok(named) = exports.name(&path("/ann/d/f"), &may_write) {
                    let at = std::fs::File::from(named.parent);
                    let about = rustix::fs::statat(&at, "f", rustix::fs::AtFlags::empty());
                    let size = about.map(|about| about.st_size);
                    assert_eq!(size, Ok(3), "a name in another directory");
                }
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert!(opened > 0);
        assert_eq!(
            std::fs::read_dir(scratch.path("root/bob")).unwrap().count(),
            1
        );
    }

    #[test]
    fn what_takes_the_place_of_the_directory_is_exported_and_the_old_one_told_of() {
        let scratch = Scratch::new();
        let exports = exports(&scratch, Access::ReadWrite);
        let named = exports.name(&path("/sub/new"), FREE).unwrap();
        let (file, root) = exports
            .open_file(&path("/sub/file"), OFlags::RDWR, Mode::empty(), FREE)
            .unwrap();
        named.confirm().unwrap();
        std::fs::rename(scratch.path("root"), scratch.path("aside")).unwrap();
        let told = |error: io::Error| {
            let told = error.get_ref().and_then(|inner| inner.downcast_ref());
            told.map(|Told { errno, .. }| *errno)
        };
        let gone = exports.name(&path("/sub/new"), FREE).unwrap_err();
        assert_eq!(told(gone), Some(Errno::STALE));
        std::fs::create_dir_all(scratch.path("root/sub")).unwrap();
        let now = exports.name(&path("/sub/new"), FREE).unwrap();
        now.confirm().unwrap();
        for old in [
            named.confirm(),
            root.must_not_be_replaced(),
            root.must_be_at_its_path(),
        ] {
            assert_eq!(told(old.unwrap_err()), Some(Errno::STALE));
        }
        assert!(
            read(&exports, "/sub/file").is_err(),
            "it is in the directory of before"
        );
        assert_eq!(
            io::read_to_string(std::fs::File::from(file)).unwrap(),
            "inside"
        );
        std::fs::rename(scratch.path("root"), scratch.path("other")).unwrap();
        std::fs::rename(scratch.path("aside"), scratch.path("root")).unwrap();
        assert_eq!(read(&exports, "/sub/file").unwrap(), "inside");
        assert_eq!(exports.reopen(), Ok(()));
    }

    #[test]
    fn a_directory_that_is_no_mount_point_is_not_taken_for_one() {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path("d")).unwrap();
        let opened = Export::open_mounted("", &scratch.path("d"), Access::ReadOnly);
        assert!(opened.unwrap_err().to_string().contains("no mount point"));
    }

    #[test]
    fn a_read_only_export_refuses_changes() {
        let scratch = Scratch::new();
        let exports = exports(&scratch, Access::ReadOnly);
        let flags = OFlags::WRONLY | OFlags::CREATE;
        assert!(
            exports
                .open(&path("/new"), flags, Mode::from_raw_mode(0o600), FREE)
                .is_err()
        );
        assert!(exports.name(&path("/new"), FREE).is_err());
        assert!(!scratch.path("root/new").exists());
    }

    #[test]
    fn named_exports_share_a_directory_that_exists_only_here() {
        let scratch = Scratch::new();
        for name in ["a", "b"] {
            std::fs::create_dir(scratch.path(name)).unwrap();
            std::fs::write(scratch.path(name).join("f"), name).unwrap();
        }
        let open = |name: &str| Export::open(name, &scratch.path(name), Access::ReadOnly).unwrap();
        let exports = Exports::new(vec![open("a"), open("b")]).unwrap();
        assert_eq!(read(&exports, "/b/f").unwrap(), "b");
        assert!(
            read(&exports, "/b/../a/f").is_err(),
            "one export must not lead into another"
        );
        assert!(matches!(exports.locate(&path("/")).unwrap(), Place::Above));
    }

    #[test]
    fn exports_that_do_not_fit_together_are_refused() {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path("d")).unwrap();
        let open = |name: &str| Export::open(name, &scratch.path("d"), Access::ReadOnly).unwrap();
        assert_eq!(Exports::new(vec![]).unwrap_err(), BadExports::None);
        assert_eq!(
            Exports::new(vec![open("a"), open("a")]).unwrap_err(),
            BadExports::Twice("a".into())
        );
        assert_eq!(
            Exports::new(vec![open(""), open("a")]).unwrap_err(),
            BadExports::RootBesideOthers
        );
        assert_eq!(
            Exports::new(vec![open("a/b")]).unwrap_err(),
            BadExports::Name("a/b".into())
        );
    }
}
