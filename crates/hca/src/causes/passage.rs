//! The passage of requests over a link with rules ([`super::link`]), and of their answers back, in
//! shared memory.
//!
//! All draws of a request are made when it is posted: which of its transmissions are lost, and
//! which of their acknowledgements. That decides how long the transport's timer has the request
//! wait, and whether its retries run out. A request is then executed at the time of the first
//! transmission that arrives, and completes at the time of the first acknowledgement that does.
//!
//! A loss ends early when a later request arrives: the responder sees the gap in the packet
//! sequence numbers, and the requester repeats at once (specification, 9.7.5.2.8).

use super::link::{Fate, Medium, QpLink};
use crate::emulation;
use crate::emulation::lead::Lead;
use crate::emulation::network::Network;
use crate::emulation::schedule::Due;
use crate::emulation::work::{self, Work};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use verbena_emulation::lateness::{Side, is_late};
use verbena_faults::link::Direction;
use verbena_hca_os::counter_clock::CounterClock;

/// Most nanoseconds between two posts that count as the second one's time: the work of the calls
/// before and after the wait, and the loop of a benchmark, which is in the model's time, too.
/// perftest's writes take up to 115 ns.
const OUTSIDE: u64 = 150;

/// Most nanoseconds that are made up for in this way.
const LONGEST_OVERTIME: u64 = 20_000;

/// A request that is posted.
pub struct Posted {
    /// Its index in the send queue.
    pub index: u64,
    /// The time at which it reaches the link.
    pub now: u64,
    /// Its port.
    pub port: u8,
    /// How it is sent.
    pub medium: Medium,
    /// Bytes of user data to the responder.
    pub bytes: u64,
    /// Bytes of user data from the responder.
    pub answer_bytes: u64,
    /// Whether a fence waits for its answer: it is a read or an atomic.
    pub is_fetch: bool,
    /// The transport's retries; none for a service without acknowledgements.
    pub retries: Option<Retries>,
    /// Earliest time of the completion.
    pub completion: u64,
    /// Nanoseconds from posting to completion on the emulated adapter; 0 without one.
    pub time: u64,
    /// Nanoseconds by which both times are early, because the software needs them.
    pub lead: Lead,
    /// The work of executing it.
    pub work: Work,
    /// Whether it has a completion if it succeeds.
    pub is_signalled: bool,
}

/// The retries of a reliable connection.
#[derive(Clone, Copy)]
pub struct Retries {
    /// Nanoseconds until a request without an answer is repeated; none for ever.
    pub timeout: Option<u64>,
    /// Number of repetitions.
    pub count: u8,
}

/// The treatment of a request that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It is executed.
    Once,
    /// It is executed twice.
    Twice,
    /// It is executed behind the next one.
    Late,
    /// It is lost, and the requester is not informed.
    Never,
    /// Each transmission is lost: the retries run out.
    Unanswered,
}

/// The execution of a request on an emulated adapter.
#[derive(Clone, Copy, Debug)]
pub struct Executed {
    /// Its start.
    pub begun: u64,
    /// Whether that was late.
    pub is_off: bool,
    /// The time of the completion.
    pub completion: u64,
}

struct Passage {
    index: u64,
    /// Time of the first transmission that arrives, or at which the retries have run out.
    due: u64,
    /// The same if nothing had been lost.
    undisturbed: u64,
    arrival: Arrival,
    /// The retries run out although the request is executed, at this time.
    fails_at: Option<u64>,
    /// Nanoseconds by which lost acknowledgements delay the completion.
    wait: u64,
    back: Fate,
    answer_bytes: u64,
    /// As [`Posted::is_fetch`].
    is_fetch: bool,
    /// Arrival of the acknowledgement, once the request is executed.
    completion: Option<u64>,
    /// Earliest time of the completion.
    least: u64,
    /// As [`Posted::time`].
    time: u64,
    /// As [`Posted::lead`].
    lead: Lead,
    /// As [`Posted::work`].
    work: Work,
    /// As [`Posted::is_signalled`].
    is_signalled: bool,
    /// Number of its bytes, both ways.
    bytes: u64,
    /// Start of its execution on an emulated adapter, and whether that was late.
    begun: Option<(u64, bool)>,
    /// Whether it leaves as packets.
    is_packets: bool,
    /// Whether others were under way when its packets left: then its round trip is not its own.
    is_behind: bool,
    /// Whether the network was slower than the emulated adapter.
    is_late: bool,
}

