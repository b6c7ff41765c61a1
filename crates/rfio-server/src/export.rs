//! Exported directories, and the only path from a name in a request to a file.
//!
//! A requested path is never joined to a string and never checked before use. It is passed to
//! openat2(2) relative to the export's open root with `RESOLVE_BENEATH`, so the kernel refuses, at
//! every step of the walk, to leave the root: by `..`, by an absolute symbolic link, or by a link
//! that is swapped in during the walk. Operations without such a system call (unlink, rename, ...)
//! open the parent in this way and then act on one name in it.

//!
//! Rights by user and path are checked here, on the real path of the opened file ([`Permit`]). The
//! path comes from the descriptor, so no link and no rename during the walk can change it.

mod beneath;
mod directory_entry;
mod permit;
mod root;

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path as LocalPath;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use verbena_rfio_protocol::shown;
use verbena_rfio_protocol::types::Path;

pub use beneath::Beneath;
use beneath::reopen_seen;
pub use directory_entry::{DirectoryEntry, NameChange};
pub use permit::Permit;
use permit::denied;
use root::ExportPath;
pub use root::Root;

/// Access of clients below an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read files and attributes.
    ReadOnly,
    /// Read and modify.
    ReadWrite,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadOnly => "read-only",
            Self::ReadWrite => "read-write",
        })
    }
}

/// One exported directory.
#[derive(Debug)]
pub struct Export {
    name: Vec<u8>,
    pin: ExportPath,
    access: Access,
}

/// An error with a message for the client.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub struct ClientMessage {
    /// The error number.
    pub errno: Errno,
    /// The message.
    pub words: &'static str,
}

fn with_message(errno: Errno, words: &'static str) -> io::Error {
    io::Error::other(ClientMessage { errno, words })
}

/// A file opened without I/O, from the kernel's caches, on the export's own local file system.
#[derive(Debug)]
pub struct CachedFile {
    /// The file, open for reading.
    pub file: OwnedFd,
    /// The file's attributes.
    pub about: Stat,
    /// Whether its file system keeps all data in memory.
    pub is_of_memory: bool,
}

impl Export {
    /// Opens `directory` for export under `name`; the empty name makes it the root of the service.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn open(name: impl AsRef<[u8]>, directory: &LocalPath, access: Access) -> io::Result<Self> {
        Self::pinned(name, ExportPath::open(directory, false)?, access)
    }

    /// Opens a directory that must be a mount point, now and at every use.
    ///
    /// # Errors
    /// The directory cannot be opened or is not a mount point.
    pub fn open_mounted(
        name: impl AsRef<[u8]>,
        directory: &LocalPath,
        access: Access,
    ) -> io::Result<Self> {
        Self::pinned(name, ExportPath::open(directory, true)?, access)
    }

    fn pinned(name: impl AsRef<[u8]>, pin: ExportPath, access: Access) -> io::Result<Self> {
        Ok(Self {
            name: name.as_ref().to_vec(),
            pin,
            access,
        })
    }

    /// Returns the access of clients to this export.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Returns the directory's path on this host, for logs.
    pub fn directory(&self) -> String {
        shown::bytes(self.pin.path().as_os_str().as_bytes())
    }

    /// Returns whether this process can detect that the path leads to another directory.
    pub fn is_watched(&self) -> bool {
        self.pin.is_watched()
    }
}

/// Target of a requested path.
#[derive(Debug)]
pub enum PathTarget<'a> {
    /// Below an export.
    In(&'a Export, Beneath),
    /// The directory above several named exports; it exists only within the service.
    Above,
}

/// All exports of a service.
#[derive(Debug)]
pub struct Exports {
    exports: Vec<Export>,
}

/// Reason for which a set of exports is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadExports {
    /// No export.
    #[error("no directory is exported; name one with --export DIR")]
    None,
    /// Two exports with the same name.
    #[error("two exports have the name '{0}'; rename one with --export NAME=DIR")]
    Twice(String),
    /// A root export would hide named ones.
    #[error(
        "an export without a name is the root of the service, so it must be the only one; \
         use --export NAME=DIR"
    )]
    RootBesideOthers,
    /// A name with a slash.
    #[error("export name '{0}' must be a single path component")]
    Name(String),
}

