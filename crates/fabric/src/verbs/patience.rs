//! Spinning with an end: after so long without progress, when asked to stop, or when a peer is gone (contract, rule 10).

use crate::error::{Error, Result};
use crate::seam::Seat;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Spins between two looks at the flags and the time.
const SPINS: u32 = 1024;
/// The same of one who gives its core away between them.
const SPINS_IN_TURNS: u32 = 64;
/// How often in a row. Then it naps: on Linux 6.18 those who yield without end keep the processes of another session or
/// container from the processor for seconds (`verbena-hca`, sync).
const YIELDS: u32 = 64;
const NAP: Duration = Duration::from_micros(50);

/// Set by a signal handler or a launcher.
pub type StopFlag = Arc<AtomicBool>;

/// What waits of a process look at.
#[derive(Debug, Clone)]
pub struct Patience {
    /// How long to wait without progress.
    pub limit: Duration,
    /// The user's wish to stop.
    pub stop: StopFlag,
    /// Set when a process of the job is gone; its rank plus one.
    pub lost: Arc<std::sync::atomic::AtomicUsize>,
    /// Set when the others gave this process up, which hung.
    pub left_behind: Arc<AtomicBool>,
    /// More processes than cores: give the core away between looks.
    pub yielding: bool,
    /// The same of a point only: those that work in it are more than the cores.
    pub crowded: Arc<AtomicBool>,
}

impl Patience {
    /// Waits so long, alone.
    pub fn new(limit: Duration) -> Patience {
        Patience {
            limit,
            stop: StopFlag::default(),
            lost: Arc::default(),
            left_behind: Arc::default(),
            yielding: false,
            crowded: Arc::default(),
        }
    }

    /// Whether waits give the processor away from now on.
    pub(super) fn crowd(&self, seat: Seat) {
        self.crowded.store(seat == Seat::InTurns, Ordering::Relaxed);
    }

    /// Spins until `ready` gives a value. It does not pause between two looks, as programs that measure do not: a pause is
    /// some 60 cycles, by which every answer would be seen late.
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

    /// The look itself: an error if the wait must end.
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
    fn impatience_and_flags_end_a_wait() {
        let mut patience = Patience::new(Duration::from_millis(1));
        let stalled = patience.until::<()>("nothing", || None);
        assert!(matches!(
            stalled,
            Err(Error::Stalled(stalled)) if stalled.what == "nothing"
        ));
        patience.limit = Duration::from_secs(3600);
        patience.lost.store(3, Ordering::Relaxed);
        let lost = patience.until::<()>("nothing", || None);
        assert!(matches!(lost, Err(Error::PeerLost(peer)) if peer.rank == 2));
        patience.left_behind.store(true, Ordering::Relaxed);
        assert_eq!(
            patience.until::<()>("nothing", || None),
            Err(Error::LeftBehind)
        );
        patience.stop.store(true, Ordering::Relaxed);
        assert_eq!(
            patience.until::<()>("nothing", || None),
            Err(Error::Interrupted)
        );
    }
}
