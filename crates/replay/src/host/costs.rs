//! Costs of messages on a host, by size.

use verbena_model::kernel::Time;

/// Time as a function of size, known at some sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeCurve(Vec<(u64, f64)>);

impl TimeCurve {
    /// Builds a curve from sizes in bytes and times in nanoseconds, in any order. Returns `None` if
    /// there is no time, or one is not positive and finite.
    pub fn of(mut points: Vec<(u64, f64)>) -> Option<TimeCurve> {
        points.sort_by_key(|point| point.0);
        points.dedup_by_key(|point| point.0);
        let all_times = points
            .iter()
            .all(|(_, nanos)| nanos.is_finite() && *nanos > 0.0);
        (!points.is_empty() && all_times).then_some(TimeCurve(points))
    }

    /// Interpolates linearly between known sizes. Smaller messages take the time of the smallest
    /// one, larger ones the time per byte of the largest.
    pub fn at(&self, bytes: u64) -> Time {
        let (first, last) = (self.0[0], self.0[self.0.len() - 1]);
        let above = self.0.partition_point(|point| point.0 < bytes);
        let nanos = if above == 0 {
            first.1
        } else if let Some(high) = self.0.get(above) {
            let low = self.0[above - 1];
            let share = (bytes - low.0) as f64 / (high.0 - low.0) as f64;
            low.1 + (high.1 - low.1) * share
        } else {
            last.1 * bytes as f64 / last.0.max(1) as f64
        };
        Time::from_nanos(nanos)
    }
}

/// Costs of messages. A message between processes that only communicate takes less than one after
/// computing, because computing displaces cache lines of the program and of any process that helps
/// with its messages.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// One of many messages, from the call that sends to the end of the call that receives, with
    /// the receiver waiting.
    pub one_way: TimeCurve,
    /// An exchange of two ranks that have just computed, per direction.
    pub after_computing: TimeCurve,
    /// One of the exchanges that follow it.
    pub shortly_after: TimeCurve,
    /// Each of many consecutive messages in one direction, over buffers that do not fit the caches.
    pub in_a_row: TimeCurve,
    /// Largest message in bytes for which the sender does not wait for the receiver.
    pub eager: u64,
}

/// Number of message ends after computing that cost as in the first exchange, and as shortly after
/// it.
const FIRST: usize = 2;
const SHORTLY: usize = 16;

impl Costs {
    fn whole(&self, bytes: u64, ends_before: usize) -> Time {
        match ends_before {
            before if before < FIRST => self.after_computing.at(bytes),
            before if before < SHORTLY => self.shortly_after.at(bytes),
            _ => self.one_way.at(bytes),
        }
    }

    /// Returns the time of each end of a message that does not wait for its receiver. `ends_before`
    /// is the number of ends of its rank since it computed.
    pub(super) fn end(&self, bytes: u64, ends_before: usize) -> Time {
        self.whole(bytes, ends_before).scaled(0.5)
    }

    /// Returns the time of a message that waits for its receiver, from when both are ready. Such
    /// messages are large, and the program has used other memory since.
    pub(super) fn transfer(&self, bytes: u64, ends_before: usize) -> Time {
        self.whole(bytes, ends_before).max(self.in_a_row.at(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_interpolates_linearly_between_its_points() {
        let curve = TimeCurve::of(vec![(100, 30.0), (0, 10.0), (200, 60.0)]).unwrap();
        for (bytes, nanos) in [
            (0, 10.0),
            (50, 20.0),
            (100, 30.0),
            (150, 45.0),
            (200, 60.0),
            (400, 120.0),
        ] {
            assert_eq!(curve.at(bytes), Time::from_nanos(nanos), "{bytes}");
        }
        let alone = TimeCurve::of(vec![(8, 100.0)]).unwrap();
        assert_eq!(alone.at(1), Time::from_nanos(100.0));
        assert_eq!(alone.at(16), Time::from_nanos(200.0));
    }

    #[test]
    fn invalid_times_give_no_curve() {
        assert_eq!(TimeCurve::of(vec![]), None);
        for nanos in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(TimeCurve::of(vec![(1, nanos)]), None);
        }
    }
}
