//! Bounded spinning: a wait ends after a time limit without progress, on a stop request, or when a
//! peer has ended (contract, rule 10).

use crate::error::{Error, Result};
use crate::interface::Pinning;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Spins between two checks of the flags and the time.
const SPINS: u32 = 1024;
/// The same for a process that yields its core between the checks.
const SPINS_IN_TURNS: u32 = 64;
/// Consecutive yields before a sleep: on Linux 6.18 processes that yield continuously keep the
/// processes of another session or container from the processor for seconds (`verbena-hca`, sync).
const YIELDS: u32 = 64;
const NAP: Duration = Duration::from_micros(50);

/// Set by a signal handler or a launcher.
pub type StopFlag = Arc<AtomicBool>;

/// Time limit and flags of a process's waits.
#[derive(Debug, Clone)]
pub struct WaitLimit {
    /// Time limit without progress.
    pub limit: Duration,
    /// Stop request.
    pub stop: StopFlag,
    /// Set when a process of the job has ended; its rank plus one.
    pub lost: Arc<std::sync::atomic::AtomicUsize>,
    /// Set when the other processes have given up this one because it hung.
    pub left_behind: Arc<AtomicBool>,
    /// Whether to yield the core between checks, as there are more processes than cores.
    pub yielding: bool,
    /// The same for one point only, in which more processes work than there are cores.
    pub crowded: Arc<AtomicBool>,
}

impl WaitLimit {
    /// Creates it with a time limit, without yielding.
    pub fn new(limit: Duration) -> WaitLimit {
        WaitLimit {
            limit,
            stop: StopFlag::default(),
            lost: Arc::default(),
            left_behind: Arc::default(),
            yielding: false,
            crowded: Arc::default(),
        }
    }

    /// Sets whether waits yield the core from now on.
    pub(super) fn set_yielding(&self, pinning: Pinning) {
        self.crowded
            .store(pinning == Pinning::InTurns, Ordering::Relaxed);
    }

    /// Spins until `ready` returns a value. There is no pause between polls, as in other benchmark
    /// programs: a pause takes some 60 cycles and would delay every response.
    ///
    /// # Errors
    ///
    /// As [`WaitLimit::look`].
    #[inline]
    pub fn until<T>(&self, what: &'static str, mut ready: impl FnMut() -> Option<T>) -> Result<T> {
        let yielding = self.yielding || self.crowded.load(Ordering::Relaxed);
        let spins = if yielding { SPINS_IN_TURNS } else { SPINS };
        let mut since = None;
        let mut looks = 0_u32;
        loop {
            for _ in 0..spins {
                if let Some(value) = ready() {
                    return Ok(value);
                }
            }
            self.look(what, &mut since)?;
            looks = looks.wrapping_add(1);
            if yielding && looks.is_multiple_of(YIELDS) {
                std::thread::sleep(NAP);
            } else if yielding {
                std::thread::yield_now();
            }
        }
    }

    /// Checks the flags and the time limit.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Interrupted`], [`Error::LeftBehind`], [`Error::PeerLost`] or
    /// [`Error::Stalled`] if the wait must end.
    pub fn look(&self, what: &'static str, since: &mut Option<Instant>) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        if self.left_behind.load(Ordering::Relaxed) {
            return Err(Error::LeftBehind);
        }
        match self.lost.load(Ordering::Relaxed) {
            0 => {}
            rank => {
                let reason = "its connection to the exchange closed".to_owned();
                return Err(Error::peer_lost(rank - 1, reason));
            }
        }
        let waited = since.get_or_insert_with(Instant::now).elapsed();
        if waited > self.limit {
            return Err(Error::stalled(what, waited));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_and_flags_end_a_wait() {
        let mut wait_limit = WaitLimit::new(Duration::from_millis(1));
        let stalled = wait_limit.until::<()>("nothing", || None);
        assert!(matches!(
            stalled,
            Err(Error::Stalled(stalled)) if stalled.what == "nothing"
        ));
        wait_limit.limit = Duration::from_secs(3600);
        wait_limit.lost.store(3, Ordering::Relaxed);
        let lost = wait_limit.until::<()>("nothing", || None);
        assert!(matches!(lost, Err(Error::PeerLost(peer)) if peer.rank == 2));
        wait_limit.left_behind.store(true, Ordering::Relaxed);
        assert_eq!(
            wait_limit.until::<()>("nothing", || None),
            Err(Error::LeftBehind)
        );
        wait_limit.stop.store(true, Ordering::Relaxed);
        assert_eq!(
            wait_limit.until::<()>("nothing", || None),
            Err(Error::Interrupted)
        );
    }
}