/// The state of a request that is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// It completes.
    Arrived,
    /// Its retries have run out.
    Unanswered,
    /// It completes at this time.
    At(u64),
}

/// The fence before a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// The request may begin.
    Open,
    /// An answer arrives at this time, or the retries of its request run out.
    Until(u64),
    /// The retries of an earlier request have run out, and the queue pair is about to fail.
    Closed,
}

/// Losses to be counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    /// Messages that arrived damaged.
    pub damaged: u64,
    /// Repetitions.
    pub repeated: u64,
}

/// The time, which is read again only where that may matter.
#[derive(Clone, Copy, Default)]
pub struct Clock {
    last: u64,
    counter: CounterClock,
}

impl Clock {
    /// Reads the time.
    pub fn read(&mut self) -> u64 {
        self.last = self.counter.now().max(self.last);
        self.last
    }

    /// Returns the time, read again if the last one was before a deadline.
    pub fn towards(&mut self, deadline: u64) -> u64 {
        match self.last < deadline {
            true => self.read(),
            false => self.last,
        }
    }

    /// Returns the time, if it has reached a deadline.
    pub fn reaches(&mut self, deadline: u64) -> Option<u64> {
        Some(self.towards(deadline)).filter(|now| *now >= deadline)
    }
}

/// The requests of a send queue that are on the link.
pub struct Passages {
    link: Arc<QpLink>,
    /// Arrival of the last request: order is kept.
    last: u64,
    /// Earliest completion of the last request.
    least: u64,
    waiting: VecDeque<Passage>,
    /// Those since they were counted last.
    pub losses: Losses,
    /// Time at which the queue pair is woken next; 0 if it is not.
    pub wake_at: u64,
    /// Time in which the last request is posted on the emulated adapter.
    pub posting: Range<u64>,
    /// Time at which the last post ended.
    posted: u64,
    /// Nanoseconds by which that was too late.
    overtime: u64,
    /// Time at which the present post is to end.
    due_end: u64,
    /// Whether that one leaves as packets.
    pub posts_packets: bool,
    /// The time of the network to the peer, for an emulated adapter.
    network: Option<Box<Network>>,
    /// The time.
    pub clock: Clock,
}

impl Passages {
    /// Returns those of a queue pair with rules about its link.
    pub fn new(link: Arc<QpLink>) -> Passages {
        Passages {
            link,
            last: 0,
            least: 0,
            waiting: VecDeque::new(),
            losses: Losses::default(),
            wake_at: 0,
            posting: 0..0,
            posted: 0,
            overtime: 0,
            due_end: 0,
            posts_packets: false,
            network: None,
            clock: Clock::default(),
        }
    }

    /// Sets the time in which a request is posted that began at `now` and is to end at `end`. It
    /// begins earlier by the time of other work since the last post, and by the time that this was
    /// late, if it follows that one at once.
    pub fn set_posting(&mut self, now: u64, end: u64) {
        let gap = now.saturating_sub(self.posted);
        let overtime = std::mem::take(&mut self.overtime);
        let early = match gap <= OUTSIDE {
            true => gap + overtime,
            false => OUTSIDE,
        };
        let early = early.min(now);
        self.posting = now - early..end.saturating_sub(early);
        self.due_end = self.posting.end;
    }

    /// Notes that a post has ended. Returns whether that was too late to be made up for.
    pub fn end_posting(&mut self, now: u64) -> bool {
        let late = now.saturating_sub(self.due_end);
        self.posted = now;
        self.overtime = late.min(LONGEST_OVERTIME);
        late > LONGEST_OVERTIME
    }

    /// Notes that the queue pair is woken at this time.
    pub fn woken(&mut self, now: u64) {
        if self.wake_at <= now {
            self.wake_at = 0;
        }
    }

    /// Returns the link.
    pub fn link(&self) -> &Arc<QpLink> {
        &self.link
    }

    /// Returns the shortest round trip over the network of a request of this size.
    pub fn round_trip(&self, bytes: u64) -> u64 {
        let network = self.network.as_deref();
        network.map_or(0, |network| network.round_trip(bytes))
    }

