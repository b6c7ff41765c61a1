//! Exported directories, and the only way from a path in a request to a file.
//!
//! A path is never joined to a string and never checked before it is used: it is handed to openat2(2) relative to the
//! export's open root with `RESOLVE_BENEATH`, so the kernel itself refuses, at every step of the walk, to leave it:
//! by `..`, by an absolute symbolic link, or by a link that is swapped in while the walk is under way. The operations
//! for which Linux has no such call (unlink, rename, ...) open the parent in this way and then act on one name in it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path as LocalPath, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use verbena_rfio_protocol::types::Path;

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
    root: OwnedFd,
    directory: PathBuf,
    access: Access,
    /// Whether the kernel knows the attributes of what it has looked up, without asking a server or a process.
    is_local: bool,
    /// Whether its file system has no storage but memory.
    is_of_memory: bool,
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

/// File systems whose attributes the kernel keeps itself (statfs(2)).
const LOCAL: [libc::c_long; 8] = [
    libc::EXT4_SUPER_MAGIC,
    libc::XFS_SUPER_MAGIC,
    libc::BTRFS_SUPER_MAGIC,
    libc::F2FS_SUPER_MAGIC,
    libc::TMPFS_MAGIC,
    libc::OVERLAYFS_SUPER_MAGIC,
    RAMFS,
    ZFS,
];
const RAMFS: libc::c_long = 0x8584_58f6;
const ZFS: libc::c_long = 0x2fc1_2fc1;

impl Export {
    /// Opens `directory` for export under `name`; the empty name makes it the root of the service.
    pub fn open(name: &str, directory: &LocalPath, access: Access) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(directory, flags, Mode::empty())?;
        let kind = rustix::fs::fstatfs(&root).map(|system| system.f_type as libc::c_long);
        Ok(Self {
            name: name.as_bytes().to_vec(),
            root,
            directory: directory.to_owned(),
            access,
            is_local: kind.is_ok_and(|kind| LOCAL.contains(&kind)),
            is_of_memory: kind == Ok(libc::TMPFS_MAGIC),
        })
    }

    /// What clients may do here.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The directory on this host, for logs.
    pub fn directory(&self) -> &LocalPath {
        &self.directory
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
    pub name: std::ffi::OsString,
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
    pub fn names(&self) -> impl Iterator<Item = (&[u8], BorrowedFd<'_>)> {
        self.exports
            .iter()
            .map(|export| (&export.name[..], export.root.as_fd()))
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
    pub fn open(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let (export, beneath) = self.within(path)?;
        let changes =
            OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::APPEND;
        if flags.intersects(changes) && !flags.contains(OFlags::PATH) {
            export.must_be_writable()?;
        }
        export.open_beneath(&beneath, flags, mode)
    }

    /// Opens a regular file. What else a path names is refused without being opened: to open a FIFO or a device is to do
    /// something to it.
    pub fn open_file(&self, path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let (export, beneath) = self.within(path)?;
        let changes =
            OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::APPEND;
        if flags.intersects(changes) {
            export.must_be_writable()?;
        }
        // A file that must not be there is not opened but made.
        if flags.contains(OFlags::CREATE | OFlags::EXCL) {
            return export.open_beneath(&beneath, flags, mode);
        }
        // Made or removed in between: tried again.
        for _ in 0..64 {
            let look = OFlags::PATH | (flags & OFlags::NOFOLLOW);
            match export.open_beneath(&beneath, look, Mode::empty()) {
                Ok(seen) => {
                    let about = rustix::fs::fstat(&seen)?;
                    return open_seen(&seen, &about, flags - OFlags::CREATE - OFlags::NOFOLLOW);
                }
                Err(error)
                    if flags.contains(OFlags::CREATE)
                        && error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) =>
                {
                    match export.open_beneath(&beneath, flags | OFlags::EXCL, mode) {
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

    /// Opens a regular file that is there for reading, as [`Exports::open_file`] does, by what the kernel remembers alone;
    /// `None` where it would have to ask storage, or somebody who has the file to himself.
    pub fn open_file_at_once(&self, path: &Path) -> io::Result<Option<Remembered>> {
        let (export, beneath) = self.within(path)?;
        let Some(seen) = export.look_beneath_at_once(&beneath, OFlags::PATH)? else {
            return Ok(None);
        };
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
                is_of_memory: export.is_of_memory,
            })),
        }
    }

    /// Opens what a path names without the right to do anything but ask about it. A final symbolic link is not followed
    /// when `flags` has `NOFOLLOW`.
    pub fn look(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let (export, beneath) = self.within(path)?;
        export.open_beneath(&beneath, OFlags::PATH | flags, Mode::empty())
    }

    /// As [`Exports::look`], by what the kernel remembers alone; `None` where it would have to ask storage.
    pub fn look_at_once(&self, path: &Path, flags: OFlags) -> io::Result<Option<OwnedFd>> {
        let (export, beneath) = self.within(path)?;
        export.look_beneath_at_once(&beneath, OFlags::PATH | flags)
    }

    /// Opens the parent of a path of which the last name is to be made, changed or removed.
    pub fn name(&self, path: &Path) -> io::Result<Named> {
        let (export, beneath) = self.within(path)?;
        export.must_be_writable()?;
        let (parent, name) = beneath.split().ok_or(io::Error::from(Errno::BUSY))?;
        let parent =
            export.open_beneath(&parent, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Named {
            parent,
            name: name.to_owned(),
        })
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

impl Export {
    fn must_be_writable(&self) -> io::Result<()> {
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(Errno::ROFS.into()),
        }
    }

    fn open_beneath(&self, beneath: &Beneath, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        // EAGAIN: the kernel saw a rename race with a `..` and asks to try again (openat2(2)).
        for _ in 0..64 {
            match rustix::fs::openat2(&self.root, beneath.as_os_str(), flags, mode, resolve) {
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
        match rustix::fs::openat2(
            &self.root,
            beneath.as_os_str(),
            flags,
            Mode::empty(),
            resolve,
        ) {
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
        let file = exports.open(&path(name), OFlags::RDONLY, Mode::empty())?;
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
            assert!(exports.open_file(&path("/fifo"), flags, mode).is_err());
        }
        let seen = rustix::io::read(&watch, &mut [0u8; 256]);
        assert_eq!(seen.unwrap_err(), Errno::AGAIN, "the FIFO was opened");
        assert!(
            exports
                .open_file(&path("/sub"), OFlags::RDONLY, Mode::empty())
                .is_err()
        );
        for name in ["/new", "/sub/file", "/new"] {
            let mode = Mode::from_raw_mode(0o600);
            exports.open_file(&path(name), create, mode).unwrap();
        }
        symlink("nowhere", scratch.path("root/dangling")).unwrap();
        assert!(
            exports
                .open_file(&path("/dangling"), create, Mode::empty())
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
                exports.name(&path(&format!("{name}/new"))).is_err(),
                "{name}"
            );
        }
        assert!(exports.name(&path("/../new")).is_err());
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
    fn a_read_only_export_refuses_changes() {
        let scratch = Scratch::new();
        let exports = exports(&scratch, Access::ReadOnly);
        let flags = OFlags::WRONLY | OFlags::CREATE;
        assert!(
            exports
                .open(&path("/new"), flags, Mode::from_raw_mode(0o600))
                .is_err()
        );
        assert!(exports.name(&path("/new")).is_err());
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