impl Exports {
    /// Combines exports.
    ///
    /// # Errors
    /// Their names conflict or are invalid.
    pub fn new(exports: Vec<Export>) -> Result<Self, BadExports> {
        if exports.is_empty() {
            return Err(BadExports::None);
        }
        for (index, export) in exports.iter().enumerate() {
            let name = shown::bytes(&export.name);
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

    /// Iterates over all exports.
    pub fn iter(&self) -> impl Iterator<Item = &Export> {
        self.exports.iter()
    }

    /// Returns the names of the exports, for the directory above them.
    pub fn names(&self) -> impl Iterator<Item = (&[u8], Arc<Root>)> {
        self.exports
            .iter()
            .map(|export| (&export.name[..], export.pin.last()))
    }

    /// Resolves the paths of the exports again, as when they were opened.
    ///
    /// # Errors
    /// One of them cannot be exported. No export is changed then.
    pub fn reopen(&self) -> Result<(), String> {
        let found = self.exports.iter().map(|export| {
            let pin = &export.pin;
            let root = pin.look_again();
            root.map_err(|error| format!("export {}: {error}", export.directory()))
        });
        let found: Vec<_> = found.collect::<Result<_, _>>()?;
        for (export, root) in self.exports.iter().zip(found) {
            export.pin.take(root);
        }
        Ok(())
    }

    /// Finds the export that a path names. Purely textual: no file system lookup.
    ///
    /// # Errors
    /// ENOENT if no export has that name.
    pub(crate) fn locate(&self, path: &Path) -> io::Result<PathTarget<'_>> {
        let mut parts = path
            .as_bytes()
            .split(|&byte| byte == b'/')
            .filter(|part| !part.is_empty() && *part != b".");
        let export = match &self.exports[..] {
            [only] if only.name.is_empty() => only,
            several => match parts.next() {
                None => return Ok(PathTarget::Above),
                Some(name) => several
                    .iter()
                    .find(|export| export.name == name)
                    .ok_or(io::Error::from(Errno::NOENT))?,
            },
        };
        let relative = parts.collect::<Vec<_>>().join(&b'/');
        Ok(PathTarget::In(export, Beneath { relative }))
    }

    fn within(&self, path: &Path) -> io::Result<(&Export, Beneath)> {
        match self.locate(path)? {
            PathTarget::In(export, beneath) => Ok((export, beneath)),
            PathTarget::Above => Err(Errno::ISDIR.into()),
        }
    }

    /// Opens a path.
    ///
    /// # Errors
    /// The kernel's error, EROFS for a change of a read-only export, or a lack of rights.
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

    /// Opens a regular file. Other kinds of files are refused without being opened, since opening a
    /// FIFO or a device has side effects.
    ///
    /// # Errors
    /// As [`Exports::open`].
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

    /// Opens an existing regular file for reading, as [`Exports::open_file`] does, from the
    /// kernel's caches alone. Returns `None` if that would require I/O, or if another process holds
    /// a lease on the file.
    ///
    /// # Errors
    /// As [`Exports::open`].
    pub(crate) fn open_file_cached(
        &self,
        path: &Path,
        permit: &Permit<'_>,
    ) -> io::Result<Option<CachedFile>> {
        let (export, beneath) = self.within(path)?;
        let Some(root) = export.pin.recent() else {
            return Ok(None);
        };
        let seen = root.open_beneath_cached(&beneath, OFlags::PATH);
        let Some(seen) = permit.conceal(path, seen)? else {
            return Ok(None);
        };
        let seen = permit.conceal(path, export.permitted(&root, seen, permit))?;
        let about = rustix::fs::fstat(&seen)?;
        match reopen_seen(
            &seen,
            &about,
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY,
        ) {
            // Another process has a lease on the file (fcntl(2)).
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            opened => Ok(Some(CachedFile {
                file: opened?,
                about,
                is_of_memory: root.is_of_memory,
            })),
        }
    }

    /// Opens a path with `O_PATH`, which permits queries only. A final symbolic link is not
    /// followed if `flags` has `NOFOLLOW`.
    ///
    /// # Errors
    /// As [`Exports::open`].
    pub(crate) fn open_path(
        &self,
        path: &Path,
        flags: OFlags,
        permit: &Permit<'_>,
    ) -> io::Result<OwnedFd> {
        self.open(path, OFlags::PATH | flags, Mode::empty(), permit)
    }

    /// Like [`Exports::look`], from the kernel's caches alone; returns `None` if that would require
    /// I/O.
    ///
    /// # Errors
    /// As [`Exports::open`].
    pub(crate) fn open_path_cached(
        &self,
        path: &Path,
        flags: OFlags,
        permit: &Permit<'_>,
    ) -> io::Result<Option<OwnedFd>> {
        let (export, beneath) = self.within(path)?;
        let Some(root) = export.pin.recent() else {
            return Ok(None);
        };
        let seen = root.open_beneath_cached(&beneath, OFlags::PATH | flags);
        let seen = seen.and_then(|seen| {
            let permitted = seen.map(|seen| export.permitted(&root, seen, permit));
            permitted.transpose()
        });
        permit.conceal(path, seen)
    }

    /// Opens the parent of a path whose last name is to be created, changed or removed.
    ///
    /// # Errors
    /// As [`Exports::open`].
    pub fn name(&self, path: &Path, permit: &Permit<'_>) -> io::Result<DirectoryEntry> {
        let (export, beneath) = self.within(path)?;
        export.must_be_writable()?;
        let root = export.pin.current()?;
        let named = export.name(&root, &beneath, permit);
        permit.conceal(path, named)
    }

    /// Checks that a path may be modified.
    ///
    /// # Errors
    /// EROFS if its export is read-only.
    pub(crate) fn must_be_writable(&self, path: &Path) -> io::Result<()> {
        self.within(path)?.0.must_be_writable()
    }

    /// Returns whether any export may be modified.
    pub(crate) fn any_writable(&self) -> bool {
        self.exports
            .iter()
            .any(|export| export.access == Access::ReadWrite)
    }
}

/// Flags for opening a file to modify it.
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

