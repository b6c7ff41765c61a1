//! Estimates the distance between packet losses, which decides whether a retransmission is sent
//! once or twice.
//!
//! A peer that keeps packets behind a gap reports one gap per round trip. If the retransmitted
//! packet or the peer's next NAK is lost too, nothing happens until the probe. With rare losses
//! that is rare. With frequent losses a connection would spend most of its time waiting for probes,
//! so it sends each retransmission twice.

use verbena_wire::Psn;

/// Losses are frequent if the distance between them is below this, in packets.
const FREQUENT: u32 = 32;
/// Distances are capped at this value, in packets.
const FAR: u32 = 1024;

#[derive(Debug, Clone, Copy)]
pub(super) struct Losses {
    last: Psn,
    /// Smoothed distance from one loss to the next, in packets.
    spacing: u32,
}

impl Losses {
    /// Returns statistics without a loss; the first packet is `psn`.
    pub(super) fn new(psn: Psn) -> Self {
        Self {
            last: psn,
            spacing: FAR,
        }
    }

    /// Records the peer's NAK for this packet. A repeated loss of the same packet does not count.
    pub(super) fn told(&mut self, psn: Psn) {
        if psn == self.last {
            return;
        }
        let distance = psn.ahead_of(self.last).min(FAR);
        self.last = psn;
        self.spacing -= self.spacing / 4;
        self.spacing += distance / 4;
    }

    /// Returns whether losses are frequent; `oldest` is the first unacknowledged packet.
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
    fn a_burst_is_not_a_frequent_loss() {
        assert!(!are_frequent([]));
        assert!(!are_frequent([5000, 1, 1, 1, 1]));
        assert!(!are_frequent((0..1000).map(|_| 100)), "one in a hundred");
    }

    #[test]
    fn frequent_losses_are_detected_and_forgotten() {
        assert!(are_frequent((0..30).map(|_| 10)), "one in ten");
        assert!(are_frequent((0..1000).map(|_| 1)));
        assert!(!are_frequent((0..30).map(|_| 10).chain([1000, 1000])));
    }

    #[test]
    fn old_frequent_losses_do_not_count() {
        let mut losses = Losses::new(Psn::new(0));
        for psn in 1..100 {
            losses.told(Psn::new(psn));
        }
        assert!(losses.are_frequent(Psn::new(100)));
        assert!(!losses.are_frequent(Psn::new(99 + FAR)));
    }

    #[test]
    fn losses_of_retransmissions_are_not_counted_as_frequent() {
        assert!(!are_frequent([1000].into_iter().chain([0; 50])));
    }
}
