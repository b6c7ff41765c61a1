//! When the process of an interface without packets polls, naps or sleeps.
//!
//! Sleeping costs two wake-ups for the next packet: of the adapter's thread, and of this one. A nap
//! does not wake the adapter's thread: the process asks for no events, sleeps until the device is
//! readable, for a short time at most, and looks for packets in between. Polling costs no wake-up,
//! but takes the processor from the programs whose packets are awaited.

use std::time::{Duration, Instant};

/// Time for which an interface without packets is polled.
const POLLING: Duration = Duration::from_micros(200);
/// Time after which a thread that has yielded its processor counts as one of too many, and time for
/// which it sleeps at once then: a sleeper that is woken gets a processor sooner than a poller.
const LONG_YIELD: Duration = Duration::from_micros(500);
const CONTENDED: Duration = Duration::from_millis(20);
/// Average number of packets between pauses from which on a link counts as busy, and not as one
/// whose packets answer each other. On a busy link naps follow the polling, for a time without
/// packets.
const MANY: usize = 2;
const NAP: Duration = Duration::from_micros(50);
const NAPPING: Duration = Duration::from_millis(2);
/// Average number of bytes between pauses from which on data stream by datagrams. If other threads
/// run for most of the time for which the interface polls, the time of the processor limits the
/// rate: the interface does not poll for a while, and its naps are longer. Packets that arrive
/// meanwhile fit into the queues. Messages of connections are long, so an event for each costs
/// little.
const STREAM: usize = 32 << 10;
const SHORT_YIELD: Duration = Duration::from_micros(5);
const SHARED: Duration = Duration::from_millis(5);
const LONG_NAP: Duration = Duration::from_micros(100);
/// Packets and bytes of a pause that count for the averages, so that one long burst is soon
/// forgotten.
const MOST_PACKETS: usize = 32;
const MOST_BYTES: usize = 512 << 10;

/// The next step of an interface without packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// It looks for packets at once.
    Poll,
    /// It sleeps for this time, or until the device is readable.
    Nap(Duration),
    /// It asks for events and sleeps.
    Sleep,
}

/// The recent traffic of an interface.
#[derive(Debug)]
pub(super) struct Pace {
    has_connections: bool,
    idle_since: Option<Instant>,
    polling_from: Instant,
    /// Packets and bytes since the last pause, and moving averages of them in sixteenths.
    packets: usize,
    bytes: usize,
    average_packets: usize,
    average_bytes: usize,
    /// When the last yield of this pause ended, unless a nap followed it.
    last_yield: Option<Instant>,
    /// Nanoseconds of polling in the last pause, from its first yield to the end of its last one;
    /// those of long yields, in which other threads ran; and moving sums of both.
    polled: u64,
    others: u64,
    sum_of_polled: u64,
    sum_of_others: u64,
}

impl Pace {
    /// Returns the pace of an interface without traffic, in connected mode or not.
    pub(super) fn new(now: Instant, has_connections: bool) -> Pace {
        Pace {
            has_connections,
            idle_since: None,
            polling_from: now,
            packets: 0,
            bytes: 0,
            average_packets: 0,
            average_bytes: 0,
            last_yield: None,
            polled: 0,
            others: 0,
            sum_of_polled: 0,
            sum_of_others: 0,
        }
    }

    /// Counts packets of a length that were sent or received.
    pub(super) fn count(&mut self, packets: u64, length: usize) {
        let packets = packets as usize;
        self.packets += packets;
        self.bytes += packets * length;
    }

    /// Ends the pause: there was work, or the process sleeps until there is.
    pub(super) fn resume(&mut self) {
        self.idle_since = None;
        self.last_yield = None;
    }