    /// Begins the passage of a request. Returns whether earlier ones became due by it.
    pub fn begin(&mut self, posted: &Posted) -> bool {
        let (medium, port, now) = (posted.medium, posted.port, posted.now);
        // Rules act on the packets of a connected queue pair, not on its requests.
        let has_rules = self.link.has_rules && medium != Medium::Packet;
        let (first, undisturbed) = match has_rules {
            false => (Fate::default(), self.last.max(now)),
            true => {
                let mut rules = self.link.rules(Direction::Out);
                let first = rules.next(medium, port);
                (first, rules.arrival(&first, now, posted.bytes))
            }
        };
        let least = self.keep_order(undisturbed, posted.completion);
        let mut passage = Passage::new(posted, undisturbed, least);
        if medium == Medium::Packet {
            self.waiting.push_back(passage);
            return false;
        }
        let Some(retries) = posted.retries else {
            self.losses.damaged += u64::from(first.is_damaged);
            passage.arrival = match first {
                Fate { is_lost: true, .. } => Arrival::Never,
                Fate { is_late: true, .. } => Arrival::Late,
                Fate {
                    is_doubled: true, ..
                } => Arrival::Twice,
                _ => Arrival::Once,
            };
            self.waiting.push_back(passage);
            return false;
        };
        let is_straight = !has_rules || self.plan(&mut passage, first, retries, posted);
        let releases = has_rules && is_straight && self.release(undisturbed);
        self.waiting.push_back(passage);
        releases
    }

    /// Notes the times of a request, and returns the earliest one of its completion.
    fn keep_order(&mut self, arrival: u64, completion: u64) -> u64 {
        self.last = arrival;
        self.least = self.least.max(completion);
        self.least
    }

    /// Returns the times of a request that is posted, behind those before it, without rules.
    pub fn in_order(&mut self, due: Due) -> Due {
        let arrival = self.last.max(due.arrival);
        let completion = self.keep_order(arrival, due.completion);
        Due {
            arrival,
            completion,
            ..due
        }
    }

    /// Continues the passage of a request with times of [`Passages::in_order`], which may be
    /// executed.
    pub fn resume(&mut self, posted: &Posted, executed: Option<Executed>) {
        let passage = Passage::new(posted, posted.now, posted.completion);
        self.waiting.push_back(Passage {
            begun: executed.map(|one| (one.begun, one.is_off)),
            completion: executed.map(|one| one.completion),
            ..passage
        });
    }

    /// Draws the transmissions and acknowledgements of a request, the first transmission being
    /// drawn already. Returns whether nothing is lost.
    fn plan(
        &mut self,
        passage: &mut Passage,
        first: Fate,
        retries: Retries,
        posted: &Posted,
    ) -> bool {
        let (medium, port) = (posted.medium, posted.port);
        let (mut losses, mut before) = (0, None);
        let mut there = first;
        loop {
            self.losses.damaged += u64::from(there.is_damaged);
            if !there.is_lost {
                before.get_or_insert(losses);
                passage.back = self.link.rules(Direction::In).next(medium, port);
                self.losses.damaged += u64::from(passage.back.is_damaged);
                if !passage.back.is_lost {
                    break;
                }
            }
            losses += 1;
            if losses > u64::from(retries.count) {
                break;
            }
            self.losses.repeated += 1;
            there = self.link.rules(Direction::Out).next(medium, port);
        }
        if losses == 0 {
            return true;
        }
        let after = |losses: u64| match retries.timeout {
            Some(timeout) => timeout.saturating_mul(losses),
            None if losses == 0 => 0,
            None => u64::MAX,
        };
        let at = |losses| passage.undisturbed.saturating_add(after(losses));
        let runs_out = losses > u64::from(retries.count);
        match before {
            None => (passage.due, passage.arrival) = (at(losses), Arrival::Unanswered),
            Some(before) => {
                passage.due = at(before);
                passage.wait = after(losses - before);
                passage.fails_at = runs_out.then(|| at(losses));
            }
        }
        false
    }

    /// Ends the losses before a request that passes both ways, except those that use up all
    /// retries.
    fn release(&mut self, now: u64) -> bool {
        let mut any = false;
        for one in &mut self.waiting {
            if one.fails_at.is_some() || one.arrival == Arrival::Unanswered {
                continue;
            }
            if one.due > one.undisturbed || one.wait > 0 {
                one.due = one.due.min(now);
                // The acknowledgement that is repeated takes as long as the first.
                let first = |at: u64| at.min(now.max(at.saturating_sub(one.wait)));
                one.completion = one.completion.map(first);
                one.wait = 0;
                any = true;
            }
        }
        any
    }

