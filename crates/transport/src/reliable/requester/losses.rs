//! How far apart the packets are that get lost, and so how often each is sent again.
//!
//! A peer that keeps what is behind a gap tells of one gap a round trip. If the packet that fills it is lost too, or what
//! the peer says of the next gap, nobody says anything until the probe. Where losses are rare that is rare; where they are
//! frequent a connection would wait for probes most of its time, so what is sent again is sent twice.

use verbena_wire::Psn;

/// Losses are frequent if they are closer to each other than this, in packets.
const FREQUENT: u32 = 32;
/// Losses that are farther from each other are not told apart.
const FAR: u32 = 1024;

/// What is known of a connection's losses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Losses {
    last: Psn,
    /// Packets from one loss to the next, smoothed.
    spacing: u32,
}

impl Losses {
    /// None was seen; the first packet is `psn`.
    pub(super) fn new(psn: Psn) -> Self {
        Self {
            last: psn,
            spacing: FAR,
        }
    }

    /// The peer has told that this packet is missing. What is lost again tells nothing new.
    pub(super) fn told(&mut self, psn: Psn) {
        if psn == self.last {
            return;
        }
        let distance = psn.ahead_of(self.last).min(FAR);
        self.last = psn;
        self.spacing -= self.spacing / 4;
        self.spacing += distance / 4;
    }

    /// Whether they are, as far as `oldest`, the first packet that is not acknowledged.
    pub(super) fn are_frequent(&self, oldest: Psn) -> bool {
        self.spacing < FREQUENT && oldest.ahead_of(self.last) < FAR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_frequent(distances: impl IntoIterator<Item = u32>) -> bool {
        let mut psn = Psn::new(0x00ff_fff0);
        let mut losses = Losses::new(psn);
        for distance in distances {
            psn = psn.plus(distance);
            losses.told(psn);
        }
        losses.are_frequent(psn)
    }

    #[test]
    fn a_burst_is_no_habit() {
        assert!(!are_frequent([]));
        assert!(!are_frequent([5000, 1, 1, 1, 1]));
        assert!(!are_frequent((0..1000).map(|_| 100)), "one in a hundred");
    }

    #[test]
    fn a_habit_is_seen_and_forgotten() {
        assert!(are_frequent((0..30).map(|_| 10)), "one in ten");
        assert!(are_frequent((0..1000).map(|_| 1)));
        assert!(!are_frequent((0..30).map(|_| 10).chain([1000, 1000])));
    }

    #[test]
    fn a_habit_that_is_long_ago_is_none() {
        let mut losses = Losses::new(Psn::new(0));
        for psn in 1..100 {
            losses.told(Psn::new(psn));
        }
        assert!(losses.are_frequent(Psn::new(100)));
        assert!(!losses.are_frequent(Psn::new(99 + FAR)));
    }

    #[test]
    fn what_is_lost_again_says_nothing_of_the_distance() {
        assert!(!are_frequent([1000].into_iter().chain([0; 50])));
    }
}
