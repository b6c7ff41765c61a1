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
//! left to the thread: it serves it, and has peers ring from then on, until it has come in vain a few times because the
//! application had been there before it. Where a packet waits, or an answer that is owed, the thread looks again soon: the
//! application has either polled by then, and taken it, or left it to the thread, which then does all there is to do, and is
//! woken by packets from then on, as it is rung for. It looks the seldomer the longer it sees nothing.
//!
//! An application that computes between its polls, as those over MPI do, will be back. What comes for it meanwhile it would
//! take then, and to wake the thread for each message costs it the processor: 30 us in a virtual machine, where a peer's
//! store costs less than one. So the thread goes on looking for a while ([`GRACE`]), serves what it has seen twice, and
//! lets peers ring only after that, or as soon as there is anything that cannot wait. Not for one that lives by events, which
//! is one that arms queues again and again; nor where nothing comes at all: there rings cost nothing, and looks do.
//!
//! A completion queue that is armed for an event is no sign that the application goes to sleep: UCX arms the one for its
//! datagrams, to which nothing comes for hours, and polls others all that time. Who polls raises events as well. So an armed
//! queue keeps the thread at work unless it has seen polling go on since. When that ends, the first event is late by as much
//! as the next look is away: less than three times as long as there had been polling, and 8 ms at most.

use crate::process::progress::Demand;
use std::time::Duration;

/// How soon the thread looks again when something waits, or was left to it.
const SHORTEST: Duration = Duration::from_micros(20);
/// How seldom it looks while nobody polls, or something is under way.
const SELDOM: Duration = Duration::from_millis(1);
/// How seldom it looks where polling goes on and nothing is under way.
const LONGEST: Duration = Duration::from_millis(4);

/// For so many looks without a poll between them the application is expected back.
const GRACE: u8 = 10;
/// Looks at which nothing was under way before the thread lets peers ring instead.
const QUIET: u8 = 50;
/// Looks since a queue was armed before the application is taken for one that does not live by events.
const SETTLED: u8 = 20;

/// So often in a row the thread comes in vain before it leaves the work to the application. Once for each request would be
/// too few: the peer rings for what it completes as well, and that the application polls for.
const PATIENCE: u8 = 4;

