//! How the adapter's own thread waits while the application polls.
//!
//! Whoever polls serves and completes what peers of the host have for the process. The thread would do it at another's
//! expense then: where the two share a processor, what it waits for with a lock in its hand comes only when it has given
//! the processor back, and so has the application to wait for what the thread holds, for a whole time slice. So it leaves
//! that alone as long as it sees that somebody has polled since it last looked, and nobody needs to ring. Packets do not
//! wake it either, or each would cost a change of threads.
//!
//! But an application that polls its memory for what a peer writes looks at completion queues seldom, and where the peer
//! cannot write there itself (`ring`) it waits for this thread. So a request that is still there at the second look was
//! left to the thread, and so was an answer: it takes them. When that happens again and again, with few polls between, it
//! has peers ring from then on, until it has come in vain a few times because the application had been there before it.
//! Where a packet waits, or an answer that is owed, the thread looks again soon: the application has either polled by then,
//! and taken it, or left it to the thread, which then does all there is to do, and is woken by packets from then on, as it
//! is rung for. It looks the seldomer the longer it sees nothing.
//!
//! An application that computes between its polls, as those over MPI do, will be back. What comes for it meanwhile it would
//! take then, and to wake the thread for each message costs it the processor: 30 us in a virtual machine, where a peer's
//! store costs less than one. So the thread goes on looking for a while ([`GRACE`]), the seldomer the longer it is away,
//! takes what it has seen twice, and lets peers ring only after that, or as soon as there is anything that cannot wait. So
//! a peer that waits until its message has been taken by who computes waits for 8 ms at most (what needs both sides to go
//! on, as a long read through the rings, for as long with each ring's contents), and for as long as a ring takes once the
//! computing has lasted. Not for one that lives by events, which is one that arms queues again and again; nor where
//! nothing comes at all: there rings cost nothing, and looks do.
//!
//! A completion queue that is armed for an event is no sign that the application goes to sleep: UCX arms the one for its
//! datagrams, to which nothing comes for hours, and polls others all that time, with pauses in which it computes. Who polls
//! raises events as well. So an armed queue keeps the thread at work unless it has seen polling since, at a few looks, and
//! the last of it not long ago. Then events are late by two looks, which is 8 ms at most: when polling has just ended, and
//! where queues are polled every few milliseconds by one thread and another sleeps over a queue that it armed long ago.

use crate::process::progress::Demand;
use std::time::Duration;

/// How soon the thread looks again when something waits, or was left to it.
const SHORTEST: Duration = Duration::from_micros(20);
/// How seldom it looks when it has just seen that polling has ended; the longer that is ago, the seldomer.
const SELDOM: Duration = Duration::from_millis(1);
/// How seldom it looks while polling goes on; twice as often while something is under way.
const LONGEST: Duration = Duration::from_millis(4);

/// For so long after it was seen to have polled the application is expected back.
const GRACE: Duration = Duration::from_millis(25);
/// Looks at which nothing was under way before the thread lets peers ring instead.
const QUIET: u8 = 50;
/// Looks since a queue was armed before the application is taken for one that does not live by events.
const SETTLED: u8 = 20;

/// So often in a row the thread comes in vain before it leaves the work to the application. Once for each request would be
/// too few: the peer rings for what it completes as well, and that the application polls for.
const PATIENCE: u8 = 4;

/// What it counts for that the application left something; a look that has seen it poll counts for one less.
const LEFT: u8 = 2;
/// When the application is taken for one that leaves the work to the thread: the fourth time, if it polls once between each.
const TOO_OFTEN: u8 = 5;
/// Of one that was: what it leaves within three looks that see it poll is enough.
const NEARLY: u8 = TOO_OFTEN - LEFT + 3;

/// What the thread knows of the last looks.
pub(super) struct Lurker {
    /// Whether a packet waited at the last look.
    waits: bool,
    /// How long it waits if none does.
    seldom: Duration,
    /// How often it may yet come in vain; 0 while the application does the work.
    needed: u8,
    /// Rises by [`LEFT`] whenever the application leaves something and had polled since it did so before; falls by one with
    /// each look that sees it poll.
    left: u8,
    /// When it left something last, and had polled.
    left_at: u64,
    /// How often queues had been armed at the last look.
    armings: usize,
    /// Looks at which the application had polled since it armed a queue, up to [`PATIENCE`].
    polled: u8,
    /// When it was last seen to have polled, and when the last look was.
    polled_at: u64,
    looked_at: u64,
    /// Looks in a row at which it had armed no queue, up to [`SETTLED`].
    unarmed: u8,
    /// What was asked of the adapter at the last look.
    demand: Demand,
    /// Looks in a row at which that was nothing, up to [`QUIET`].
    quiet: u8,
}

