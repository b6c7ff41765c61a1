//! Who lives, as the kernel knows it: every process holds a lock on a byte of its own (fcntl(2), open file description
//! locks), which goes when the process does.
//!
//! To ask costs one system call that is answered at once, whatever the other process is doing: it may be stopped, and
//! no queue of its can be full. The bytes lie behind the end of the registry file; locks need no bytes to be there.

use super::layout::{LENGTH, SLOTS};
use crate::errno::{Errno, Result};
use std::fs::File;
use std::os::fd::AsRawFd;

/// What became of an attempt to hold a slot's byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// It is ours.
    Held,
    /// A live process has it.
    Taken,
    /// The last process out has all of them, and is removing the registry.
    Closing,
}

#[derive(Clone, Copy)]
enum Kind {
    Exclusive = libc::F_WRLCK as isize,
    None = libc::F_UNLCK as isize,
}

fn range(kind: Kind, first: u32, count: usize) -> libc::flock {
    // SAFETY: an all-zero flock is valid; OFD locks want l_pid to be 0.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = LENGTH as libc::off_t + libc::off_t::from(first);
    lock.l_len = count as libc::off_t;
    lock
}

fn control(file: &File, command: libc::c_int, lock: &mut libc::flock) -> Result<()> {
    loop {
        // SAFETY: `lock` is valid and writable for the call, as these commands want it.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut *lock) } == 0 {
            return Ok(());
        }
        let error = Errno::last();
        if error != Errno(libc::EINTR) {
            return Err(error);
        }
    }
}

/// The lock of another open file that is in the way of holding these bytes, if there is one.
fn obstacle(file: &File, first: u32, count: usize) -> Result<Option<libc::flock>> {
    let mut lock = range(Kind::Exclusive, first, count);
    control(file, libc::F_OFD_GETLK, &mut lock)?;
    Ok((libc::c_int::from(lock.l_type) != libc::F_UNLCK).then_some(lock))
}

fn try_hold(file: &File, first: u32, count: usize) -> Result<bool> {
    let mut lock = range(Kind::Exclusive, first, count);
    match control(file, libc::F_OFD_SETLK, &mut lock) {
        Ok(()) => Ok(true),
        Err(Errno(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Tries to hold the byte of a slot.
pub(super) fn claim(file: &File, slot: u32) -> Result<Claim> {
    if try_hold(file, slot, 1)? {
        return Ok(Claim::Held);
    }
    Ok(match obstacle(file, slot, 1)? {
        Some(lock) if lock.l_len != 1 => Claim::Closing,
        _ => Claim::Taken,
    })
}

/// Lets the byte of a slot go.
pub(super) fn release(file: &File, slot: u32) {
    let _ = control(file, libc::F_OFD_SETLK, &mut range(Kind::None, slot, 1));
}

/// Whether a process lives in a slot. Asked through the file that holds the slot itself, the answer is no.
pub(super) fn is_held(file: &File, slot: u32) -> bool {
    // What cannot be asked is taken for alive: to take the slot of a live process would break it.
    obstacle(file, slot, 1).map_or(true, |lock| lock.is_some())
}

/// Whether no process holds anything of a registry, whatever its layout. Nobody can enter meanwhile
/// who does not find it removed afterwards: he waits for the lock, or sees that the file has no
/// name.
pub(super) fn nobody_lives(file: &File) -> bool {
    let mut everything = range(Kind::Exclusive, 0, 0);
    everything.l_start = 0;
    control(file, libc::F_OFD_SETLK, &mut everything).is_ok()
}

/// All slots, held so that nobody else can enter; None while anybody lives.
pub(super) struct Alone<'a>(&'a File);

impl<'a> Alone<'a> {
    pub(super) fn claim(file: &'a File) -> Option<Alone<'a>> {
        matches!(try_hold(file, 0, SLOTS), Ok(true)).then_some(Alone(file))
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        let _ = control(self.0, libc::F_OFD_SETLK, &mut range(Kind::None, 0, SLOTS));
    }
}
