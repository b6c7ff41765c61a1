//! Idle policy of the progress thread while the application polls.
//!
//! A polling application serves and completes the requests of peers on this host itself. If the
//! progress thread did that work as well, both would compete for a processor: where they share one
//! and the progress thread is preempted while it holds a lock, the application waits for a whole
//! time slice. So the thread leaves that work alone as long as it sees that the application has
//! polled since its last look, and peers need not ring the doorbell. Packets do not wake it either,
//! because each would cost a context switch.
//!
//! An application that polls its memory for the data of a peer, however, seldom polls completion
//! queues; where the peer cannot write there directly (`ring`), the application waits for this
//! thread. So a request or an answer that is still there at the second look was left to the thread,
//! which takes it. If that happens repeatedly with few polls in between, the thread has peers ring
//! from then on, until it has woken in vain a few times because the application was faster. If a
//! packet waits or an acknowledgement is owed, the thread looks again soon: by then the application
//! has either polled and taken it or left it to the thread. In the second case the thread does all
//! pending work and has packets, like doorbells, wake it from then on. The longer it sees nothing,
//! the less often it looks.
//!
//! An application that computes between its polls, as MPI programs do, will poll again and will
//! then take the work that has arrived. Waking the thread for each message costs that application
//! the processor: 30 us in a virtual machine, where a store by a peer costs less than one. So the
//! thread goes on looking for a while ([`GRACE`]), less often the longer the application is away,
//! takes work that it has seen twice, and lets peers ring only after that, or as soon as there is
//! work that cannot wait. A peer whose message is for a computing application therefore waits 8 ms
//! at most (for transfers that need both sides, such as a long read through the rings: 8 ms for
//! each ring's contents), and only for a doorbell ring once the computation has lasted. This does
//! not hold for an application that lives by events, that is, one that arms queues again and again,
//! nor where no messages arrive: there doorbells cost nothing and looks do.
//!
//! A completion queue that is armed for an event does not show that the application is about to
//! sleep: UCX arms the queue for its datagrams, which can stay empty for hours, and polls other
//! queues all that time, with pauses for computation. Polling raises events as well. So an armed
//! queue keeps the thread at work unless it has since seen polling at a few looks, the last of them
//! not long ago. In that case events are late by two looks, 8 ms at most: just after polling has
//! ended, and where one thread polls queues every few milliseconds while another sleeps on a queue
//! that it armed long ago.

use crate::process::progress::Demand;
use std::time::Duration;

/// Time to the next look when work waits or was left to the thread.
const SHORTEST: Duration = Duration::from_micros(20);
/// Time between looks just after polling has ended; it grows with the time since then.
const SELDOM: Duration = Duration::from_millis(1);
/// Longest time between looks while polling goes on; half of it while work is under way.
const LONGEST: Duration = Duration::from_millis(4);

/// Time after the last observed poll during which the application is expected to poll again.
const GRACE: Duration = Duration::from_millis(25);
/// Number of looks with nothing under way before the thread lets peers ring instead.
const QUIET: u8 = 50;
/// Number of looks since a queue was armed after which the application does not count as one that
/// lives by events.
const SETTLED: u8 = 20;

/// Number of wake-ups in vain, in a row, after which the thread leaves the work to the application.
/// One for each request would be too few: the peer also rings for its completions, which the
/// application polls for.
const VAIN_WAKE_UPS: u8 = 4;

/// Amount by which left work raises the count; a look that has seen polling lowers it by one.
const LEFT: u8 = 2;
/// Count at which the application is taken for one that leaves work to the thread: the fourth time,
/// with one poll in between each.
const TOO_OFTEN: u8 = 5;
/// Count after the thread has stopped serving such an application: work left within three looks
/// that see polling is enough.
const NEARLY: u8 = TOO_OFTEN - LEFT + 3;

