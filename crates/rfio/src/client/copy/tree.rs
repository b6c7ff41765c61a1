//! Directories, with everything in them.
//!
//! Small files travel whole, one request each, many requests ahead, over as many sessions as the user allows: their cost
//! is the latency of a request, and that is hidden. Large ones are copied one by one. An error stops one file, not the
//! tree.

use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path as LocalPath, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use verbena_rfio_protocol::request::{Fetch, List, OnPath, PathMode, Store, TwoPaths};
use verbena_rfio_protocol::types::{Attributes, Entry, Path};
use verbena_rfio_protocol::{Reply, Request};

use super::local::{About, CopyError, partial_name};
use super::progress::Progress;
use super::{Earlier, Manner, copy_file};
use crate::checksum;
use crate::client::address::{Address, Location};
use crate::client::error::Error;
use crate::client::session::{Session, unexpected};

/// Largest file that travels whole.
const SMALL: u64 = 256 << 10;

/// Small files under way on one session.
const AHEAD: usize = 32;

/// Files collected before they are moved, which bounds the memory that a large tree takes.
const BATCH: usize = 8192;

/// Where errors go; a tree goes on after them.
pub type OnError<'a> = &'a (dyn Fn(CopyError) + Sync);

/// Copies a directory and everything in it.
pub fn copy_tree(
    from: &Location,
    to: &Location,
    manner: &Manner,
    progress: &Progress,
    on_error: OnError<'_>,
) -> Result<(), CopyError> {
    match (from, to) {
        (Location::Remote(address, path), Location::Local(local)) => Download {
            address,
            manner,
            progress,
            on_error,
        }
        .run(path, local),
        (Location::Local(local), Location::Remote(address, path)) => Upload {
            address,
            manner,
            progress,
            on_error,
        }
        .run(local, path),
        _ => Err(CopyError {
            subject: "-r".into(),
            error: Error::Setup(
                "a tree is copied between a service and here; use cp -r for two local directories"
                    .into(),
            ),
        }),
    }
}

fn sessions(address: &Address, manner: &Manner) -> Result<Vec<Session>, CopyError> {
    (0..manner.parallel.max(1))
        .map(|_| Session::connect(address, &manner.options))
        .collect::<Result<_, _>>()
        .about(address)
}

fn below(directory: &Path, name: &[u8]) -> Result<Path, Error> {
    let parent = directory.as_bytes();
    let slash: &[u8] = if parent.ends_with(b"/") { b"" } else { b"/" };
    Path::new([parent, slash, name].concat()).ok_or_else(|| Error::Setup("path too long".into()))
}

/// A name in a listing that would lead elsewhere than into its directory is an attack or a bug.
fn is_plain_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&b'/') && name != b"." && name != b".."
}

/// Deals items out to one thread per session; each thread keeps several requests ahead.
fn pipeline<Item: Sync>(
    sessions: &mut [Session],
    items: &[Item],
    send: impl Fn(&mut Session, &Item) -> Result<bool, CopyError> + Sync,
    receive: impl Fn(&mut Session, &Item) -> Result<(), CopyError> + Sync,
    on_error: OnError<'_>,
) {
    let next = AtomicUsize::new(0);
    let run = |session: &mut Session| {
        let mut ahead = VecDeque::new();
        loop {
            while ahead.len() < AHEAD.min(session.terms().most_requests as usize) {
                let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) else {
                    break;
                };
                match send(session, item) {
                    Ok(true) => ahead.push_back(item),
                    Ok(false) => {}
                    Err(error) => on_error(error),
                }
            }
            let Some(item) = ahead.pop_front() else {
                return;
            };
            if let Err(error) = receive(session, item) {
                on_error(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for session in sessions {
            scope.spawn(|| run(session));
        }
    });
}

struct Download<'a> {
    address: &'a Address,
    manner: &'a Manner,
    progress: &'a Progress,
    on_error: OnError<'a>,
}

struct Wanted {
    path: Path,
    local: PathBuf,
}

