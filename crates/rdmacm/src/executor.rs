//! Speaking for those who were killed: what a process of this host has left to be said ([`crate::will`]) leaves in its
//! name, so that its peers at other hosts are told as a kernel would tell them.
//!
//! Everybody with a connection manager looks, and the first to lock a will executes it. He looks when the kernel says that
//! somebody has closed his will, as it does when a process ends (inotify); when he asks after his own peers; and when
//! somebody at another host asks whether we are still there, for then it is a process that may have none yet.
//! If nobody is left, nothing is said: then the host has no RoCE port any more, which is what [`crate::probe`] sees; or the
//! next process to come says it.
//!
//! The answers go to a socket that nobody reads any more, so everything is said a few times. Who hears it again answers
//! again, and that is all.

use crate::alarm::Alarm;
use crate::post::send;
use crate::service::State;
use crate::thread::Source;
use crate::will;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FlockOperation, OFlags, flock};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use verbena_hca::errno::{Errno, Result};
use verbena_hca::process::Process;
use verbena_hca::roce::management::Letter;
use verbena_hca::sys::clock;

/// How long after its files somebody who ends gives its place in the registry up, at most: it is looked after each of them.
const AFTERWARDS: [u64; 3] = [5_000_000, 100_000_000, 1_000_000_000];
/// Pauses between the times that something is said.
const PAUSES: [u64; 4] = [100_000_000, 250_000_000, 500_000_000, 1_000_000_000];

/// The wills of this host.
pub struct Executor {
    directory: PathBuf,
    /// Tells that somebody has closed his will. Without it wills are found later.
    closed: Option<OwnedFd>,
    executing: Vec<Execution>,
}

/// A will that we execute.
struct Execution {
    /// Locked, so that nobody else does.
    _file: File,
    name: OsString,
    letters: Vec<Letter>,
    said: usize,
    next: u64,
}

impl Executor {
    /// That of a runtime directory.
    ///
    /// # Errors
    /// As [`will::directory`].
    pub fn open() -> Result<Executor> {
        let directory = will::directory(&Process::current()?.directory()?)?;
        let watch = || {
            let closed = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            inotify::add_watch(&closed, &directory, WatchFlags::CLOSE_WRITE)?;
            Ok::<_, rustix::io::Errno>(closed)
        };
        Ok(Executor {
            closed: watch().ok(),
            directory,
            executing: Vec::new(),
        })
    }

    fn closed(&self) -> Option<BorrowedFd<'_>> {
        self.closed.as_ref().map(AsFd::as_fd)
    }

    /// Takes the wills on of those who are dead, that nobody else executes.
    fn take_on(&mut self, now: u64) {
        let Ok(process) = Process::current() else {
            return;
        };
        let Ok(member) = process.join() else {
            return;
        };
        for entry in fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            let author = name.to_str().and_then(will::author);
            let lives = author.is_none_or(|author| member.registry.is_alive(author));
            if !lives && let Ok((file, letters)) = open(&entry.path()) {
                self.executing.push(Execution {
                    _file: file,
                    name,
                    letters,
                    said: 0,
                    next: now,
                });
            }
        }
    }

    /// Says what is due, and when something is due again.
    fn speak(&mut self, now: u64) -> BTreeSet<u64> {
        for execution in self.executing.iter_mut().filter(|of| of.next <= now) {
            execution.letters.iter().for_each(send);
            match PAUSES
                .get(execution.said)
                .filter(|_| !execution.letters.is_empty())
            {
                Some(pause) => {
                    execution.said += 1;
                    execution.next = now + pause;
                }
                None => {
                    let _ = fs::remove_file(self.directory.join(&execution.name));
                }
            }
        }
        self.executing.retain(|of| of.next > now);
        self.executing.iter().map(|of| of.next).collect()
    }
}

/// Opens a will that nobody else executes. What is none (a pipe would keep us waiting, an endless file would fill the
/// memory) is left alone.
fn open(path: &Path) -> Result<(File, Vec<Letter>)> {
    let alone = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(alone.bits() as i32)
        .open(path)?;
    let is_file = file.metadata().is_ok_and(|about| about.is_file());
    if !is_file {
        return Err(Errno::EINVAL);
    }
    flock(&file, FlockOperation::NonBlockingLockExclusive)
        .map_err(|error| Errno(error.raw_os_error()))?;
    let mut bytes = Vec::new();
    (&file).take(will::LONGEST).read_to_end(&mut bytes)?;
    Ok((file, will::letters(&bytes)))
}

impl State {
    /// Begins to look for wills, and executes those that there are.
    ///
    /// # Errors
    /// As [`Executor::open`] and [`crate::thread::Watch::add`].
    pub fn execute_wills_from_now_on(&mut self) -> Result<()> {
        let executor = self.executor.insert(Executor::open()?);
        if let Some(closed) = executor.closed() {
            self.watch.add(closed, Source::Wills)?;
        }
        self.execute_wills();
        Ok(())
    }

    /// Somebody has closed his will, and will be dead at once.
    pub fn will_was_closed(&mut self) {
        if let Some(closed) = self.executor.as_ref().and_then(Executor::closed) {
            let mut events = [0; 4096];
            while rustix::io::read(closed, &mut events).is_ok_and(|length| length > 0) {}
        }
        let now = clock::now();
        for later in AFTERWARDS {
            self.set_alarm(now + later, Alarm::Wills);
        }
    }

    /// Looks for wills of the dead, and says what is due of them.
    pub fn execute_wills(&mut self) {
        let now = clock::now();
        let Some(executor) = self.executor.as_mut() else {
            return;
        };
        executor.take_on(now);
        for due in executor.speak(now) {
            self.set_alarm(due, Alarm::Wills);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_no_will_is_left_alone() {
        let directory = std::env::temp_dir().join(format!("verbena-wills-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let [will, pipe, link] = ["1.1", "2.1", "3.1"].map(|name| directory.join(name));
        File::create(&will).unwrap().set_len(1 << 40).unwrap();
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        symlink(&will, &link).unwrap();
        assert!(open(&pipe).is_err() && open(&link).is_err() && open(&directory).is_err());
        let (_locked, letters) = open(&will).expect("it is long, and a file");
        assert!(letters.is_empty());
        assert!(open(&will).is_err(), "somebody else executes it");
        fs::remove_dir_all(directory).unwrap();
    }
}
