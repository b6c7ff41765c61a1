//! A rank: what it does next, and what it has begun.
//!
//! A library works when it is called. So what a rank has begun goes on while the rank waits for anything, and not while it computes;
//! only what can be sent at once is sent when it is begun.

use super::costs::Costs;
use crate::recorded::{Act, Program, Step};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use verbena_model::kernel::Time;
use verbena_model::mpi::Round;

/// A message: it has been sent whole, or its sender waits for the receiver.
#[derive(Debug, Clone, Copy)]
pub(super) struct Letter {
    bytes: u64,
    /// Number of the sender's waiting, if it waits.
    waits: Option<usize>,
}

/// Between ranks.
#[derive(Debug, Default)]
pub(super) struct Post {
    /// By receiver, sender and mark, in their order.
    letters: HashMap<(usize, usize, u32), VecDeque<Letter>>,
    /// Which of those who wait for their receiver need not any more.
    taken: Vec<bool>,
}

/// What an end of a message has done when its work is over.
#[derive(Debug, Clone, Copy)]
enum Deed {
    /// The letter is on its way.
    Sent {
        to: usize,
        mark: u32,
        letter: Letter,
    },
    /// It has come.
    Received { from: usize, letter: Letter },
}

/// What a rank does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// It needs the processor for so long.
    Work(Time),
    /// It polls for what others do.
    Waits,
    /// Nothing more.
    Ended,
}

#[derive(Debug, Clone, Copy)]
enum Sending {
    Nothing,
    Unsent {
        to: usize,
        bytes: u64,
    },
    /// The receiver has not taken it.
    Asked(usize),
}

/// Something that was begun: rounds of at most one message each way. Those that could begin together are gone through in turn.
#[derive(Debug)]
struct Deal {
    slot: usize,
    rounds: Rc<[Round]>,
    members: Rc<[usize]>,
    mark: u32,
    round: usize,
    sending: Sending,
    /// From whom.
    receiving: Option<usize>,
    /// What memory of another that is reached takes.
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

    /// Goes on to the next round when both ways of this one are done.
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

/// A rank on its way.
pub(super) struct Rank {
    number: usize,
    steps: std::vec::IntoIter<Step>,
    step: Option<Step>,
    scale: f64,
    deals: Vec<Deal>,
    /// The work that it has been given and not done, and what comes of it.
    left: Time,
    deed: Option<Deed>,
    /// Ends of messages since it has computed.
    ends: usize,
    /// The call that it waits in.
    pub call: usize,
    /// Of its computing so far.
    pub computing: Time,
    /// When its last step was over.
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

    /// It has worked so long; the rank that may go on by what it has done, if any.
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

    /// What it does next.
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
                    // What was begun goes on, and nobody waits for it.
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

    /// The first thing that can be done for any of what was begun.
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

    /// How many there were before.
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
        // Who waits for the receiver has only asked so far.
        costs.end(if waits.is_some() { 0 } else { bytes }, self.one_more_end())
    }
}

/// Nanoseconds of computing from which on a message finds other things in caches than what it needs.
const LONG: u64 = 20_000;
/// The number of what nobody waits for.
const NOBODYS: usize = usize::MAX - 1;
