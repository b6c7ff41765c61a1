//! The reaper: sends the messages in the death record ([`crate::death_record`]) of a killed process
//! of this host in its name, so that its peers on other hosts are informed as a kernel would do it.
//!
//! Every process with a connection manager looks for death records, and the first to lock one sends
//! it. It looks when inotify reports that a death record was closed, as happens when a process
//! exits; when it probes its own peers; and when another host probes this one, as the process that
//! receives the probe may have no peers of its own yet. If no process is left, nothing is sent: the
//! host then has no RoCE port any more, which [`crate::probe`] notices; or the next process to
//! start sends it.
//!
//! The answers go to a socket that no process reads any more, so every message is sent several
//! times. A peer that receives it again just answers again.

use crate::death_record;
use crate::outbox::send;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FlockOperation, OFlags, flock};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use verbena_hca::process::Process;
use verbena_hca_net::roce::management::CmMad;
use verbena_hca_os::errno::{Errno, Result};

/// Intervals between repetitions of a message, in nanoseconds.
const PAUSES: [u64; 4] = [100_000_000, 250_000_000, 500_000_000, 1_000_000_000];

/// The death records of this host.
pub struct Reaper {
    directory: PathBuf,
    /// inotify watch for closed death records. Without it they are found later.
    closed: Option<OwnedFd>,
    pending: Vec<Pending>,
}

/// A death record that this process sends.
struct Pending {
    /// Locked, so that no other process sends it.
    _file: File,
    name: OsString,
    cm_mads: Vec<CmMad>,
    times_sent: usize,
    next: u64,
}

impl Reaper {
    /// Opens the death records of the runtime directory.
    ///
    /// # Errors
    /// Those of [`death_record::directory`].
    pub fn open() -> Result<Reaper> {
        let directory = death_record::directory(&Process::current()?.directory()?)?;
        let watch = || {
            let closed = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            inotify::add_watch(&closed, &directory, WatchFlags::CLOSE_WRITE)?;
            Ok::<_, rustix::io::Errno>(closed)
        };
        Ok(Reaper {
            closed: watch().ok(),
            directory,
            pending: Vec::new(),
        })
    }

    /// Returns the descriptor that is readable when a death record was closed.
    pub(crate) fn closed(&self) -> Option<BorrowedFd<'_>> {
        self.closed.as_ref().map(AsFd::as_fd)
    }

    /// Locks the death records of dead processes that no other process has locked.
    pub(crate) fn lock_dead(&mut self, now: u64) {
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
            let owner = name.to_str().and_then(death_record::process_of);
            let lives = owner.is_none_or(|owner| member.registry.is_alive(owner));
            if !lives && let Ok((file, cm_mads)) = open(&entry.path()) {
                self.pending.push(Pending {
                    _file: file,
                    name,
                    cm_mads,
                    times_sent: 0,
                    next: now,
                });
            }
        }
    }

    /// Sends the messages that are due, and returns the times at which the next ones are.
    pub(crate) fn send_due(&mut self, now: u64) -> BTreeSet<u64> {
        for record in self.pending.iter_mut().filter(|of| of.next <= now) {
            record.cm_mads.iter().for_each(send);
            match PAUSES
                .get(record.times_sent)
                .filter(|_| !record.cm_mads.is_empty())
            {
                Some(pause) => {
                    record.times_sent += 1;
                    record.next = now + pause;
                }
                None => {
                    let _ = fs::remove_file(self.directory.join(&record.name));
                }
            }
        }
        self.pending.retain(|of| of.next > now);
        self.pending.iter().map(|of| of.next).collect()
    }
}

/// Opens and locks a death record. Anything but a regular file is refused: a pipe would block, and
/// an endless file would fill the memory.
fn open(path: &Path) -> Result<(File, Vec<CmMad>)> {
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
    (&file)
        .take(death_record::LONGEST)
        .read_to_end(&mut bytes)?;
    Ok((file, death_record::cm_mads(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use std::os::unix::fs::symlink;

    #[test]
    fn files_that_are_no_death_records_are_left_alone() {
        let directory =
            std::env::temp_dir().join(format!("verbena-death-records-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let [death_record, pipe, link] = ["1.1", "2.1", "3.1"].map(|name| directory.join(name));
        File::create(&death_record)
            .unwrap()
            .set_len(1 << 40)
            .unwrap();
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        symlink(&death_record, &link).unwrap();
        assert!(open(&pipe).is_err() && open(&link).is_err() && open(&directory).is_err());
        let (_locked, cm_mads) = open(&death_record).expect("it is long, and a file");
        assert!(cm_mads.is_empty());
        assert!(open(&death_record).is_err(), "another process sends it");
        fs::remove_dir_all(directory).unwrap();
    }
}