    /// Returns how a request arrives, or else the time at which it does.
    pub fn arrives(&mut self, index: u64) -> Result<Arrival, u64> {
        let clock = &mut self.clock;
        let mut earlier = self.waiting.iter().rev();
        let is_behind = self.posts_packets
            && earlier
                .find(|one| one.index < index)
                .is_some_and(|one| one.completion.is_none());
        let Some(one) = passage_of(&mut self.waiting, index) else {
            return Ok(Arrival::Once);
        };
        let due = one.due;
        let is_noted = one.time > 0 && one.begun.is_none();
        let reached = match is_noted {
            // Not the time that was read for an earlier request.
            true => Some(clock.read()).filter(|now| *now >= due),
            false => clock.reaches(due),
        };
        match reached {
            None => Err(due),
            Some(now) => {
                if is_noted && let Some(emulation) = emulation::own() {
                    let lead = one.lead.arrival;
                    one.is_behind = is_behind;
                    // When packets arrive is not known here.
                    let is_off =
                        !one.is_packets && emulation.note(Side::Arrival, now, due, lead, one.time);
                    one.begun = Some((now, is_off));
                }
                Ok(one.arrival)
            }
        }
    }

    /// Notes that a request is executed: its acknowledgement leaves.
    pub fn executed(&mut self, index: u64) {
        let link = Some(&self.link).filter(|link| link.has_rules);
        let now = self.clock.read();
        let mut round_trip = None;
        if let Some(one) = passage_of(&mut self.waiting, index)
            && one.completion.is_none()
        {
            match one.begun {
                Some((begun, _)) if one.is_packets => {
                    one.is_late = is_late(now.saturating_sub(one.least), one.time);
                    round_trip = (!one.is_behind).then_some((one.bytes, now - begun));
                }
                Some((begun, _)) => work::note(one.work, one.bytes, now - begun),
                None => {}
            }
            let arrival = match link.filter(|_| !one.is_packets) {
                None => now,
                Some(link) => {
                    let mut rules = link.rules(Direction::In);
                    rules.arrival(&one.back, now, one.answer_bytes)
                }
            };
            one.completion = Some(arrival.saturating_add(one.wait).max(one.least));
        }
        if let Some((bytes, time)) = round_trip {
            self.network.get_or_insert_default().note(bytes, time);
        }
    }

    /// Returns whether the acknowledgement of the oldest request has arrived, which is executed.
    pub fn returns(&mut self, index: u64) -> Back {
        let (has_rules, clock) = (self.link.has_rules, &mut self.clock);
        while self.waiting.front().is_some_and(|one| one.index < index) {
            self.waiting.pop_front();
        }
        let Some(one) = passage_of(&mut self.waiting, index) else {
            return Back::Arrived;
        };
        let (time, arrived) = match one.fails_at {
            Some(time) => (time, Back::Unanswered),
            None => (one.completion.unwrap_or(0), Back::Arrived),
        };
        match clock.reaches(time) {
            Some(now) => {
                let emulation = emulation::own().filter(|_| one.time > 0);
                if let Some(emulation) = emulation.filter(|_| one.is_packets) {
                    emulation.note_packets(one.is_late);
                    one.time = 0;
                } else if let Some(emulation) = emulation {
                    let due = match has_rules {
                        false => one.least,
                        true => time,
                    };
                    let lead = one.lead.completion;
                    // The end of others is not looked for.
                    let is_off = one.is_signalled && {
                        let now = clock.read().max(now);
                        emulation.note(Side::Completion, now, due, lead, one.time)
                    };
                    let was_off = one.begun.is_some_and(|(_, was_off)| was_off);
                    emulation.note_request(is_off || was_off);
                    one.time = 0;
                }
                arrived
            }
            None => Back::At(time),
        }
    }

    /// Returns the fence before a request: the answers of reads and atomics, which are executed,
    /// are under way or lost. An answer behind a lost acknowledgement that uses up the retries
    /// comes too late.
    pub fn fence(&mut self, index: u64) -> Fence {
        let clock = &mut self.clock;
        let earlier = self.waiting.iter().take_while(|one| one.index < index);
        let matter = earlier.filter(|one| one.is_fetch || one.fails_at.is_some());
        let ends = matter.map(|one| match one.fails_at {
            Some(time) => (time, Fence::Closed),
            None => (one.completion.unwrap_or(0), Fence::Open),
        });
        let mut fence = Fence::Open;
        for (time, then) in ends {
            match clock.reaches(time) {
                None => fence = Fence::Until(time),
                Some(_) if fence == Fence::Open => fence = then,
                Some(_) => {}
            }
        }
        match self.link.has_rules {
            true => fence,
            false => Fence::Open,
        }
    }

    /// Returns whether a request fails because all its retries are lost.
    pub fn fails(&self, index: u64) -> bool {
        let mut all = self.waiting.iter();
        all.find(|one| one.index == index)
            .is_some_and(|one| one.arrival == Arrival::Unanswered || one.fails_at.is_some())
    }

