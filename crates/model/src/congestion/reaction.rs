//! The reaction point: the sending rate of a flow. Equations and names are those of section 3.1 of
//! the DCQCN paper.
//!
//! Until the first notification a flow sends at line rate and no timer runs. Timer events since the
//! last call are processed at the next call.

use crate::kernel::Time;
use crate::profile::{Rate, RateControl};

/// A flow's rate. Invariants: `RateControl::min_rate` <= current <= target <= line, except on a
/// line slower than `min_rate`; 0 <= alpha <= 1.
#[derive(Debug, Clone)]
pub struct Reaction {
    control: RateControl,
    line: f64,
    current: f64,
    target: f64,
    alpha: f64,
    /// Timer and byte counter events since the last rate cut.
    by_timer: u64,
    by_bytes: u64,
    /// Bytes sent since the byte counter's last event.
    counted: u64,
    /// Time of the last change of alpha, and of the timer's next event.
    alpha_changed: Time,
    next_timer: Time,
}

impl Reaction {
    /// Creates the state of a flow on a line of rate `line`.
    pub fn new(control: &RateControl, line: Rate) -> Reaction {
        Reaction {
            control: control.clone(),
            line: line.0,
            current: line.0,
            target: line.0,
            alpha: 1.0,
            by_timer: 0,
            by_bytes: 0,
            counted: 0,
            alpha_changed: Time::ZERO,
            next_timer: Time::ZERO,
        }
    }

    /// Returns the sending rate at `now`.
    pub fn rate(&mut self, now: Time) -> Rate {
        self.advance(now);
        Rate(self.current)
    }

    /// Returns the estimate of congestion at `now`; 0 means none.
    pub fn alpha(&mut self, now: Time) -> f64 {
        self.advance(now);
        self.alpha
    }

    /// Returns whether it sends below line rate.
    pub fn is_limited(&self) -> bool {
        self.current < self.line
    }

    /// Counts `bytes` sent.
    pub fn sent(&mut self, now: Time, bytes: u64) {
        self.advance(now);
        if !self.is_limited() {
            return;
        }
        self.counted += bytes;
        let each = self.control.byte_counter.0;
        while self.counted >= each {
            self.counted -= each;
            self.by_bytes += 1;
            self.increase();
        }
    }

    /// Handles a congestion notification.
    pub fn notified(&mut self, now: Time) {
        self.advance(now);
        let g = self.control.g.0;
        self.target = self.current;
        let least = self.control.min_rate.0.min(self.current);
        self.current = (self.current * (1.0 - self.alpha / 2.0)).max(least);
        self.alpha = (1.0 - g) * self.alpha + g;
        (self.by_timer, self.by_bytes, self.counted) = (0, 0, 0);
        self.alpha_changed = now;
        self.next_timer = now + self.control.rate_timer;
    }

    /// Processes the timer events up to `now`.
    fn advance(&mut self, now: Time) {
        while self.is_limited() && self.next_timer <= now {
            self.by_timer += 1;
            self.increase();
            self.next_timer += self.control.rate_timer;
        }
        let each = self.control.alpha_timer;
        let times = now.since(self.alpha_changed).0 / each.0;
        if times > 0 {
            self.alpha *= (1.0 - self.control.g.0).powf(times as f64);
            self.alpha_changed += each * times;
        }
    }

