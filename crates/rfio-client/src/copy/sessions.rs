//! Parallel sessions of one copy, each on its own thread.
//!
//! A copy starts with one session. By default it adds a session after every 16 MiB while the
//! machine has an idle processor, up to four: a single copy uses an idle machine, and many
//! concurrent copies do not compete for processors.

use std::thread::{Builder, ScopedJoinHandle};

use super::resume::CHUNK;
use crate::error::Error;

/// Maximum number of sessions by default.
const MOST: usize = 4;

/// Bytes that the first session moves before each additional session starts by default.
const STEP: u64 = 16 << 20;

/// Number of sessions that share the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionCount {
    /// A fixed number.
    Exactly(usize),
    /// One, and more while processors are idle.
    AsProcessorsAllow,
}

impl SessionCount {
    /// Returns the maximum number of sessions.
    pub fn most(self) -> usize {
        match self {
            Self::Exactly(count) => count.max(1),
            Self::AsProcessorsAllow => MOST,
        }
    }

    /// Returns the number of sessions that the copy requires.
    pub fn least(self) -> usize {
        match self {
            Self::Exactly(count) => count.max(1),
            Self::AsProcessorsAllow => 1,
        }
    }

    /// Returns the number of sessions for the small files of a tree. It is fixed when the copy
    /// starts: each session keeps a processor busy on either host.
    pub fn of_a_tree(self) -> usize {
        self.least().max(self.most().min(processors() / 4))
    }

    /// Returns the object that session number `session_number` opened, or `None` if an optional
    /// session could not be opened; the other sessions then do its work.
    ///
    /// # Errors
    /// A session could not be opened that is not optional.
    pub fn opened<T>(
        self,
        session_number: usize,
        what: Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match what {
            Err(_) if session_number >= self.least() => Ok(None),
            other => other.map(Some),
        }
    }

    /// Runs `work` in parallel for `total` bytes. `work` gets the session's number and a callback
    /// for the bytes it has moved; calls from session 0 start additional sessions.
    ///
    /// # Errors
    /// Returns the first session's error, else that of the lowest numbered one. Every session has
    /// ended by then.
    pub fn share(
        self,
        total: u64,
        work: impl Fn(usize, &mut dyn FnMut(u64)) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        // Connecting costs more than it saves for less than four chunks per session.
        let useful = usize::try_from(total / u64::from(4 * CHUNK)).unwrap_or(usize::MAX);
        let most = self.most().min(useful.max(1));
        let work = &work;
        std::thread::scope(|scope| {
            let mut others: Vec<ScopedJoinHandle<'_, _>> = Vec::new();
            let mut moved = 0;
            let first = work(0, &mut |bytes| {
                moved += bytes;
                let is_due = |others: usize| match self {
                    Self::Exactly(_) => true,
                    Self::AsProcessorsAllow => {
                        moved >= STEP * (others as u64 + 1) && has_idle_processor()
                    }
                };
                while others.len() + 1 < most && is_due(others.len()) {
                    let session_number = others.len() + 1;
                    // If no thread can be created, the existing sessions do the work.
                    match Builder::new()
                        .spawn_scoped(scope, move || work(session_number, &mut |_| {}))
                    {
                        Ok(other) => others.push(other),
                        Err(_) => break,
                    }
                }
            });
            let ended = others.into_iter().map(|thread| {
                let panicked = |_| Err(Error::Setup("a copying thread panicked".into()));
                thread.join().unwrap_or_else(panicked)
            });
            ended.fold(first, Result::and)
        })
    }
}

/// Returns whether fewer threads are runnable on this host than this process may use processors.
fn has_idle_processor() -> bool {
    let processors = processors();
    // With two processors, client and server on one host already use both.
    processors > 2
        && std::fs::read_to_string("/proc/loadavg")
            .ok()
            .and_then(|text| running(&text))
            .is_some_and(|running| running < processors)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Parses the number of runnable threads in `/proc/loadavg`.
fn running(text: &str) -> Option<usize> {
    let (running, _) = text.split_whitespace().nth(3)?.split_once('/')?;
    running.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn runnable_threads_are_parsed_from_loadavg() {
        assert_eq!(running("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(running("0.20 0.18"), None);
        assert!(running(&std::fs::read_to_string("/proc/loadavg").unwrap()).is_some());
    }

    /// Returns the number of sessions that work of `chunks` chunks started.
    fn count(session_count: SessionCount, chunks: u64) -> usize {
        let seen = AtomicUsize::new(0);
        let shared = session_count.share(chunks * u64::from(CHUNK), |_, moved| {
            seen.fetch_add(1, Ordering::Relaxed);
            moved(CHUNK.into());
            Ok(())
        });
        shared.unwrap();
        seen.into_inner()
    }

    #[test]
    fn fixed_number_of_sessions_is_limited_by_the_size() {
        assert_eq!(count(SessionCount::Exactly(3), 100), 3);
        assert_eq!(count(SessionCount::Exactly(3), 9), 2);
        assert_eq!(count(SessionCount::Exactly(3), 0), 1);
        // The first additional session needs 16 MiB moved.
        assert_eq!(count(SessionCount::AsProcessorsAllow, 100), 1);
    }

    #[test]
    fn error_of_any_session_is_returned() {
        for failing in 0..3 {
            let shared = SessionCount::Exactly(3).share(100 << 20, |session_number, moved| {
                moved(1);
                match session_number == failing {
                    true => Err(Error::Changed),
                    false => Ok(()),
                }
            });
            assert!(matches!(shared, Err(Error::Changed)), "session {failing}");
        }
    }

    #[test]
    fn failure_to_open_an_optional_session_is_tolerated() {
        let refused = || {
            let status = verbena_rfio_protocol::Status::errno(libc::EBUSY);
            let why = verbena_rfio_protocol::reply::Refusal::new(status, "full");
            Err::<(), _>(Error::Refused(why))
        };
        for (session_count, needed) in [
            (SessionCount::Exactly(2), 2),
            (SessionCount::AsProcessorsAllow, 1),
        ] {
            assert!(session_count.opened(needed - 1, refused()).is_err());
            assert!(matches!(session_count.opened(needed, refused()), Ok(None)));
            let lost = || Err::<(), _>(Error::TimedOut);
            assert!(session_count.opened(needed - 1, lost()).is_err());
            assert!(matches!(session_count.opened(needed, lost()), Ok(None)));
        }
    }
}
