//! How many packets may be on their way: what a switch that is congested, and says so (annex A17.9, RFC 3168), leaves a
//! requester.
//!
//! The receiver of a marked packet sends a notification, and its requester sends less: half of what it did, once for all
//! that was on its way then. From there it goes back as DCQCN's rates do (Zhu et al., SIGCOMM 2015), with packets on their
//! way in the place of packets a second: in five steps, each of half the rest, to where it was, then on by a little with
//! each step.

use verbena_wire::Psn;

/// Steps back to where it was before.
const RECOVERY: u32 = 5;
/// Packets by which it grows beyond that, with each step.
const GROWTH: u32 = 4;

/// The window of a requester.
#[derive(Debug, Clone)]
pub(super) struct Congestion {
    most: u32,
    window: u32,
    target: u32,
    steps: u32,
    /// Packets acknowledged since the last step.
    acknowledged: u32,
    /// Notifications are of one congestion until this is acknowledged.
    reacted: Option<Psn>,
}

impl Congestion {
    pub(super) fn new(most: u32) -> Self {
        Self {
            most,
            window: most,
            target: most,
            steps: 0,
            acknowledged: 0,
            reacted: None,
        }
    }

    /// Packets that may be on their way.
    pub(super) fn window(&self) -> u32 {
        self.window
    }

    /// A notification, while all before `limit` had been sent.
    pub(super) fn notified(&mut self, limit: Psn) {
        if self.reacted.is_some() {
            return;
        }
        self.reacted = Some(limit);
        self.target = self.window;
        self.window = (self.window / 2).max(1);
        (self.steps, self.acknowledged) = (0, 0);
    }

    /// So many more packets are acknowledged, and with them all before `oldest`.
    pub(super) fn acknowledged(&mut self, packets: u32, oldest: Psn) {
        self.reacted = self.reacted.filter(|until| oldest.precedes(*until));
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

    /// Acknowledges whole windows, and tells how many it took to be at `window` again.
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
    fn one_congestion_halves_once() {
        let mut congestion = Congestion::new(128);
        for _ in 0..10 {
            congestion.notified(Psn::new(128));
        }
        assert_eq!(congestion.window(), 64);
        congestion.acknowledged(10, Psn::new(127));
        congestion.notified(Psn::new(137));
        assert_eq!(congestion.window(), 64, "of what was sent before it");
        congestion.acknowledged(1, Psn::new(128));
        congestion.notified(Psn::new(192));
        assert_eq!(congestion.window(), 32);
    }

    #[test]
    fn it_goes_back_quickly_to_where_it_was_and_slowly_beyond() {
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
    fn something_may_always_be_sent() {
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