impl Download<'_> {
    fn run(&self, path: &Path, local: &LocalPath) -> Result<(), CopyError> {
        let mut sessions = sessions(self.address, self.manner)?;
        let mut directories = vec![(path.clone(), local.to_owned())];
        let (mut small, mut large) = (Vec::new(), Vec::new());
        while let Some((path, local)) = directories.pop() {
            match fs::create_dir(&local) {
                Err(error)
                    if error.kind() == std::io::ErrorKind::AlreadyExists && local.is_dir() => {}
                other => other.about(local.display())?,
            }
            let entries = match list(&mut sessions[0], &path) {
                Ok(entries) => entries,
                Err(error) => {
                    (self.on_error)(CopyError {
                        subject: format!("{}{path}", self.address),
                        error,
                    });
                    continue;
                }
            };
            for entry in entries {
                let name = entry.name.as_bytes();
                let wanted = if is_plain_name(name) {
                    below(&path, name)
                } else {
                    Err(Error::Protocol(format!(
                        "it lists the name '{}'",
                        entry.name
                    )))
                };
                let path = match wanted {
                    Ok(path) => path,
                    Err(error) => {
                        (self.on_error)(CopyError {
                            subject: format!("{}{path}", self.address),
                            error,
                        });
                        continue;
                    }
                };
                let local = local.join(std::ffi::OsStr::from_bytes(name));
                let about = entry.attributes;
                match about.mode & libc::S_IFMT {
                    libc::S_IFDIR => directories.push((path, local)),
                    libc::S_IFLNK => self.link(&mut sessions[0], &path, &local),
                    libc::S_IFREG if self.is_there(&local, &about) => {
                        self.progress.expect(about.size);
                        self.progress.kept(about.size);
                        self.progress.file();
                    }
                    libc::S_IFREG if about.size <= SMALL => {
                        self.progress.expect(about.size);
                        small.push(Wanted { path, local });
                    }
                    libc::S_IFREG => large.push(Wanted { path, local }),
                    // Devices, sockets and FIFOs are not data.
                    _ => {}
                }
            }
            if small.len() >= BATCH {
                self.fetch(&mut sessions, &std::mem::take(&mut small), &mut large);
            }
        }
        self.fetch(&mut sessions, &small, &mut large);
        drop(sessions);
        for Wanted { path, local } in large {
            let from = Location::Remote(self.address.clone(), path);
            if let Err(error) =
                copy_file(&from, &Location::Local(local), self.manner, self.progress)
            {
                (self.on_error)(error);
            }
        }
        Ok(())
    }

    /// Whether an earlier attempt brought this very file.
    fn is_there(&self, local: &LocalPath, about: &Attributes) -> bool {
        self.manner.earlier == Earlier::Continue
            && fs::symlink_metadata(local).is_ok_and(|have| {
                let modified = have
                    .mtime()
                    .saturating_mul(1_000_000_000)
                    .saturating_add(have.mtime_nsec());
                have.is_file() && have.len() == about.size && modified == about.modified
            })
    }

    fn link(&self, session: &mut Session, path: &Path, local: &LocalPath) {
        let copied = match session.call(&Request::ReadLink(OnPath { path: path.clone() })) {
            Ok(Reply::Target(target)) => {
                let target = std::ffi::OsString::from_vec(target.path.as_bytes().to_vec());
                match std::os::unix::fs::symlink(&target, local) {
                    Err(_) if fs::read_link(local).is_ok_and(|have| have == *target) => Ok(()),
                    other => other.about(local.display()),
                }
            }
            Ok(other) => Err(unexpected(&other)).about(path),
            Err(error) => Err(error).about(path),
        };
        copied.unwrap_or_else(self.on_error);
    }

    fn fetch(&self, sessions: &mut [Session], wanted: &[Wanted], large: &mut Vec<Wanted>) {
        let grown = Mutex::new(Vec::new());
        let send = |session: &mut Session, wanted: &Wanted| {
            let request = Request::Fetch(Fetch {
                path: wanted.path.clone(),
                most: SMALL as u32,
            });
            session
                .send(&request, &[])
                .about(&wanted.path)
                .map(|_| true)
        };
        let receive = |session: &mut Session, wanted: &Wanted| {
            let mut bytes = vec![0; SMALL as usize];
            let (reply, length) = session.receive(&mut bytes).about(&wanted.path)?;
            let Reply::Fetched(fetched) = reply else {
                return Err(unexpected(&reply)).about(&wanted.path);
            };
            if !fetched.whole {
                let (path, local) = (wanted.path.clone(), wanted.local.clone());
                grown
                    .lock()
                    .unwrap_or_else(|poison| poison.into_inner())
                    .push(Wanted { path, local });
                return Ok(());
            }
            let bytes = &bytes[..length];
            let found = checksum::crc32c(bytes);
            if found != fetched.checksum {
                return Err(Error::Damaged {
                    offset: 0,
                    expected: fetched.checksum,
                    found,
                })
                .about(&wanted.path);
            }
            write_whole(&wanted.local, bytes, &fetched.attributes).about(wanted.local.display())?;
            self.progress.moved(length as u64);
            self.progress.file();
            Ok(())
        };
        pipeline(sessions, wanted, send, receive, self.on_error);
        large.append(
            &mut grown
                .into_inner()
                .unwrap_or_else(|poison| poison.into_inner()),
        );
    }
}

/// Everything in a directory.
pub fn list(session: &mut Session, path: &Path) -> Result<Vec<Entry>, Error> {
    let (mut entries, mut cookie) = (Vec::new(), 0);
    loop {
        let request = Request::List(List {
            path: path.clone(),
            cookie,
            count: 4096,
        });
        match session.call(&request)? {
            Reply::Listing(mut listing) => {
                entries.append(&mut listing.entries);
                if listing.cookie == 0 {
                    return Ok(entries);
                }
                cookie = listing.cookie;
            }
            other => return Err(unexpected(&other)),
        }
    }
}