    /// Raises the rate: fast recovery, then additive increase, and hyper increase when both timer
    /// and byte counter are past fast recovery.
    fn increase(&mut self) {
        let control = &self.control;
        let (least, most) = (
            self.by_timer.min(self.by_bytes),
            self.by_timer.max(self.by_bytes),
        );
        if least > control.fast_recovery.0 {
            self.target += control.hyper_increase.0;
        } else if most >= control.fast_recovery.0 {
            self.target += control.additive_increase.0;
        }
        self.target = self.target.min(self.line);
        self.current = (self.target + self.current) / 2.0;
        // Repeated halving of the difference never reaches zero.
        if self.line - self.current < self.line * 1e-6 {
            (self.current, self.target) = (self.line, self.line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Bytes, Count, Ratio};
    use proptest::prelude::*;

    const LINE: f64 = 5e9;
    const STEP: Time = Time(55_000_000);

    /// Values of the table in the paper.
    fn control() -> RateControl {
        RateControl {
            g: Ratio(1.0 / 256.0),
            alpha_timer: STEP,
            rate_timer: STEP,
            byte_counter: Bytes(10_000_000),
            fast_recovery: Count(5),
            additive_increase: Rate(5e6),
            hyper_increase: Rate(50e6),
            min_rate: Rate(12.5e6),
        }
    }

    fn flow() -> Reaction {
        Reaction::new(&control(), Rate(LINE))
    }

    fn close(one: f64, other: f64) {
        assert!(
            (one - other).abs() <= other.abs() * 1e-9,
            "{one} and {other}"
        );
    }

    #[test]
    fn the_first_notification_halves_the_rate() {
        let mut flow = flow();
        assert!(!flow.is_limited());
        flow.notified(Time(7));
        close(flow.rate(Time(7)).0, LINE / 2.0);
        close(flow.alpha(Time(7)), 1.0);
    }

    #[test]
    fn alpha_decays_by_g_and_later_cuts_are_smaller() {
        let mut flow = flow();
        flow.notified(Time::ZERO);
        let later = STEP * 100;
        let fallen = (255.0f64 / 256.0).powi(100);
        close(flow.alpha(later), fallen);
        let before = flow.rate(later).0;
        flow.notified(later);
        close(flow.rate(later).0, before * (1.0 - fallen / 2.0));
        close(flow.alpha(later), fallen * 255.0 / 256.0 + 1.0 / 256.0);
    }

    #[test]
    fn the_rate_recovers_by_halving_then_by_steps() {
        let mut flow = flow();
        flow.notified(Time::ZERO);
        // The target after the second cut is the rate after the first.
        flow.notified(Time::ZERO);
        let (target, mut current) = (LINE / 2.0, LINE / 4.0);
        for round in 1..5 {
            current = (current + target) / 2.0;
            close(flow.rate(STEP * round).0, current);
        }
        let mut target = target;
        for round in 5..20 {
            target += 5e6;
            current = (current + target) / 2.0;
            close(flow.rate(STEP * round).0, current);
        }
    }

    #[test]
    fn byte_counter_and_timer_together_start_hyper_increase() {
        let mut flow = flow();
        flow.notified(Time::ZERO);
        flow.notified(Time::ZERO);
        let (mut target, mut current) = (LINE / 2.0, LINE / 4.0);
        let short = Time(1);
        for event in 1..=6 {
            flow.sent(short, 9_999_999);
            flow.sent(short, 1);
            target += if event < 5 { 0.0 } else { 5e6 };
            current = (current + target) / 2.0;
            close(flow.rate(short).0, current);
        }
        // Five events of the timer are additive: the byte counter alone is past fast recovery.
        for round in 1..=5 {
            target += 5e6;
            current = (current + target) / 2.0;
            close(flow.rate(STEP * round).0, current);
        }
        target += 50e6;
        current = (current + target) / 2.0;
        close(flow.rate(STEP * 6).0, current);
    }

    #[test]
    fn a_flow_without_notifications_returns_to_line_rate() {
        let mut flow = flow();
        for _ in 0..50 {
            flow.notified(Time(1));
        }
        close(flow.rate(Time(1)).0, 12.5e6);
        close(flow.rate(STEP * 100_000).0, LINE);
        assert!(!flow.is_limited());
    }

    proptest! {
        #[test]
        fn rate_and_alpha_stay_within_bounds(
            events in prop::collection::vec((0u64..3, 0u64..2_000_000_000_000, 0u64..100_000_000),
                1..200),
        ) {
            let mut flow = flow();
            let mut now = Time::ZERO;
            for (event, after, bytes) in events {
                now += Time(after);
                match event {
                    0 => flow.notified(now),
                    1 => flow.sent(now, bytes),
                    _ => (),
                }
                let (rate, alpha) = (flow.rate(now).0, flow.alpha(now));
                prop_assert!((12.5e6..=LINE).contains(&rate), "{rate}");
                prop_assert!((0.0..=1.0).contains(&alpha), "{alpha}");
                prop_assert!(flow.current <= flow.target && flow.target <= LINE);
            }
        }

        /// The time of calls does not matter: a flow queried often equals one queried only at the
        /// end.
        #[test]
        fn reading_the_rate_changes_no_state(
            looks in prop::collection::vec(0u64..5_000_000_000, 0..50)) {
            let mut seldom = flow();
            seldom.notified(Time::ZERO);
            let mut often = seldom.clone();
            let mut looks = looks;
            looks.sort_unstable();
            for look in looks {
                often.rate(Time(look));
            }
            let end = Time(5_000_000_000);
            prop_assert_eq!(often.rate(end).0.to_bits(), seldom.rate(end).0.to_bits());
            prop_assert!((often.alpha(end) - seldom.alpha(end)).abs() < 1e-12);
        }
    }
}