    /// Forgets all requests, of a connection that has ended.
    pub fn forget(&mut self) {
        self.waiting.clear();
        self.last = 0;
        self.least = 0;
        self.network = None;
        self.link.restart();
    }
}

impl Passage {
    /// Returns that of a request that arrives and completes at these times.
    fn new(posted: &Posted, due: u64, least: u64) -> Passage {
        Passage {
            index: posted.index,
            due,
            undisturbed: due,
            arrival: Arrival::Once,
            fails_at: None,
            wait: 0,
            back: Fate::default(),
            answer_bytes: posted.answer_bytes,
            is_fetch: posted.is_fetch,
            completion: None,
            least,
            time: posted.time,
            lead: posted.lead,
            work: posted.work,
            is_signalled: posted.is_signalled,
            bytes: posted.bytes + posted.answer_bytes,
            begun: None,
            is_packets: matches!(posted.medium, Medium::Packet | Medium::DatagramPacket),
            is_behind: false,
            is_late: false,
        }
    }
}

/// Returns the passage of a request.
fn passage_of(waiting: &mut VecDeque<Passage>, index: u64) -> Option<&mut Passage> {
    let first = waiting.front()?.index;
    let ahead = usize::try_from(index.checked_sub(first)?).ok()?;
    // Local requests have no passage.
    let end = waiting.len().min(ahead + 1);
    let mut near = waiting.range_mut(..end).rev();
    near.find(|one| one.index == index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_hca_os::clock;

    fn waiting(due: u64, undisturbed: u64, wait: u64, completion: Option<u64>) -> Passage {
        Passage {
            index: 0,
            due,
            undisturbed,
            arrival: Arrival::Once,
            fails_at: None,
            wait,
            back: Fate::default(),
            answer_bytes: 0,
            is_fetch: false,
            completion,
            least: 0,
            time: 0,
            lead: Lead::default(),
            work: Work::Datagram,
            is_signalled: false,
            bytes: 0,
            begun: None,
            is_packets: false,
            is_behind: false,
            is_late: false,
        }
    }

    #[test]
    fn a_later_request_ends_a_loss_but_no_delay() {
        let mut passages = Passages::new(QpLink::without_rules());
        // Executed; its acknowledgement takes 100 and is lost once, which costs 5000.
        passages
            .waiting
            .push_back(waiting(10, 10, 5000, Some(5110)));
        assert!(passages.release(20));
        assert_eq!(passages.waiting[0].completion, Some(110));
        let late = clock::now() + 60_000_000_000;
        passages.waiting[0].completion = Some(late);
        assert_eq!(passages.returns(0), Back::At(late));
        passages.waiting[0].completion = Some(110);
        assert_eq!(passages.returns(0), Back::Arrived);
    }

    #[test]
    fn a_fence_waits_for_answers_of_reads_and_atomics_only() {
        let mut link = QpLink::without_rules();
        Arc::get_mut(&mut link).expect("the only one").has_rules = true;
        let mut passages = Passages::new(link);
        let late = clock::now() + 60_000_000_000;
        let on_link = |index, is_fetch, completion| Passage {
            index,
            is_fetch,
            ..waiting(10, 10, 0, completion)
        };
        passages.waiting.push_back(on_link(0, true, Some(110)));
        passages.waiting.push_back(on_link(1, false, Some(late)));
        passages.waiting.push_back(on_link(3, true, Some(late)));
        assert_eq!(passages.fence(3), Fence::Open);
        assert_eq!(passages.fence(4), Fence::Until(late));
        passages.waiting[2].fails_at = Some(late);
        assert_eq!(passages.fence(4), Fence::Until(late));
        passages.waiting[2].fails_at = Some(120);
        assert_eq!(passages.fence(4), Fence::Closed);
        assert_eq!(passages.fence(3), Fence::Open);
        passages.waiting[1].fails_at = Some(120);
        assert_eq!(passages.fence(3), Fence::Closed);
    }

    #[test]
    fn a_later_request_ends_a_loss_on_the_way_there() {
        let mut passages = Passages::new(QpLink::without_rules());
        let late = clock::now() + 60_000_000_000;
        passages.waiting.push_back(waiting(late, 10, 0, None));
        assert_eq!(passages.arrives(0), Err(late));
        assert!(passages.release(20));
        assert_eq!(passages.arrives(0), Ok(Arrival::Once));
    }
}
