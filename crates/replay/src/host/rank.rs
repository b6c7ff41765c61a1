//! A rank: its next step, and the operations it has begun.
//!
//! A library makes progress only in calls. Begun operations therefore advance while the rank waits
//! for anything, but not while it computes; only messages that can be sent at once are sent when
//! they are begun.

use super::costs::Costs;
use crate::recorded::{Act, Program, Step};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use verbena_model::kernel::Time;
use verbena_model::mpi::Round;

/// A message: either sent completely, or its sender waits for the receiver.
#[derive(Debug, Clone, Copy)]
pub(super) struct Letter {
    bytes: u64,
    /// Index of the sender's wait, if it waits.
    waits: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Post {
    /// Messages in order, by receiver, sender and mark.
    letters: HashMap<(usize, usize, u32), VecDeque<Letter>>,
    /// For each wait of a sender, whether the receiver has taken the message.
    taken: Vec<bool>,
}

/// Effect of the work on an end of a message, once the work is done.
#[derive(Debug, Clone, Copy)]
enum Deed {
    /// The message is sent.
    Sent {
        to: usize,
        mark: u32,
        letter: Letter,
    },
    /// The message is received.
    Received { from: usize, letter: Letter },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It needs the processor for this time.
    Work(Time),
    /// It polls for progress of others.
    Waits,
    /// It has ended.
    Ended,
}

#[derive(Debug, Clone, Copy)]
enum Sending {
    Nothing,
    Unsent {
        to: usize,
        bytes: u64,
    },
    /// The receiver has not taken the message yet.
    Asked(usize),
}

/// A begun operation: rounds of at most one message in each direction. Operations that could begin
/// together advance in turn.
#[derive(Debug)]
struct Deal {
    slot: usize,
    rounds: Rc<[Round]>,
    members: Rc<[usize]>,
    mark: u32,
    round: usize,
    sending: Sending,
    /// Rank of the awaited message.
    receiving: Option<usize>,
    /// Time of an access to another rank's memory.
    reaching: Option<Time>,
}

impl Deal {
    fn new(slot: usize, act: Act, costs: &Costs) -> Deal {
        let message = |peer: usize, round: Round, mark| (Rc::from([round]), Rc::from([peer]), mark);
        let mut reaching = None;
        let (rounds, members, mark) = match act {
            Act::Send { to, bytes, mark } => message(to, Round::send(0, bytes), mark),
            Act::Receive { from, bytes, mark } => message(from, Round::receive(0, bytes), mark),
            Act::Rounds {
                rounds,
                members,
                mark,
            } => (rounds, members, mark),
            Act::Access {
                out, back, mark, ..
            } => {
                reaching = Some(costs.transfer(out.saturating_add(back), usize::MAX));
                (Rc::from([]), Rc::from([]), mark)
            }
        };
        let mut deal = Deal {
            slot,
            rounds,
            members,
            mark,
            round: 0,
            sending: Sending::Nothing,
            receiving: None,
            reaching,
        };
        deal.begin_round();
        deal
    }

    fn begin_round(&mut self) {
        if let Some(round) = self.rounds.get(self.round) {
            self.sending = match round.send {
                Some((to, bytes)) => Sending::Unsent {
                    to: self.members[to],
                    bytes,
                },
                None => Sending::Nothing,
            };
            self.receiving = round.receive.map(|(from, _)| self.members[from]);
        }
    }

    /// Goes on to the next round when both directions of this one are done.
    fn settle(&mut self, post: &Post) {
        while !self.is_done() {
            if let Sending::Asked(number) = self.sending
                && post.taken[number]
            {
                self.sending = Sending::Nothing;
            }
            match (self.sending, self.receiving) {
                (Sending::Nothing, None) => {
                    self.round += 1;
                    self.begin_round();
                }
                _ => return,
            }
        }
    }

    fn is_done(&self) -> bool {
        self.round >= self.rounds.len() && self.reaching.is_none()
    }
}

/// A rank during the run.
pub(super) struct Rank {
    number: usize,
    steps: std::vec::IntoIter<Step>,
    step: Option<Step>,
    scale: f64,
    deals: Vec<Deal>,
    /// The remaining work, and its effect.
    left: Time,
    deed: Option<Deed>,
    /// Number of message ends since it computed.
    ends: usize,
    /// The call that it waits in.
    pub call: usize,
    /// Its computing time so far.
    pub computing: Time,
    /// The time when its last step was over.
    pub end: Option<Time>,
}

impl Rank {
    pub fn new(number: usize, program: Program, scale: f64) -> Rank {
        let mut steps = program.steps.into_iter();
        Rank {
            number,
            step: steps.next(),
            steps,
            scale,
            deals: Vec::new(),
            left: Time::ZERO,
            deed: None,
            ends: 0,
            call: 0,
            computing: Time::ZERO,
            end: None,
        }
    }

