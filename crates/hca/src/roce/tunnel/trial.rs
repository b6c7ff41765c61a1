//! Whether what we send to a host arrives there by UDP, and as it was sent: tried by questions that its end of the tunnel
//! tells us of.
//!
//! A question is 16 bytes from the socket that packets leave from. It is said through the tunnel where it seemed to come from
//! and where it came to; if both are what we wrote, packets pass. Where no question arrives, UDP does not pass, and where one
//! arrives otherwise, addresses are translated on the way, and the ICRC of packets, which covers them, would be wrong.
//!
//! | bytes | question |
//! |---|---|
//! | 0 to 3 | `Vrb#` |
//! | 4 to 7 | a queue pair number of the slot of who is asked, by which [`super::super::steering`] finds him |
//! | 8 to 15 | his token, which names the tunnel |
//!
//! No clock and no socket: both are whose who drives it.

use super::frame::{Seen, Token};
use crate::roce::steering::number_of;
use std::net::Ipv6Addr;

const MAGIC: [u8; 4] = *b"Vrb#";
/// Bytes of a question.
pub const LENGTH: usize = 16;
/// When questions are asked, in nanoseconds from the beginning, and at the last of these it is over. Who is asked may have to
/// wait for a processor, and a question may be lost.
const ASKED_AT: [u64; 5] = [0, 20_000_000, 60_000_000, 120_000_000, 240_000_000];

/// What a trial has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Packets pass.
    Passes,
    /// They do not.
    Fails,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the question.
    Ask([u8; LENGTH]),
    /// Come again then.
    Wait(u64),
    /// It is over.
    Over(Verdict),
}

/// A trial under way.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    began: u64,
    asked: usize,
    far_token: Token,
    far_slot: u8,
    source: Ipv6Addr,
    source_port: u16,
    destination: Ipv6Addr,
}

impl Trial {
    /// From an address and port of ours to a host whose end of the tunnel has that token and slot.
    pub fn new(
        now: u64,
        (far_token, far_slot): (Token, u8),
        (source, source_port): (Ipv6Addr, u16),
        destination: Ipv6Addr,
    ) -> Trial {
        Trial {
            began: now,
            asked: 0,
            far_token,
            far_slot,
            source,
            source_port,
            destination,
        }
    }

    /// What is due.
    pub fn step(&mut self, now: u64) -> Step {
        let Some(after) = ASKED_AT.get(self.asked) else {
            return Step::Over(Verdict::Fails);
        };
        let at = self.began + after;
        if now < at {
            return Step::Wait(at);
        }
        self.asked += 1;
        match ASKED_AT.get(self.asked) {
            Some(_) => Step::Ask(self.question()),
            None => Step::Over(Verdict::Fails),
        }
    }

    fn question(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&number_of(self.far_slot).value().to_be_bytes());
        bytes[8..].copy_from_slice(&self.far_token);
        bytes
    }

    /// What it says that a question of ours has arrived so.
    pub fn seen(&self, seen: &Seen) -> Verdict {
        let arrived = (seen.source, seen.source_port, seen.destination);
        match arrived == (self.source, self.source_port, self.destination) {
            true => Verdict::Passes,
            false => Verdict::Fails,
        }
    }
}

/// The token that a datagram names, if it is a question.
pub fn token_of(datagram: &[u8]) -> Option<Token> {
    let is_question = datagram.len() == LENGTH && datagram.starts_with(&MAGIC);
    is_question.then(|| datagram.last_chunk().copied())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Ipv6Addr = Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 1);
    const THERE: Ipv6Addr = Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 2);
    const ELSEWHERE: Ipv6Addr = Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, 3);
    const TOKEN: Token = [3; 8];

    fn trial() -> Trial {
        Trial::new(1000, (TOKEN, 5), (HERE, 50_000), THERE)
    }

    #[test]
    fn it_asks_a_few_times_and_gives_up() {
        let mut trial = trial();
        let mut now = 1000;
        let mut questions = 0;
        let verdict = loop {
            match trial.step(now) {
                Step::Ask(question) => {
                    questions += 1;
                    assert_eq!(token_of(&question), Some(TOKEN));
                    assert_eq!(question[4..8], [0, 0, 5, 0]);
                }
                Step::Wait(until) => {
                    assert!(until > now);
                    now = until;
                }
                Step::Over(verdict) => break verdict,
            }
        };
        assert_eq!((verdict, questions), (Verdict::Fails, ASKED_AT.len() - 1));
        assert_eq!(now, 1000 + ASKED_AT[ASKED_AT.len() - 1]);
        assert_eq!(trial.step(now), Step::Over(Verdict::Fails));
    }

    #[test]
    fn only_what_arrives_as_it_was_sent_passes() {
        let seen = |source, source_port, destination| {
            trial().seen(&Seen {
                source,
                source_port,
                destination,
            })
        };
        assert_eq!(seen(HERE, 50_000, THERE), Verdict::Passes);
        assert_eq!(seen(ELSEWHERE, 50_000, THERE), Verdict::Fails);
        assert_eq!(seen(HERE, 1, THERE), Verdict::Fails);
        assert_eq!(seen(HERE, 50_000, ELSEWHERE), Verdict::Fails);
    }

    #[test]
    fn what_is_no_question_names_nobody() {
        let Step::Ask(question) = trial().step(1000) else {
            panic!("nothing is asked");
        };
        assert_eq!(token_of(&question[..15]), None);
        assert_eq!(token_of(&[&question[..], &[0]].concat()), None);
        assert_eq!(token_of(b"Vrb?000000000000"), None);
    }
}
