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
use std::collections::VecDeque;
use std::sync::Arc;
use verbena_faults::link::Direction;

/// A request that is posted.
pub struct Posted {
    /// Its index in the send queue.
    pub index: u64,
    /// The time.
    pub now: u64,
    /// Its port.
    pub port: u8,
    /// How it is sent.
    pub medium: Medium,
    /// Bytes of user data to the responder.
    pub bytes: u64,
    /// Bytes of user data from the responder.
    pub answer_bytes: u64,
    /// The transport's retries; none for a service without acknowledgements.
    pub retries: Option<Retries>,
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
    /// Arrival of the acknowledgement, once the request is executed.
    completion: Option<u64>,
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

/// Losses to be counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Losses {
    /// Messages that arrived damaged.
    pub damaged: u64,
    /// Repetitions.
    pub repeated: u64,
}

/// The requests of a send queue that are on the link.
pub struct Passages {
    link: Arc<QpLink>,
    waiting: VecDeque<Passage>,
    /// Those since they were counted last.
    pub losses: Losses,
    /// Time at which the queue pair is woken next; it may be past.
    pub wake_at: u64,
}

impl Passages {
    /// Returns those of a queue pair with rules about its link.
    pub fn new(link: Arc<QpLink>) -> Passages {
        Passages {
            link,
            waiting: VecDeque::new(),
            losses: Losses::default(),
            wake_at: 0,
        }
    }

    /// Begins the passage of a request. Returns whether earlier ones became due by it.
    pub fn begin(&mut self, posted: &Posted) -> bool {
        let (medium, port, now) = (posted.medium, posted.port, posted.now);
        let first = self.link.rules(Direction::Out).next(medium, port);
        let undisturbed = self
            .link
            .rules(Direction::Out)
            .arrival(&first, now, posted.bytes);
        let mut passage = Passage {
            index: posted.index,
            due: undisturbed,
            undisturbed,
            arrival: Arrival::Once,
            fails_at: None,
            wait: 0,
            back: Fate::default(),
            answer_bytes: posted.answer_bytes,
            completion: None,
        };
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
        let is_straight = self.plan(&mut passage, first, retries, posted);
        let releases = is_straight && self.release(undisturbed);
        self.waiting.push_back(passage);
        releases
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

    /// Returns the passage of a request, and forgets those before it.
    fn find(&mut self, index: u64) -> Option<&mut Passage> {
        while self.waiting.front().is_some_and(|one| one.index < index) {
            self.waiting.pop_front();
        }
        self.at(index)
    }

    fn at(&mut self, index: u64) -> Option<&mut Passage> {
        let first = self.waiting.front()?.index;
        let ahead = usize::try_from(index.checked_sub(first)?).ok()?;
        // Local requests have no passage.
        let end = self.waiting.len().min(ahead + 1);
        let mut near = self.waiting.range_mut(..end).rev();
        near.find(|one| one.index == index)
    }

    /// Returns how a request arrives, or else the time at which it does.
    pub fn arrives(&mut self, index: u64, now: u64) -> Result<Arrival, u64> {
        match self.at(index) {
            None => Ok(Arrival::Once),
            Some(one) if one.due > now => Err(one.due),
            Some(one) => Ok(one.arrival),
        }
    }

    /// Notes that a request is executed: its acknowledgement leaves.
    pub fn executed(&mut self, index: u64, now: u64) {
        let link = self.link.clone();
        if let Some(one) = self.at(index)
            && one.completion.is_none()
        {
            let mut rules = link.rules(Direction::In);
            let arrival = rules.arrival(&one.back, now, one.answer_bytes);
            one.completion = Some(arrival.saturating_add(one.wait));
        }
    }

    /// Returns whether the acknowledgement of the oldest request has arrived, which is executed.
    pub fn returns(&mut self, index: u64, now: u64) -> Back {
        let Some(one) = self.find(index) else {
            return Back::Arrived;
        };
        let (time, arrived) = match one.fails_at {
            Some(time) => (time, Back::Unanswered),
            None => (one.completion.unwrap_or(now), Back::Arrived),
        };
        match time <= now {
            true => arrived,
            false => Back::At(time),
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
        self.link.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            completion,
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
        assert_eq!(passages.returns(0, 109), Back::At(110));
        assert_eq!(passages.returns(0, 110), Back::Arrived);
    }

    #[test]
    fn a_later_request_ends_a_loss_on_the_way_there() {
        let mut passages = Passages::new(QpLink::without_rules());
        passages.waiting.push_back(waiting(5010, 10, 0, None));
        assert_eq!(passages.arrives(0, 20), Err(5010));
        assert!(passages.release(20));
        assert_eq!(passages.arrives(0, 20), Ok(Arrival::Once));
    }
}