/// Makes a small file: complete under its name or not at all.
fn write_whole(local: &LocalPath, bytes: &[u8], about: &Attributes) -> std::io::Result<()> {
    let name = local.file_name().unwrap_or_default();
    let mut partial = partial_name(name.as_bytes());
    partial.extend_from_slice(format!("{:x}", std::process::id() & 0xff).as_bytes());
    let partial = local.with_file_name(std::ffi::OsString::from_vec(partial));
    let write = || {
        let mut options = fs::OpenOptions::new();
        options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(about.mode & 0o777)
            .custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(&partial)?;
        file.write_all(bytes)?;
        let since = std::time::Duration::from_nanos(about.modified.max(0) as u64);
        file.set_modified(std::time::UNIX_EPOCH + since)?;
        fs::rename(&partial, local)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&partial);
    })
}

struct Upload<'a> {
    address: &'a Address,
    manner: &'a Manner,
    progress: &'a Progress,
    on_error: OnError<'a>,
}

impl Upload<'_> {
    fn run(&self, local: &LocalPath, path: &Path) -> Result<(), CopyError> {
        let mut sessions = sessions(self.address, self.manner)?;
        let mut directories = vec![(local.to_owned(), path.clone())];
        let (mut small, mut large) = (Vec::new(), Vec::new());
        while let Some((local, path)) = directories.pop() {
            let mode = fs::metadata(&local)
                .about(local.display())?
                .permissions()
                .mode()
                & 0o777;
            match sessions[0].call(&Request::MakeDirectory(PathMode {
                path: path.clone(),
                mode,
            })) {
                Err(error) if error.errno() == Some(libc::EEXIST) => {}
                // The root of an export cannot be made, and is there.
                Err(error) if error.errno() == Some(libc::EBUSY) => {}
                other => other.map(|_| ()).about(&path)?,
            }
            for entry in fs::read_dir(&local).about(local.display())? {
                let entry = entry.about(local.display())?;
                let result = (|| {
                    let kind = entry.file_type().about(entry.path().display())?;
                    let path =
                        below(&path, entry.file_name().as_bytes()).about(entry.path().display())?;
                    if kind.is_dir() {
                        directories.push((entry.path(), path));
                    } else if kind.is_symlink() {
                        self.link(&mut sessions[0], &entry.path(), &path)?;
                    } else if kind.is_file() {
                        let size = entry.metadata().about(entry.path().display())?.len();
                        if size <= SMALL.min(sessions[0].terms().most_payload.into()) {
                            self.progress.expect(size);
                            small.push((entry.path(), path));
                        } else {
                            large.push((entry.path(), path));
                        }
                    }
                    Ok(())
                })();
                result.unwrap_or_else(self.on_error);
            }
            if small.len() >= BATCH {
                self.store(&mut sessions, &std::mem::take(&mut small));
            }
        }
        self.store(&mut sessions, &small);
        drop(sessions);
        for (local, path) in large {
            let to = Location::Remote(self.address.clone(), path);
            if let Err(error) = copy_file(&Location::Local(local), &to, self.manner, self.progress)
            {
                (self.on_error)(error);
            }
        }
        Ok(())
    }

    fn link(&self, session: &mut Session, local: &LocalPath, path: &Path) -> Result<(), CopyError> {
        let target = fs::read_link(local).about(local.display())?;
        let from = Path::new(target.into_os_string().into_vec())
            .ok_or_else(|| Error::Setup("link too long".into()))
            .about(local.display())?;
        match session.call(&Request::MakeLink(TwoPaths {
            from,
            to: path.clone(),
        })) {
            Err(error) if error.errno() == Some(libc::EEXIST) => Ok(()),
            other => other.map(|_| ()).about(path),
        }
    }

    fn store(&self, sessions: &mut [Session], wanted: &[(PathBuf, Path)]) {
        let send = |session: &mut Session, (local, path): &(PathBuf, Path)| {
            let bytes = fs::read(local).about(local.display())?;
            let about = fs::metadata(local).about(local.display())?;
            let request = Request::Store(Store {
                path: path.clone(),
                mode: about.permissions().mode() & 0o777,
                modified: about
                    .mtime()
                    .saturating_mul(1_000_000_000)
                    .saturating_add(about.mtime_nsec()),
                checksum: checksum::crc32c(&bytes),
            });
            session.send(&request, &bytes).about(path)?;
            self.progress.moved(bytes.len() as u64);
            Ok(true)
        };
        let receive = |session: &mut Session, (_, path): &(PathBuf, Path)| {
            session.receive(&mut []).about(path)?;
            self.progress.file();
            Ok(())
        };
        pipeline(sessions, wanted, send, receive, self.on_error);
    }
}
