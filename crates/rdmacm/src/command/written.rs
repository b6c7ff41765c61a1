//! A command as the program has written it, and its answer.

use crate::abi;
use crate::channel::ChannelId;
use verbena_hca_os::errno::{Errno, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A command and the channel it was written to.
pub struct Command<'a> {
    /// The channel.
    pub channel: ChannelId,
    pub(super) body: &'a [u8],
    pub(super) room: usize,
}

impl Command<'_> {
    /// Parses the command's structure.
    ///
    /// # Errors
    /// EINVAL if the command is shorter.
    pub(super) fn read<T: FromBytes>(&self) -> Result<T> {
        T::read_from_prefix(self.body)
            .map(|(command, _)| command)
            .map_err(|_| Errno::EINVAL)
    }

    /// Parses the command's structure, whose last `optional` bytes older libraries do not send.
    ///
    /// # Errors
    /// EINVAL if the command is shorter than that.
    pub(super) fn read_lenient<T: FromBytes + IntoBytes>(&self, optional: usize) -> Result<T> {
        let mut command = T::new_zeroed();
        let bytes = command.as_mut_bytes();
        if self.body.len() + optional < bytes.len() {
            return Err(Errno::EINVAL);
        }
        let length = bytes.len().min(self.body.len());
        bytes[..length].copy_from_slice(&self.body[..length]);
        Ok(command)
    }

    /// Writes as much of an answer to `address` as the program has space for, and at least `least`
    /// bytes.
    ///
    /// # Errors
    /// ENOSPC if `least` bytes do not fit, EFAULT for a null address.
    ///
    /// # Safety
    /// `address` must be null or valid for writes of the length in the command's header.
    pub(super) unsafe fn answer<T>(&self, address: u64, answer: &T, least: usize) -> Result<()>
    where
        T: IntoBytes + Immutable + KnownLayout,
    {
        if self.room < least {
            return Err(Errno(libc::ENOSPC));
        }
        if address == 0 {
            return Err(Errno::EFAULT);
        }
        let bytes = answer.as_bytes();
        let length = bytes.len().min(self.room);
        // SAFETY: the caller promises that `address` is valid for `room` bytes, and `length` is at
        // most that; the answer is a local value, so they do not overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, length);
        }
        Ok(())
    }

    /// Writes the number of events reported as the answer.
    ///
    /// # Safety
    /// That of [`Command::answer`].
    pub(super) unsafe fn answer_reported(&self, address: u64, events_reported: u32) -> Result<()> {
        let answer = abi::EventsReported { events_reported };
        // SAFETY: the caller promises that `address` is valid for `room` bytes.
        unsafe { self.answer(address, &answer, size_of::<abi::EventsReported>()) }
    }
}
