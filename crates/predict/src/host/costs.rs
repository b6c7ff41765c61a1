//! What messages take on a host, by their size.

use verbena_model::kernel::Time;

/// A time by size, known at some sizes.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve(Vec<(u64, f64)>);

impl Curve {
    /// From sizes in bytes and times in nanoseconds, in any order; none if there is no time, or one is none.
    pub fn of(mut points: Vec<(u64, f64)>) -> Option<Curve> {
        points.sort_by_key(|point| point.0);
        points.dedup_by_key(|point| point.0);
        let all_times = points
            .iter()
            .all(|(_, nanos)| nanos.is_finite() && *nanos > 0.0);
        (!points.is_empty() && all_times).then_some(Curve(points))
    }

    /// Straight between what is known; below it as at the smallest size, above it as a byte takes at the largest.
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

/// What messages take. A message between processes that do nothing else takes less than one after computing: caches have had other
/// things to do since, and so has whoever works for messages beside the program.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// Among many, from the call that sends to the end of the call that receives, with the receiver waiting.
    pub one_way: Curve,
    /// An exchange of two ranks that have just computed, each way.
    pub after_computing: Curve,
    /// One behind that.
    pub shortly_after: Curve,
    /// Each of many in a row one way, over buffers that caches do not hold.
    pub in_a_row: Curve,
    /// Bytes up to which who sends does not wait for who receives.
    pub eager: u64,
}

/// Messages' ends of a rank since it has computed that are of the first exchange, and those that are shortly after.
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

    /// A message that does not wait for its receiver: each end's part, by how many ends its rank has had since it computed.
    pub(super) fn end(&self, bytes: u64, ends_before: usize) -> Time {
        self.whole(bytes, ends_before).scaled(0.5)
    }

    /// One that does: from when both are there. What is sent so is large, and a program has used other memory since.
    pub(super) fn transfer(&self, bytes: u64, ends_before: usize) -> Time {
        self.whole(bytes, ends_before).max(self.in_a_row.at(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_goes_through_its_points_and_straight_between() {
        let curve = Curve::of(vec![(100, 30.0), (0, 10.0), (200, 60.0)]).unwrap();
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
        let alone = Curve::of(vec![(8, 100.0)]).unwrap();
        assert_eq!(alone.at(1), Time::from_nanos(100.0));
        assert_eq!(alone.at(16), Time::from_nanos(200.0));
    }

    #[test]
    fn what_is_no_time_is_no_curve() {
        assert_eq!(Curve::of(vec![]), None);
        for nanos in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Curve::of(vec![(1, nanos)]), None);
        }
    }
}
