//! Round-trip time estimator of RFC 6298, with Jacobson's constants.

use verbena_wire::Psn;

use crate::time::Instant;

/// The minimum probe timeout in nanoseconds. A late answer is due to a busy processor more often
/// than to a loss.
const SHORTEST_PATIENCE: u64 = 250_000;

/// A packet whose round trip is being measured.
#[derive(Debug, Clone, Copy)]
struct Watched {
    /// The PSN before which all must be acknowledged.
    end: Psn,
    sent: Instant,
}

#[derive(Debug, Clone, Default)]
pub(super) struct RoundTrip {
    watched: Option<Watched>,
    estimate: Option<Estimate>,
}

/// In nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    smoothed: u64,
    variation: u64,
    shortest: u64,
}

impl RoundTrip {
    /// Starts a measurement with a packet that requests an acknowledgement and is sent for the
    /// first time.
    pub(super) fn sent(&mut self, end: Psn, now: Instant) {
        if self.watched.is_none() {
            self.watched = Some(Watched { end, sent: now });
        }
    }

    /// Cancels the measurement because of a retransmission: an answer may belong to either copy
    /// (Karn).
    pub(super) fn forget(&mut self) {
        self.watched = None;
    }

    /// Handles the acknowledgement of all packets before `oldest`.
    pub(super) fn acknowledged(&mut self, oldest: Psn, now: Instant) {
        let Some(watched) = self
            .watched
            .take_if(|watched| !oldest.precedes(watched.end))
        else {
            return;
        };
        let took = now.0.saturating_sub(watched.sent.0);
        self.estimate = Some(match self.estimate {
            None => Estimate {
                smoothed: took,
                variation: took / 2,
                shortest: took,
            },
            Some(before) => Estimate {
                smoothed: before.smoothed - before.smoothed / 8 + took / 8,
                variation: before.variation - before.variation / 4
                    + before.smoothed.abs_diff(took) / 4,
                shortest: before.shortest.min(took),
            },
        });
    }

    /// Returns the probe timeout in nanoseconds; `None` before the first measurement.
    pub(super) fn patience(&self) -> Option<u64> {
        let estimate = self.estimate?;
        Some((estimate.smoothed + 4 * estimate.variation).max(SHORTEST_PATIENCE))
    }

    /// Returns whether an answer at `now` can belong to a packet sent at `sent`.
    pub(super) fn may_answer(&self, sent: Instant, now: Instant) -> bool {
        let shortest = self.estimate.map_or(0, |estimate| estimate.shortest);
        now.0.saturating_sub(sent.0) >= shortest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_loss_is_assumed_before_a_measurement() {
        let mut trip = RoundTrip::default();
        assert_eq!(trip.patience(), None);
        trip.sent(Psn::new(5), Instant(1_000));
        trip.acknowledged(Psn::new(4), Instant(2_000));
        assert_eq!(trip.patience(), None, "not that one");
        trip.forget();
        trip.acknowledged(Psn::new(6), Instant(2_000));
        assert_eq!(trip.patience(), None, "which of the two was answered?");
    }

    #[test]
    fn the_probe_timeout_follows_the_measured_round_trip() {
        let mut trip = RoundTrip::default();
        let mut measure = |nanoseconds: u64, times: u64| {
            for _ in 0..times {
                trip.sent(Psn::new(1), Instant(7));
                trip.acknowledged(Psn::new(1), Instant(7 + nanoseconds));
            }
            trip.patience().unwrap()
        };
        assert_eq!(measure(1_000_000, 1), 3_000_000);
        let steady = measure(1_000_000, 100);
        assert!((1_000_000..1_010_000).contains(&steady), "{steady}");
        assert!(measure(5_000_000, 1) > 3_000_000);
        assert_eq!(measure(20_000, 200), SHORTEST_PATIENCE);
        assert!(!trip.may_answer(Instant(0), Instant(19_999)));
        assert!(trip.may_answer(Instant(0), Instant(20_000)));
    }
}