/// State of the idle policy: the results of the last looks.
pub(super) struct IdlePolicy {
    /// Whether a packet waited at the last look.
    waits: bool,
    /// Time to the next look if no packet waits.
    seldom: Duration,
    /// Number of wake-ups in vain that remain; 0 while the application does the work.
    needed: u8,
    /// Rises by [`LEFT`] whenever the application leaves work and has polled since it last did so;
    /// falls by one with each look that sees polling.
    left: u8,
    /// Time of the last work left by an application that had polled, in nanoseconds.
    left_at: u64,
    /// Number of queue armings at the last look.
    armings: usize,
    /// Number of looks with polling since a queue was armed, up to [`VAIN_WAKE_UPS`].
    polled: u8,
    /// Time of the last look that saw polling, and of the last look, in nanoseconds.
    polled_at: u64,
    looked_at: u64,
    /// Number of looks in a row without an arming, up to [`SETTLED`].
    unarmed: u8,
    /// Demand on the adapter at the last look.
    demand: Demand,
    /// Number of looks in a row without any demand, up to [`QUIET`].
    quiet: u8,
}

impl IdlePolicy {
    /// Returns the state of a thread that starts.
    pub(super) fn new() -> IdlePolicy {
        IdlePolicy {
            waits: false,
            seldom: SHORTEST,
            needed: 0,
            left: 0,
            left_at: 0,
            armings: 0,
            polled: 0,
            polled_at: 0,
            looked_at: u64::MAX,
            unarmed: SETTLED,
            demand: Demand::Nothing,
            quiet: 0,
        }
    }

    /// Records a look at time `now` in nanoseconds: whether the application has polled since the
    /// last look, how often queues have been armed so far, and the demand on the adapter.
    pub(super) fn record_look(
        &mut self,
        now: u64,
        is_polled: bool,
        armings: usize,
        demand: Demand,
    ) {
        // The time of a poll during a long sleep is unknown.
        let is_polled = is_polled && now.saturating_sub(self.looked_at) <= GRACE.as_nanos() as u64;
        self.looked_at = now;
        if is_polled {
            self.polled_at = now;
            self.left = self.left.saturating_sub(1);
        }
        let is_armed = armings != self.armings;
        let count = |counter: u8, is_so: bool, most: u8| match is_so {
            true => most.min(counter + 1),
            false => 0,
        };
        self.polled = match (is_armed, is_polled) {
            (true, _) => 0,
            (false, true) => VAIN_WAKE_UPS.min(self.polled + 1),
            (false, false) => self.polled,
        };
        self.unarmed = count(self.unarmed, !is_armed, SETTLED);
        self.quiet = count(self.quiet, demand == Demand::Nothing, QUIET);
        self.armings = armings;
        self.demand = demand;
    }

    /// Returns whether the application polls, or is expected to poll again.
    pub(super) fn application_polls(&self) -> bool {
        self.away() == Duration::ZERO || self.expects_polls()
    }

    /// Returns whether the application polled so recently that it is expected to do so again, and
    /// the present work can wait for that. False while a packet waits that the application has
    /// left.
    fn expects_polls(&self) -> bool {
        let may_wait = self.demand != Demand::Pressing && !self.waits;
        self.away() <= GRACE && self.unarmed == SETTLED && self.quiet < QUIET && may_wait
    }

    /// Returns the time from the last observed poll to the last look.
    fn away(&self) -> Duration {
        Duration::from_nanos(self.looked_at.saturating_sub(self.polled_at))
    }

    /// Returns whether the thread serves the events of armed queues itself, given the number of
    /// armings so far.
    pub(super) fn serves_events(&self, armings: usize) -> bool {
        armings != self.armings || self.polled < VAIN_WAKE_UPS || self.away() > GRACE
    }

    /// Returns whether the work is left to the thread although the application polls.
    pub(super) fn serves_left_work(&self) -> bool {
        self.needed > 0
    }

    /// Notes that the application has left work. Returns whether the thread takes over the work
    /// from now on; if not, it serves this once.
    pub(super) fn note_left_work(&mut self) -> bool {
        if self.left_at >= self.polled_at {
            // It has not polled since, so it computes. An application that watches its memory polls
            // once it has been served.
            return false;
        }
        self.left_at = self.looked_at;
        self.left += LEFT;
        self.seldom = SHORTEST;
        if self.left < TOO_OFTEN {
            return false;
        }
        (self.left, self.needed) = (0, VAIN_WAKE_UPS);
        true
    }