    /// Accounts for work of this duration. Returns the rank that can go on because of it, if any.
    pub fn worked(&mut self, span: Time, post: &mut Post) -> Option<usize> {
        self.left = self.left.since(span);
        if self.left > Time::ZERO {
            return None;
        }
        match self.deed.take()? {
            Deed::Sent { to, mark, letter } => {
                let way = post.letters.entry((to, self.number, mark)).or_default();
                way.push_back(letter);
                Some(to)
            }
            Deed::Received { from, letter } => {
                post.taken[letter.waits?] = true;
                Some(from)
            }
        }
    }

    /// Returns the rank's next state.
    pub fn next(&mut self, now: Time, costs: &Costs, post: &mut Post) -> Next {
        loop {
            if self.left > Time::ZERO {
                return Next::Work(self.left);
            }
            match self.step.take() {
                Some(Step::Compute(nanos)) => {
                    self.left = Time::from_nanos(nanos as f64 * self.scale);
                    self.computing += self.left;
                    if nanos >= LONG {
                        self.ends = 0;
                    }
                    self.advance();
                }
                Some(Step::Begin { slot, act }) => {
                    let mut deal = Deal::new(slot, act, costs);
                    self.left = self.send(&mut deal, costs, post);
                    self.deals.push(deal);
                    self.advance();
                }
                Some(Step::Forget { slot }) => {
                    // The operation goes on without a waiter.
                    let forgotten = self.deals.iter_mut().filter(|deal| deal.slot == slot);
                    forgotten.for_each(|deal| deal.slot = NOBODYS);
                    self.advance();
                }
                Some(Step::Wait { slot, call }) => {
                    self.call = call;
                    self.settle(post);
                    if !self.deals.iter().any(|deal| deal.slot == slot) {
                        self.advance();
                        continue;
                    }
                    self.step = Some(Step::Wait { slot, call });
                    self.left = self.work(costs, post);
                    if self.left == Time::ZERO {
                        return Next::Waits;
                    }
                }
                None => {
                    self.end.get_or_insert(now);
                    self.settle(post);
                    self.left = self.work(costs, post);
                    match (self.left, self.deals.is_empty()) {
                        (Time::ZERO, true) => return Next::Ended,
                        (Time::ZERO, false) => return Next::Waits,
                        _ => (),
                    }
                }
            }
        }
    }

    fn advance(&mut self) {
        self.step = self.steps.next();
    }

    fn settle(&mut self, post: &Post) {
        self.deals.iter_mut().for_each(|deal| deal.settle(post));
        self.deals.retain(|deal| !deal.is_done());
    }

    /// Returns the duration of the first possible work for any begun operation.
    fn work(&mut self, costs: &Costs, post: &mut Post) -> Time {
        let mut deals = std::mem::take(&mut self.deals);
        let mut spans = deals.iter_mut().map(|deal| self.some(deal, costs, post));
        let first = spans.find(|span| *span > Time::ZERO);
        self.deals = deals;
        first.unwrap_or_default()
    }

    fn some(&mut self, deal: &mut Deal, costs: &Costs, post: &mut Post) -> Time {
        if let Some(span) = deal.reaching.take() {
            return span;
        }
        let sent = self.send(deal, costs, post);
        if sent > Time::ZERO {
            return sent;
        }
        let Some(from) = deal.receiving else {
            return Time::ZERO;
        };
        let way = post.letters.get_mut(&(self.number, from, deal.mark));
        let Some(letter) = way.and_then(VecDeque::pop_front) else {
            return Time::ZERO;
        };
        deal.receiving = None;
        self.deed = Some(Deed::Received { from, letter });
        let before = self.one_more_end();
        match letter.waits {
            None => costs.end(letter.bytes, before),
            Some(_) => costs.transfer(letter.bytes, before),
        }
    }

    /// Counts an end of a message; returns the number before it.
    fn one_more_end(&mut self) -> usize {
        let before = self.ends;
        self.ends += 1;
        before
    }

    fn send(&mut self, deal: &mut Deal, costs: &Costs, post: &mut Post) -> Time {
        let Sending::Unsent { to, bytes } = deal.sending else {
            return Time::ZERO;
        };
        let waits = (bytes > costs.eager).then(|| {
            post.taken.push(false);
            post.taken.len() - 1
        });
        deal.sending = waits.map_or(Sending::Nothing, Sending::Asked);
        let mark = deal.mark;
        let letter = Letter { bytes, waits };
        self.deed = Some(Deed::Sent { to, mark, letter });
        // A sender that waits for the receiver has only announced the message so far.
        costs.end(if waits.is_some() { 0 } else { bytes }, self.one_more_end())
    }
}

/// Computing of at least this many nanoseconds displaces a message's cache lines.
const LONG: u64 = 20_000;
/// Slot of operations without a waiter.
const NOBODYS: usize = usize::MAX - 1;