    /// Returns the next step after a turn without work. If a packet is blocked, its receiver has
    /// others to take first.
    pub(super) fn rest(&mut self, now: Instant, is_blocked: bool) -> Rest {
        let since = *self.idle_since.get_or_insert_with(|| {
            let average = |old: usize, new: usize| (3 * old + 16 * new) / 4;
            let packets = std::mem::take(&mut self.packets).min(MOST_PACKETS);
            let bytes = std::mem::take(&mut self.bytes).min(MOST_BYTES);
            self.average_packets = average(self.average_packets, packets);
            self.average_bytes = average(self.average_bytes, bytes);
            let sum = |old: u64, new: u64| old / 4 * 3 + new;
            let polled = std::mem::take(&mut self.polled);
            let others = std::mem::take(&mut self.others);
            if polled > 0 {
                self.sum_of_polled = sum(self.sum_of_polled, polled);
                self.sum_of_others = sum(self.sum_of_others, others);
            }
            now
        });
        let idle = now.duration_since(since);
        if !is_blocked && since >= self.polling_from && idle < POLLING {
            return Rest::Poll;
        }
        self.last_yield = None;
        let is_busy = !is_blocked && self.average_packets >= 16 * MANY;
        let is_streaming = self.is_streaming();
        match idle < NAPPING {
            true if is_streaming && (is_blocked || self.is_shared()) => Rest::Nap(LONG_NAP),
            true if is_streaming || is_busy => Rest::Nap(NAP),
            _ => Rest::Sleep,
        }
    }

    /// Notes how long the thread was without its processor after it had yielded it.
    pub(super) fn yielded(&mut self, before: Instant, after: Instant) {
        let time = after.duration_since(before);
        // The turn between two yields is time of polling in which no other thread runs.
        let since = self.last_yield.replace(after).unwrap_or(before);
        self.polled += after.duration_since(since).as_nanos() as u64;
        if time > SHORT_YIELD {
            self.others += time.as_nanos() as u64;
        }
        if time > LONG_YIELD {
            self.polling_from = after + CONTENDED;
        } else if self.is_streaming() && self.is_shared() {
            self.polling_from = after + SHARED;
        }
    }

    /// Returns whether other threads have run for more than three quarters of the time of polling
    /// in the last pauses.
    fn is_shared(&self) -> bool {
        self.sum_of_others > self.sum_of_polled / 4 * 3
    }