    /// Notes that left work was served, and whether more follows.
    pub(super) fn note_left_work_served(&mut self, follows: bool) {
        if follows {
            self.seldom = SHORTEST;
        }
    }

    /// Notes a look that checked only whether packets wait and left all other work to the
    /// application.
    pub(super) fn note_packet_check(&mut self, waits: bool) {
        self.waits = waits;
        self.seldom = LONGEST.min(2 * self.seldom);
    }

    /// Notes that the thread woke to do all pending work, and whether it found any.
    pub(super) fn note_wake_up(&mut self, found: bool) {
        self.seldom = SHORTEST;
        if found {
            self.quiet = 0;
        }
        if std::mem::take(&mut self.waits) && found {
            self.needed = VAIN_WAKE_UPS;
        }
        match (found, self.needed) {
            (_, 0) => (),
            (true, _) => self.needed = VAIN_WAKE_UPS,
            (false, 1) => (self.needed, self.left) = (0, NEARLY),
            (false, _) => self.needed -= 1,
        }
    }

    /// Returns the time to wait before the next look.
    pub(super) fn next_interval(&self) -> Duration {
        match (self.waits, self.away(), self.demand) {
            (true, _, _) => SHORTEST,
            (false, Duration::ZERO, Demand::Nothing) => self.seldom,
            (false, Duration::ZERO, _) => self.seldom.min(LONGEST / 2),
            (false, away, _) => self.seldom.min(away.max(SELDOM)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Demand::{Nothing, Pressing, UnderWay};
    use super::*;

    /// Nanoseconds from one look to the next.
    const LOOK: u64 = 1_000_000;

    /// A thread that looks every [`LOOK`].
    struct Simulation {
        policy: IdlePolicy,
        now: u64,
    }

    impl Simulation {
        fn new() -> Simulation {
            Simulation {
                policy: IdlePolicy::new(),
                now: 1 << 40,
            }
        }

        fn record_look(
            &mut self,
            is_polled: bool,
            armings: usize,
            demand: Demand,
        ) -> &mut IdlePolicy {
            self.now += LOOK;
            self.policy
                .record_look(self.now, is_polled, armings, demand);
            &mut self.policy
        }
    }

    /// Simulates an application that alternates between polling and other work; a peer has new data
    /// for it whenever it has taken the last. Returns the time at which the thread, looking at the
    /// intervals that it chooses, takes over the work.
    fn until_needed(polls: u64, computing: u64, limit: u64) -> Option<u64> {
        let mut policy = IdlePolicy::new();
        let (start, period) = (1 << 40, polls + computing);
        // The number of the last poll.
        let polled = |at: u64| (at / period) * polls + (at % period).min(polls);
        let (mut before, mut seen_at) = (0, None);
        let mut now = 0;
        while now < limit {
            now += policy.next_interval().as_nanos() as u64;
            let is_polled = polled(now) != polled(before);
            policy.record_look(start + now, is_polled, 0, UnderWay);
            // The work is new, or was already there at the last look.
            let is_left = seen_at.is_some_and(|seen| polled(seen) == polled(now));
            if is_left && policy.note_left_work() {
                return Some(now);
            }
            seen_at = (!is_left).then_some(now);
            policy.note_packet_check(false);
            before = now;
        }
        None
    }

    #[test]
    fn application_waiting_for_the_thread_soon_gets_rings() {
        let mut policy = IdlePolicy::new();
        let mut now = 1 << 40;
        let began = now;
        let mut is_served = true;
        loop {
            // Once served, the application polls; then the peer has new data, for which it watches
            // its memory.
            policy.record_look(now, is_served, 0, UnderWay);
            let is_left = !is_served;
            if is_left && policy.note_left_work() {
                break;
            }
            is_served = is_left;
            policy.note_packet_check(false);
            now += policy.next_interval().as_nanos() as u64;
        }
        assert!(now - began < 2_000_000, "{} ns", now - began);
    }

    #[test]
    fn application_computing_between_polls_gets_no_rings() {
        // As NAS CG and LU do.
        for (polls, computing) in [
            (1_000_000, 300_000),
            (3_000_000, 6_000_000),
            (4_000_000, 20_000_000),
        ] {
            assert_eq!(
                until_needed(polls, computing, 2_000_000_000),
                None,
                "{polls} {computing}"
            );
        }
    }

    #[test]
    fn thread_leaves_work_to_the_application_after_vain_wake_ups() {
        let mut simulation = Simulation::new();
        assert!(!simulation.policy.serves_left_work());
        simulation.policy.note_wake_up(true);
        let policy = &simulation.policy;
        assert!(
            !policy.serves_left_work(),
            "the application had left nothing"
        );
        // It polls, leaves the next work, and so on.
        for times in 1..=4 {
            simulation.record_look(true, 0, UnderWay);
            assert_eq!(
                simulation.record_look(false, 0, UnderWay).note_left_work(),
                times == 4
            );
        }
        // Every second wake-up finds work.
        for _ in 0..10 {
            simulation.policy.note_wake_up(false);
            simulation.policy.note_wake_up(true);
            assert!(simulation.policy.serves_left_work());
        }
        for left in (0..VAIN_WAKE_UPS).rev() {
            simulation.policy.note_wake_up(false);
            assert_eq!(simulation.policy.serves_left_work(), left > 0);
        }
        // Soon after that, one leftover is enough; later it is not.
        simulation.record_look(true, 0, UnderWay);
        assert!(simulation.record_look(false, 0, UnderWay).note_left_work());
        for _ in 0..VAIN_WAKE_UPS {
            simulation.policy.note_wake_up(false);
        }
        for _ in 0..4 {
            simulation.record_look(true, 0, UnderWay);
        }
        assert!(!simulation.record_look(false, 0, UnderWay).note_left_work());
    }

    #[test]
    fn work_left_by_a_computing_application_is_served_without_rings() {
        let mut simulation = Simulation::new();
        simulation.record_look(true, 0, UnderWay);
        for _ in 0..GRACE.as_nanos() as u64 / LOOK {
            assert!(!simulation.record_look(false, 0, UnderWay).note_left_work());
            assert!(!simulation.policy.serves_left_work());
        }
        // In bulk it is served at once, again and again.
        simulation.policy.note_packet_check(false);
        assert_eq!(simulation.policy.next_interval(), 2 * SHORTEST);
        for follows in [true, false] {
            simulation.policy.note_left_work_served(follows);
            simulation.policy.note_packet_check(false);
        }
        assert_eq!(simulation.policy.next_interval(), 4 * SHORTEST);
    }

    #[test]
    fn poll_during_a_long_sleep_does_not_count_as_recent() {
        let mut simulation = Simulation::new();
        assert!(
            simulation
                .record_look(true, 0, UnderWay)
                .application_polls()
        );
        simulation.now += 1_000_000_000;
        assert!(
            !simulation
                .record_look(true, 0, UnderWay)
                .application_polls()
        );
        assert!(
            simulation
                .record_look(true, 0, UnderWay)
                .application_polls()
        );
    }

    #[test]
    fn polls_are_expected_for_a_grace_period() {
        let mut simulation = Simulation::new();
        assert!(!simulation.policy.expects_polls(), "no thread has polled");
        assert!(!simulation.record_look(false, 0, UnderWay).expects_polls());
        assert!(simulation.record_look(true, 0, UnderWay).expects_polls());
        for _ in 0..GRACE.as_nanos() as u64 / LOOK {
            assert!(simulation.record_look(false, 0, UnderWay).expects_polls());
        }
        for _ in 0..300 {
            assert!(!simulation.record_look(false, 0, UnderWay).expects_polls());
        }
        let policy = simulation.record_look(true, 0, UnderWay);
        assert!(policy.expects_polls());
        policy.note_packet_check(true);
        assert!(!policy.expects_polls(), "a packet was seen to wait");
        policy.note_packet_check(false);
        let pressed = simulation.record_look(false, 0, Pressing).expects_polls();
        assert!(!pressed, "something cannot wait");
    }

    #[test]
    fn polls_are_not_expected_of_an_event_driven_application() {
        let mut simulation = Simulation::new();
        for armings in 1..20 {
            for _ in 0..SETTLED {
                assert!(
                    !simulation
                        .record_look(true, armings, UnderWay)
                        .expects_polls()
                );
            }
        }
        assert!(simulation.record_look(true, 19, UnderWay).expects_polls());
    }

    #[test]
    fn peers_ring_after_quiet_looks_when_polling_stops() {
        let mut simulation = Simulation::new();
        for _ in 0..2 {
            simulation.record_look(true, 0, UnderWay);
            for _ in 0..QUIET {
                assert!(simulation.policy.expects_polls());
                simulation.record_look(true, 0, Nothing);
            }
            assert!(!simulation.policy.expects_polls());
        }
        simulation.policy.note_wake_up(true);
        assert!(
            simulation.policy.expects_polls(),
            "something came after all"
        );
    }

    #[test]
    fn events_are_left_to_an_application_that_keeps_polling() {
        let mut simulation = Simulation::new();
        let policy = simulation.record_look(true, 1, UnderWay);
        assert!(policy.serves_events(1), "it polled, and may sleep now");
        for _ in 0..VAIN_WAKE_UPS {
            assert!(simulation.policy.serves_events(1));
            simulation.record_look(true, 1, UnderWay);
        }
        assert!(!simulation.policy.serves_events(1));
        assert!(simulation.policy.serves_events(2), "armed since the look");
        assert!(simulation.record_look(true, 2, UnderWay).serves_events(2));
        // It computes, too.
        for _ in 0..VAIN_WAKE_UPS {
            assert!(simulation.record_look(false, 2, UnderWay).serves_events(2));
            simulation.record_look(true, 2, UnderWay);
        }
        assert!(!simulation.policy.serves_events(2));
        for _ in 0..GRACE.as_nanos() as u64 / LOOK {
            assert!(!simulation.record_look(false, 2, UnderWay).serves_events(2));
        }
        let policy = simulation.record_look(false, 2, UnderWay);
        assert!(policy.serves_events(2), "it polls no more");
        let policy = simulation.record_look(true, 2, UnderWay);
        assert!(!policy.serves_events(2), "it is back");
    }

    #[test]
    fn events_of_a_rearming_application_are_always_served() {
        let mut simulation = Simulation::new();
        for armings in 1..100 {
            assert!(
                simulation
                    .record_look(true, armings, UnderWay)
                    .serves_events(armings)
            );
        }
    }

    #[test]
    fn look_interval_grows_and_resets_on_pending_work() {
        let mut simulation = Simulation::new();
        let mut intervals = Vec::new();
        while intervals.last() != Some(&LONGEST) {
            let policy = simulation.record_look(true, 0, Nothing);
            policy.note_packet_check(false);
            intervals.push(policy.next_interval());
        }
        assert!(
            intervals.is_sorted() && intervals[0] <= 2 * SHORTEST,
            "{intervals:?}"
        );
        let policy = &mut simulation.policy;
        policy.note_packet_check(true);
        assert_eq!(policy.next_interval(), SHORTEST);
        // The application took it.
        policy.note_packet_check(false);
        assert_eq!(policy.next_interval(), LONGEST);
        for demand in [UnderWay, Pressing] {
            let policy = simulation.record_look(true, 0, demand);
            policy.note_packet_check(false);
            assert_eq!(policy.next_interval(), LONGEST / 2, "{demand:?}");
        }
        // The longer it is away, the longer the pause.
        for away in [1, 2, 3, 4, 4] {
            let policy = simulation.record_look(false, 0, Nothing);
            policy.note_packet_check(false);
            assert_eq!(policy.next_interval(), Duration::from_nanos(away * LOOK));
        }
        // It did not.
        simulation.record_look(true, 0, UnderWay).note_wake_up(true);
        simulation.policy.note_packet_check(false);
        assert_eq!(simulation.policy.next_interval(), 2 * SHORTEST);
        assert!(!simulation.policy.serves_left_work());
        // It left a packet that was seen to wait: packets wake the thread until it wakes in vain.
        let policy = &mut simulation.policy;
        policy.note_packet_check(true);
        policy.note_wake_up(true);
        assert!(policy.serves_left_work());
        for _ in 0..VAIN_WAKE_UPS {
            policy.note_wake_up(false);
        }
        assert!(!policy.serves_left_work());
    }
}
