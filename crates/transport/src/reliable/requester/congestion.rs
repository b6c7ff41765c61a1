//! The requester's congestion window, in packets in flight, which congestion marks (ECN) from
//! switches reduce (annex A17.9, RFC 3168).
//!
//! The receiver of a marked packet sends a congestion notification (CNP). The requester then halves
//! its window, once for all packets in flight at that time. The window recovers as DCQCN's rate
//! does (Zhu et al., SIGCOMM 2015), with packets in flight in place of packets per second: five
//! steps, each half the remaining distance to the previous window, then a small increase with each
//! step.
//!
//! The largest window is the usual one or a wide one. The wide one keeps both ends at work where an
//! answer takes long. It holds only while no packet is lost: a peer need not keep as many packets
//! behind a gap, and its socket's buffer need not have space for them. So each loss in a wide
//! window doubles the packets without a loss after which it is wide again.

use verbena_wire::Psn;

/// Steps of recovery to the previous window.
const RECOVERY: u32 = 5;
/// Packets by which each later step raises the target.
const GROWTH: u32 = 4;

/// Packets that must be acknowledged without a loss before the window may be wide, at first.
const INTACT: u32 = 4096;
/// Largest number of such packets.
const MOST_INTACT: u32 = INTACT << 12;

#[derive(Debug, Clone)]
pub(super) struct Congestion {
    usual: u32,
    wide: u32,
    /// The largest window at present: the usual or the wide one.
    most: u32,
    /// Packets acknowledged since the last loss, up to `needed`.
    intact: u32,
    /// Packets without a loss after which the window is wide.
    needed: u32,
    window: u32,
    target: u32,
    steps: u32,
    /// Packets acknowledged since the last step.
    acknowledged: u32,
    /// Further notifications belong to the same congestion until this PSN is acknowledged.
    reacted: Option<Psn>,
}

impl Congestion {
    pub(super) fn new(most: u32) -> Self {
        Self {
            usual: most,
            wide: most,
            most,
            intact: 0,
            needed: INTACT,
            window: most,
            target: most,
            steps: 0,
            acknowledged: 0,
            reacted: None,
        }
    }

    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// Sets the wide window.
    pub(super) fn set_wide(&mut self, wide: u32) {
        self.wide = wide.max(self.usual);
    }

    /// Handles the loss of a packet: the usual window holds again.
    pub(super) fn lost(&mut self) {
        if self.most > self.usual {
            self.needed = (2 * self.needed).min(MOST_INTACT);
        }
        self.intact = 0;
        self.most = self.usual;
        self.window = self.window.min(self.most);
        self.target = self.target.min(self.most);
    }

    /// Handles a notification; `limit` is the PSN after the last packet sent.
    pub(super) fn notified(&mut self, limit: Psn) {
        if self.reacted.is_some() {
            return;
        }
        self.reacted = Some(limit);
        self.target = self.window;
        self.window = (self.window / 2).max(1);
        (self.steps, self.acknowledged) = (0, 0);
    }

    /// Records that `packets` more packets, and so all before `oldest`, are acknowledged.
    pub(super) fn acknowledged(&mut self, packets: u32, oldest: Psn) {
        self.reacted = self.reacted.filter(|until| oldest.precedes(*until));
        self.intact = (self.intact + packets).min(self.needed);
        if self.intact == self.needed && self.most < self.wide {
            if self.window == self.most {
                self.window = self.wide;
            }
            self.most = self.wide;
        }
        if self.window == self.most {
            return;
        }
        self.acknowledged += packets;
        if self.acknowledged < self.window {
            return;
        }
        self.acknowledged = 0;
        self.steps += 1;
        if self.steps > RECOVERY {
            self.target = (self.target + GROWTH).min(self.most);
        }
        self.window = (self.window + self.target).div_ceil(2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Acknowledges whole windows and returns how many it took to reach `window` again.
    fn windows_until(congestion: &mut Congestion, psn: &mut Psn, window: u32) -> u32 {
        (1..1000)
            .find(|_| {
                let step = congestion.window();
                *psn = psn.plus(step);
                congestion.acknowledged(step, *psn);
                congestion.window() >= window
            })
            .expect("it comes back")
    }

    #[test]
    fn one_congestion_halves_the_window_once() {
        let mut congestion = Congestion::new(128);
        for _ in 0..10 {
            congestion.notified(Psn::new(128));
        }
        assert_eq!(congestion.window(), 64);
        congestion.acknowledged(10, Psn::new(127));
        congestion.notified(Psn::new(137));
        assert_eq!(congestion.window(), 64, "of earlier packets");
        congestion.acknowledged(1, Psn::new(128));
        congestion.notified(Psn::new(192));
        assert_eq!(congestion.window(), 32);
    }

    #[test]
    fn the_window_is_wide_after_long_without_loss() {
        let mut congestion = Congestion::new(124);
        congestion.acknowledged(INTACT, Psn::new(0));
        assert_eq!(congestion.window(), 124, "no wide window is set");
        congestion.set_wide(248);
        for (lost, needed) in [(true, 2 * INTACT), (false, 4 * INTACT)] {
            congestion.acknowledged(0, Psn::new(0));
            assert_eq!(congestion.window(), 248);
            congestion.lost();
            assert_eq!(congestion.window(), 124);
            congestion.acknowledged(needed - 1, Psn::new(0));
            assert_eq!(congestion.window(), 124);
            if lost {
                congestion.lost();
                congestion.acknowledged(needed - 1, Psn::new(0));
                assert_eq!(congestion.window(), 124, "lost again");
            }
            congestion.acknowledged(1, Psn::new(0));
            assert_eq!(congestion.window(), 248);
        }
        for _ in 0..100 {
            congestion.lost();
            congestion.acknowledged(MOST_INTACT, Psn::new(0));
        }
        assert_eq!(congestion.window(), 248, "in the end it is wide again");
    }

    #[test]
    fn a_reduced_window_grows_to_the_wide_one() {
        let mut congestion = Congestion::new(124);
        congestion.set_wide(248);
        congestion.notified(Psn::new(0));
        assert_eq!(congestion.window(), 62);
        let mut psn = Psn::new(0);
        assert!(windows_until(&mut congestion, &mut psn, 248) > RECOVERY);
        congestion.acknowledged(1000, psn);
        assert_eq!(congestion.window(), 248, "never beyond the most");
    }

    #[test]
    fn the_window_recovers_quickly_and_then_grows_slowly() {
        let mut congestion = Congestion::new(128);
        let mut psn = Psn::new(0);
        congestion.notified(psn);
        congestion.acknowledged(0, psn);
        congestion.notified(psn);
        congestion.acknowledged(0, psn);
        assert_eq!(congestion.window(), 32);
        assert!(windows_until(&mut congestion, &mut psn, 63) <= RECOVERY);
        let slowly = windows_until(&mut congestion, &mut psn, 128);
        assert!((10..30).contains(&slowly), "{slowly}");
        let before = congestion.window();
        congestion.acknowledged(1000, psn);
        assert_eq!(congestion.window(), before, "never beyond the most");
    }

    #[test]
    fn the_window_is_never_empty() {
        let mut congestion = Congestion::new(128);
        for psn in 0..100 {
            congestion.notified(Psn::new(psn));
            congestion.acknowledged(0, Psn::new(psn));
        }
        assert_eq!(congestion.window(), 1);
        assert!(windows_until(&mut congestion, &mut Psn::new(100), 128) < 100);
        assert_eq!(Congestion::new(1).window(), 1);
    }
}
