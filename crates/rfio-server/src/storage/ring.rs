//! One thread's io_uring: reads of one file, with up to [`DEPTH`] in flight.

use std::fmt::Display;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, types};
use rustix::io::Errno;

use super::Part;
use crate::log::print_error;

/// Maximum number of concurrent reads.
const DEPTH: u32 = 64;

/// Maximum length of one read in bytes (read(2) has a similar limit).
const MOST_BYTES: usize = 1 << 30;

pub struct Ring {
    ring: IoUring,
}

impl Ring {
    /// Creates a ring that supports reads.
    ///
    /// # Errors
    /// io_uring is unavailable: an old kernel, `kernel.io_uring_disabled`, or a system call filter.
    pub fn new() -> io::Result<Self> {
        let ring = IoUring::builder().dontfork().build(DEPTH)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        match probe.is_supported(opcode::Read::CODE) {
            true => Ok(Self { ring }),
            false => Err(Errno::OPNOTSUPP.into()),
        }
    }

    /// Reads all parts and adds the number of bytes of each to its element of `read`. A short count
    /// has no definite meaning: the file may end there, or the read may have failed or been cut
    /// short.
    pub fn read(&mut self, file: BorrowedFd<'_>, parts: &mut [Part<'_>], read: &mut [usize]) {
        let (mut next, mut under_way) = (0, 0);
        while next < parts.len() || under_way > 0 {
            while next < parts.len() && under_way < DEPTH {
                self.begin(file, &mut parts[next], next as u64);
                (next, under_way) = (next + 1, under_way + 1);
            }
            self.wait();
            for done in self.ring.completion() {
                let Some(read) = read.get_mut(done.user_data() as usize) else {
                    give_up("it completed a read that was not started");
                };
                under_way -= 1;
                *read += usize::try_from(done.result()).unwrap_or(0);
            }
        }
    }

    fn begin(&mut self, file: BorrowedFd<'_>, part: &mut Part<'_>, number: u64) {
        let length = part.bytes.len().min(MOST_BYTES) as u32;
        let entry = opcode::Read::new(types::Fd(file.as_raw_fd()), part.bytes.as_mut_ptr(), length)
            .offset(part.offset)
            .build()
            .user_data(number);
        // SAFETY: the memory is borrowed for the whole of `read`, which returns only when every
        // read that it began is complete, and cannot be left earlier: any error in between aborts
        // the process. The file is borrowed too.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        if pushed.is_err() {
            give_up("more reads are pending than it has entries");
        }
    }

    /// Submits the reads and waits until one is complete.
    fn wait(&mut self) {
        loop {
            let Err(error) = self.ring.submit_and_wait(1) else {
                return;
            };
            match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                // The kernel has no memory for it at the moment, or completions must be consumed
                // first.
                Some(Errno::AGAIN | Errno::BUSY) => {
                    if !self.ring.completion().is_empty() {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                _ => give_up(error),
            }
        }
    }
}

/// Aborts the process: reads in flight may still write to memory that would be released.
fn give_up(what: impl Display) -> ! {
    print_error(format_args!("rfiod: io_uring failed: {what}"));
    std::process::abort();
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ring of {DEPTH}")
    }
}
