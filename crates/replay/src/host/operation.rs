//! Operations that a rank has begun.

use super::costs::Costs;
use super::mail::Mail;
use crate::program::Act;
use std::sync::Arc;
use verbena_model::kernel::Time;
use verbena_model::mpi::Round;

#[derive(Debug, Clone, Copy)]
pub(super) enum Sending {
    Nothing,
    Unsent {
        to: usize,
        bytes: u64,
    },
    /// The receiver has not taken the message of this announcement yet.
    Announced(usize),
}

/// A begun operation: rounds of at most one message in each direction. Operations that could begin
/// together advance in turn.
#[derive(Debug)]
pub(super) struct Operation {
    pub number: usize,
    rounds: Arc<[Round]>,
    members: Arc<[usize]>,
    pub mark: u32,
    round: usize,
    pub sending: Sending,
    /// Rank of the awaited message.
    pub receiving: Option<usize>,
    /// Time of an access to another rank's memory.
    pub reaching: Option<Time>,
}

impl Operation {
    pub fn new(number: usize, act: Act, costs: &Costs) -> Operation {
        let message =
            |peer: usize, round: Round, mark| (Arc::from([round]), Arc::from([peer]), mark);
        let mut reaching = None;
        let (rounds, members, mark) = match act {
            Act::Send {
                to, bytes, mark, ..
            } => message(to, Round::send(0, bytes), mark),
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
                (Arc::from([]), Arc::from([]), mark)
            }
        };
        let mut operation = Operation {
            number,
            rounds,
            members,
            mark,
            round: 0,
            sending: Sending::Nothing,
            receiving: None,
            reaching,
        };
        operation.begin_round();
        operation
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
    pub fn settle(&mut self, mail: &Mail) {
        while self.round < self.rounds.len() {
            if let Sending::Announced(number) = self.sending
                && mail.is_taken(number)
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

    pub fn is_done(&self) -> bool {
        self.round >= self.rounds.len() && self.reaching.is_none()
    }
}
