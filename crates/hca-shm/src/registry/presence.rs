//! Presence of live processes, as the kernel knows it: every process holds a lock on its own
//! byte (fcntl(2), open file description locks), which ends with the process.
//!
//! A query costs one system call that returns at once in any state of the other process: it
//! may be stopped, and there is no queue that could be full. The bytes lie behind the end of the
//! registry file; locks need no bytes there.

use super::layout::{LENGTH, SLOTS};
use std::fs::File;
use std::os::fd::AsRawFd;
use verbena_hca_os::errno::{Errno, Result};

/// Result of an attempt to lock a slot's byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotLock {
    /// The caller holds it.
    Held,
    /// A live process holds it.
    Taken,
    /// The last process to leave holds all of them and is removing the registry.
    Closing,
}

#[derive(Clone, Copy)]
enum LockKind {
    Exclusive = libc::F_WRLCK as isize,
    None = libc::F_UNLCK as isize,
}

fn range(kind: LockKind, first: u32, count: usize) -> libc::flock {
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
        // SAFETY: `lock` is valid and writable for the call, as these commands require.
        if unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut *lock) } == 0 {
            return Ok(());
        }
        let error = Errno::last();
        if error != Errno(libc::EINTR) {
            return Err(error);
        }
    }
}

/// Returns the lock of another open file that conflicts with these bytes, if there is one.
fn obstacle(file: &File, first: u32, count: usize) -> Result<Option<libc::flock>> {
    let mut lock = range(LockKind::Exclusive, first, count);
    control(file, libc::F_OFD_GETLK, &mut lock)?;
    Ok((libc::c_int::from(lock.l_type) != libc::F_UNLCK).then_some(lock))
}

fn try_hold(file: &File, first: u32, count: usize) -> Result<bool> {
    let mut lock = range(LockKind::Exclusive, first, count);
    match control(file, libc::F_OFD_SETLK, &mut lock) {
        Ok(()) => Ok(true),
        Err(Errno(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Tries to lock the byte of a slot.
pub(super) fn try_lock(file: &File, slot: u32) -> Result<SlotLock> {
    if try_hold(file, slot, 1)? {
        return Ok(SlotLock::Held);
    }
    Ok(match obstacle(file, slot, 1)? {
        Some(lock) if lock.l_len != 1 => SlotLock::Closing,
        _ => SlotLock::Taken,
    })
}

pub(super) fn release(file: &File, slot: u32) {
    let _ = control(file, libc::F_OFD_SETLK, &mut range(LockKind::None, slot, 1));
}

/// Returns whether a process lives in a slot. Through the file that holds the slot itself, the
/// answer is no.
pub(super) fn is_held(file: &File, slot: u32) -> bool {
    // An error counts as alive: taking the slot of a live process would break it.
    obstacle(file, slot, 1).map_or(true, |lock| lock.is_some())
}

/// Returns whether no process holds a lock on a registry of any layout. A process that enters
/// meanwhile finds the registry removed afterwards: it waits for the lock, or sees that the file
/// has no name.
pub(super) fn is_unused(file: &File) -> bool {
    let mut everything = range(LockKind::Exclusive, 0, 0);
    everything.l_start = 0;
    control(file, libc::F_OFD_SETLK, &mut everything).is_ok()
}

/// All slots, locked so that no other process can enter; None while a process lives.
pub(super) struct Alone<'a>(&'a File);

impl<'a> Alone<'a> {
    pub(super) fn try_lock(file: &'a File) -> Option<Alone<'a>> {
        matches!(try_hold(file, 0, SLOTS), Ok(true)).then_some(Alone(file))
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        let _ = control(
            self.0,
            libc::F_OFD_SETLK,
            &mut range(LockKind::None, 0, SLOTS),
        );
    }
}
