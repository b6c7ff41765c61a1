//! The descriptors that the thread of the connection manager waits for.

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::start;
use verbena_hca_os::thread_scheduling::request_fast_wakeup;

/// Stack size of the thread, in bytes.
const STACK: usize = 2 << 20;

/// Meaning of a descriptor that the thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A listener's socket: its number and generation.
    Listener(u32, u32),
    /// An identifier's stream: its number and generation.
    Identifier(u32, u32),
    /// A caller: its number.
    Caller(u32),
    /// The timer of the alarms.
    Alarm,
    /// The inbox of MADs from other hosts.
    Inbox,
    /// inotify: a death record was closed.
    DeathRecords,
}

impl Source {
    fn encode(self) -> u64 {
        let (kind, number, generation) = match self {
            Source::Listener(number, generation) => (0, number, generation),
            Source::Identifier(number, generation) => (1, number, generation),
            Source::Caller(number) => (2, number, 0),
            Source::Alarm => (3, 0, 0),
            Source::Inbox => (4, 0, 0),
            Source::DeathRecords => (5, 0, 0),
        };
        kind << 60 | u64::from(number) << 32 | u64::from(generation)
    }

    /// Returns the source with this code.
    pub(crate) fn decode(word: u64) -> Source {
        let number = (word >> 32) as u32 & 0x0fff_ffff;
        match word >> 60 {
            0 => Source::Listener(number, word as u32),
            1 => Source::Identifier(number, word as u32),
            2 => Source::Caller(number),
            3 => Source::Alarm,
            4 => Source::Inbox,
            _ => Source::DeathRecords,
        }
    }
}

/// The descriptors that the thread waits for.
pub struct Watch {
    epoll: Arc<OwnedFd>,
    /// The function of the thread.
    run: fn(&OwnedFd),
    started: bool,
}

impl Watch {
    /// Returns an empty set, for a thread that runs `run` with the set's epoll descriptor.
    ///
    /// # Errors
    /// Those of epoll_create1(2).
    pub fn new(run: fn(&OwnedFd)) -> Result<Watch> {
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(os)?;
        Ok(Watch {
            epoll: Arc::new(epoll),
            run,
            started: false,
        })
    }

    /// Adds `file`, until it is closed or removed by `forget`. Starts the thread with the first
    /// one.
    ///
    /// # Errors
    /// Those of epoll_ctl(2) and of starting a thread.
    pub fn add(&mut self, file: impl AsFd, source: Source) -> Result<()> {
        if !self.started {
            let (epoll, run) = (self.epoll.clone(), self.run);
            start::start(c"verbena-cm", STACK, move || {
                request_fast_wakeup();
                run(&epoll);
            })?;
            self.started = true;
        }
        let data = EventData::new_u64(source.encode());
        epoll::add(&*self.epoll, file, data, EventFlags::IN).map_err(os)
    }

    /// Changes the meaning of `file`.
    ///
    /// # Errors
    /// Those of epoll_ctl(2).
    pub fn change(&self, file: impl AsFd, source: Source) -> Result<()> {
        let data = EventData::new_u64(source.encode());
        epoll::modify(&*self.epoll, file, data, EventFlags::IN).map_err(os)
    }

    /// Removes `file`.
    pub fn forget(&self, file: impl AsFd) {
        let _ = epoll::delete(&*self.epoll, file);
    }
}

fn os(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn poll_source_encoding_round_trips(number in 0..1_u32 << 16, generation: u32) {
            for source in [
                Source::Listener(number, generation),
                Source::Identifier(number, generation),
                Source::Caller(number),
                Source::Alarm,
                Source::Inbox,
                Source::DeathRecords,
            ] {
                prop_assert_eq!(Source::decode(source.encode()), source);
            }
        }
    }
}