    fn is_streaming(&self) -> bool {
        !self.has_connections && self.average_bytes >= 16 * STREAM
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An interface, and the time.
    struct Run {
        pace: Pace,
        now: Instant,
    }

    impl Run {
        fn new(has_connections: bool) -> Run {
            let now = Instant::now();
            Run {
                pace: Pace::new(now, has_connections),
                now,
            }
        }

        /// Moves packets between pauses, with a yield of this length in each.
        fn traffic(&mut self, packets: u64, length: usize, yielding: Duration) {
            for _ in 0..20 {
                self.pace.count(packets, length);
                self.pace.resume();
                self.pace.rest(self.now, false);
                let before = self.now;
                self.now += yielding;
                self.pace.yielded(before, self.now);
                self.pace.resume();
            }
        }

        /// Returns the steps of an interface without packets, and after which time each begins.
        fn rests(&mut self, is_blocked: bool) -> Vec<(Rest, Duration)> {
            let start = self.now;
            let mut all: Vec<(Rest, Duration)> = Vec::new();
            while all.last().is_none_or(|last| last.0 != Rest::Sleep) {
                let rest = self.pace.rest(self.now, is_blocked);
                if all.last().is_none_or(|last| last.0 != rest) {
                    all.push((rest, self.now - start));
                }
                self.now += Duration::from_micros(10);
            }
            self.pace.resume();
            all
        }
    }

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn packets_that_answer_each_other_are_polled_for() {
        let mut run = Run::new(false);
        let polled = [(Rest::Poll, NOW), (Rest::Sleep, POLLING)];
        assert_eq!(run.rests(false), polled);
        // Programs on the same processor run while it is yielded.
        run.traffic(1, 100, 10 * SHORT_YIELD);
        assert_eq!(run.rests(false), polled);
    }

    #[test]
    fn many_packets_are_napped_for() {
        let mut run = Run::new(false);
        run.traffic(4, 100, Duration::ZERO);
        let wanted = [
            (Rest::Poll, NOW),
            (Rest::Nap(NAP), POLLING),
            (Rest::Sleep, NAPPING),
        ];
        assert_eq!(run.rests(false), wanted);
    }

    #[test]
    fn streams_leave_the_processor_to_programs_that_need_it() {
        let mut run = Run::new(false);
        run.traffic(1, 60_000, SHORT_YIELD / 10);
        let wanted = [
            (Rest::Poll, NOW),
            (Rest::Nap(NAP), POLLING),
            (Rest::Sleep, NAPPING),
        ];
        assert_eq!(run.rests(false), wanted);
        run.traffic(1, 60_000, 2 * SHORT_YIELD);
        let wanted = [(Rest::Nap(LONG_NAP), NOW), (Rest::Sleep, NAPPING)];
        assert_eq!(run.rests(false), wanted);
        // Without data the interface soon polls again.
        run.traffic(1, 100, 2 * SHORT_YIELD);
        run.now += SHARED;
        assert_eq!(run.rests(false)[0], (Rest::Poll, NOW));
    }

    #[test]
    fn long_messages_that_answer_each_other_are_polled_for() {
        let mut run = Run::new(false);
        for _ in 0..20 {
            run.pace.count(1, 60_000);
            run.pace.rest(run.now, false);
            // The program uses the message, then waits for the answer.
            for time in [4 * SHORT_YIELD, SHORT_YIELD, SHORT_YIELD] {
                let before = run.now;
                run.now += time;
                run.pace.yielded(before, run.now);
            }
            run.pace.resume();
        }
        assert_eq!(run.rests(false)[0], (Rest::Poll, NOW));
    }

    #[test]
    fn turns_between_yields_are_time_without_other_threads() {
        let rests = |turn: Duration| {
            let mut run = Run::new(false);
            for _ in 0..20 {
                run.pace.count(1, 60_000);
                for _ in 0..3 {
                    run.pace.rest(run.now, false);
                    let before = run.now;
                    run.now += 2 * SHORT_YIELD;
                    run.pace.yielded(before, run.now);
                    run.now += turn;
                }
                run.pace.resume();
            }
            run.rests(false)
        };
        // Other threads run for 30 of 31 microseconds, then for 30 of 50.
        let wanted = [(Rest::Nap(LONG_NAP), NOW), (Rest::Sleep, NAPPING)];
        assert_eq!(rests(SHORT_YIELD / 10), wanted);
        assert_eq!(rests(2 * SHORT_YIELD)[0], (Rest::Poll, NOW));
    }

    #[test]
    fn messages_of_connections_are_polled_for() {
        let mut run = Run::new(true);
        run.traffic(1, 60_000, 2 * SHORT_YIELD);
        assert_eq!(
            run.rests(false),
            [(Rest::Poll, NOW), (Rest::Sleep, POLLING)]
        );
        assert_eq!(run.rests(true), [(Rest::Sleep, NOW)]);
    }

    #[test]
    fn a_blocked_packet_is_not_polled_for() {
        let mut run = Run::new(false);
        assert_eq!(run.rests(true), [(Rest::Sleep, NOW)]);
        run.traffic(1, 60_000, Duration::ZERO);
        let wanted = [(Rest::Nap(LONG_NAP), NOW), (Rest::Sleep, NAPPING)];
        assert_eq!(run.rests(true), wanted);
    }

    #[test]
    fn a_thread_that_waits_long_for_its_processor_sleeps_at_once() {
        let mut run = Run::new(false);
        run.traffic(1, 100, 2 * LONG_YIELD);
        assert_eq!(run.rests(false), [(Rest::Sleep, NOW)]);
        run.now += CONTENDED;
        assert_eq!(run.rests(false)[0], (Rest::Poll, NOW));
    }
}
