//! One thread's ring: reads of one file, as many under way as it has places.

use std::fmt::Display;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use io_uring::{IoUring, Probe, opcode, types};
use rustix::io::Errno;

use super::Part;
use crate::server::log::complain;

/// Most reads that are under way at once.
const DEPTH: u32 = 64;

/// The most bytes of one read (as read(2) takes no more).
const MOST_BYTES: usize = 1 << 30;

pub struct Ring {
    ring: IoUring,
}

impl Ring {
    /// A ring that can read. An error says why there is none: an old kernel, `kernel.io_uring_disabled`, a filter of calls.
    pub fn new() -> io::Result<Self> {
        let ring = IoUring::builder().dontfork().build(DEPTH)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        match probe.is_supported(opcode::Read::CODE) {
            true => Ok(Self { ring }),
            false => Err(Errno::OPNOTSUPP.into()),
        }
    }

    /// Reads all parts; what each got is added to its place in `read`. Less than a part has room for says nothing: the file
    /// may end there, or the read may have failed or have been cut short.
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
                    give_up("it tells of a read that nobody began");
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
        // SAFETY: the memory is borrowed for the whole of `read`, which returns when every read that it began is complete,
        // and which nothing between can leave: whatever goes wrong there gives up. The file is borrowed, too.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        if pushed.is_err() {
            give_up("more reads are under way than it has places");
        }
    }

    /// Hands over what was begun, and waits until something is complete.
    fn wait(&mut self) {
        loop {
            let Err(error) = self.ring.submit_and_wait(1) else {
                return;
            };
            match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                // The kernel has no memory for it just now, or completions must be taken first.
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

/// Ends the process: whatever is under way writes to memory that would be given back.
fn give_up(what: impl Display) -> ! {
    complain(format_args!(
        "rfiod: io_uring cannot be relied on any more: {what}"
    ));
    std::process::abort();
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ring of {DEPTH}")
    }
}