    /// Opens a regular file, or creates one in a directory that was opened and checked first.
    fn open_file(
        &self,
        root: &Root,
        beneath: &Beneath,
        flags: OFlags,
        mode: Mode,
        permit: &Permit<'_>,
    ) -> io::Result<OwnedFd> {
        // A file that must be new is not looked up.
        let is_new = flags.contains(OFlags::CREATE | OFlags::EXCL);
        // Retried if the file was created or removed in between.
        for _ in 0..64 {
            if !is_new {
                let look = OFlags::PATH | (flags & OFlags::NOFOLLOW);
                match root.open_beneath(beneath, look, Mode::empty()) {
                    Ok(seen) => {
                        let seen = self.permitted(root, seen, permit)?;
                        let about = rustix::fs::fstat(&seen)?;
                        return reopen_seen(
                            &seen,
                            &about,
                            flags - OFlags::CREATE - OFlags::NOFOLLOW,
                        );
                    }
                    Err(error)
                        if flags.contains(OFlags::CREATE)
                            && error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => {}
                    Err(error) => return Err(error),
                }
            }
            if beneath.split().is_none() {
                return Err(Errno::ISDIR.into());
            }
            let ((parent, _), name) = self.open_parent(root, beneath, permit)?;
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let flags = flags | OFlags::EXCL | OFlags::CLOEXEC;
            match rustix::fs::openat2(&parent, name, flags, mode, resolve) {
                Err(Errno::EXIST) if !is_new => {}
                made => return Ok(made?),
            }
        }
        // A dangling link: it exists, but its target does not.
        Err(Errno::NOENT.into())
    }

    /// Returns the parent of a path, the real path of the name if rights are checked, and the name.
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

    fn name(
        &self,
        root: &Arc<Root>,
        beneath: &Beneath,
        permit: &Permit<'_>,
    ) -> io::Result<DirectoryEntry> {
        let ((parent, path), name) = self.open_parent(root, beneath, permit)?;
        Ok(DirectoryEntry {
            parent,
            name: name.to_owned(),
            root: Some(Arc::clone(root)),
            path,
        })
    }

    /// Returns the opened file if the user has the rights for it.
    fn permitted(&self, root: &Root, opened: OwnedFd, permit: &Permit<'_>) -> io::Result<OwnedFd> {
        if permit.rights.is_some() {
            permit.check(&self.real_path(root, &opened)?)?;
        }
        Ok(opened)
    }

    /// Returns the current path of an opened file, relative to the service's root.
    fn real_path(&self, root: &Root, opened: &OwnedFd) -> io::Result<Vec<u8>> {
        /// Suffix that the kernel appends to the path of an unlinked file.
        const LOST: &[u8] = b" (deleted)";
        // The root may be renamed between the two reads.
        for _ in 0..8 {
            let (above, path) = (path_of(root)?, path_of(opened)?);
            if path.ends_with(LOST) {
                return Err(with_message(
                    Errno::NOENT,
                    "it was removed, or its name ends in ' (deleted)', which rights by path do \
                     not support",
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

/// Returns the path of an open descriptor.
fn path_of(opened: impl AsFd) -> io::Result<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", opened.as_fd().as_raw_fd());
    Ok(std::fs::read_link(link)?.into_os_string().into_vec())
}

#[cfg(test)]
mod tests;