/// What the thread knows of the last looks.
pub(super) struct Lurker {
    /// Whether a packet waited at the last look.
    waits: bool,
    /// How long it waits if none does.
    seldom: Duration,
    /// How often it may yet come in vain; 0 while the application does the work.
    needed: u8,
    /// How often queues had been armed at the last look.
    armings: usize,
    /// Looks in a row at which the application had polled and armed no queue, up to [`PATIENCE`].
    polled: u8,
    /// Looks in a row at which it had not polled, up to one more than [`GRACE`].
    unpolled: u8,
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
            armings: 0,
            polled: 0,
            unpolled: GRACE + 1,
            unarmed: SETTLED,
            demand: Demand::Nothing,
            quiet: 0,
        }
    }

    /// A look: whether the application has polled since the last one, how often queues have been armed by now, and what is
    /// asked of the adapter.
    pub(super) fn saw(&mut self, is_polled: bool, armings: usize, demand: Demand) {
        let is_armed = armings != self.armings;
        let count = |counter: u8, is_so: bool, most: u8| match is_so {
            true => most.min(counter + 1),
            false => 0,
        };
        self.polled = count(self.polled, is_polled && !is_armed, PATIENCE);
        self.unpolled = count(self.unpolled, !is_polled, GRACE + 1);
        self.unarmed = count(self.unarmed, !is_armed, SETTLED);
        self.quiet = count(self.quiet, demand == Demand::Nothing, QUIET);
        self.armings = armings;
        self.demand = demand;
    }

    /// Whether the application polled so short a time ago that it will again, and what there is can wait for that. Not while
    /// a packet waits that it has left.
    pub(super) fn expects_polls(&self) -> bool {
        let may_wait = self.demand != Demand::Pressing && !self.waits;
        self.unpolled <= GRACE && self.unarmed == SETTLED && self.quiet < QUIET && may_wait
    }

    /// Whether events that queues are armed for are not left to the application, after so many armings.
    pub(super) fn heeds_events(&self, armings: usize) -> bool {
        armings != self.armings || self.polled < PATIENCE
    }

    /// Whether the work is left to the thread, although the application polls.
    pub(super) fn is_needed(&self) -> bool {
        self.needed > 0
    }

    /// There was a request that the application had left.
    pub(super) fn left_to(&mut self) {
        self.needed = PATIENCE;
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
        self.needed = match (found, self.needed) {
            (true, 1..) => PATIENCE,
            (_, needed) => needed.saturating_sub(1),
        };
    }

    /// How long it waits before it looks again.
    pub(super) fn pause(&self) -> Duration {
        match (self.waits, self.unpolled, self.demand) {
            (true, _, _) => SHORTEST,
            (false, 0, Demand::Nothing) => self.seldom,
            (false, _, _) => SELDOM.min(self.seldom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Demand::{Nothing, Pressing, UnderWay};
    use super::*;

    #[test]
    fn who_comes_in_vain_too_often_leaves_the_work_to_the_application() {
        let mut lurker = Lurker::new();
        assert!(!lurker.is_needed());
        lurker.came(true);
        assert!(!lurker.is_needed(), "the application had left nothing");
        lurker.left_to();
        // Every second time something is there.
        for _ in 0..10 {
            lurker.came(false);
            lurker.came(true);
            assert!(lurker.is_needed());
        }
        for left in (0..PATIENCE).rev() {
            lurker.came(false);
            assert_eq!(lurker.is_needed(), left > 0);
        }
    }

    #[test]
    fn who_has_polled_is_expected_back_for_a_while() {
        let mut lurker = Lurker::new();
        assert!(!lurker.expects_polls(), "nobody has ever polled");
        lurker.saw(false, 0, UnderWay);
        assert!(!lurker.expects_polls());
        lurker.saw(true, 0, UnderWay);
        for _ in 0..GRACE {
            assert!(lurker.expects_polls());
            lurker.saw(false, 0, UnderWay);
        }
        assert!(lurker.expects_polls());
        for _ in 0..300 {
            lurker.saw(false, 0, UnderWay);
            assert!(!lurker.expects_polls());
        }
        lurker.saw(true, 0, UnderWay);
        assert!(lurker.expects_polls());
        lurker.looked(true);
        assert!(!lurker.expects_polls(), "a packet was seen to wait");
        lurker.looked(false);
        lurker.saw(false, 0, Pressing);
        assert!(!lurker.expects_polls(), "something cannot wait");
    }

    #[test]
    fn who_lives_by_events_is_not_expected_to_poll() {
        let mut lurker = Lurker::new();
        for armings in 1..20 {
            lurker.saw(true, armings, UnderWay);
            for _ in 1..SETTLED {
                lurker.saw(true, armings, UnderWay);
                assert!(!lurker.expects_polls());
            }
        }
        lurker.saw(true, 19, UnderWay);
        assert!(lurker.expects_polls());
    }

    #[test]
    fn where_nothing_comes_peers_ring_when_polling_stops() {
        let mut lurker = Lurker::new();
        for _ in 0..2 {
            lurker.saw(true, 0, UnderWay);
            for _ in 0..QUIET {
                assert!(lurker.expects_polls());
                lurker.saw(true, 0, Nothing);
            }
            assert!(!lurker.expects_polls());
        }
        lurker.came(true);
        assert!(lurker.expects_polls(), "something came after all");
    }

    #[test]
    fn events_are_left_to_who_polls_on_after_arming() {
        let mut lurker = Lurker::new();
        lurker.saw(true, 1, UnderWay);
        assert!(lurker.heeds_events(1), "it polled, and may sleep now");
        for _ in 0..PATIENCE {
            assert!(lurker.heeds_events(1));
            lurker.saw(true, 1, UnderWay);
        }
        assert!(!lurker.heeds_events(1));
        assert!(lurker.heeds_events(2), "armed since the look");
        lurker.saw(true, 2, UnderWay);
        assert!(lurker.heeds_events(2));
        for _ in 0..PATIENCE {
            lurker.saw(true, 2, UnderWay);
        }
        assert!(!lurker.heeds_events(2));
        lurker.saw(false, 2, UnderWay);
        assert!(lurker.heeds_events(2), "it polls no more");
    }

    #[test]
    fn who_arms_for_each_event_is_never_left_to_its_polling() {
        let mut lurker = Lurker::new();
        for armings in 1..100 {
            lurker.saw(true, armings, UnderWay);
            assert!(lurker.heeds_events(armings));
        }
    }

    #[test]
    fn it_looks_ever_more_seldom_but_soon_where_something_waits_or_was_left() {
        let mut lurker = Lurker::new();
        let mut pauses = Vec::new();
        while pauses.last() != Some(&LONGEST) {
            lurker.saw(true, 0, Nothing);
            lurker.looked(false);
            pauses.push(lurker.pause());
        }
        assert!(
            pauses.is_sorted() && pauses[0] <= 2 * SHORTEST,
            "{pauses:?}"
        );
        lurker.looked(true);
        assert_eq!(lurker.pause(), SHORTEST);
        // The application took it.
        lurker.looked(false);
        assert_eq!(lurker.pause(), LONGEST);
        for (is_polled, demand) in [(false, Nothing), (true, UnderWay), (true, Pressing)] {
            lurker.saw(is_polled, 0, demand);
            lurker.looked(false);
            assert_eq!(lurker.pause(), SELDOM, "{is_polled} {demand:?}");
        }
        // It did not.
        lurker.came(true);
        lurker.looked(false);
        assert_eq!(lurker.pause(), 2 * SHORTEST);
        assert!(!lurker.is_needed());
        // It left what was seen to wait: the thread is woken for the next ones, until it comes in vain.
        lurker.looked(true);
        lurker.came(true);
        assert!(lurker.is_needed());
        for _ in 0..PATIENCE {
            lurker.came(false);
        }
        assert!(!lurker.is_needed());
    }
}
