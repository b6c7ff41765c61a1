//! Whether what we send to a host arrives there by UDP, and as it was sent: tried by questions that its end of the tunnel
//! tells us of.
//!
//! A question is a packet as others are, to queue pair 1, from the socket that packets leave from. Whoever gets it whole says
//! so through the tunnel. Where UDP does not pass none arrives, and where addresses or ports are translated on the way, none
//! arrives whole: the ICRC covers them.
//!
//! It is a management datagram of the class of communication, by whose number of a conversation [`steering`](super::super::steering) finds the process
//! that is asked, with an attribute that the architecture has given to nobody. Only who has said through a tunnel that he is
//! one of us is sent any.
//!
//! | bytes of the datagram | are |
//! |---|---|
//! | 8 to 15, the transaction | the token of who is asked, which names the tunnel |
//! | 16 and 17, the attribute | `Vb` |
//! | 28 to 31, the receiver's number of the conversation | his slot |
//!
//! No clock and no socket: both are whose who drives it.

use super::frame::Token;
use crate::roce::management;
use verbena_wire::Psn;
use verbena_wire::icrc;
use verbena_wire::mad;
use verbena_wire::roce::{Route, seal};

const ATTRIBUTE: [u8; 2] = *b"Vb";
/// How long an answer to each question is waited for before the next one, in nanoseconds, and after the last one it is over. Who is
/// asked may have to wait for a processor, and a question may be lost. Counted from when it was asked: who asks may have to wait, too.
const PATIENCE: [u64; 5] = [20_000_000, 40_000_000, 80_000_000, 160_000_000, 300_000_000];

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
    Ask,
    /// Come again then.
    Wait(u64),
    /// Nothing has arrived, and it is over.
    GiveUp,
}

/// A trial under way.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// When the next question is to be asked.
    due: u64,
    asked: usize,
}

impl Trial {
    /// From now on.
    pub fn new(now: u64) -> Trial {
        Trial { due: now, asked: 0 }
    }

    /// What is due.
    pub fn step(&mut self, now: u64) -> Step {
        if now < self.due {
            return Step::Wait(self.due);
        }
        let Some(patience) = PATIENCE.get(self.asked) else {
            return Step::GiveUp;
        };
        self.asked += 1;
        self.due = now + patience;
        Step::Ask
    }
}

/// The question to whose end of the tunnel has a token and a slot, as it leaves on a route.
pub fn question(token: Token, slot: u8, route: &Route) -> Option<Vec<u8>> {
    let mut datagram = [0; mad::LENGTH];
    let mut put = |at: usize, bytes: &[u8]| datagram[at..at + bytes.len()].copy_from_slice(bytes);
    // Base version 1, the class in its version 2, a message that is sent.
    put(0, &[1, mad::Class::COMMUNICATION.0, 2, 3]);
    put(8, &token);
    put(16, &ATTRIBUTE);
    put(28, &u32::from(slot).to_be_bytes());
    let packet = management::packet(Psn::new(0), &datagram)?;
    let mut bytes = vec![0; packet.length() + icrc::LENGTH];
    let length = packet.emit(&mut bytes).ok()?;
    seal(route, length, &mut bytes).ok()?;
    Some(bytes)
}

/// The token that a management datagram names, if it is a question.
pub fn token_of(datagram: &[u8; mad::LENGTH]) -> Option<Token> {
    let is_question = datagram[1] == mad::Class::COMMUNICATION.0 && datagram[16..18] == ATTRIBUTE;
    let (token, _) = datagram[8..].split_first_chunk()?;
    is_question.then_some(*token)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roce::path::route;
    use crate::roce::steering::slot_of;
    use crate::sys::udp::Address;
    use std::net::{Ipv4Addr, Ipv6Addr};
    use verbena_wire::packet::Packet;
    use verbena_wire::roce::open;

    const TOKEN: Token = [3; 8];

    fn at(ip: Ipv6Addr, port: u16) -> Address {
        Address { ip, port, scope: 0 }
    }

    #[test]
    fn it_asks_a_few_times_and_gives_up() {
        let mut trial = Trial::new(1000);
        let mut now = 1000;
        let mut questions = 0;
        loop {
            match trial.step(now) {
                Step::Ask => questions += 1,
                Step::Wait(until) => {
                    assert!(until > now);
                    now = until;
                }
                Step::GiveUp => break,
            }
        }
        assert_eq!(questions, PATIENCE.len());
        assert_eq!(now, 1000 + PATIENCE.iter().sum::<u64>());
        assert_eq!(trial.step(now), Step::GiveUp);
    }

    #[test]
    fn who_comes_late_to_ask_waits_as_long_for_answers() {
        let late = 10_000_000_000;
        let mut trial = Trial::new(0);
        for patience in PATIENCE {
            assert_eq!(trial.step(late), Step::Ask);
            assert_eq!(trial.step(late), Step::Wait(late + patience));
            trial.due = late;
        }
        assert_eq!(trial.step(late), Step::GiveUp);
    }

    #[test]
    fn a_question_is_a_packet_that_finds_who_is_asked() {
        let from = at(Ipv4Addr::new(10, 9, 0, 1).to_ipv6_mapped(), 50_000);
        let to = at(Ipv4Addr::new(10, 9, 0, 2).to_ipv6_mapped(), 4791);
        for slot in [1, 17, 63] {
            let question = question(TOKEN, slot, &route(from, to, 0, 0)).unwrap();
            assert_eq!(slot_of(&question), u32::from(slot));
            let (bytes, _) = open(&route(from, to, 0, 64), &question).unwrap();
            let packet = Packet::parse(bytes).unwrap();
            let datagram: &[u8; mad::LENGTH] = packet.payload.try_into().unwrap();
            assert_eq!(token_of(datagram), Some(TOKEN));
            // Translated on the way, it does not arrive whole.
            let elsewhere = at(Ipv4Addr::new(10, 9, 0, 77).to_ipv6_mapped(), 50_000);
            for (from, to) in [(elsewhere, to), (at(from.ip, 1), to), (from, elsewhere)] {
                assert!(open(&route(from, to, 0, 64), &question).is_err());
            }
        }
    }

    #[test]
    fn other_messages_name_nobody() {
        let mut datagram = [0; mad::LENGTH];
        assert_eq!(token_of(&datagram), None);
        datagram[1] = mad::Class::COMMUNICATION.0;
        datagram[16..18].copy_from_slice(&(mad::cm::Attribute::Rep as u16).to_be_bytes());
        assert_eq!(token_of(&datagram), None);
    }
}