impl Lurker {
    /// Of a thread that begins.
    pub(super) fn new() -> Lurker {
        Lurker {
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

    /// A look at some time in nanoseconds: whether the application has polled since the last one, how often queues have been
    /// armed by now, and what is asked of the adapter.
    pub(super) fn saw(&mut self, now: u64, is_polled: bool, armings: usize, demand: Demand) {
        // Of a poll during a long sleep nobody knows how long ago it was.
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
            (false, true) => PATIENCE.min(self.polled + 1),
            (false, false) => self.polled,
        };
        self.unarmed = count(self.unarmed, !is_armed, SETTLED);
        self.quiet = count(self.quiet, demand == Demand::Nothing, QUIET);
        self.armings = armings;
        self.demand = demand;
    }

    /// Whether the application polls, or will again.
    pub(super) fn is_attended(&self) -> bool {
        self.away() == Duration::ZERO || self.expects_polls()
    }

    /// Whether the application polled so short a time ago that it will again, and what there is can wait for that. Not while
    /// a packet waits that it has left.
    fn expects_polls(&self) -> bool {
        let may_wait = self.demand != Demand::Pressing && !self.waits;
        self.away() <= GRACE && self.unarmed == SETTLED && self.quiet < QUIET && may_wait
    }

    /// How long before the last look the application had been seen to poll.
    fn away(&self) -> Duration {
        Duration::from_nanos(self.looked_at.saturating_sub(self.polled_at))
    }

    /// Whether events that queues are armed for are not left to the application, after so many armings.
    pub(super) fn heeds_events(&self, armings: usize) -> bool {
        armings != self.armings || self.polled < PATIENCE || self.away() > GRACE
    }

    /// Whether the work is left to the thread, although the application polls.
    pub(super) fn is_needed(&self) -> bool {
        self.needed > 0
    }

    /// There was something that the application had left. Returns whether the work is left to the thread from now on; else it
    /// serves this once.
    pub(super) fn left_to(&mut self) -> bool {
        if self.left_at >= self.polled_at {
            // It has not been back since: it computes. Who watches its memory has polled when it was served.
            return false;
        }
        self.left_at = self.looked_at;
        self.left += LEFT;
        self.seldom = SHORTEST;
        if self.left < TOO_OFTEN {
            return false;
        }
        (self.left, self.needed) = (0, PATIENCE);
        true
    }

    /// What it had left was served, and whether more is to come.
    pub(super) fn served(&mut self, follows: bool) {
        if follows {
            self.seldom = SHORTEST;
        }
    }

    /// Whether packets wait was looked for, and all else was left to the application.
    pub(super) fn looked(&mut self, waits: bool) {
        self.waits = waits;
        self.seldom = LONGEST.min(2 * self.seldom);
    }

    /// The thread came to do all there is.
    pub(super) fn came(&mut self, found: bool) {
        self.seldom = SHORTEST;
        if found {
            self.quiet = 0;
        }
        if std::mem::take(&mut self.waits) && found {
            self.needed = PATIENCE;
        }
        match (found, self.needed) {
            (_, 0) => (),
            (true, _) => self.needed = PATIENCE,
            (false, 1) => (self.needed, self.left) = (0, NEARLY),
            (false, _) => self.needed -= 1,
        }
    }

    /// How long it waits before it looks again.
    pub(super) fn pause(&self) -> Duration {
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
    struct Looking {
        lurker: Lurker,
        now: u64,
    }

    impl Looking {
        fn new() -> Looking {
            Looking {
                lurker: Lurker::new(),
                now: 1 << 40,
            }
        }

        fn saw(&mut self, is_polled: bool, armings: usize, demand: Demand) -> &mut Lurker {
            self.now += LOOK;
            self.lurker.saw(self.now, is_polled, armings, demand);
            &mut self.lurker
        }
    }

    /// An application that polls for some time, then does something else for some time, and so on; a peer has something for it
    /// whenever it has taken the last thing. When the thread takes the work over, which looks as often as it says.
    fn until_needed(polls: u64, pauses: u64, limit: u64) -> Option<u64> {
        let mut lurker = Lurker::new();
        let (start, period) = (1 << 40, polls + pauses);
        // The number of the last poll.
        let polled = |at: u64| (at / period) * polls + (at % period).min(polls);
        let (mut before, mut seen_at) = (0, None);
        let mut now = 0;
        while now < limit {
            now += lurker.pause().as_nanos() as u64;
            let is_polled = polled(now) != polled(before);
            lurker.saw(start + now, is_polled, 0, UnderWay);
            // Something new is there, or what was there at the last look.
            let is_left = seen_at.is_some_and(|seen| polled(seen) == polled(now));
            if is_left && lurker.left_to() {
                return Some(now);
            }
            seen_at = (!is_left).then_some(now);
            lurker.looked(false);
            before = now;
        }
        None
    }

    #[test]
    fn who_waits_for_the_thread_is_soon_rung_for() {
        let mut lurker = Lurker::new();
        let mut now = 1 << 40;
        let began = now;
        let mut is_served = true;
        loop {
            // Once it has been served it polls, and the peer has the next thing for it, for which it watches its memory.
            lurker.saw(now, is_served, 0, UnderWay);
            let is_left = !is_served;
            if is_left && lurker.left_to() {
                break;
            }
            is_served = is_left;
            lurker.looked(false);
            now += lurker.pause().as_nanos() as u64;
        }
        assert!(now - began < 2_000_000, "{} ns", now - began);
    }

    #[test]
    fn who_computes_between_polls_is_not_rung_for() {
        // As NAS' CG and LU.
        for (polls, pauses) in [
            (1_000_000, 300_000),
            (3_000_000, 6_000_000),
            (4_000_000, 20_000_000),
        ] {
            assert_eq!(
                until_needed(polls, pauses, 2_000_000_000),
                None,
                "{polls} {pauses}"
            );
        }
    }

    #[test]
    fn who_comes_in_vain_too_often_leaves_the_work_to_the_application() {
        let mut looking = Looking::new();
        assert!(!looking.lurker.is_needed());
        looking.lurker.came(true);
        let lurker = &looking.lurker;
        assert!(!lurker.is_needed(), "the application had left nothing");
        // It polls, leaves what comes then, and so again.
        for times in 1..=4 {
            looking.saw(true, 0, UnderWay);
            assert_eq!(looking.saw(false, 0, UnderWay).left_to(), times == 4);
        }
        // Every second time something is there.
        for _ in 0..10 {
            looking.lurker.came(false);
            looking.lurker.came(true);
            assert!(looking.lurker.is_needed());
        }
        for left in (0..PATIENCE).rev() {
            looking.lurker.came(false);
            assert_eq!(looking.lurker.is_needed(), left > 0);
        }
        // Soon after that once is enough, and later it is not.
        looking.saw(true, 0, UnderWay);
        assert!(looking.saw(false, 0, UnderWay).left_to());
        for _ in 0..PATIENCE {
            looking.lurker.came(false);
        }
        for _ in 0..4 {
            looking.saw(true, 0, UnderWay);
        }
        assert!(!looking.saw(false, 0, UnderWay).left_to());
    }

    #[test]
    fn what_is_left_by_who_is_away_is_served_without_rings() {
        let mut looking = Looking::new();
        looking.saw(true, 0, UnderWay);
        for _ in 0..GRACE.as_nanos() as u64 / LOOK {
            assert!(!looking.saw(false, 0, UnderWay).left_to());
            assert!(!looking.lurker.is_needed());
        }
        // In bulk it is served at once, again and again.
        looking.lurker.looked(false);
        assert_eq!(looking.lurker.pause(), 2 * SHORTEST);
        for follows in [true, false] {
            looking.lurker.served(follows);
            looking.lurker.looked(false);
        }
        assert_eq!(looking.lurker.pause(), 4 * SHORTEST);
    }

    #[test]
    fn a_poll_during_a_long_sleep_may_be_long_ago() {
        let mut looking = Looking::new();
        assert!(looking.saw(true, 0, UnderWay).is_attended());
        looking.now += 1_000_000_000;
        assert!(!looking.saw(true, 0, UnderWay).is_attended());
        assert!(looking.saw(true, 0, UnderWay).is_attended());
    }

    #[test]
    fn who_has_polled_is_expected_back_for_a_while() {
        let mut looking = Looking::new();
        assert!(!looking.lurker.expects_polls(), "nobody has ever polled");
        assert!(!looking.saw(false, 0, UnderWay).expects_polls());
        assert!(looking.saw(true, 0, UnderWay).expects_polls());
        for _ in 0..GRACE.as_nanos() as u64 / LOOK {
            assert!(looking.saw(false, 0, UnderWay).expects_polls());
        }
        for _ in 0..300 {
            assert!(!looking.saw(false, 0, UnderWay).expects_polls());
        }
        let lurker = looking.saw(true, 0, UnderWay);
        assert!(lurker.expects_polls());
        lurker.looked(true);
        assert!(!lurker.expects_polls(), "a packet was seen to wait");
        lurker.looked(false);
        let pressed = looking.saw(false, 0, Pressing).expects_polls();
        assert!(!pressed, "something cannot wait");
    }

    #[test]
    fn who_lives_by_events_is_not_expected_to_poll() {
        let mut looking = Looking::new();
        for armings in 1..20 {
            for _ in 0..SETTLED {
                assert!(!looking.saw(true, armings, UnderWay).expects_polls());
            }
        }
        assert!(looking.saw(true, 19, UnderWay).expects_polls());
    }

    #[test]
    fn where_nothing_comes_peers_ring_when_polling_stops() {
        let mut looking = Looking::new();
        for _ in 0..2 {
            looking.saw(true, 0, UnderWay);
            for _ in 0..QUIET {
                assert!(looking.lurker.expects_polls());
                looking.saw(true, 0, Nothing);
            }
            assert!(!looking.lurker.expects_polls());
        }
        looking.lurker.came(true);
        assert!(looking.lurker.expects_polls(), "something came after all");
    }

    #[test]
    fn events_are_left_to_who_polls_on_after_arming() {
        let mut looking = Looking::new();
        let lurker = looking.saw(true, 1, UnderWay);
        assert!(lurker.heeds_events(1), "it polled, and may sleep now");
        for _ in 0..PATIENCE {
            assert!(looking.lurker.heeds_events(1));
            looking.saw(true, 1, UnderWay);
        }
        assert!(!looking.lurker.heeds_events(1));
        assert!(looking.lurker.heeds_events(2), "armed since the look");
        assert!(looking.saw(true, 2, UnderWay).heeds_events(2));
        // It computes, too.
        for _ in 0..PATIENCE {
            assert!(looking.saw(false, 2, UnderWay).heeds_events(2));
            looking.saw(true, 2, UnderWay);
        }
        assert!(!looking.lurker.heeds_events(2));
        for _ in 0..GRACE.as_nanos() as u64 / LOOK {
            assert!(!looking.saw(false, 2, UnderWay).heeds_events(2));
        }
        let lurker = looking.saw(false, 2, UnderWay);
        assert!(lurker.heeds_events(2), "it polls no more");
        let lurker = looking.saw(true, 2, UnderWay);
        assert!(!lurker.heeds_events(2), "it is back");
    }

    #[test]
    fn who_arms_for_each_event_is_never_left_to_its_polling() {
        let mut looking = Looking::new();
        for armings in 1..100 {
            assert!(looking.saw(true, armings, UnderWay).heeds_events(armings));
        }
    }

    #[test]
    fn it_looks_ever_more_seldom_but_soon_where_something_waits_or_was_left() {
        let mut looking = Looking::new();
        let mut pauses = Vec::new();
        while pauses.last() != Some(&LONGEST) {
            let lurker = looking.saw(true, 0, Nothing);
            lurker.looked(false);
            pauses.push(lurker.pause());
        }
        assert!(
            pauses.is_sorted() && pauses[0] <= 2 * SHORTEST,
            "{pauses:?}"
        );
        let lurker = &mut looking.lurker;
        lurker.looked(true);
        assert_eq!(lurker.pause(), SHORTEST);
        // The application took it.
        lurker.looked(false);
        assert_eq!(lurker.pause(), LONGEST);
        for demand in [UnderWay, Pressing] {
            let lurker = looking.saw(true, 0, demand);
            lurker.looked(false);
            assert_eq!(lurker.pause(), LONGEST / 2, "{demand:?}");
        }
        // The longer it is away, the seldomer.
        for away in [1, 2, 3, 4, 4] {
            let lurker = looking.saw(false, 0, Nothing);
            lurker.looked(false);
            assert_eq!(lurker.pause(), Duration::from_nanos(away * LOOK));
        }
        // It did not.
        looking.saw(true, 0, UnderWay).came(true);
        looking.lurker.looked(false);
        assert_eq!(looking.lurker.pause(), 2 * SHORTEST);
        assert!(!looking.lurker.is_needed());
        // It left what was seen to wait: the thread is woken for the next ones, until it comes in vain.
        let lurker = &mut looking.lurker;
        lurker.looked(true);
        lurker.came(true);
        assert!(lurker.is_needed());
        for _ in 0..PATIENCE {
            lurker.came(false);
        }
        assert!(!lurker.is_needed());
    }
}
